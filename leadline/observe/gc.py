"""Observer "gc": the JVM's own GC log, read after the trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.observe.base import ObserverContext
from leadline.observe.table import TallTable

if TYPE_CHECKING:
    from leadline.gcanalysis.events import Cycle, GcLog, Pause

# What the JVM has to be started with; the rotation that is on by default would lose the log's beginning.
OPTION = "-Xlog:gc*,safepoint:file={file}:uptime,time,level,tags:filecount=0"

UNITS: Mapping[str, str] = {
    "gc.pause": "ms, at its end; the subject is the pause's kind",
    "gc.cycle": "ms of a collection beside the application, at its end",
    "gc.stall": "ms that a thread waited for memory, at the end",
    "gc.cpu": "s of CPU of a pause's threads",
    "gc.phase": "ms of a part of a collection beside the application, at its end",
    "gc.allocation_rate": "bytes/s since the collection before, over a tenth of a second at least",
    "gc.promotion_rate": "bytes/s to the old generation since the collection before",
    "heap.before": "bytes in use when a collection began",
    "heap.after": "bytes in use when it ended",
    "heap.total": "bytes committed when it ended",
    "heap.limit": "bytes to which it may grow",
    "safepoint": "ms from the request of a safepoint to its end; the subject is the operation",
}

_RATE_OVER = 0.1  # s: the log's times are whole milliseconds, and collections may follow each other within one


class GcObserver:
    """Reads ``raw/gc.log``, which the server's JVM writes when it is started with ``OPTION``."""

    name = "gc"

    def __init__(self) -> None:
        self._directory: Path | None = None
        self.warnings: list[str] = []

    def start(self, context: ObserverContext) -> None:
        self._directory = context.directory
        self.warnings.clear()

    def stop(self) -> None:
        pass  # the JVM ends its log itself

    def collect(self) -> Path | None:
        return self.collect_from(self._directory) if self._directory else None

    def collect_from(self, directory: Path) -> Path | None:
        """``collect`` for a trial's directory that another, ended process has recorded.

        A log without a collection still gives its table (of safepoints); None without a log or with an empty one.
        """
        raw = directory / "raw" / "gc.log"
        if not raw.exists():
            return None
        from leadline.observe.gclog.files import parse  # its libraries are not where a host only records

        log = parse(raw)
        warnings = [f"gc: {text}" for text in log.warnings]
        self.warnings.extend(text for text in warnings if text not in self.warnings)
        return tabulate(log, raw.stat().st_mtime).write(directory / "series" / "gc.parquet")


def tabulate(log: GcLog, ended: float | None) -> TallTable:
    """All series. ``ended`` (unix seconds) stands for the last line's time where the log has no wall clock; None: all
    times are the JVM's uptime.
    """
    table = TallTable()

    def ns(jvm: int, at: float, unix: float | None, earlier: float = 0.0) -> int:
        end = at if ended is None else unix if unix is not None else ended - (log.jvms[jvm].last - at)
        return round((end - earlier) * 1e9)

    for pause in log.pauses:
        when = ns(pause.jvm, pause.at, pause.unix)
        table.add(when, "gc.pause", pause.kind, pause.ms)
        if pause.heap:
            table.add(ns(pause.jvm, pause.at, pause.unix, pause.ms / 1e3), "heap.before", "heap", pause.heap.before)
            table.add(when, "heap.after", "heap", pause.heap.after)
            if pause.heap.total is not None:
                table.add(when, "heap.total", "heap", pause.heap.total)
    for cycle in log.cycles:
        when = ns(cycle.jvm, cycle.at, cycle.unix)
        if cycle.ms is not None:
            table.add(when, "gc.cycle", cycle.kind, cycle.ms)
        if cycle.heap:
            begin = ns(cycle.jvm, cycle.at, cycle.unix, (cycle.ms or 0.0) / 1e3)
            table.add(begin, "heap.before", "heap", cycle.heap.before)
            table.add(when, "heap.after", "heap", cycle.heap.after)
            if cycle.heap.total is not None:
                table.add(when, "heap.total", "heap", cycle.heap.total)
    for stall in log.stalls:
        table.add(ns(stall.jvm, stall.at, stall.unix), "gc.stall", stall.kind, stall.ms)
    for cpu in log.cpu:
        when = ns(cpu.jvm, cpu.at, cpu.unix)
        table.add(when, "gc.cpu", "user", cpu.user)
        table.add(when, "gc.cpu", "system", cpu.system)
    for phase in log.phases:
        table.add(ns(phase.jvm, phase.at, phase.unix), "gc.phase", phase.kind, phase.ms)
    for number, jvm in enumerate(log.jvms):
        for name, at, unix, rate in _rates(log, number):
            table.add(ns(number, at, unix), name, "heap", rate)
        for at, unix in ((jvm.first, jvm.first_unix), (jvm.last, jvm.last_unix)) if jvm.heap_max else ():
            table.add(ns(number, at, unix), "heap.limit", "heap", jvm.heap_max or 0)
    for point in log.safepoints:
        table.add(ns(point.jvm, point.at, point.unix), "safepoint", point.operation, point.total_ms)
    return table


def _rates(log: GcLog, jvm: int) -> Iterator[tuple[str, float, float | None, float]]:
    """Metric, uptime, unix seconds and bytes/s over ``_RATE_OVER`` or longer."""
    from leadline.gcanalysis.rates import allocations

    size = seconds = 0.0
    for step in () if log.allocation_unknown or log.timeless else allocations(log, jvm):
        size, seconds = size + step.size, seconds + step.seconds
        if seconds >= _RATE_OVER:
            yield "gc.allocation_rate", step.at, step.unix, size / seconds
            size = seconds = 0.0
    size, was = 0.0, log.jvms[jvm].first
    events: list[Pause | Cycle] = [*log.pauses, *log.cycles]
    for event in events:
        if event.jvm != jvm or event.promoted is None:
            continue
        size += event.promoted
        if event.at - was >= _RATE_OVER:
            yield "gc.promotion_rate", event.at, event.unix, size / (event.at - was)
            size, was = 0.0, event.at
