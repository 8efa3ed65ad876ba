"""``run`` and ``quickstart``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.options import (
    BudgetOption,
    DisposableOption,
    FactorOption,
    Failing,
    FailOption,
    JsonOption,
    LabOption,
    SetOption,
    SimulateOption,
    Undecided,
    UndecidedOption,
    VerboseOption,
)
from leadline.cli.output import console, errors, say
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
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Run elsewhere than its file says: here, vm, virtual-time or ssh:NAME."),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(metavar="POOL", help="Give each block to a host of a pool: slurm[:PARTITION] or ssh:FILE.yaml."),
    ] = None,
    hosts: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="With --pool: most hosts at the same time.")
    ] = None,
    budget: BudgetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start anew even if an unfinished run exists.")] = False,
    disposable: DisposableOption = False,
    twin: Annotated[
        bool,
        typer.Option("--aa", help="Run the study's A/A twin: same plan and load, nothing differs; study NAME-aa."),
    ] = False,
    simulate: SimulateOption = None,
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    verbose: VerboseOption = False,
    json: JsonOption = False,
) -> None:
    """Run a study or a tuning, or go on with an unfinished run of it; write its report."""
    from leadline.api.running import open_testbed
    from leadline.api.studies import Study, read
    from leadline.cli.commands.execute import Over, execute
    from leadline.experiments.twin import aa_twin

    subject = read(study, [*(set_ or []), *([f"budget={budget}"] if budget is not None else [])], factor or [])
    if host is not None:
        if not isinstance(subject, Study):
            raise UsageError(f"--host works on studies only; {study} is a tuning, which runs where its stack says")
        subject, notes = subject.on(host)
        say(*notes, to=errors if json else console)
    if twin:
        if not isinstance(subject, Study):
            raise UsageError(f"--aa works on studies only; {study} is a tuning, whose knobs are in its steps")
        subject = Study(
            aa_twin(subject.file, open_testbed(lab, disposable=disposable, subject=subject).plan(subject.file))
        )
    if pool is not None and not isinstance(subject, Study):
        raise UsageError(f"--pool is of studies; {study} is a tuning, whose steps run one after the other")
    if fail and not isinstance(subject, Study):
        raise UsageError(f"--fail works on studies only; {study} is a tuning: run the study of what it kept")
    study_ = subject.file.study if isinstance(subject, Study) else None
    conditions = [*(study_.fail if study_ else ()), *(fail or ())]
    failing = Failing.of(conditions, undecided, study_.responses if study_ else ())
    over = None if pool is None else Over(pool, hosts)
    execute(
        subject,
        lab,
        simulate,
        dry_run=dry_run,
        new=new,
        disposable=disposable,
        json=json,
        verbose=verbose,
        over=over,
        failing=failing,
    )


def quickstart(lab: LabOption = Path("lab"), verbose: VerboseOption = False, json: JsonOption = False) -> None:
    """Run the built-in study ``quickstart``: about eight minutes on two cores."""
    from leadline.api.studies import Study
    from leadline.cli.commands.execute import execute

    execute(Study.read("quickstart"), lab, json=json, verbose=verbose)
