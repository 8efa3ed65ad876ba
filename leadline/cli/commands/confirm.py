"""``confirm``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.results import load_lab
from leadline.api.running import Run, open_testbed
from leadline.api.studies import Study
from leadline.cli.commands.execute import execute, present
from leadline.cli.commands.plan import share
from leadline.cli.options import (
    BudgetOption,
    DisposableOption,
    Failing,
    FailOption,
    JsonOption,
    LabOption,
    Undecided,
    UndecidedOption,
    file_option,
)
from leadline.cli.output import console, errors, print_json, say
from leadline.experiments.confirm import confirmation
from leadline.store.labfile import SIMULATED


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline confirm quickstart --dry-run")(confirm)


def confirm(
    study: Annotated[str, typer.Argument(help="A finished study in the lab: its name (the newest), name@number.")],
    lab: LabOption = Path("lab"),
    setting: Annotated[
        list[str] | None, typer.Option(help="Confirm this setting, not the best: knob=level[,knob=level]")
    ] = None,
    best: Annotated[int, typer.Option(min=1, max=20, help="How many of the best settings to confirm.")] = 1,
    response: Annotated[str | None, typer.Option(help="What it was chosen for; the study's first if absent.")] = None,
    effect: Annotated[
        str | None, typer.Option(help="The effect that must not be missed; the shrunken estimate if absent: 3%")
    ] = None,
    chance: Annotated[str, typer.Option("--power", help="The wanted probability of finding it.")] = "80%",
    budget: BudgetOption = None,
    out: Annotated[Path | None, file_option("Write the confirmation study to a file and end.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Run it again even if it was run before.")] = False,
    disposable: DisposableOption = False,
    simulate: Annotated[
        Path | None,
        typer.Option(metavar="TRUTH", help="Confirm a simulated study on a simulated host with this truth file."),
    ] = None,
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    json: JsonOption = False,
) -> None:
    """Confirm the best setting of a finished study by fresh trials against the baseline."""
    wanted = share("--effect", effect, 0.01, 1000.0) if effect is not None else None
    likely = share("--power", chance, 50.0, 99.9) / 100
    home = load_lab(lab if simulate is None else lab / SIMULATED)
    first = home.study(study)
    place = open_testbed(lab, truth=simulate, disposable=disposable, subject=first)
    confirming = confirmation(
        first.record,
        first.analysis,
        place,
        settings=setting or [],
        best=best,
        response=response,
        effect=wanted,
        power=likely,
        budget=budget,
    )
    subject = Study(confirming)
    failing = Failing.of(fail, undecided, subject.file.study.responses)
    if out is not None:
        _write(out, subject, json)
        return
    done = next((study for study in reversed(home.studies()) if study.record.study == subject.file.study), None)
    if done is not None and done.answered and not new and not dry_run:
        say(f"{done.run} has confirmed this before; --new runs it again", to=errors if json else console)
        present(Run(done, True, "", ()), json=json, failing=failing)
        return
    execute(subject, lab, simulate, dry_run=dry_run, new=new, disposable=disposable, json=json, failing=failing)


def _write(out: Path, subject: Study, json: bool) -> None:
    out.write_text(subject.text, encoding="utf-8")
    if json:
        print_json({"saved": str(out), "study": subject.file.study.model_dump(mode="json")})
        return
    say(f"saved: {out}; leadline run {out} runs it")
