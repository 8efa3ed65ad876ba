"""What a GC log says, as values.

``at`` is the JVM's uptime in seconds when the line was written (the end of what it tells of), ``unix`` the same in
unix seconds where the log has wall-clock times, ``jvm`` counts the JVMs that wrote into one file. Both times have the
log's own resolution, a millisecond by default; durations are exact to what the JVM printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Heap:
    """Bytes in use before and after, and committed where the line tells."""

    before: int
    after: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """One stop of the application for the collector."""

    at: float
    unix: float | None
    jvm: int
    gc_id: int | None
    kind: str  # "Pause Young (Normal) (G1 Evacuation Pause)", generation included: "Y: Pause Mark Start (Major)"
    name: str  # "Young", "Full", "Mark Start", "Degenerated GC"
    cause: str  # "G1 Evacuation Pause"; empty where the log gives none
    ms: float
    heap: Heap | None = None
    promoted: int | None = None  # bytes by which the old generation grew; None where the log does not tell
    line: int = field(default=0, compare=False)  # of the log, from 1

    @property
    def begin(self) -> float:
        return self.at - self.ms / 1e3


@dataclass(frozen=True, slots=True)
class Cycle:
    """A collection that runs beside the application: G1's marking, a collection of ZGC or Shenandoah."""

    at: float
    unix: float | None
    jvm: int
    gc_id: int
    kind: str  # "Concurrent Mark Cycle", "Minor Collection", "Garbage Collection", "Shenandoah Cycle (Young)"
    cause: str
    ms: float | None  # None where the log has not its beginning
    heap: Heap | None = None
    live: int | None = None  # bytes found live by marking, where all of the heap was marked (ZGC)
    reclaimed: int | None = None  # bytes (ZGC)
    promoted: int | None = None  # bytes (generational ZGC)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a collection that runs beside the application, at its end."""

    at: float
    unix: float | None
    jvm: int
    kind: str  # "Concurrent Mark From Roots", "Y: Concurrent Relocate"
    ms: float


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Shenandoah gives regions back: after marking (``copied`` false), and after evacuation.

    Before the second one the heap has grown by the collector's own copies as well as by the application.
    """

    at: float
    unix: float | None
    jvm: int
    gc_id: int
    heap: Heap
    copied: bool


@dataclass(frozen=True, slots=True)
class Stall:
    """A thread that had to wait for the collector outside of a pause (ZGC)."""

    at: float
    unix: float | None
    jvm: int
    kind: str  # "Allocation Stall", "Relocation Stall"
    thread: str
    ms: float
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Safepoint:
    """One stop of all threads for any reason; ``total_ms`` includes reaching it."""

    at: float
    unix: float | None
    jvm: int
    operation: str
    reaching_ms: float
    total_ms: float
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class GcCpu:
    """CPU of a pause's threads beside its wall time, seconds in the log's hundredths."""

    at: float
    unix: float | None
    jvm: int
    gc_id: int | None
    user: float
    system: float
    real: float


@dataclass(frozen=True, slots=True)
class Sign:
    """What a line tells besides pauses and cycles; ``value`` is its number or its words."""

    at: float
    unix: float | None
    jvm: int
    name: str  # "to-space exhausted", "humongous", "out of memory"; all in observe/gclog/patterns.py
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """A line about a pause that this parser does not know: every figure may be short of it."""

    number: int  # from 1
    text: str


@dataclass(slots=True)
class Jvm:
    """One JVM in the log: what it said of itself, and its uptime at its first and last line."""

    collector: str = ""  # "G1", "Serial", "Parallel", "Z", "Shenandoah", "CMS", a policy of OpenJ9
    version: str = ""
    first: float = 0.0
    last: float = 0.0
    first_unix: float | None = None
    last_unix: float | None = None
    heap_max: int | None = None  # bytes it may grow to
    ids: set[int] = field(default_factory=set)  # collections seen in any line
    begun: dict[int, int] = field(default_factory=dict)  # pauses that began and have not ended: id -> line


# Lists of a log; each event has ``jvm``.
EVENTS = ("pauses", "cycles", "phases", "cleanups", "stalls", "safepoints", "cpu", "signs")
MOST_SHOWN = 1000  # lines that are kept for each complaint


@dataclass(slots=True)
class GcLog:
    """All events of one log in the order of its lines; a log may lie in several files (rotation)."""

    pauses: list[Pause] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    cleanups: list[Cleanup] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    safepoints: list[Safepoint] = field(default_factory=list)
    cpu: list[GcCpu] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)
    unknown: list[UnknownLine] = field(default_factory=list)  # the first ``MOST_SHOWN`` of them
    damaged: list[UnknownLine] = field(default_factory=list)
    more_unknown: int = 0
    more_damaged: int = 0
    jvms: list[Jvm] = field(default_factory=list)
    lines: int = 0
    understood: int = 0  # lines that are the log's: with its fields, its records, its elements
    format: str = ""
    library: str = ""  # the format that the other reader knows better
    foreign: int = 0  # lines that are none of the log's: a program's own output
    truncated: bool = False  # the last line is cut
    timeless: bool = False  # lines have neither uptime nor wall clock
    alternating: bool = False  # several JVMs wrote line by line and cannot be told apart
    allocation_unknown: str = ""  # why no rate of allocation can be told
    notes: list[str] = field(default_factory=list)  # what was read otherwise than asked: rotated files, mixed lines

    def not_known(self, number: int, text: str) -> None:
        """A line about a pause that is not read; bounded, as a log may have nothing else."""
        if len(self.unknown) < MOST_SHOWN:
            self.unknown.append(UnknownLine(number, shown(text)))
        else:
            self.more_unknown += 1

    def not_whole(self, number: int, text: str) -> None:
        """A damaged line."""
        if len(self.damaged) < MOST_SHOWN:
            self.damaged.append(UnknownLine(number, shown(text)))
        else:
            self.more_damaged += 1

    @property
    def silent(self) -> str:
        """Why a log without a pause says nothing of pauses: that is never a zero. Empty where it has pauses."""
        if self.pauses:
            return ""
        if not self.lines and not self.jvms:
            return "the log is empty: that it has no pause says nothing of the JVM"
        if self.cycles and any(jvm.collector in ("Z", "") for jvm in self.jvms):
            return "this log has no pauses: `-Xlog:gc` of ZGC does not write them; use -Xlog:gc*"
        if any(jvm.collector == "Epsilon" for jvm in self.jvms):
            return "this log has no pauses: Epsilon does not collect"
        collections = sum(len(jvm.ids) for jvm in self.jvms)
        if self.cycles or collections:
            plural = _plural(max(collections, len(self.cycles)), "collection")
            return f"this log has {plural} and no line of a pause: what was logged leaves them out; use -Xlog:gc*"
        if self.unknown:
            return "this log has no pause that could be read"
        return "this log has no collection: it says nothing of pauses"

    def of(self, jvm: int) -> GcLog:
        """The events of one JVM, which is number 0 in the result. What belongs to no JVM is left out."""
        part = GcLog(jvms=[self.jvms[jvm]], timeless=self.timeless, format=self.format)
        part.allocation_unknown = self.allocation_unknown
        for name in EVENTS:
            setattr(part, name, [replace(event, jvm=0) for event in getattr(self, name) if event.jvm == jvm])
        return part

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that makes the figures less than those of the whole life of one JVM, in sentences."""
        warnings = list(self.notes)
        if self.silent:
            warnings.append(self.silent)
        if self.unknown:
            first, count = self.unknown[0], len(self.unknown) + self.more_unknown
            lines = "1 line about a pause is" if count == 1 else f"{count} lines about pauses are"
            warnings.append(
                f"{lines} not known, so every figure may be short of {'it' if count == 1 else 'them'}; the first is "
                f"line {first.number}: {first.text}"
            )
        if self.damaged:
            first, count = self.damaged[0], len(self.damaged) + self.more_damaged
            lines = "1 line is damaged and was" if count == 1 else f"{count} lines are damaged and were"
            warnings.append(f"{lines} left out; the first is line {first.number}: {first.text}")
        if self.alternating:
            warnings.append(
                "lines of several JVMs alternate and cannot be told apart: the pauses are those of all, and nothing "
                "that needs a time is told; log each to a file of its own, or with the decorators uptime and time"
            )
        elif len(self.jvms) > 1:
            warnings.append(f"{len(self.jvms)} JVMs wrote into this log; the first figures take them together")
        for number, jvm in enumerate(() if self.alternating else self.jvms):
            who = f"JVM {number + 1}: " if len(self.jvms) > 1 else ""
            warnings += [f"{who}{text}" for text in _gaps(jvm)]
        if self.timeless and not self.alternating and (self.pauses or self.cycles):
            warnings.append("the lines have no time: nothing that needs one is told")
        if self.truncated:
            warnings.append("the last line is cut")
        return tuple(warnings)


CANCELLED = "cancelled before it began"


def _gaps(jvm: Jvm) -> list[str]:
    """Collections that must have been and are not in the log: ids count up from 0 without a gap."""
    gaps = []
    if jvm.ids:
        low, high = min(jvm.ids), max(jvm.ids)
        if low:
            gaps.append(f"the log begins with collection {low}: the first {low} are not in it")
        missing = [[gc_id + 1, other - 1] for gc_id, other in pairwise(sorted(jvm.ids)) if other - gc_id > 1]
        if missing:
            count = sum(last - first + 1 for first, last in missing)
            # Shenandoah numbers a concurrent cycle before it looks whether an allocation has failed meanwhile.
            or_not = f", or {CANCELLED}" if jvm.collector.startswith("Shenandoah") else ""
            gaps.append(f"{_plural(count, 'collection')} missing in the middle{or_not}: {_written(missing)}")
        # The last collection of a JVM that was killed, or of a log still being written, is no gap.
        lost = sorted(number for number in jvm.begun if number < high)
        if lost:
            gaps.append(
                f"{_plural(len(lost), 'pause')} began and did not end in the log: collections {_written(_runs(lost))}"
            )
    return gaps


def shown(text: str) -> str:
    """A line that is shown: its beginning, without what a terminal would take for commands."""
    return "".join(mark if mark.isprintable() else "?" for mark in text.strip()[:160])


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _runs(numbers: list[int]) -> list[list[int]]:
    """First and last of each run of neighbours."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _written(runs: list[list[int]], most: int = 6) -> str:
    """``3, 7-9``; cut after ``most`` of them."""
    words = [f"{low}" if low == high else f"{low}-{high}" for low, high in runs[:most]]
    return ", ".join(words) + (", ..." if len(runs) > most else "")
