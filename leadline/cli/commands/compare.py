"""``compare`` and ``history``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.api.comparing import (
    changes_of_runs,
    compare_runs,
    comparison_document,
    comparison_table,
    history_document,
    history_of,
    history_table,
)
from leadline.api.results import load_lab
from leadline.cli.options import (
    Failing,
    FailOption,
    JsonOption,
    LabOption,
    Undecided,
    UndecidedOption,
    conditions_document,
    say_conditions,
)
from leadline.cli.output import end_with, print_answer, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline compare quickstart@1 quickstart@2")(compare)
    app.command(epilog="Example: leadline history quickstart --response p99")(history)


def compare(
    first: Annotated[str, typer.Argument(help="A study in the lab: its name (the newest), its number, name@number.")],
    second: Annotated[str, typer.Argument(help="The run that is compared with it.")],
    lab: LabOption = Path("lab"),
    with_lab: Annotated[
        Path | None, typer.Option(metavar="<path>", help="The lab of the second run, such as another machine's.")
    ] = None,
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    json: JsonOption = False,
) -> None:
    """Compare two runs of a lab: what moved, with intervals, and which facts differ."""
    comparison = compare_runs(load_lab(lab).study(first), load_lab(with_lab or lab).study(second))
    failing = Failing.of(fail, undecided, list(dict.fromkeys(row.response for row in comparison.moved)))
    judged = failing.judge(changes_of_runs(comparison))
    if json:
        print_json(comparison_document(comparison) | conditions_document(judged))
    else:
        print_answer(comparison.answer)
        print_table(comparison_table(comparison))
        say_conditions(judged)
    end_with(failing.code(any(row.ratio is not None for row in comparison.moved), judged))


def history(
    study: Annotated[str, typer.Argument(help="The name of a study in the lab.")],
    lab: LabOption = Path("lab"),
    with_lab: Annotated[
        list[Path] | None, typer.Option(metavar="<path>", help="Another lab with runs of it; may be given again.")
    ] = None,
    response: Annotated[str | None, typer.Option(help="The response; the study's first if absent.")] = None,
    level: Annotated[
        str, typer.Option(metavar="<factor=level>", help="The effect of this level; the baseline's mean if absent.")
    ] = "",
    json: JsonOption = False,
) -> None:
    """A figure over all runs of a study, with change points and what differed between runs."""
    labs = [load_lab(path) for path in (lab, *(with_lab or []))]
    history_ = history_of(labs, study, response, level)
    if json:
        print_json(history_document(history_))
        return
    print_answer(history_.answer)
    print_table(history_table(history_))
