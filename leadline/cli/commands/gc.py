"""``gc``: what GC logs say."""

from __future__ import annotations

import csv as csv_format
import json as json_format
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from leadline.api.gc import following, pages
from leadline.cli.options import output_file
from leadline.cli.output import errors, print_json, print_text, say
from leadline.gcanalysis.summary import GcSummary
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.observe.gclog.files import logs_of
from leadline.observe.gclog.follow import News, news
from leadline.observe.gclog.report import COLUMNS, Logs, events_of, read


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
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Tell findings as they come, of a log that is being written, or of a running JVM by its process "
            "number; figures at the end (Ctrl-C).",
        ),
    ] = False,
) -> None:
    """What happened by JVM GC logs, then pauses, shares of time, rates, heap after collection and leak test.

    Exits with 4 where a log says nothing of pauses.
    """
    if follow:
        _follow(files, json, md, html)
        return
    sources = [("A", log) for log in logs_of(files)] + [("B", log) for log in logs_of(against or ())]
    if csv:
        lines = csv_format.writer(sys.stdout, lineterminator="\n")
        lines.writerow(COLUMNS)
        for _, log in sources:
            lines.writerows(events_of(str(log.name), read(log)))
        return
    take, finish = pages(html) if html else (None, None)
    logs = Logs()
    for side, log in sources:
        events = read(log)
        figures = logs.add(log, events, side)
        if take:
            take(events, figures)
    if study is not None:
        say(_study(study, [log.whole for log in logs.logs]))
        return
    if finish:
        finish(logs)
    _show(logs, json, md, html)


def _show(logs: Logs, json: bool, md: bool, html: Path | None, line: bool = False) -> None:
    """In the chosen form; ``line``: a JSON document on one line."""
    if json and line:
        print_text(json_format.dumps(logs.document(), default=str, allow_nan=False) + "\n")
    elif json:
        print_json(logs.document())
    elif md:
        from leadline.report.gc_page import gc_markdown

        say(gc_markdown(logs))
    elif html is None:
        say(logs.text())
    if html:
        (errors.print if json or md else say)(str(html))
    if logs.silent:
        raise typer.Exit(NO_ANSWER_CODE)


def _follow(files: Sequence[Path], json: bool, md: bool, html: Path | None) -> None:
    """Findings, one a line, then what ``gc`` says of all that was read; also when a signal ends it."""
    if len(files) > 1:
        raise UsageError(f"--follow is of one log, not of {len(files)}")
    ended: SystemExit | None = None
    with following(files[0]) as follower:
        try:
            for entry in news(follower):
                print_text((_line(entry) if json else _told(entry)) + "\n")
                sys.stdout.flush()
        except KeyboardInterrupt:
            pass
        except SystemExit as signal:  # SIGTERM, SIGHUP
            ended = signal
        events = follower.finish()
    logs = Logs()
    figures = logs.add(follower.files, events)
    if html:
        take, finish = pages(html)
        take(events, figures)
        finish(logs)
    _show(logs, json, md, html, line=True)
    if ended:
        raise ended


def _line(entry: News) -> str:
    """A JSON document on one line."""
    return json_format.dumps(asdict(entry), default=str, allow_nan=False)


def _told(entry: News) -> str:
    finding = entry.finding
    time = f"{entry.at:.1f} s" if entry.unix is None else f"{datetime.fromtimestamp(entry.unix):%Y-%m-%dT%H:%M:%S}"
    who = f"JVM {finding.jvm + 1}: " if finding.jvm else ""
    return f"{time} {finding.name}: {who}{finding.sentence if entry.holds else 'no longer holds'}"


def _study(name: str, logs: Sequence[GcSummary]) -> str:
    """The study file of a finding; of several logs, of the first that has it."""
    studies = {finding.name: finding.study for log in reversed(logs) for finding in log.findings if finding.study}
    if name not in studies:
        raise UsageError(f"no finding {name} with a setting to try; there are: {', '.join(studies) or 'none'}")
    return studies[name]
