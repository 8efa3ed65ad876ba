"""Figures of a GC log, over all of it or a window."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from leadline.gcanalysis.events import GcLog, Pause
from leadline.gcanalysis.findings import Finding, View, findings
from leadline.gcanalysis.leak import Leak, leak
from leadline.gcanalysis.live import LivePoint, WorkingSet, live_points, working_set
from leadline.gcanalysis.rates import allocation, left_out, promotion
from leadline.gcanalysis.sizes import overhead

# Minimum mutator utilisation: the smallest share of any window that is left to the application.


WINDOWS_MS = (1.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10000.0, 60000.0)


@dataclass(frozen=True)
class Utilisation:
    """``share`` in 0..1 of the worst window of ``window_ms``; None when the log is shorter than the window."""

    window_ms: float
    share: float | None


def utilisation(
    stops: Iterable[tuple[float, float]], begin: float, end: float, windows_ms: Sequence[float] = WINDOWS_MS
) -> list[Utilisation]:
    """Of stops (begin, end) in seconds within ``begin`` to ``end`` (Cheng and Blelloch 2001).

    Exact: the worst window begins where a stop begins or ends where one ends. Stops that overlap by the resolution of
    the log's times are moved apart: the later one begins when the one before ends.
    """
    merged: list[tuple[float, float]] = []
    for start, stop in sorted(stops):
        start = max(start, begin, merged[-1][1] if merged else begin)
        stop = min(stop, end)
        if stop > start:
            merged.append((start, stop))
    starts, stops_at = np.array([stop[0] for stop in merged]), np.array([stop[1] for stop in merged])
    lengths = stops_at - starts
    # Time stopped since the beginning, at each edge; linear between.
    edges = np.ravel(np.column_stack((starts, stops_at)))
    total = np.ravel(np.column_stack((np.cumsum(lengths) - lengths, np.cumsum(lengths))))
    shares = []
    for window_ms in windows_ms:
        window = window_ms / 1e3
        if window > end - begin or window <= 0:
            shares.append(Utilisation(window_ms, None))
            continue
        if not merged:
            shares.append(Utilisation(window_ms, 1.0))
            continue
        at = np.clip(np.concatenate((starts, stops_at - window)), begin, end - window)
        stopped = np.interp(at + window, edges, total) - np.interp(at, edges, total)
        shares.append(Utilisation(window_ms, float(np.clip(1 - stopped.max() / window, 0.0, 1.0))))
    return shares


PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_NOT_ONE_JVM = "the log is of several JVMs: see each of them"
_NO_HEAP = "no collection tells of the heap"


_GROWN = 0.8  # of its maximum: a heap that has this much committed is not limited by what is committed


@dataclass(frozen=True)
class Durations:
    """Milliseconds. Percentiles are observed values (nearest rank), keyed "p50" to "p99.9"; empty without values."""

    count: int
    sum_ms: float
    max_ms: float
    mean_ms: float
    percentiles: Mapping[str, float]


@dataclass(frozen=True)
class Intervals:
    """Seconds from the end of a pause to the beginning of the next one."""

    count: int
    mean_s: float
    least_s: float
    most_s: float
    median_s: float


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
    ``allocation_rate`` and ``promotion_rate`` in bytes/s (leadline.gcanalysis.rates). ``heap_max`` in bytes.
    ``starved`` counts pauses of 20 ms or more whose CPU time is below their wall time: the collector's threads had to
    wait for a CPU (or for memory that was swapped out).
    ``reasons`` says of each figure that is None why it is, by the figure's name; ``pauses`` among them where the log
    says nothing of pauses, whose zeros then stand for nothing. ``format`` is what the log was read as, ``understood``
    the share of its lines that are of it (None for one JVM of several).
    """

    format: str
    understood: float | None
    collector: str
    version: str
    span_s: float
    pauses: Durations
    by_kind: Mapping[str, Durations]
    by_cause: Mapping[str, Durations]
    intervals: Intervals | None
    interval_s: float | None
    share: float | None
    share_cycle: float | None
    share_interval: float | None
    mmu: Sequence[Utilisation]
    full: int
    degenerated: int
    cycles: Mapping[str, int]
    stalls: Durations
    stalls_by_kind: Mapping[str, Durations]
    safepoints: Durations
    heap_max: int | None
    heap_after: HeapAfter | None
    working_set: WorkingSet | None
    leak: Leak
    allocation_rate: float | None
    allocation_leaves_out: str
    promotion_rate: float | None
    cpu_s: float | None
    starved: int
    unknown: tuple[str, ...]
    truncated: bool
    jvms: int
    warnings: tuple[str, ...]
    reasons: Mapping[str, str]
    findings: tuple[Finding, ...] = ()  # of the whole log, not of a window


class _Timed(Protocol):
    @property
    def jvm(self) -> int: ...
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
    span = 0.0 if log.timeless else window[1] - window[0] if window else sum(jvm.last - jvm.first for jvm in log.jvms)
    total = _overlap(log.pauses, window, clock) if window else sum(pause.ms for pause in pauses) / 1e3
    intervals = None if log.timeless else _intervals(pauses)
    mean = math.fsum(pause.ms for pause in pauses) / len(pauses) / 1e3 if pauses else 0.0
    shares = overhead(intervals.mean_s, mean) if intervals else None
    cpu = [times for times in log.cpu if inside(times)]
    collectors = dict.fromkeys(jvm.collector for jvm in log.jvms if jvm.collector)
    versions = dict.fromkeys(jvm.version for jvm in log.jvms if jvm.version)
    cycles: defaultdict[str, int] = defaultdict(int)
    for cycle in log.cycles:
        if inside(cycle):
            cycles[cycle.kind] += 1
    heap_max = log.jvms[0].heap_max if len(log.jvms) == 1 else None
    heap_after = _heap_after(log, inside)
    working, grown = _growth(log, inside, heap_max)
    allocated, promoted = allocation(log, inside), promotion(log, inside, span)
    reasons = {
        **_unknown_pauses(log, span, intervals),
        **_unknown_memory(log, heap_max, heap_after, working),
        "allocation_rate": allocated.reason,
        "promotion_rate": promoted.reason,
        "cpu_s": "" if cpu else "no line tells the CPU time of a pause (log gc*, not only gc)",
    }
    return GcSummary(
        format=log.format,
        understood=log.understood / log.lines if log.lines else None,
        collector=", ".join(collectors),
        version=", ".join(versions),
        span_s=span,
        pauses=durations(pause.ms for pause in pauses),
        by_kind=_grouped((pause.kind, pause.ms) for pause in pauses),
        by_cause=_grouped((pause.cause, pause.ms) for pause in pauses if pause.cause),
        intervals=intervals,
        interval_s=intervals.mean_s if intervals else None,
        share=min(1.0, total / span) if span > 0 and not log.silent else None,
        share_cycle=shares.of_cycle if shares else None,
        share_interval=shares.of_interval if shares else None,
        mmu=() if log.timeless or log.silent else _utilisation(log, window, clock),
        full=sum(pause.name == "Full" for pause in pauses),
        degenerated=sum(pause.name == "Degenerated GC" for pause in pauses),
        cycles=dict(cycles),
        stalls=durations(stall.ms for stall in stalls),
        stalls_by_kind=_grouped((stall.kind, stall.ms) for stall in stalls),
        safepoints=durations(safepoint.total_ms for safepoint in log.safepoints if inside(safepoint)),
        heap_max=heap_max,
        heap_after=heap_after,
        working_set=working,
        leak=grown,
        allocation_rate=allocated.rate,
        allocation_leaves_out=left_out(log, allocated, span),
        promotion_rate=promoted.rate,
        cpu_s=sum(times.user + times.system for times in cpu) if cpu else None,
        starved=sum(times.real >= 0.02 and times.user + times.system < times.real - 0.005 for times in cpu),
        unknown=tuple(f"{line.number}: {line.text}" for line in log.unknown),
        truncated=log.truncated,
        jvms=len(log.jvms),
        warnings=log.warnings,
        reasons={name: why for name, why in reasons.items() if why},
        findings=tuple(_findings(log)) if window is None else (),
    )


def _findings(log: GcLog) -> Iterator[Finding]:
    """Of each JVM of the log."""
    for number in range(0 if log.alternating else len(log.jvms)):
        part = log if len(log.jvms) == 1 else log.of(number)
        jvm = part.jvms[0]
        view = _view(part, *live_points(part), jvm.heap_max)
        allocated, promoted = allocation(part, lambda _: True), promotion(part, lambda _: True, jvm.last - jvm.first)
        for finding in findings(replace(view, allocation=allocated.rate, promotion=promoted.rate)):
            yield replace(finding, jvm=number)


def _growth(log: GcLog, inside: Callable[[_Timed], bool], heap_max: int | None) -> tuple[WorkingSet | None, Leak]:
    """The working set and whether it grows; neither of several JVMs."""
    points, basis = live_points(log)
    points = [point for point in points if inside(point)]
    if len(log.jvms) != 1 or log.alternating:
        single = working_set(log, points, basis) if len(log.jvms) == 1 else None
        return single, Leak("undetermined", f"no leak test: {_NOT_ONE_JVM}", 0, basis)
    return working_set(log, points, basis), _view(log, points, basis, heap_max).leak


def _view(log: GcLog, points: Sequence[LivePoint], basis: str, heap_max: int | None) -> View:
    """Of one JVM. Where collections gave nothing back the heap was full, however much of it marking found live."""
    limit = _limit(log, heap_max)
    view = View(log, leak(points, basis, limit), points, limit)
    if view.leak.verdict in ("leak", "full") or not view.exhausted:
        return view
    sentence = (
        f"the heap was full from {view.exhausted[0].at:.1f} s on: {len(view.exhausted)} collections gave nothing back"
    )
    return replace(view, leak=Leak("full", sentence, len(points), basis, full_in_s=0.0))


def _unknown_pauses(log: GcLog, span: float, intervals: Intervals | None) -> dict[str, str]:
    """Why a figure of pauses is not known; empty where it is."""
    silent, no_time = log.silent, "the lines have no time" if log.timeless else ""
    no_intervals = "" if intervals else silent or no_time or "fewer than two pauses"
    return {
        "pauses": silent,
        **dict.fromkeys(("intervals", "interval_s", "share_cycle", "share_interval"), no_intervals),
        "share": silent or ("" if span > 0 else no_time or "the log has no length"),
        "mmu": silent or no_time,
    }


def _unknown_memory(log: GcLog, heap_max: int | None, heap_after: object, working: WorkingSet | None) -> dict[str, str]:
    """Why a figure of the heap is not known; empty where it is."""
    several = "" if len(log.jvms) == 1 else _NOT_ONE_JVM
    return {
        "heap_max": "" if heap_max else several or "the log does not say",
        "heap_after": "" if heap_after else _NO_HEAP,
        "working_set": "" if working else several or _NO_HEAP,
    }


def durations(values: Iterable[float]) -> Durations:
    """Of values in ms; all 0 when there is none."""
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return Durations(0, 0.0, 0.0, 0.0, {})
    ranks = {f"p{q:g}": ordered[max(1, math.ceil(q * count / 100 - 1e-9)) - 1] for q in PERCENTILES}
    total = math.fsum(ordered)
    return Durations(count, total, ordered[-1], total / count, ranks)


def _intervals(pauses: Sequence[Pause]) -> Intervals | None:
    gaps: list[float] = []
    for jvm in {pause.jvm for pause in pauses}:
        of = [pause for pause in pauses if pause.jvm == jvm]
        gaps += [max(0.0, now.begin - was.at) for was, now in pairwise(of)]
    if not gaps:
        return None
    gaps.sort()
    return Intervals(len(gaps), math.fsum(gaps) / len(gaps), gaps[0], gaps[-1], gaps[(len(gaps) - 1) // 2])


def _utilisation(log: GcLog, window: tuple[float, float] | None, clock: str) -> list[Utilisation]:
    """Of several JVMs the worst of each window's size."""
    unix = window is not None and clock == "unix"
    utilisations: list[list[Utilisation]] = []
    for number, jvm in enumerate(log.jvms):
        stops = []
        for pause in log.pauses:
            end = pause.unix if unix else pause.at
            if pause.jvm == number and end is not None:
                stops.append((end - pause.ms / 1e3, end))
        begin, end = window or (jvm.first, jvm.last)
        utilisations.append(utilisation(stops, begin, end))
    worst = []
    for same in zip(*utilisations, strict=True):
        shares = [utilisation_.share for utilisation_ in same if utilisation_.share is not None]
        worst.append(Utilisation(same[0].window_ms, min(shares) if shares else None))
    return worst


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


def _limit(log: GcLog, heap_max: int | None) -> int | None:
    """Bytes that can be in use at once: what is committed when the heap has grown to its end, where a survivor space of
    Serial and Parallel is left out. Without ``heap_max`` that is when it grows no more from the middle of the log on.
    """
    totals = [(pause.name, pause.heap.total) for pause in log.pauses if pause.heap and pause.heap.total]
    sizes = [total for name, total in totals if name == "Full"] or [total for _, total in totals]
    if not sizes:
        return heap_max
    if heap_max:
        return max(sizes) if _GROWN * heap_max <= max(sizes) < heap_max else heap_max
    late = sizes[len(sizes) // 2 :]
    return max(sizes) if min(late) == max(sizes) else None


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
