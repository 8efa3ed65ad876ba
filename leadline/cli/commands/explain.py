"""``explain``: which frames carry the difference between two kinds of recordings."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from leadline.cli.options import JsonOption, file_option
from leadline.cli.output import print_answer, print_json, print_text, say
from leadline.observe.stacks import Kind
from leadline.report.explain import explain as explanation_of

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


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    epilog = "Example: leadline explain before-*.jfr -- after-*.jfr --count 60000"
    app.command(cls=BothKinds, epilog=epilog)(explain)


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
