"""``bisect`` and ``knee``: searches along a factor, trial by trial."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.studies import Study
from leadline.cli.commands.execute import execute_search
from leadline.cli.commands.plan import share
from leadline.cli.options import BudgetOption, DisposableOption, JsonOption, LabOption, SetOption, SimulateOption
from leadline.experiments.bisect import run as bisection
from leadline.experiments.bisect.answer import bisect as run_bisection
from leadline.experiments.knee import run as knees
from leadline.experiments.knee.run import knee as run_search
from leadline.planning.bisection import MOST


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline bisect study.yaml --factor jvm.heap --from 256m --to 2g --dry-run")(bisect)
    app.command(epilog="Example: leadline knee dealership-load --limits classic --dry-run")(knee)


def bisect(
    study: Annotated[str, typer.Argument(help="A built-in study or a study file: the stack, the load, the levels.")],
    first: Annotated[
        str | None, typer.Option("--from", help="The end A: a level, or a file of settings; the first level if absent.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="The end B: a level, or a file of settings; the last level if absent.")
    ] = None,
    factor: Annotated[str | None, typer.Option(help="The factor whose ordered levels are searched.")] = None,
    levels: Annotated[str | None, typer.Option(help="Its levels in order, in place of the study's: a,b,c")] = None,
    response: Annotated[str | None, typer.Option(help="What differs; the study's first response if absent.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="A trial repeated gives the same figures: one probe each.")
    ] = False,
    effect: Annotated[str | None, typer.Option(help="The difference that a dry run plans for: 5%")] = None,
    trials: Annotated[int, typer.Option(min=6, max=10_000, help="Most trials, all probes together.")] = MOST,
    lab: LabOption = Path("lab"),
    set_: SetOption = None,
    budget: BudgetOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print candidates and cost; change nothing.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Start anew, even if it was run before.")] = False,
    disposable: DisposableOption = False,
    simulate: SimulateOption = None,
    json: JsonOption = False,
) -> None:
    """Find which change between two ends makes the difference: levels of a factor, or settings."""
    wanted = share("--effect", effect, 0.01, 1000.0) if effect is not None else None
    overrides = [*(set_ or []), *([f"budget={budget}"] if budget is not None else [])]
    subject = Study.read(study, overrides, [f"{factor}={levels}"] if levels is not None else [])
    question_ = bisection.question(
        subject.file,
        factor=factor,
        first=first,
        last=last,
        response=response,
        exact=exact,
        all_levels=levels is not None,
    )
    execute_search(
        *(subject, lab, simulate),
        lambda place: bisection.outline(question_, place, wanted, question_.study.budget),
        lambda place: run_bisection(question_, place, budget=question_.study.budget, most=trials, fresh=new),
        dry_run=dry_run,
        disposable=disposable,
        json=json,
    )


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
        subject = Study.read(study, [*settings, *knees.limit_overrides(subject.file.study, limits)])
    fine = share("--resolution", resolution, 0.1, 100.0) / 100
    question = knees.question_of(subject.file, factor, first, last, step_factor, fine, repeats, critical)
    execute_search(
        *(subject, lab, simulate),
        lambda place: knees.outline(question, place, question.study.budget),
        lambda place: run_search(question, place, budget=question.study.budget, fresh=new),
        dry_run=dry_run,
        disposable=disposable,
        json=json,
    )
