"""``gate``: a change held against what is there, with a verdict for a build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.live import watcher
from leadline.cli.options import (
    CountOption,
    FailOption,
    JsonOption,
    LabOption,
    SimulateOption,
    Undecided,
    UndecidedOption,
    file_option,
)
from leadline.cli.output import end_with, errors, print_json, say, say_ended


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command(epilog="Example: leadline gate './parser-main log.txt' './parser log.txt' --fail 'cpu>3%'")(gate)


def gate(
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="What is there: a command, a jar, a stack file, or a revision.")
    ],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The same with the change.")],
    fail: FailOption = None,
    undecided: UndecidedOption = Undecided.FAIL,
    budget: Annotated[str, typer.Option(help="Wall time at most: 15m")] = "15m",
    build: Annotated[
        str, typer.Option(metavar="CMD", help="BASE and HEAD are revisions of git: how each is built, in a checkout.")
    ] = "",
    run: Annotated[
        str, typer.Option(metavar="WHAT", help="With --build: the jar, stack file or command of a checkout.")
    ] = "",
    stack: Annotated[
        Path | None, typer.Option(metavar="<path>", help="Of two jars: the stack file whose jar they replace.")
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="<path>",
            help="The load of a server, a recording (HAR) too; the stack file's, or from its OpenAPI description.",
        ),
    ] = None,
    count: CountOption = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Samples of the JVMs in half of the blocks: which frames carry a change.")
    ] = False,
    md: Annotated[Path | None, file_option("Write Markdown for the pull request.")] = None,
    junit: Annotated[Path | None, file_option("Write JUnit XML.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Of the order.")] = 1,
    simulate: SimulateOption = None,
    lab: LabOption = Path("lab"),
    json: JsonOption = False,
) -> None:
    """Tell whether a change does harm: two builds side by side, until it is decided or the budget is over."""
    from leadline.api import gates

    options = gates.GateOptions(fail or (), budget, seed, stack, scenario, simulate, build, run, count, profile)
    watching = watcher(errors)
    with watching:
        ended = gates.gate(base, head, options, lab, watching)
    undecided_fails = undecided is Undecided.FAIL
    for path, text in ((md, ended.markdown), (junit, lambda: ended.junit(undecided_fails))):
        if path is not None:
            path.write_text(text(), encoding="utf-8")
    if ended.run is not None:
        say_ended(ended.run.restored, ended.run.stopped, to=errors)
    remedy = [ended.gate.remedy] if ended.gate.remedy else []
    say(ended.gate.error_rate, *remedy, *([f"report: {ended.run.page}"] if ended.run else []), to=errors)
    if json:
        print_json(ended.document())
    else:
        say(ended.gate.line)
    end_with(ended.exit_code(undecided_fails))
