"""``confirm``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from leadline.cli.commands.plan_power import share
from leadline.cli.options import JsonOption, LabOption
from leadline.cli.output import console, errors, print_json
from leadline.host.local import LocalHost
from leadline.lab.planning import Planned, plan_study
from leadline.lab.stacks import study_catalogue
from leadline.lab.studyfile import StudyFile
from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.record import StudyRecord
from leadline.model.units import format_duration

if TYPE_CHECKING:
    from leadline.planning.forecast import Need

FEWEST = 3  # replicates, whatever the planning says: the noise must be seen, too


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline confirm quickstart --dry-run")(confirm)


def confirm(
    study: Annotated[str, typer.Argument(help="A finished study in the lab: its name (the newest), name@number.")],
    lab: LabOption = Path("lab"),
    setting: Annotated[
        list[str] | None, typer.Option(help="Confirm this setting, not the best: knob=level[,knob=level]")
    ] = None,
    best: Annotated[int, typer.Option(min=1, max=20, help="Confirm so many of the best settings.")] = 1,
    response: Annotated[str | None, typer.Option(help="What it was chosen for; the study's first if absent.")] = None,
    effect: Annotated[
        str | None, typer.Option(help="The effect that must not be missed; the shrunken estimate if absent: 3%")
    ] = None,
    chance: Annotated[str, typer.Option("--power", help="The wanted probability of finding it.")] = "80%",
    budget: Annotated[str | None, typer.Option(help="Wall time after which no trial is started: 30m")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the confirmation study to a file and end.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Run it again even if it was run before.")] = False,
    disposable: Annotated[
        bool, typer.Option("--disposable", help="This host may hang: allow dangerous levels.")
    ] = False,
    simulate: Annotated[
        Path | None,
        typer.Option(metavar="TRUTH", help="Confirm a simulated study on a simulated host with this truth file."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Confirm the best setting of a finished study by fresh trials against the baseline."""
    from leadline.cli.commands.simulated import FOLDER
    from leadline.lab.run import study_failed
    from leadline.lab.store import Store

    wanted = share("--effect", effect, 0.01, 1000.0) if effect is not None else None
    likely = share("--power", chance, 50.0, 99.9) / 100
    home = lab / FOLDER if simulate is not None else lab
    store = Store(home, create=False)
    record = store.load(store.find(study))
    if study_failed(record):
        raise UsageError(f"{study} is not finished, or every trial failed: only a finished study can be confirmed")
    if record.study.confirms is not None:
        raise UsageError(f"{study} is a confirmation itself, of {record.study.confirms.run}; confirm that one --new")
    file = _study(record, home, setting or [], best, response, wanted, likely, budget, disposable, simulate)
    if out is not None:
        _write(out, file, json)
        return
    done = next((one for one in map(store.load, store.ids()) if one.study == file.study), None)
    if done is not None and not study_failed(done) and not new and not dry_run:
        from leadline.cli.commands.execute import present
        from leadline.lab.run import RunResult

        text = f"{done.study.study}@{done.id} has confirmed this before; --new runs it again"
        (errors if json else console).print(text, markup=False, highlight=False, soft_wrap=True)
        present(store, RunResult(done.id, True, "", ()), json=json)
        return
    if simulate is not None:
        from leadline.cli.commands.simulated import run_simulated

        run_simulated(file, simulate, lab, dry_run=dry_run, new=new, disposable=disposable, json=json)
        return
    from leadline.cli.commands.run import run_file

    run_file(file, lab, dry_run=dry_run, new=new, disposable=disposable, json=json)


def _study(
    record: StudyRecord,
    lab: Path,
    settings: list[str],
    best: int,
    response: str | None,
    effect: float | None,
    power: float,
    budget: str | None,
    disposable: bool,
    simulate: Path | None,
) -> StudyFile:
    """The confirmation study, with as many replicates as the effect needs at the noise of the first study."""
    from leadline.lab.confirming import best_settings, confirmation_study, effect_to_find, named_setting
    from leadline.lab.pilot import noise_for, overhead_for
    from leadline.lab.results import analysis_of
    from leadline.model.naming import level_text
    from leadline.planning.forecast import forecast, setup_of

    def describe(factor: str, level: Level) -> str:
        return level_text(record.study, factor, level)

    name = response or record.study.responses[0]
    if name not in record.study.responses:
        raise UsageError(
            f"--response: {record.study.study} has no {name!r}; it has {', '.join(record.study.responses)}"
        )
    analysis = analysis_of(record)
    choices = (
        [named_setting(record, analysis, name, text, describe) for text in settings]
        if settings
        else best_settings(record, analysis, name, best)
    )
    wanted = effect if effect is not None else effect_to_find(choices, name)
    first = confirmation_study(record, choices, name, FEWEST, budget)
    planned = _planned(first, disposable, simulate)
    noise = noise_for(first.study, lab, source=f"{record.study.study}@{record.id}", response=name)
    setup = setup_of(first.study.design, first.study.workload, overhead_for(first.study, noise))
    found = forecast(planned.plan, noise, setup, effect=wanted, power=power)
    if found.need is None or found.need.replicates is None:
        why = found.reason or "no number of trials within reason would do"
        raise UsageError(
            f"an effect of {wanted:+.2g} % on {name} cannot be confirmed: {why}; name a larger one (--effect)"
        )
    replicates = max(FEWEST, found.need.replicates)
    own = max(
        setup_of(record.study.design, record.study.workload, setup.overhead).seconds(record.plan),
        first.study.budget or 0.0,
    )
    per_replicate = setup.seconds(planned.plan) / FEWEST
    if replicates > FEWEST and replicates * per_replicate > own:
        within = max(FEWEST, int(own / per_replicate))
        most = _planned(confirmation_study(record, choices, name, within, budget), disposable, simulate)
        _refuse(wanted, name, found.need, own, forecast(most.plan, noise, setup).smallest.get(0.8))
    return confirmation_study(record, choices, name, replicates, budget)


def _refuse(wanted: float, name: str, need: Need, own: float, smallest: float | None) -> NoReturn:
    """A confirmation takes no longer than the study whose choice it confirms."""
    said = f"{need.trials:,} trials and {format_duration(need.seconds)}" if need.trials and need.seconds else "more"
    could = "" if smallest is None else f"; in that time an effect of {smallest:.2g} % could be confirmed"
    raise UsageError(
        f"confirming {wanted:+.2g} % on {name} takes {said}, longer than the study itself ({format_duration(own)})"
        f"{could}: name a larger one (--effect {max(smallest or 0.0, 2 * wanted):.2g}%), or allow the time (--budget)"
    )


def _planned(file: StudyFile, disposable: bool, simulate: Path | None) -> Planned:
    if simulate is not None:
        from leadline.cli.commands.simulated import planned_on_simulated

        return planned_on_simulated(file, disposable)[0]
    return plan_study(file, LocalHost(disposable=disposable), study_catalogue(file), disposable)


def _write(out: Path, file: StudyFile, json: bool) -> None:
    try:
        out.write_text(file.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from error
    if json:
        print_json({"saved": str(out), "study": file.study.model_dump(mode="json")})
        return
    console.print(f"saved: {out}; leadline run {out} runs it", markup=False, highlight=False, soft_wrap=True)
