"""``knee``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.studies import Study
from leadline.cli.commands.execute import execute_search
from leadline.cli.commands.plan_power import share
from leadline.cli.options import BudgetOption, DisposableOption, JsonOption, LabOption, SetOption, SimulateOption
from leadline.experiments.knee.answer import knee as run_search
from leadline.experiments.knee.run import limit_overrides, outline, question_of


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline knee dealership-load --limits classic --dry-run")(knee)


def knee(
    study: Annotated[str, typer.Argument(help="A built-in study or a study file: the stack, the load, the limits.")],
    factor: Annotated[
        str | None, typer.Option(help="The load that is varied: load.users, load.rate, a number of the scenario.")
    ] = None,
    first: Annotated[
        float | None, typer.Option("--from", min=1e-3, max=1e8, help="The first load; the study's lowest if absent.")
    ] = None,
    last: Annotated[
        float | None, typer.Option("--to", max=1e8, help="The highest load; the study's highest if absent.")
    ] = None,
    limits: Annotated[
        str | None, typer.Option(help="A named set of limits of the scenario: classic, modern (docs/guides/limits.md).")
    ] = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="Also critical throughput: 99 % within 10, 25, 50, 100 and 200 ms.")
    ] = False,
    step_factor: Annotated[float, typer.Option(min=1.05, max=100, help="Factor from one load to the next.")] = 1.5,
    resolution: Annotated[str, typer.Option(help="Bisect until this close.")] = "5%",
    repeats: Annotated[int, typer.Option(min=0, max=100, help="More trials beside the limit, for its interval.")] = 8,
    lab: LabOption = Path("lab"),
    set_: SetOption = None,
    budget: BudgetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print range and cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start anew, even if it was run before.")] = False,
    disposable: DisposableOption = False,
    simulate: SimulateOption = None,
    json: JsonOption = False,
) -> None:
    """Search for the largest load that keeps the limits: whole trials, steps, bisection, an interval."""
    settings = [*(set_ or []), *([f"budget={budget}"] if budget is not None else [])]
    subject = Study.read(study, settings)
    if limits is not None:
        subject = Study.read(study, [*settings, *limit_overrides(subject.file.study, limits)])
    fine = share("--resolution", resolution, 0.1, 100.0) / 100
    question = question_of(subject.file, factor, first, last, step_factor, fine, repeats, critical)
    execute_search(
        *(subject, lab, simulate),
        lambda place: outline(question, place, question.study.budget),
        lambda place: run_search(question, place, budget=question.study.budget, fresh=new),
        dry_run=dry_run,
        disposable=disposable,
        json=json,
    )
