"""Unified collector logs (JEP 158, JEP 271) of JDK 11 to 25 into events.

Written from logs of the collectors themselves; tests hold it against the JVM's flight recorder, collection by
collection. Whatever looks like a pause and is not understood is kept in ``GcLog.unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from leadline.model.errors import UsageError
from leadline.observe.gclog.decorators import Line, split
from leadline.observe.gclog.events import Cycle, GcCpu, GcLog, Heap, Jvm, Pause, Safepoint, Stall, UnknownLine

# Serial, Parallel, G1, CMS of JDK 11; ZGC; Shenandoah.
PAUSES = frozenset(
    (
        *("Young", "Full", "Mixed", "Remark", "Cleanup", "Initial Mark"),
        *("Mark Start", "Mark End", "Relocate Start"),
        *("Init Mark", "Final Mark", "Init Update Refs", "Final Update Refs", "Final Roots", "Degenerated GC"),
        *("Init Evac", "Final Evac", "Init Traversal", "Final Traversal"),
    )
)
# With these the parentheses after the name end in the cause; elsewhere they tell of the phase.
_CAUSED = frozenset(("Young", "Full", "Mixed", "Initial Mark"))
_G1_TYPES = frozenset(("Normal", "Concurrent Start", "Prepare Mixed", "Mixed", "Concurrent End", "Mixed GC"))

_ID = r"(?:GC\((?P<id>\d+)\) )?(?:(?P<generation>[YyOo]): )?"
_GROUPS = r"(?P<groups>(?: \((?:[^()]|\([^()]*\))*\))*)"
_HEAP = (
    r"(?P<before>\d+)(?P<before_unit>[BKMGT])(?:\(\d+%\))?->"
    r"(?P<after>\d+)(?P<after_unit>[BKMGT])(?:\(\d+%\)|\((?P<total>\d+)(?P<total_unit>[BKMGT])\))?"
)
_PAUSE = re.compile(_ID + r"Pause (?P<name>[A-Z][A-Za-z ]*?)" + _GROUPS + rf"(?: {_HEAP})? (?P<ms>\d+[.,]\d+)ms")
_PAUSE_AT_ALL = re.compile(_ID + r"Pause\b")
_COLLECTION = re.compile(
    _ID + r"(?P<name>(?:Garbage|Minor|Major) Collection)" + _GROUPS + rf"(?: {_HEAP}(?: (?P<s>\d+[.,]\d+)s)?)?"
)
_MARK_CYCLE = re.compile(_ID + r"(?P<name>Concurrent(?: Mark| Undo)? Cycle)" + r"(?: (?P<ms>\d+[.,]\d+)ms)?")
_SHENANDOAH = re.compile(_ID + r"Concurrent (?P<name>[A-Za-z ]+?)" + _GROUPS + rf"(?: {_HEAP})? (?P<ms>\d+[.,]\d+)ms")
_STALL = re.compile(
    r"(?P<kind>(?:Allocation|Relocation|Page Cache Flush) Stall) \((?P<thread>.*)\) (?P<ms>\d+[.,]\d+)ms"
)
_CPU = re.compile(_ID + r"User=(?P<user>\d+[.,]\d+)s Sys=(?P<sys>\d+[.,]\d+)s Real=(?P<real>\d+[.,]\d+)s")
_SAFEPOINT = re.compile(
    r'Safepoint "(?P<operation>[^"]*)", .*?Reaching safepoint: +(?P<reaching>\d+) ns,.*? Total: +(?P<total>\d+) ns.*'
)
_STOPPED = re.compile(  # JDK 11 and 12
    r"Total time for which application threads were stopped: (?P<total>\d+[.,]\d+) seconds, "
    r"Stopping threads took: (?P<reaching>\d+[.,]\d+) seconds"
)
_ENTERING = re.compile(r"Entering safepoint region: (?P<operation>.*)")
_CAPACITY = re.compile(_ID + r" *Capacity: +(?:\d+[BKMGT] \(\d+%\) +){3}(?P<total>\d+)(?P<total_unit>[BKMGT]) .*")
_CANCELLED = re.compile(r"Cancelling GC: (?P<cause>.*)")
_USING = re.compile(r"Using (?:The )?(?P<name>Serial|Parallel|G1|Z|Shenandoah|Epsilon|Concurrent Mark Sweep)\b.*")
_VERSION = re.compile(r"Version: (?P<version>\S+).*")

_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SKIPPED_TAGS = frozenset(("stats",))


def parse(path: Path) -> GcLog:
    """Events of the log at ``path``.

    A cut last line is left out and told in ``truncated``. Raises FileNotFoundError, and UsageError for a file that
    has lines and is no unified log (JDK 8 and OpenJ9 write other formats).
    """
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        log = parse_lines(file)
    if log.lines and not log.jvms:
        raise UsageError(f"{path} is no unified JVM log: no line begins with [decorators] as -Xlog:gc* writes them")
    return log


def parse_lines(lines: Iterable[str]) -> GcLog:
    """The same from lines that still have their line ends."""
    reader = _Reader()
    text = ""
    for text in lines:
        reader.log.lines += 1
        if _matters(text) or not reader.log.jvms:
            reader.read(text)
    return reader.finish(text)


def _matters(text: str) -> bool:
    """Whether a line can be of use. Most are not: this decides how long a log takes (a loop costs twice as much)."""
    return (
        "Pause" in text
        or "Concurrent " in text
        or "Safepoint " in text
        or "User=" in text
        or "Collection" in text
        or " Stall (" in text
        or "Capacity: " in text
        or "Cancelling GC" in text
        or "Using " in text
        or "Version: " in text
        or "Total time for which" in text
        or "Entering safepoint" in text
    )


class _Reader:
    def __init__(self) -> None:
        self.log = GcLog()
        self._line = Line(None, None, frozenset(), "")
        self._at = 0.0
        self._began: dict[int, float] = {}  # a cycle's id -> uptime
        self._causes: dict[int, str] = {}
        self._cancelled = ""
        self._capacity: int | None = None
        self._operation = ""
        self._shenandoah: dict[int, Cycle] = {}

    def read(self, text: str) -> None:
        line = split(text)
        if line is None:
            return
        self._line = line
        self._clock(line, "Using " in text and _USING.fullmatch(line.message) is not None)
        tags, message = line.tags, line.message
        if tags and "gc" not in tags and "safepoint" not in tags:
            return
        if tags & _SKIPPED_TAGS:
            return
        if "Pause" in message and _PAUSE_AT_ALL.match(message):
            self._pause(message, text)
        elif message.startswith(("Safepoint", "Total time", "Entering")):
            self._safepoint(message)
        elif "start" in tags:
            self._start(message)
        else:
            self._other(message)

    def finish(self, last: str) -> GcLog:
        """``last`` is the file's last line; a cut one is no evidence of an unknown pause."""
        log = self.log
        line = split(last)
        if last and not last.endswith("\n"):
            log.truncated = True
            if log.unknown and log.unknown[-1].number == log.lines:
                log.unknown.pop()
        elif line is not None and log.jvms:
            self._clock(line, False)
        log.cycles.extend(self._shenandoah.values())
        log.cycles.sort(key=lambda cycle: (cycle.jvm, cycle.at))
        return log

    def _clock(self, line: Line, using: bool) -> None:
        """Follow the uptime; a JVM that starts over is a new one. Threads' lines may be a little out of order."""
        at = line.uptime if line.uptime is not None else line.unix
        jvms = self.log.jvms
        if at is None:
            at = self._at
        if not jvms or at < jvms[-1].last - (0.0 if using else 1.0):
            self._new_jvm(at, line.unix)
        jvm = jvms[-1]
        if at >= jvm.last:
            jvm.last, jvm.last_unix = at, line.unix
        self._at = at

    def _new_jvm(self, at: float, unix: float | None) -> None:
        self.log.cycles.extend(self._shenandoah.values())
        self.log.jvms.append(Jvm(first=at, last=at, first_unix=unix, last_unix=unix))
        self._began.clear()
        self._causes.clear()
        self._shenandoah.clear()
        self._capacity = None

    @property
    def _jvm(self) -> int:
        return len(self.log.jvms) - 1

    def _pause(self, message: str, text: str) -> None:
        tags = self._line.tags
        if "start" in tags:
            return
        match = _PAUSE.fullmatch(message)
        if match is None and not tags and not message.endswith("ms"):
            return  # the beginning of one, in a log without tags
        if match is None or match["name"] not in PAUSES:
            self.log.unknown.append(UnknownLine(self.log.lines, text.strip()))
            return
        gc_id = _optional(match["id"])
        name, groups = match["name"], match["groups"].strip()
        generation = f"{match['generation']}: " if match["generation"] else ""
        kind = f"{generation}Pause {name} {groups}".strip()
        self.log.pauses.append(
            Pause(
                at=self._at,
                unix=self._line.unix,
                jvm=self._jvm,
                gc_id=gc_id,
                kind=kind,
                name=name,
                cause=self._cause(name, groups, gc_id),
                ms=_decimal(match["ms"]),
                heap=_heap(match),
            )
        )

    def _cause(self, name: str, groups: str, gc_id: int | None) -> str:
        if name in _CAUSED:
            for group in _split_groups(groups):
                if group not in _G1_TYPES:
                    return group
        if name in ("Degenerated GC", "Full"):
            return self._cancelled
        return self._causes.get(gc_id, "") if gc_id is not None else ""

    def _safepoint(self, message: str) -> None:
        if match := _SAFEPOINT.fullmatch(message):
            reaching, total = int(match["reaching"]) / 1e6, int(match["total"]) / 1e6
            operation = match["operation"]
        elif match := _ENTERING.fullmatch(message):
            self._operation = match["operation"]
            return
        elif match := _STOPPED.fullmatch(message):
            reaching, total = _decimal(match["reaching"]) * 1e3, _decimal(match["total"]) * 1e3
            operation = self._operation
        else:
            return
        self.log.safepoints.append(Safepoint(self._at, self._line.unix, self._jvm, operation, reaching, total))

    def _start(self, message: str) -> None:
        """The line at the beginning of a concurrent collection (its end is ``_other``'s)."""
        match = _COLLECTION.fullmatch(message)
        if match and match["id"]:
            self._begin(int(match["id"]), _first_group(match["groups"]))

    def _begin(self, gc_id: int, cause: str) -> None:
        self._began.setdefault(gc_id, self._at)
        if cause:
            self._causes[gc_id] = cause

    def _other(self, message: str) -> None:
        log, unix, jvm = self.log, self._line.unix, self._jvm
        if match := _CPU.fullmatch(message):
            user, system, real = (_decimal(match[name]) for name in ("user", "sys", "real"))
            log.cpu.append(GcCpu(self._at, unix, jvm, _optional(match["id"]), user, system, real))
        elif match := _COLLECTION.fullmatch(message):
            self._collection(match)
        elif match := _MARK_CYCLE.fullmatch(message):
            if match["ms"] and match["id"]:
                log.cycles.append(
                    Cycle(self._at, unix, jvm, int(match["id"]), match["name"], "", _decimal(match["ms"]))
                )
        elif match := _STALL.fullmatch(message):
            log.stalls.append(Stall(self._at, unix, jvm, match["kind"], match["thread"], _decimal(match["ms"])))
        elif match := _CAPACITY.fullmatch(message):
            self._capacity = _bytes(match["total"], match["total_unit"])
        elif match := _CANCELLED.fullmatch(message):
            self._cancelled = match["cause"]
        elif match := _USING.fullmatch(message):
            log.jvms[-1].collector = match["name"]
        elif match := _VERSION.fullmatch(message):
            log.jvms[-1].version = match["version"]
        elif log.jvms[-1].collector == "Shenandoah" and (match := _SHENANDOAH.fullmatch(message)):
            self._shenandoah_phase(match)

    def _collection(self, match: re.Match[str]) -> None:
        """ZGC: the first line of a collection in JDK 21 and later has no tag of its own, the last has the heap."""
        if not match["id"]:
            return
        gc_id, cause = int(match["id"]), _first_group(match["groups"])
        heap = _heap(match)
        if heap is None:
            self._begin(gc_id, cause)
            return
        began = self._began.pop(gc_id, None)
        if began is not None:
            ms: float | None = (self._at - began) * 1e3
        else:
            ms = _decimal(match["s"]) * 1e3 if match["s"] else None
        heap = Heap(heap.before, heap.after, heap.total or self._capacity)
        self.log.cycles.append(Cycle(self._at, self._line.unix, self._jvm, gc_id, match["name"], cause, ms, heap))

    def _shenandoah_phase(self, match: re.Match[str]) -> None:
        """Shenandoah has no line for a whole cycle: it is the time from its first phase to its last."""
        if not match["id"]:
            return
        gc_id = int(match["id"])
        groups = _split_groups(match["groups"])
        generation = next((group for group in groups if group in ("Young", "Old", "Global")), "")
        kind = f"Shenandoah Cycle ({generation})" if generation else "Shenandoah Cycle"
        heap, known = _heap(match), self._shenandoah.get(gc_id)
        began = self._began.setdefault(gc_id, self._at - _decimal(match["ms"]) / 1e3)
        if known is not None:
            kind = known.kind if "(" in known.kind else kind
            first = known.heap
            heap = Heap(first.before if first else heap.before, heap.after, heap.total) if heap else first
        ms = (self._at - began) * 1e3
        self._shenandoah[gc_id] = Cycle(self._at, self._line.unix, self._jvm, gc_id, kind, "", ms, heap)


def _optional(number: str | None) -> int | None:
    return None if number is None else int(number)


def _decimal(number: str) -> float:
    return float(number.replace(",", "."))


def _bytes(number: str, unit: str) -> int:
    return int(number) * _UNITS[unit]


def _heap(match: re.Match[str]) -> Heap | None:
    if not match["before"]:
        return None
    total = _bytes(match["total"], match["total_unit"]) if match["total"] else None
    return Heap(_bytes(match["before"], match["before_unit"]), _bytes(match["after"], match["after_unit"]), total)


def _split_groups(groups: str) -> list[str]:
    return [group[1:-1] for group in re.findall(r"\((?:[^()]|\([^()]*\))*\)", groups)]


def _first_group(groups: str) -> str:
    return next(iter(_split_groups(groups)), "")
