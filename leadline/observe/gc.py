"""Observer "gc": the JVM's own GC log, read after the trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.observe.base import ObserverContext
from leadline.observe.table import TallTable

if TYPE_CHECKING:
    from leadline.gcanalysis.events import Events, GcLog

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


_LATEST = 9e9  # unix seconds, as nanoseconds hold them


def tabulate(log: GcLog, ended: float | None) -> TallTable:
    """All series. ``ended`` (unix seconds) stands for the last line's time where the log has no wall clock; None: all
    times are the JVM's uptime.
    """
    import numpy as np

    table, jvms = TallTable(), log.jvms
    last = np.array([jvm.last for jvm in jvms])

    def add(metric: str, events: Events[Any], name: str, subject: str = "", earlier: Any = 0.0) -> None:
        """The column ``name`` without what is not known; ``subject``: a column of texts, or else a word."""
        at, unix = events["at"], events["unix"]
        if ended is not None and len(at):
            at = np.where(np.isnan(unix), ended - (last[events["jvm"]] - at), unix)
        known = (events[name] >= 0) if name in ("before", "after", "total") else ~np.isnan(events[name])
        known &= np.abs(at - earlier) < _LATEST  # never of a time that is not known
        times = np.rint(((at - earlier) * 1e9)[known]).astype(np.int64).tolist()
        own = events.where(known)
        subjects = own.texts(subject) if subject in ("kind", "operation") else [subject] * len(own)
        table.extend(times, metric, subjects, own[name].astype(float).tolist())

    add("gc.pause", log.pauses, "ms", "kind")
    add("gc.cycle", log.cycles, "ms", "kind")
    for events in (log.pauses, log.cycles):
        add("heap.before", events, "before", "heap", np.nan_to_num(events["ms"]) / 1e3)
        add("heap.after", events, "after", "heap")
        add("heap.total", events, "total", "heap")
    add("gc.stall", log.stalls, "ms", "kind")
    add("gc.cpu", log.cpu, "user", "user")
    add("gc.cpu", log.cpu, "system", "system")
    add("gc.phase", log.phases, "ms", "kind")
    add("safepoint", log.safepoints, "total_ms", "operation")
    for number, jvm in enumerate(jvms):
        limit = float(jvm.heap_max or 0)
        ends = [("heap.limit", jvm.first, jvm.first_unix, limit), ("heap.limit", jvm.last, jvm.last_unix, limit)]
        for name, at, unix, value in chain(_rates(log, number), ends if jvm.heap_max else ()):
            time = at if ended is None else ended - (jvm.last - at) if unix is None or unix != unix else unix
            table.add(round(time * 1e9), name, "heap", value)
    return table


def _rates(log: GcLog, jvm: int) -> Iterator[tuple[str, float, float | None, float]]:
    """Metric, uptime, unix seconds and bytes/s over ``_RATE_OVER`` or longer."""
    from leadline.gcanalysis.summary import allocations

    size = seconds = 0.0
    steps = (
        ()
        if log.allocation_unknown or log.timeless
        else zip(*(part.tolist() for part in allocations(log, jvm)), strict=True)
    )
    for at, unix, grown, passed in steps:
        size, seconds = size + grown, seconds + passed
        if seconds >= _RATE_OVER:
            yield "gc.allocation_rate", at, unix, size / seconds
            size = seconds = 0.0
    size, was = 0.0, log.jvms[jvm].first
    promoted = [events.where((events["jvm"] == jvm) & (events["promoted"] >= 0)) for events in (log.pauses, log.cycles)]
    for events in promoted:
        for at, unix, grown in zip(*(events[name].tolist() for name in ("at", "unix", "promoted")), strict=True):
            size += grown
            if at - was >= _RATE_OVER:
                yield "gc.promotion_rate", at, unix, size / (at - was)
                size, was = 0.0, at
