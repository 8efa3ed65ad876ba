"""GC logs into events: HotSpot's unified logging (JDK 9 to 25), JDK 8's and OpenJ9's older forms."""

from leadline.gcanalysis.events import Cycle, GcCpu, GcLog, Heap, Pause, Safepoint, Stall, UnknownLine
from leadline.gcanalysis.summary import GcSummary, summary
from leadline.observe.gclog.files import LogFiles, logs_of, parse, parse_files, parse_lines
from leadline.observe.gclog.report import render, report

__all__ = [
    "Cycle",
    "GcCpu",
    "GcLog",
    "GcSummary",
    "Heap",
    "LogFiles",
    "Pause",
    "Safepoint",
    "Stall",
    "UnknownLine",
    "logs_of",
    "parse",
    "parse_files",
    "parse_lines",
    "render",
    "report",
    "summary",
]
