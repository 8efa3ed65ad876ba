"""Collector logs of HotSpot's unified logging (JDK 11 to 25): parse, summarise, report."""

from leadline.observe.gclog.events import Cycle, GcCpu, GcLog, Heap, Pause, Safepoint, Stall, UnknownLine
from leadline.observe.gclog.parser import parse, parse_lines
from leadline.observe.gclog.report import render, report
from leadline.observe.gclog.summary import GcSummary, summary

__all__ = [
    "Cycle",
    "GcCpu",
    "GcLog",
    "GcSummary",
    "Heap",
    "Pause",
    "Safepoint",
    "Stall",
    "UnknownLine",
    "parse",
    "parse_lines",
    "render",
    "report",
    "summary",
]
