"""``gc``: what collector logs say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leadline.cli.output import console, print_json
from leadline.model.errors import UsageError
from leadline.observe.gclog.parser import parse
from leadline.observe.gclog.report import render, report
from leadline.observe.gclog.summary import summary


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline gc gc.log --json")(gc)


def gc(
    files: Annotated[list[Path], typer.Argument(help="Unified JVM logs (-Xlog:gc*,safepoint:file=gc.log).")],
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output (docs/json.md).")] = False,
) -> None:
    """Pauses, causes, shares of time and heap after collection of JVM collector logs."""
    if json:
        print_json(report(files))
        return
    for file in files:
        try:
            text = render(summary(parse(file)))
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror or error}") from error
        if len(files) > 1:
            console.print(f"{file}:", markup=False, highlight=False, soft_wrap=True)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
