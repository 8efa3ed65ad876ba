"""``analyse``: results that other tools wrote, under the analysis of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.commands.explain import AFTER, BothKinds
from leadline.cli.conditions import (
    Failing,
    FailOption,
    Undecided,
    UndecidedOption,
    conditions_document,
    say_conditions,
)
from leadline.cli.options import JsonOption
from leadline.cli.output import end_with, print_answer, print_json, print_text, say
from leadline.model.conditions import changes_of_study
from leadline.report.other_tools import Options, analysed


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(cls=BothKinds, epilog="Example: leadline analyse before-*.json -- after-*.json")(analyse)


def analyse(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Results before a change, then -- and those after it; or files that hold both. Of hyperfine, JMH, k6, "
            "oha, wrk, Gatling, JMeter, or tables (CSV, Parquet)."
        ),
    ],
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: the factor, whose levels are compared.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="What the others are compared with; the first if absent.")
    ] = None,
    response: Annotated[
        list[str] | None, typer.Option(help="A response, or a table's column; may be repeated. All if absent.")
    ] = None,
    block: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Of a table: runs are compared within its values.")
    ] = None,
    paired: Annotated[bool, typer.Option("--paired", help="Compare the n-th run of a level with the n-th.")] = False,
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    md: Annotated[bool, typer.Option("--md", help="Markdown, for a pull request.")] = False,
    json: JsonOption = False,
) -> None:
    """Compare results that other tools wrote, with the intervals and verdicts of a study.

    Each file, or each run in it, is a replicate. Exits with 4 where no change has an interval.
    """
    after = [Path(name) for name in ctx.meta.get(AFTER, ())]
    answer = analysed(files, after, Options(by, response or (), block, baseline, paired))
    failing = Failing.of(fail, undecided, [one.response for one in answer.analysis.responses])
    judged = failing.judge(changes_of_study(answer.analysis))
    if json:
        print_json(answer.document() | conditions_document(judged))
    elif md:
        print_text(answer.markdown())
    else:
        print_answer(answer.analysis.answer)
        say(*answer.lines())
        say_conditions(judged)
    end_with(failing.code(answer.answered, judged))
