"""``gc``: what collector logs say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.output import console, print_json


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline gc gc.log --json")(gc)


def gc(
    files: Annotated[list[Path], typer.Argument(help="Collector logs of JVMs (-Xlog:gc*,safepoint:file=gc.log).")],
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output (docs/json.md).")] = False,
) -> None:
    """Pauses, shares of time, rates, heap after collection and leak test of JVM collector logs."""
    from leadline.observe.gclog.files import logs_of
    from leadline.observe.gclog.report import figures_of, read, report, sizes
    from leadline.observe.gclog.text import render, table

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if json:
        print_json(report(files))
        return
    logs = logs_of(files)
    found = []
    for log in logs:
        whole, parts = figures_of(read(log))
        found.append(whole)
        if len(logs) > 1:
            say(f"{log.name}:")
        say(render(whole))
        for number, part in enumerate(parts):
            say(f"JVM {number + 1} of {len(parts)}:")
            say(render(part))
    if len(logs) > 1:
        say("side by side:")
        say(table([str(log.name) for log in logs], found, sizes(found)))
