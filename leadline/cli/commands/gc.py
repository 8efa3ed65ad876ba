"""``gc``: what GC logs say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.api.gc import GcSummary, Reader, figures_of, logs_of, read, reading, render, report, sizes, table
from leadline.cli.output import errors, print_json, say
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE


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
    study: Annotated[
        str | None, typer.Option(metavar="FINDING", help="Print the study file that would test this finding.")
    ] = None,
    reader: Annotated[
        Reader, typer.Option(help="gcviewer: formats older than JDK 7 and J9 R26, or a second opinion (needs a JDK).")
    ] = Reader.OWN,
) -> None:
    """What happened by JVM GC logs, then pauses, shares of time, rates, heap after collection and leak test.

    Exits with 4 where a log says nothing of pauses.
    """
    tell = partial(errors.print, soft_wrap=True)
    if json:
        document = report(files, reading(reader, tell))
        print_json(document)
        if any("pauses" in entry["reasons"] for entry in document["files"]):
            raise typer.Exit(NO_ANSWER_CODE)
        return
    logs = logs_of(files)
    found, chosen = [], reading(reader, tell)
    for log in logs:
        whole, parts = figures_of(read(log, chosen))
        found.append(whole)
        if study is not None:
            continue
        if len(logs) > 1:
            say(f"{log.name}:")
        say(render(whole))
        for number, part in enumerate(parts):
            say(f"JVM {number + 1} of {len(parts)}:")
            say(render(part))
    if study is not None:
        say(_study(study, found))
        return
    if len(logs) > 1:
        say("side by side:")
        say(table([str(log.name) for log in logs], found, sizes(found)))
    if any("pauses" in log.reasons for log in found):
        raise typer.Exit(NO_ANSWER_CODE)


def _study(name: str, logs: Sequence[GcSummary]) -> str:
    """The study file of a finding; of several logs, of the first that has it."""
    studies = {finding.name: finding.study for log in reversed(logs) for finding in log.findings if finding.study}
    if name not in studies:
        raise UsageError(f"no finding {name} with a setting to try; there are: {', '.join(studies) or 'none'}")
    return studies[name]
