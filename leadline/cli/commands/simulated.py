"""``run --simulate`` and ``simulate``: studies on a simulated host, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.commands.dry_run import print_plan
from leadline.cli.options import FactorOption, JsonOption, SetOption
from leadline.cli.output import console, errors, print_json
from leadline.host.knobs import FAMILIES
from leadline.lab.planning import Planned
from leadline.lab.stacks import study_catalogue
from leadline.lab.studyfile import StudyFile, find_study
from leadline.model.errors import UsageError
from leadline.model.knob import Knob
from leadline.model.result import RESPONSES
from leadline.model.units import format_duration

FOLDER = "simulated"  # inside a lab: simulated studies are never among the real ones


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline simulate quickstart --truth truth.yaml --studies 200")(simulate)


def simulate(
    study: Annotated[str, typer.Argument(help="A built-in study or a study file.")],
    truth: Annotated[Path, typer.Option(metavar="FILE", help="The truth file (docs/concepts/simulation.md).")],
    set_: SetOption = None,
    factor: FactorOption = None,
    studies: Annotated[int, typer.Option(min=1, max=100_000, help="How many studies are simulated.")] = 200,
    response: Annotated[str, typer.Option(help="The response that is judged.")] = "throughput",
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Of the first study; each next one has the next.")] = 1,
    json: JsonOption = False,
) -> None:
    """How often a study would be right: many simulated studies against a known truth."""
    from leadline.simulate import bound, rates, read_truth

    if response not in RESPONSES:
        raise UsageError(f"unknown response {response!r}; responses: {', '.join(RESPONSES)}")
    file = find_study(study, set_ or [], factor or [])
    planned, host_knobs, service_knobs = planned_on_simulated(file, disposable=True)
    knobs = {knob.name: knob for knob in (*host_knobs, *service_knobs)}
    held = bound(read_truth(truth), planned.plan.factors, knobs, str(truth))
    found = rates(planned.plan, held, file.study.workload, studies, response=response, seed=seed)
    rows = [
        {
            "factor": name,
            "level": level,
            "truth_percent": round(found.truth[(name, level)], 6),
            "found": share,
            "error": found.error_of(share),
        }
        for (name, level), share in found.found.items()
    ]
    if json:
        print_json(
            {
                "simulated": str(truth),
                "study": file.study.study,
                "response": response,
                "studies": found.studies,
                "trials": len(planned.plan.trials),
                "coverage": found.coverage,
                "simultaneous": found.simultaneous,
                "family_error": found.family_error,
                "drift_found": found.drift_found,
                "effects": rows,
            }
        )
        return
    from rich.table import Table

    table = Table(title=f"SIMULATED: {found.studies} studies of {len(planned.plan.trials)} trials, {response}")
    for column in ("setting", "true effect", "found in"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        name = str(row["factor"])
        level = knobs[name].format(row["level"]) if name in knobs else str(row["level"])
        table.add_row(f"{name} = {level}", f"{row['truth_percent']:+.2f} %", f"{row['found']:.1%}")
    console.print(table, soft_wrap=not console.is_terminal)
    console.print(
        f"A wrong verdict anywhere: {found.family_error:.1%} of the studies; 95 % intervals that hold the truth: "
        f"{'none' if found.coverage is None else f'{found.coverage:.1%}'}; drift found in {found.drift_found:.1%}.",
        markup=False,
        highlight=False,
    )


def run_simulated(
    file: StudyFile, truth: Path, lab: Path, *, dry_run: bool, new: bool, disposable: bool, json: bool
) -> None:
    """Run a study on a simulated host; the result is kept in the folder ``simulated`` of the lab."""
    from leadline.simulate import bound, read_truth, simulate_study

    planned, host_knobs, service_knobs = planned_on_simulated(file, disposable)
    known = read_truth(truth)
    if dry_run:
        knobs = {knob.name: knob for knob in (*host_knobs, *service_knobs)}
        bound(known, planned.plan.factors, knobs, str(truth))
        print_plan(file, planned, json, lab / FOLDER)
        return
    from leadline.cli.commands.execute import present
    from leadline.cli.live import watcher

    output = errors if json else console
    banner = f"SIMULATED on {truth}: no server runs, every figure below is made up; kept in {lab / FOLDER}"
    output.print(banner, markup=False, highlight=False, soft_wrap=True)
    with watcher(output) as watching:
        run = simulate_study(
            file,
            planned,
            known,
            lab / FOLDER,
            watching,
            host_knobs=host_knobs,
            service_knobs=service_knobs,
            source=str(truth),
            fresh=new,
        )
    output.print(f"SIMULATED: {format_duration(run.seconds)} of virtual time", markup=False, highlight=False)
    present(run.store, run.result, json=json)


def planned_on_simulated(file: StudyFile, disposable: bool) -> tuple[Planned, list[Knob], list[Knob]]:
    """The plan on a host where every knob can be set, with the knobs of host and services."""
    from leadline.simulate.study import plan_simulated

    host_knobs = [knob for family in FAMILIES for knob in family(Path("/")).knobs()]
    service_knobs = study_catalogue(file)
    return plan_simulated(file, host_knobs, service_knobs, disposable), host_knobs, service_knobs
