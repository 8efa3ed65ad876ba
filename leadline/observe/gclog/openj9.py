"""Verbose GC logs of Eclipse OpenJ9 (``-Xverbosegclog``) into events.

The log is XML, but is read element by element: one that is still being written, or cut, is none yet. A pause is the
time between ``exclusive-start`` and ``exclusive-end``, during which no thread of the application runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from leadline.gcanalysis.events import GcCpu, GcLog, Heap, Jvm, Pause
from leadline.observe.gclog.decorators import wall_clock
from leadline.observe.gclog.parser import bounded
from leadline.observe.gclog.patterns import OF_JDK_8, OF_UNIFIED

_ELEMENT = re.compile(r"<(?P<name>[a-z][\w-]*)(?P<attributes>(?:\s+[\w:.-]+=\"[^\"]*\")*)\s*/?>")
_ATTRIBUTE = re.compile(r"([\w:.-]+)=\"([^\"]*)\"")
_KINDS = {"scavenge": "Young", "partial gc": "Young", "global": "Full", "global garbage collect": "Full"}
_WIDEST = 8192  # characters of a line
_BEFORE_R26 = frozenset(("af", "sys", "con"))
_CAUSES = {"af-start": "Allocation Failure", "sys-start": "System.gc()", "concurrent-kickoff": ""}


def recognises(lines: Sequence[str]) -> bool:
    """Whether these first lines of a log are in this format."""
    return any("<verbosegc" in text or "<exclusive-start" in text for text in lines)


def parse_lines(lines: Iterable[str]) -> GcLog:
    """Events of a log's lines."""
    reader = _Reader()
    reader.log.format = "verbose log of OpenJ9 (-Xverbosegclog)"
    text = ""
    for text in lines:
        reader.log.lines += 1
        if not reader.log.lines & 0xFFFF:
            bounded(reader.log)
        if len(text) > _WIDEST:
            reader.log.not_whole(reader.log.lines, text)
            continue
        reader.log.understood += "<" in text or not text.strip()
        if ("GC(" in text and OF_UNIFIED.search(text)) or (" secs]" in text and OF_JDK_8.search(text)):
            reader.log.not_known(reader.log.lines, text)
        for element in _ELEMENT.finditer(text):
            reader.read(element["name"], dict(_ATTRIBUTE.findall(element["attributes"])))
    # The root is closed when the JVM ends; a log without it is one still written, or that of a JVM killed.
    reader.log.truncated = bool(text) and not text.endswith("\n")
    return reader.log


class _Reader:
    def __init__(self) -> None:
        self.log = GcLog()
        self._inside = False
        self._cause = ""
        self._kind = ""
        self._used: list[tuple[int, int]] = []  # in use and committed, in the order of the log
        self._where = ""
        self._cpu: list[float] | None = None

    def read(self, name: str, values: dict[str, str]) -> None:
        if name == "verbosegc":
            self.log.jvms.append(Jvm(version=f"OpenJ9 {values['version']}" if "version" in values else "OpenJ9"))
        elif name == "initialized":
            self._clock(values)
        elif name == "attribute":
            self._attribute(values.get("name", ""), values.get("value", ""))
        elif name == "exclusive-start":
            self._clock(values)
            self._inside, self._kind, self._used, self._cpu = True, "", [], None
        elif name in _CAUSES:
            self._cause = _CAUSES[name]
        elif name in ("gc-op", "gc-end") and not self._inside:  # of metronome, or of a log that begins inside
            self.log.not_known(self.log.lines, f"<{name}> outside of exclusive access: its pause is not read")
        elif name in ("gc-start", "gc-end"):
            self._where = name
            self._kind = _KINDS.get(values.get("type", ""), values.get("type", "").title()) or self._kind
            if "usertimems" in values:
                times = [_number(values.get(key)) or 0.0 for key in ("usertimems", "systemtimems", "durationms")]
                self._cpu = [sum(pair) for pair in zip(self._cpu or [0.0] * 3, times, strict=True)]
        elif name == "mem-info" and self._where:
            total, free = _number(values.get("total")), _number(values.get("free"))
            if total is not None and free is not None:
                self._used.append((int(total - free), int(total)))
            self._where = ""
        elif name == "exclusive-end":
            self._end(values)
        elif name in _BEFORE_R26:
            self.log.not_known(self.log.lines, f"<{name}>: the form of J9 before R26 is not read")

    def _attribute(self, name: str, value: str) -> None:
        if not self.log.jvms:
            return
        jvm = self.log.jvms[-1]
        if name == "gcPolicy":
            jvm.collector = value.rpartition(":")[2]
        elif name == "maxHeapSize":
            try:
                jvm.heap_max = int(value, 0) if len(value) < 20 else None
            except ValueError:
                jvm.heap_max = None

    def _clock(self, values: dict[str, str]) -> tuple[float, int]:
        """Wall clock only: local time without a zone."""
        unix = wall_clock(values.get("timestamp", ""))
        if not self.log.jvms:
            self.log.jvms.append(Jvm(version="OpenJ9"))
        jvm = self.log.jvms[-1]
        if unix is not None:
            if jvm.first_unix is None:
                jvm.first = jvm.first_unix = unix
            if unix >= jvm.last:
                jvm.last = jvm.last_unix = unix
        return unix if unix is not None else jvm.last, len(self.log.jvms) - 1

    def _end(self, values: dict[str, str]) -> None:
        at, jvm = self._clock(values)
        ms = _number(values.get("durationms"))
        if ms is None:
            self.log.not_known(self.log.lines, f"exclusive-end without durationms: {values}")
            return
        name = self._kind or "Exclusive"
        heap = None
        if len(self._used) > 1:
            heap = Heap(self._used[0][0], self._used[-1][0], self._used[-1][1])
        kind = f"Pause {name} ({self._cause})" if self._cause else f"Pause {name}"
        self.log.pauses.append(Pause(at, at, jvm, None, kind, name, self._cause, ms, heap))
        if self._cpu:
            user, system, real = (value / 1e3 for value in self._cpu)
            self.log.cpu.append(GcCpu(at, at, jvm, None, user, system, real))
        self._inside, self._cause = False, ""


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if abs(number) < 1e18 else None  # more bytes or ms no JVM has; nor is NaN
