"""``gc``: what GC logs say."""

from __future__ import annotations

import csv as csv_format
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.api import gc as gc_logs
from leadline.api.gc import GcSummary, Logs, Reader
from leadline.cli.options import output_file
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
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="LOG", help="Compare these logs (B) with FILE... (A); may be repeated, or a directory."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", parser=output_file, help="Write the page: one file that needs no network."
        ),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print the events: pauses, cycles, phases, stalls, safepoints.")
    ] = False,
    md: Annotated[bool, typer.Option("--md", help="Print findings and figures as Markdown.")] = False,
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
    reading = gc_logs.reading(reader, partial(errors.print, soft_wrap=True))
    sources = [("A", log) for log in gc_logs.logs_of(files)] + [("B", log) for log in gc_logs.logs_of(against or ())]
    if csv:
        lines = csv_format.writer(sys.stdout, lineterminator="\n")
        lines.writerow(gc_logs.COLUMNS)
        for _, log in sources:
            lines.writerows(gc_logs.events_of(str(log.name), gc_logs.read(log, reading)))
        return
    take, finish = gc_logs.pages(html) if html else (None, None)
    logs = Logs()
    for side, log in sources:
        events = gc_logs.read(log, reading)
        figures = logs.add(log, events, side)
        if take:
            take(events, figures)
    if study is not None:
        say(_study(study, [log.whole for log in logs.logs]))
        return
    if json:
        print_json(logs.document())
    elif md:
        say(gc_logs.markdown(logs))
    elif finish is None:
        say(logs.text())
    if finish:
        finish(logs)
        (errors.print if json or md else say)(str(html))
    if logs.silent:
        raise typer.Exit(NO_ANSWER_CODE)


def _study(name: str, logs: Sequence[GcSummary]) -> str:
    """The study file of a finding; of several logs, of the first that has it."""
    studies = {finding.name: finding.study for log in reversed(logs) for finding in log.findings if finding.study}
    if name not in studies:
        raise UsageError(f"no finding {name} with a setting to try; there are: {', '.join(studies) or 'none'}")
    return studies[name]
