"""GC logs: what they say, read by leadline or by GCViewer."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import GcSummary
from leadline.host.java import find_java
from leadline.observe.gclog import gcviewer
from leadline.observe.gclog.files import ForLibrary, LogFiles, logs_of, parse_files
from leadline.observe.gclog.report import figures_of, read, report, sizes
from leadline.observe.gclog.text import render, table
from leadline.stack.provision import GCVIEWER, fetch

__all__ = ["GcSummary", "Reader", "figures_of", "logs_of", "read", "reading", "render", "report", "sizes", "table"]


class Reader(StrEnum):
    """Who reads the lines."""

    OWN = "own"
    GCVIEWER = "gcviewer"


def reading(reader: Reader, tell: Callable[[str], None]) -> Callable[[LogFiles], GcLog]:
    """What reads a log's files; GCViewer is fetched when it is wanted for the first time, which ``tell`` is told."""

    def by_library(log: LogFiles) -> GcLog:
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
