"""Figures of a collector log, over all of it or a window."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from leadline.observe.gclog.events import GcLog, Pause

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True)
class Durations:
    """Milliseconds. Percentiles are observed values (nearest rank), keyed "p50" to "p99.9"; empty without values."""

    count: int
    sum_ms: float
    max_ms: float
    mean_ms: float
    percentiles: Mapping[str, float]


@dataclass(frozen=True)
class HeapAfter:
    """Bytes in use after collections: pauses and, for concurrent collectors, whole cycles."""

    count: int
    first: int
    last: int
    least: int
    most: int
    mean: float


@dataclass(frozen=True)
class GcSummary:
    """``interval_s`` is the mean time from the end of a pause to the beginning of the next; None under two pauses.

    The three shares of time in collection: ``share`` is the pauses' part of the whole window; ``share_cycle`` =
    pause / (interval + pause) and ``share_interval`` = pause / interval, with mean pause and mean interval.
    ``allocation_rate`` (bytes/s) is heap growth between collections; None for collectors whose collections run
    beside the application, as their logs do not tell growth from what is freed meanwhile.
    ``starved`` counts pauses of 20 ms or more whose CPU time is below their wall time: the collector's threads had to
    wait for a CPU (or for memory that was swapped out).
    """

    collector: str
    version: str
    span_s: float
    pauses: Durations
    by_kind: Mapping[str, Durations]
    by_cause: Mapping[str, Durations]
    interval_s: float | None
    share: float | None
    share_cycle: float | None
    share_interval: float | None
    full: int
    degenerated: int
    cycles: Mapping[str, int]
    stalls: Durations
    stalls_by_kind: Mapping[str, Durations]
    safepoints: Durations
    heap_after: HeapAfter | None
    allocation_rate: float | None
    cpu_s: float | None
    starved: int
    unknown: tuple[str, ...]
    truncated: bool
    jvms: int
    warnings: tuple[str, ...]


class _Timed(Protocol):
    @property
    def at(self) -> float: ...
    @property
    def unix(self) -> float | None: ...


def summary(log: GcLog, window: tuple[float, float] | None = None, clock: str = "unix") -> GcSummary:
    """Of the events that ended in ``window`` (from, until), in unix seconds or, with ``clock="uptime"``, uptime.

    ``share`` counts a pause that straddles an end of the window in part. Raises ValueError for a window that ends
    before it begins, and for unix seconds when the log has no wall-clock times.
    """
    inside = _filter(log, window, clock)
    pauses = [pause for pause in log.pauses if inside(pause)]
    stalls = [stall for stall in log.stalls if inside(stall)]
    span = window[1] - window[0] if window else sum(jvm.last - jvm.first for jvm in log.jvms)
    total = _overlap(log.pauses, window, clock) if window else sum(pause.ms for pause in pauses) / 1e3
    gaps = [max(0.0, now.begin - was.at) for was, now in pairwise(pauses) if was.jvm == now.jvm]
    interval = sum(gaps) / len(gaps) if gaps else None
    mean = total_of(pauses) / len(pauses) / 1e3 if pauses else 0.0
    cpu = [one for one in log.cpu if inside(one)]
    collectors = dict.fromkeys(jvm.collector for jvm in log.jvms if jvm.collector)
    versions = dict.fromkeys(jvm.version for jvm in log.jvms if jvm.version)
    cycles: defaultdict[str, int] = defaultdict(int)
    for cycle in log.cycles:
        if inside(cycle):
            cycles[cycle.kind] += 1
    return GcSummary(
        collector=", ".join(collectors),
        version=", ".join(versions),
        span_s=span,
        pauses=durations(pause.ms for pause in pauses),
        by_kind=_grouped((pause.kind, pause.ms) for pause in pauses),
        by_cause=_grouped((pause.cause, pause.ms) for pause in pauses if pause.cause),
        interval_s=interval,
        share=total / span if span > 0 else None,
        share_cycle=mean / (interval + mean) if interval is not None and interval + mean > 0 else None,
        share_interval=mean / interval if interval else None,
        full=sum(pause.name == "Full" for pause in pauses),
        degenerated=sum(pause.name == "Degenerated GC" for pause in pauses),
        cycles=dict(cycles),
        stalls=durations(stall.ms for stall in stalls),
        stalls_by_kind=_grouped((stall.kind, stall.ms) for stall in stalls),
        safepoints=durations(one.total_ms for one in log.safepoints if inside(one)),
        heap_after=_heap_after(log, inside),
        allocation_rate=_allocation_rate(pauses) if set(collectors) <= {"Serial", "Parallel", "G1"} else None,
        cpu_s=sum(one.user + one.system for one in cpu) if cpu else None,
        starved=sum(one.real >= 0.02 and one.user + one.system < one.real - 0.005 for one in cpu),
        unknown=tuple(f"{line.number}: {line.text}" for line in log.unknown),
        truncated=log.truncated,
        jvms=len(log.jvms),
        warnings=log.warnings,
    )


def durations(values: Iterable[float]) -> Durations:
    """Of values in ms; all 0 when there is none."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return Durations(0, 0.0, 0.0, 0.0, {})
    ranks = {f"p{q:g}": ordered[max(1, math.ceil(q * count / 100 - 1e-9)) - 1] for q in PERCENTILES}
    total = math.fsum(ordered)
    return Durations(count, total, ordered[-1], total / count, ranks)


def total_of(pauses: Sequence[Pause]) -> float:
    """Milliseconds."""
    return math.fsum(pause.ms for pause in pauses)


def allocations(pauses: Sequence[Pause]) -> list[tuple[Pause, float, float]]:
    """For each pause after the first one with heap figures: bytes the heap grew by since, and seconds.

    A pause before which the heap shrank (G1 frees regions beside the application) is left out.
    """
    known = [(pause, pause.heap) for pause in pauses if pause.heap]
    grown: list[tuple[Pause, float, float]] = []
    for (was, was_heap), (now, now_heap) in pairwise(known):
        seconds = now.begin - was.at
        if was.jvm == now.jvm and seconds > 0 and now_heap.before >= was_heap.after:
            grown.append((now, float(now_heap.before - was_heap.after), seconds))
    return grown


def _allocation_rate(pauses: Sequence[Pause]) -> float | None:
    grown = allocations(pauses)
    seconds = sum(item[2] for item in grown)
    return sum(item[1] for item in grown) / seconds if seconds > 0 else None


def _grouped(pairs: Iterable[tuple[str, float]]) -> dict[str, Durations]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for name, ms in pairs:
        values[name].append(ms)
    by_total = sorted(values, key=lambda name: -sum(values[name]))
    return {name: durations(values[name]) for name in by_total}


def _heap_after(log: GcLog, inside: Callable[[_Timed], bool]) -> HeapAfter | None:
    # Remark and Cleanup of G1 free little; what is live shows after the collections themselves.
    ends = [
        (e.jvm, e.at, e.heap.after) for e in log.pauses if e.heap and e.name not in ("Remark", "Cleanup") and inside(e)
    ]
    ends += [(e.jvm, e.at, e.heap.after) for e in log.cycles if e.heap and inside(e)]
    if not ends:
        return None
    after = [item[2] for item in sorted(ends)]
    return HeapAfter(len(after), after[0], after[-1], min(after), max(after), sum(after) / len(after))


def _filter(log: GcLog, window: tuple[float, float] | None, clock: str) -> Callable[[_Timed], bool]:
    if window is None:
        return lambda _event: True
    begin, end = window
    if end <= begin:
        raise ValueError(f"the window ends ({end}) before it begins ({begin})")
    if clock == "uptime":
        return lambda event: begin < event.at <= end
    if clock != "unix":
        raise ValueError(f"the clock is unix or uptime, not {clock}")
    if any(jvm.first_unix is None for jvm in log.jvms):
        raise ValueError("the log has no wall-clock times (decorator time): give the window in uptime")
    return lambda event: event.unix is not None and begin < event.unix <= end


def _overlap(pauses: Sequence[Pause], window: tuple[float, float], clock: str) -> float:
    seconds = 0.0
    for pause in pauses:
        end = pause.at if clock == "uptime" else pause.unix
        if end is not None:
            seconds += max(0.0, min(end, window[1]) - max(end - pause.ms / 1e3, window[0]))
    return seconds
