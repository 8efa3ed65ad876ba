"""GC logs: what they say, read by leadline or by GCViewer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import GcSummary
from leadline.observe.gclog.files import ForLibrary, LogFiles, logs_of, parse_files
from leadline.observe.gclog.follow import Follower, News, news
from leadline.observe.gclog.report import COLUMNS, LogFigures, Logs, events_of, read

__all__ = [
    "COLUMNS",
    "Follower",
    "GcSummary",
    "LogFigures",
    "Logs",
    "News",
    "Reader",
    "events_of",
    "following",
    "logs_of",
    "markdown",
    "news",
    "pages",
    "read",
    "reading",
]


class Reader(StrEnum):
    """Who reads the lines."""

    OWN = "own"
    GCVIEWER = "gcviewer"


def reading(reader: Reader, tell: Callable[[str], None]) -> Callable[[LogFiles], GcLog]:
    """What reads a log's files; GCViewer is fetched when it is wanted for the first time, which ``tell`` is told."""

    def by_library(log: LogFiles) -> GcLog:
        from leadline.host.java import find_java  # most logs need none of it
        from leadline.observe.gclog import gcviewer
        from leadline.stack.provision import GCVIEWER, fetch

        return partial(gcviewer.parse_files, java=find_java(), jar=fetch(GCVIEWER, tell))(log)

    def own_first(log: LogFiles) -> GcLog:
        try:
            files = parse_files(log)
            why = f"{log.name} is a log of {files.library}" if files.library else ""
        except ForLibrary as error:
            why = str(error)
        if not why:
            return files
        tell(f"{why}: read by GCViewer")
        return by_library(log)

    return by_library if reader is Reader.GCVIEWER else own_first


@contextmanager
def following(source: Path) -> Iterator[Follower]:
    """The log ``source``, or that of the JVM whose process number it is. Raises LeadlineError."""
    if source.exists() or not str(source).isdecimal():
        yield Follower(source)
        return
    from leadline.host.jvm import gc_log, heap_of
    from leadline.host.procfs import read_stat

    pid = int(str(source))
    with gc_log(pid) as path:
        begun = read_stat(pid)

        def ended() -> bool:
            now = read_stat(pid)
            return begun is None or now is None or now.start != begun.start or not now.alive

        yield Follower(path, ended, heap_of(pid))


def markdown(logs: Logs) -> str:
    """Findings, figures and differences, for an issue or a wiki."""
    from leadline.report.gc_markdown import gc_markdown

    return gc_markdown(logs)


def pages(out: Path) -> tuple[Callable[[GcLog, LogFigures], None], Callable[[Logs], Path]]:
    """What takes each log as it is read, and what writes the page of all of them to ``out`` (raises OSError)."""
    from leadline.api.results import kept_parts
    from leadline.report.gc_page import Entry, build, entries_of

    shown: list[Entry] = []
    return lambda log, figures: shown.extend(entries_of(log, figures)), lambda logs: build(
        logs, shown, out, kept_parts()
    )
