"""``run`` and ``quickstart``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.commands.dry_run import print_plan
from leadline.cli.hosts import local_host
from leadline.cli.options import FactorOption, JsonOption, LabOption, SetOption
from leadline.host.local import LocalHost
from leadline.lab.planning import Planned, plan_study
from leadline.lab.stacks import study_catalogue
from leadline.lab.studyfile import StudyFile, find_study
from leadline.lab.tuning.file import find_tuning
from leadline.lab.twin import aa_twin
from leadline.model.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline run quickstart --set design.replicates=5 --budget 30m")(run)
    app.command(epilog="Example: leadline quickstart")(quickstart)


def run(
    study: Annotated[str, typer.Argument(help="A built-in study or tuning, or a file of one.")],
    lab: LabOption = Path("lab"),
    set_: SetOption = None,
    factor: FactorOption = None,
    budget: Annotated[str | None, typer.Option(help="Wall time after which no trial is started: 30m")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start anew even if an unfinished run exists.")] = False,
    disposable: Annotated[
        bool, typer.Option("--disposable", help="This host may hang: allow dangerous levels.")
    ] = False,
    twin: Annotated[
        bool,
        typer.Option("--aa", help="Run the study's A/A twin: same plan and load, nothing differs; study NAME-aa."),
    ] = False,
    simulate: Annotated[
        Path | None,
        typer.Option(metavar="TRUTH", help="Run on a simulated host with this truth file, in virtual time."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a study or a tuning, or go on with an unfinished run of it; write its report."""
    overrides = [*(set_ or []), *([f"budget={budget}"] if budget is not None else [])]
    tuning = find_tuning(study, overrides)
    if tuning is not None:
        if factor or twin:
            option = "--factor" if factor else "--aa"
            raise UsageError(f"{option} is of studies; {study} is a tuning, whose knobs are in its steps")
        from leadline.cli.commands.tuning import run_tuning

        run_tuning(tuning, lab, dry_run=dry_run, new=new, disposable=disposable, truth=simulate, json=json)
        return
    file = find_study(study, overrides, factor or [])
    if twin:
        file = _twin(file, disposable)
    if simulate is not None:
        from leadline.cli.commands.simulated import run_simulated

        run_simulated(file, simulate, lab, dry_run=dry_run, new=new, disposable=disposable, json=json)
        return
    run_file(file, lab, dry_run=dry_run, new=new, disposable=disposable, json=json)


def quickstart(lab: LabOption = Path("lab"), json: JsonOption = False) -> None:
    """Run the built-in study ``quickstart``: about ten minutes on two cores."""
    run_file(find_study("quickstart"), lab, dry_run=False, new=False, disposable=False, json=json)


def run_file(file: StudyFile, lab: Path, *, dry_run: bool, new: bool, disposable: bool, json: bool) -> None:
    """Run or print a study on this host."""
    host = local_host(lab, disposable)
    planned = _planned(file, host, disposable)
    if dry_run:
        print_plan(file, planned, json, lab)
        return
    from leadline.cli.commands.execute import execute  # its libraries take seconds to import

    execute(file, planned, host, lab, new=new, json=json)


def _planned(file: StudyFile, host: LocalHost, disposable: bool) -> Planned:
    return plan_study(file, host, study_catalogue(file), disposable)


def _twin(file: StudyFile, disposable: bool) -> StudyFile:
    host = local_host(Path(), disposable)
    return aa_twin(file, _planned(file, host, disposable))
