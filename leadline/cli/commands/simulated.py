"""``simulate``: how often a study would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.running import error_rates
from leadline.api.studies import Study
from leadline.cli.options import FactorOption, JsonOption, SetOption
from leadline.cli.output import console, print_json, say
from leadline.model.errors import UsageError
from leadline.model.result import RESPONSES


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
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Seed of the first study; each later one adds 1.")] = 1,
    json: JsonOption = False,
) -> None:
    """How often a study would be right: many simulated studies against a known truth."""
    if response not in RESPONSES:
        raise UsageError(f"unknown response {response!r}; responses: {', '.join(RESPONSES)}")
    subject = Study.read(study, set_ or [], factor or [])
    planned, rates_ = error_rates(subject, truth, studies, response=response, seed=seed)
    rows = [
        {
            "factor": name,
            "level": level,
            "truth_percent": round(rates_.truth[(name, level)], 6),
            "found": share,
            "error": rates_.error_of(share),
        }
        for (name, level), share in rates_.found.items()
    ]
    if json:
        print_json(
            {
                "simulated": str(truth),
                "study": subject.name,
                "response": response,
                "studies": rates_.studies,
                "trials": len(planned.plan.trials),
                "coverage": rates_.coverage,
                "simultaneous": rates_.simultaneous,
                "family_error": rates_.family_error,
                "drift_found": rates_.drift_found,
                "effects": rows,
            }
        )
        return
    from rich.table import Table

    table = Table(title=f"SIMULATED: {rates_.studies} studies of {len(planned.plan.trials)} trials, {response}")
    for column in ("setting", "true effect", "found in"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        name = str(row["factor"])
        knob = planned.knobs.get(name)
        level = knob.format(row["level"]) if knob else str(row["level"])
        table.add_row(f"{name} = {level}", f"{row['truth_percent']:+.2f} %", f"{row['found']:.1%}")
    console.print(table, soft_wrap=not console.is_terminal)
    say(
        f"A wrong verdict anywhere: {rates_.family_error:.1%} of the studies; 95 % intervals that hold the truth: "
        f"{'none' if rates_.coverage is None else f'{rates_.coverage:.1%}'}; drift found in {rates_.drift_found:.1%}."
    )
