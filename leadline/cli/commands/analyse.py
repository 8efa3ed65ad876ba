"""``analyse`` and ``explain``: results and recordings that other tools wrote, under the analysis of a study."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from leadline.cli.options import (
    Failing,
    FailOption,
    JsonOption,
    Undecided,
    UndecidedOption,
    conditions_document,
    file_option,
    say_conditions,
)
from leadline.cli.output import end_with, print_answer, print_json, print_text, say
from leadline.model.conditions import changes_of_study
from leadline.observe.stacks import Kind
from leadline.report.flames import explain as explanation_of
from leadline.report.other_tools import Options, analysed


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(cls=BothKinds, epilog="Example: leadline analyse before-*.json -- after-*.json")(analyse)
    epilog = "Example: leadline explain before-*.jfr -- after-*.jfr --count 60000"
    app.command(cls=BothKinds, epilog=epilog)(explain)


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


AFTER = "leadline.after"


class BothKinds(TyperCommand):
    """A command whose files stand on both sides of ``--``; those behind it are in ``meta[AFTER]``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            after = list(takewhile(lambda word: not word.startswith("-"), args[at + 1 :]))
            ctx.meta[AFTER] = after
            args = args[:at] + args[at + 1 + len(after) :]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- FILE..."]


def explain(
    ctx: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(help="Recordings before a change, then -- and those after it: JFR, pprof or folded stacks."),
    ],
    kind: Annotated[Kind, typer.Option(help="CPU samples, allocation, or waiting for locks and parked.")] = Kind.CPU,
    count: Annotated[
        list[int] | None,
        typer.Option(min=1, max=10**15, help="Requests of every recording, or of each in turn; if absent, shares."),
    ] = None,
    paired: Annotated[
        bool, typer.Option("--paired", help="Compare the n-th recording before with the n-th after.")
    ] = False,
    md: Annotated[bool, typer.Option("--md", help="Markdown, for a pull request.")] = False,
    folded: Annotated[
        Path | None, file_option("Write stacks with samples before and after, for differential flame graphs.")
    ] = None,
    pprof: Annotated[
        Path | None, file_option("Write them as a profile for pprof: values before, after and change.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Which frames carry the difference between recordings before and after a change, with intervals.

    Several of each are replicates; of one pair it is not known what is noise.
    """
    after = [Path(name) for name in ctx.meta.get(AFTER, ())]
    explanation = explanation_of(files, after, kind, count or [], paired)
    if folded is not None:
        folded.write_text(explanation.folded(), encoding="utf-8")
    if pprof is not None:
        pprof.write_bytes(explanation.pprof())
    if json:
        print_json(explanation.document())
    elif md:
        print_text(explanation.markdown())
    else:
        print_answer(explanation.answer)
        say(*explanation.lines())
