"""What a collector log says, as values.

``at`` is the JVM's uptime in seconds when the line was written (the end of what it tells of), ``unix`` the same in
unix seconds where the log has wall-clock times, ``jvm`` counts the JVMs that wrote into one file. Both times have the
log's own resolution, a millisecond by default; durations are exact to what the JVM printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class Stall:
    """A thread that had to wait for the collector outside of a pause (ZGC)."""

    at: float
    unix: float | None
    jvm: int
    kind: str  # "Allocation Stall", "Relocation Stall"
    thread: str
    ms: float


@dataclass(frozen=True, slots=True)
class Safepoint:
    """One stop of all threads for any reason; ``total_ms`` includes reaching it."""

    at: float
    unix: float | None
    jvm: int
    operation: str
    reaching_ms: float
    total_ms: float


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
class UnknownLine:
    """A line about a pause that this parser does not know: every figure may be short of it."""

    number: int  # from 1
    text: str


@dataclass(slots=True)
class Jvm:
    """One JVM in the file: what it said of itself, and its uptime at its first and last line."""

    collector: str = ""  # "G1", "Serial", "Parallel", "Z", "Shenandoah"
    version: str = ""
    first: float = 0.0
    last: float = 0.0
    first_unix: float | None = None
    last_unix: float | None = None


@dataclass(slots=True)
class GcLog:
    """All events of one file in the order of its lines."""

    pauses: list[Pause] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    safepoints: list[Safepoint] = field(default_factory=list)
    cpu: list[GcCpu] = field(default_factory=list)
    unknown: list[UnknownLine] = field(default_factory=list)
    jvms: list[Jvm] = field(default_factory=list)
    lines: int = 0
    truncated: bool = False  # the last line is cut

    @property
    def warnings(self) -> tuple[str, ...]:
        found: list[str] = []
        if self.unknown:
            first = self.unknown[0]
            count = len(self.unknown)
            found.append(f"{count} lines about pauses are not known, the first is line {first.number}: {first.text}")
        if len(self.jvms) > 1:
            found.append(f"{len(self.jvms)} JVMs wrote into this file; their figures are taken together")
        if self.truncated:
            found.append("the last line is cut")
        return tuple(found)
