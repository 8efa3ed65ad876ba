"""``bisect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.studies import Study
from leadline.cli.commands.execute import execute_search
from leadline.cli.commands.plan_power import share
from leadline.cli.options import BudgetOption, DisposableOption, JsonOption, LabOption, SetOption, SimulateOption
from leadline.experiments.bisect.answer import bisect as run_bisection
from leadline.experiments.bisect.run import outline, question
from leadline.planning.probes import MOST


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline bisect study.yaml --factor jvm.heap --from 256m --to 2g --dry-run")(bisect)


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
    question_ = question(
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
        lambda place: outline(question_, place, wanted, question_.study.budget),
        lambda place: run_bisection(question_, place, budget=question_.study.budget, most=trials, fresh=new),
        dry_run=dry_run,
        disposable=disposable,
        json=json,
    )
