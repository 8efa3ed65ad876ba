"""``gc``: what GC logs say."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadline.cli.output import errors, print_json, say

if TYPE_CHECKING:
    from leadline.gcanalysis.events import GcLog
    from leadline.observe.gclog.files import LogFiles


class Reader(StrEnum):
    """Who reads the lines."""

    OWN = "own"
    GCVIEWER = "gcviewer"


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command(epilog="Example: leadline gc gc.log --json")(gc)


def gc(
    files: Annotated[
        list[Path],
        typer.Argument(help="GC logs of JVMs (-Xlog:gc*,safepoint:file=gc.log); - is standard input."),
    ],
    json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output (docs/reference/json.md).")
    ] = False,
    reader: Annotated[
        Reader, typer.Option(help="gcviewer: formats older than JDK 7 and J9 R26, or a second opinion (needs a JDK).")
    ] = Reader.OWN,
) -> None:
    """Pauses, shares of time, rates, heap after collection and leak test of JVM GC logs.

    Exits with 1 where a log says nothing of pauses.
    """
    from leadline.observe.gclog.files import logs_of
    from leadline.observe.gclog.report import figures_of, read, report, sizes
    from leadline.observe.gclog.text import render, table

    if json:
        document = report(files, reading(reader))
        print_json(document)
        if any("pauses" in one["reasons"] for one in document["files"]):
            raise typer.Exit(1)
        return
    logs = logs_of(files)
    found, chosen = [], reading(reader)
    for log in logs:
        whole, parts = figures_of(read(log, chosen))
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
    if any("pauses" in one.reasons for one in found):
        raise typer.Exit(1)


def reading(reader: Reader) -> Callable[[LogFiles], GcLog]:
    """What reads a log's files; GCViewer is fetched when it is wanted for the first time."""
    from leadline.observe.gclog.files import ForLibrary, parse_files

    if reader is Reader.GCVIEWER:
        return _library()

    def own_first(log: LogFiles) -> GcLog:
        try:
            found = parse_files(log)
            why = f"{log.name} is a log of {found.library}" if found.library else ""
        except ForLibrary as error:
            why = str(error)
        if not why:
            return found
        errors.print(f"{why}: read by GCViewer", markup=False, highlight=False, soft_wrap=True)
        return _library()(log)

    return own_first


def _library() -> Callable[[LogFiles], GcLog]:
    from leadline.host.java import find_java
    from leadline.observe.gclog import gcviewer
    from leadline.stack.provision import GCVIEWER, fetch

    java = find_java()
    jar = fetch(GCVIEWER, lambda text: errors.print(text, markup=False, highlight=False))
    return partial(gcviewer.parse_files, java=java, jar=jar)
