"""Figures of a GC log, over all of it or a window; bytes a second allocated and promoted among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from leadline.gcanalysis.events import Cleanup, Column, Cycle, Events, GcLog, Mask, Pause
from leadline.gcanalysis.findings import Finding, View, findings
from leadline.gcanalysis.live import (
    Leak,
    LivePoint,
    WorkingSet,
    after_collections,
    leak,
    live_points,
    overhead,
    working_set,
)


@dataclass(frozen=True)
class Rate:
    """``rate`` in bytes/s of ``size`` bytes, or None with the ``reason``."""

    rate: float | None
    reason: str = ""
    size: float = 0.0
    seconds: float = 0.0  # in which the application allocated it: without pauses


class Steps(NamedTuple):
    """Bytes that the application allocated in the ``seconds`` up to ``at`` (uptime), when ``unix`` was it or NaN."""

    at: Column
    unix: Column
    size: Column
    seconds: Column

    def where(self, rows: Mask) -> Steps:
        return Steps(*(column[rows] for column in self))


def allocations(log: GcLog, jvm: int) -> Steps:
    """Of one JVM, from one collection to the next: the heap grows while only the application adds to it; of ZGC it is
    growth with what was freed meanwhile.
    """
    pauses = log.pauses.where((log.pauses["jvm"] == jvm) & (log.pauses["before"] >= 0))
    if log.jvms[jvm].collector == "Z":
        return _by_reclaimed(log.cycles.where(log.cycles["jvm"] == jvm))
    if log.jvms[jvm].collector == "Shenandoah":
        return _by_cleanups(pauses, log.cleanups.where(log.cleanups["jvm"] == jvm))
    return _by_pauses(pauses)


def _by_pauses(pauses: Events[Pause]) -> Steps:
    """A pause before which the heap shrank (G1 frees regions beside the application) is left out."""
    begin, unix = pauses.begin, pauses["unix"] - pauses["ms"] / 1e3
    steps = Steps(begin[1:], unix[1:], pauses["before"][1:] - pauses["after"][:-1], begin[1:] - pauses["at"][:-1])
    return steps.where((steps.seconds > 0) & (steps.size >= 0))


def allocation(log: GcLog) -> Rate:
    """The ``allocations`` of all JVMs of the log together."""
    steps = [allocations(log, number) for number in range(len(log.jvms))]
    grown, seconds = (float(sum(getattr(step, name).sum() for step in steps)) for name in ("size", "seconds"))
    if log.timeless or log.allocation_unknown:
        return Rate(None, log.allocation_unknown or "the lines have no time")
    if seconds <= 0:
        return Rate(None, "fewer than two collections tell how full the heap was")
    return Rate(grown / seconds, size=grown, seconds=seconds)


def left_out(log: GcLog, found: Rate, span: float) -> str:
    """What an allocation rate does not see, in words; empty without a rate."""
    if found.rate is None:
        return ""
    who = {jvm.collector for jvm in log.jvms}
    rest = "pauses, " if who != {"Z"} else ""
    copying = ", the time in which Shenandoah copies" if "Shenandoah" in who else ""
    ends = f"before the first and after the last collection{copying}"
    return f"over {found.seconds:.1f} of {span:.1f} s; left out: {rest}{ends}"


def _by_reclaimed(cycles: Events[Cycle]) -> Steps:
    """ZGC collects beside the application: from the beginning of one collection to that of the next."""
    known = cycles.where((cycles["before"] >= 0) & (cycles["reclaimed"] >= 0))
    known = known.where(np.argsort(known["at"] - np.nan_to_num(known["ms"]) / 1e3, kind="stable"))
    took = np.nan_to_num(known["ms"]) / 1e3
    begin, unix, before = known["at"] - took, known["unix"] - took, known["before"]
    return Steps(begin[1:], unix[1:], np.diff(before) + known["reclaimed"][:-1], np.diff(begin))


def _by_cleanups(pauses: Events[Pause], cleanups: Events[Cleanup]) -> Steps:
    """Shenandoah: from the end of one collection to the end of the next one's marking, before it makes copies."""

    def both(name: str) -> Column:
        return np.concatenate((cleanups[name], pauses[name]))

    at, begin = both("at"), np.concatenate((cleanups["at"], pauses.begin))
    copied = np.concatenate((cleanups["copied"], np.zeros(len(pauses), np.int64)))
    columns = at, both("unix"), begin, both("before"), both("after"), np.maximum(0, both("gc_id")), copied
    order = np.argsort(at, kind="stable")
    at, unix, begin, before, after, gc_id, copied = (column[order] for column in columns)
    steps = Steps(at[1:], unix[1:], before[1:] - after[:-1], begin[1:] - at[:-1])
    # A degenerated collection goes on with the copies of the one that it takes over from.
    own = (copied[1:] == 0) & (gc_id[1:] != gc_id[:-1])
    return steps.where(own & (steps.seconds > 0) & (steps.size >= 0))


def promotion(log: GcLog, seconds: float) -> Rate:
    """Growth of the old generation in young collections over ``seconds`` of log; mixed collections are left out."""
    if log.timeless or seconds <= 0:
        return Rate(None, "the lines have no time" if log.timeless else "the log has no length")
    known = [events["promoted"][events["promoted"] >= 0] for events in (log.pauses, log.cycles)]
    if any(map(len, known)):
        size = float(sum(column.sum() for column in known))
        return Rate(size / seconds, size=size)
    if any(jvm.collector == "Shenandoah" for jvm in log.jvms):
        return Rate(None, "Shenandoah's log does not tell what was promoted")
    if any(jvm.collector == "Z" for jvm in log.jvms) and not any("Minor" in kind for kind in log.cycles.groups("kind")):
        return Rate(None, "ZGC in one generation promotes nothing")
    return Rate(None, "no young collection tells of the old generation (log gc*, not only gc)")


# Minimum mutator utilisation: the smallest share of any window that is left to the application.


WINDOWS_MS = (1.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10000.0, 60000.0)


@dataclass(frozen=True)
class Utilisation:
    """``share`` in 0..1 of the worst window of ``window_ms``; None when the log is shorter than the window."""

    window_ms: float
    share: float | None


def utilisation(
    stops: Iterable[tuple[float, float]] | Column, begin: float, end: float, windows_ms: Sequence[float] = WINDOWS_MS
) -> list[Utilisation]:
    """Of stops (begin, end) in seconds within ``begin`` to ``end`` (Cheng and Blelloch 2001).

    Exact: the worst window begins where a stop begins or ends where one ends. Stops that overlap by the resolution of
    the log's times are moved apart: the later one begins when the one before ends.
    """
    ordered = np.array(stops if isinstance(stops, np.ndarray) else list(stops), float).reshape(-1, 2)
    ordered = np.clip(ordered[np.lexsort((ordered[:, 1], ordered[:, 0]))], begin, end)
    reached = np.concatenate(([begin], np.maximum.accumulate(ordered[:, 1])))[:-1]
    starts, stops_at = np.maximum(ordered[:, 0], reached), ordered[:, 1]
    starts, stops_at = starts[stops_at > starts], stops_at[stops_at > starts]
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
        if not len(starts):
            shares.append(Utilisation(window_ms, 1.0))
            continue
        if lengths.max() >= window:
            shares.append(Utilisation(window_ms, 0.0))
            continue
        first, last = starts[starts <= end - window], stops_at >= begin + window
        stopped = np.concatenate(
            (
                np.interp(first + window, edges, total) - total[: 2 * len(first) : 2],
                total[1::2][last] - np.interp(stops_at[last] - window, edges, total),
                np.interp([begin + window, end], edges, total) - np.interp([begin, end - window], edges, total),
            )
        )
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
    ``allocation_rate`` and ``promotion_rate`` in bytes/s. ``heap_max`` in bytes.
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


def summary(log: GcLog, window: tuple[float, float] | None = None, clock: str = "unix") -> GcSummary:
    """Of the events that ended in ``window`` (from, until), in unix seconds or, with ``clock="uptime"``, uptime.

    ``share`` counts a pause that straddles an end of the window in part. Raises ValueError for a window that ends
    before it begins, and for unix seconds when the log has no wall-clock times.
    """
    inside = log if window is None else log.where(_filter(log, window, clock))
    pauses, stalls, cpu = inside.pauses, inside.stalls, inside.cpu
    span = 0.0 if log.timeless else window[1] - window[0] if window else sum(jvm.last - jvm.first for jvm in log.jvms)
    total = _overlap(log.pauses, window, clock) if window else math.fsum(pauses["ms"].tolist()) / 1e3
    intervals = None if log.timeless else _intervals(pauses)
    lengths, stalled = durations(pauses["ms"]), durations(stalls["ms"])
    mean = lengths.mean_ms / 1e3
    shares = overhead(intervals.mean_s, mean) if intervals else None
    collectors = dict.fromkeys(jvm.collector for jvm in log.jvms if jvm.collector)
    versions = dict.fromkeys(jvm.version for jvm in log.jvms if jvm.version)
    heap_max = log.jvms[0].heap_max if len(log.jvms) == 1 else None
    heap_after = _heap_after(inside)
    points, basis = live_points(log)
    working, grown = _growth(log, _inside(points, window, clock), basis, heap_max)
    allocated, promoted = allocation(inside), promotion(inside, span)
    took, real = cpu["user"] + cpu["system"], cpu["real"]
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
        pauses=lengths,
        by_kind=_grouped(pauses, "kind", lengths),
        by_cause=_grouped(pauses, "cause", lengths),
        intervals=intervals,
        interval_s=intervals.mean_s if intervals else None,
        share=min(1.0, total / span) if span > 0 and not log.silent else None,
        share_cycle=shares.of_cycle if shares else None,
        share_interval=shares.of_interval if shares else None,
        mmu=() if log.timeless or log.silent else _utilisation(log, window, clock),
        full=int(pauses.says("name", "Full".__eq__).sum()),
        degenerated=int(pauses.says("name", "Degenerated GC".__eq__).sum()),
        cycles={kind: int(own.sum()) for kind, own in inside.cycles.groups("kind").items()},
        stalls=stalled,
        stalls_by_kind=_grouped(stalls, "kind", stalled),
        safepoints=durations(inside.safepoints["total_ms"]),
        heap_max=heap_max,
        heap_after=heap_after,
        working_set=working,
        leak=grown,
        allocation_rate=allocated.rate,
        allocation_leaves_out=left_out(log, allocated, span),
        promotion_rate=promoted.rate,
        cpu_s=math.fsum(took.tolist()) if cpu else None,
        starved=int(((real >= 0.02) & (took < real - 0.005)).sum()),
        unknown=tuple(f"{line.number}: {line.text}" for line in log.unknown),
        truncated=log.truncated,
        jvms=len(log.jvms),
        warnings=log.warnings,
        reasons={name: why for name, why in reasons.items() if why},
        findings=tuple(_findings(log, points, basis)) if window is None else (),
    )


def _findings(log: GcLog, points: Sequence[LivePoint], basis: str) -> Iterator[Finding]:
    """Of each JVM of the log."""
    for number in range(0 if log.alternating else len(log.jvms)):
        part = log if len(log.jvms) == 1 else log.of(number)
        jvm = part.jvms[0]
        view = _view(part, *((points, basis) if part is log else live_points(part)), jvm.heap_max)
        allocated, promoted = allocation(part), promotion(part, jvm.last - jvm.first)
        for finding in findings(replace(view, allocation=allocated.rate, promotion=promoted.rate)):
            yield replace(finding, jvm=number)


def _inside(points: Sequence[LivePoint], window: tuple[float, float] | None, clock: str) -> Sequence[LivePoint]:
    times = [point.at if clock == "uptime" else point.unix for point in points] if window else []
    inside = [time is not None and window is not None and window[0] < time <= window[1] for time in times]
    return list(compress(points, inside)) if window else points


def _growth(
    log: GcLog, points: Sequence[LivePoint], basis: str, heap_max: int | None
) -> tuple[WorkingSet | None, Leak]:
    """The working set and whether it grows; neither of several JVMs."""
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


def durations(values: Iterable[float] | Column) -> Durations:
    """Of values in ms; all 0 when there is none."""
    ordered = np.sort(values if isinstance(values, np.ndarray) else np.array(list(values), float)).tolist()
    count = len(ordered)
    if not count:
        return Durations(0, 0.0, 0.0, 0.0, {})
    ranks = {f"p{q:g}": ordered[max(1, math.ceil(q * count / 100 - 1e-9)) - 1] for q in PERCENTILES}
    total = math.fsum(ordered)
    return Durations(count, total, ordered[-1], total / count, ranks)


def _intervals(pauses: Events[Pause]) -> Intervals | None:
    same = pauses["jvm"][1:] == pauses["jvm"][:-1]
    gaps = np.sort(np.maximum(0.0, pauses.begin[1:] - pauses["at"][:-1])[same])
    if not len(gaps):
        return None
    mean = math.fsum(gaps.tolist()) / len(gaps)
    return Intervals(len(gaps), mean, float(gaps[0]), float(gaps[-1]), float(gaps[(len(gaps) - 1) // 2]))


def _utilisation(log: GcLog, window: tuple[float, float] | None, clock: str) -> list[Utilisation]:
    """Of several JVMs the worst of each window's size."""
    unix = window is not None and clock == "unix"
    utilisations: list[list[Utilisation]] = []
    for number, jvm in enumerate(log.jvms):
        ends, ms = log.pauses["unix" if unix else "at"], log.pauses["ms"]
        own = (log.pauses["jvm"] == number) & ~np.isnan(ends)
        begin, end = window or (jvm.first, jvm.last)
        stops = np.column_stack((ends - ms / 1e3, ends))[own]
        utilisations.append(utilisation(stops, begin, end))
    worst = []
    for same in zip(*utilisations, strict=True):
        shares = [utilisation_.share for utilisation_ in same if utilisation_.share is not None]
        worst.append(Utilisation(same[0].window_ms, min(shares) if shares else None))
    return worst


def _grouped(events: Events[Any], name: str, every: Durations) -> dict[str, Durations]:
    """By each text in the column ``name``, the largest sum first. ``every``: of all events."""
    groups = {text: events["ms"][own] for text, own in events.groups(name).items() if text}
    values = {text: every if len(own) == every.count else durations(own) for text, own in groups.items()}
    return dict(sorted(values.items(), key=lambda item: -item[1].sum_ms))


def _heap_after(log: GcLog) -> HeapAfter | None:
    after = after_collections(log)
    if not len(after):
        return None
    ends = int(after[0]), int(after[-1]), int(after.min()), int(after.max())
    return HeapAfter(len(after), *ends, float(after.sum()) / len(after))


def _limit(log: GcLog, heap_max: int | None) -> int | None:
    """Bytes that can be in use at once: what is committed when the heap has grown to its end, where a survivor space of
    Serial and Parallel is left out. Without ``heap_max`` that is when it grows no more from the middle of the log on.
    """
    told = log.pauses.where(log.pauses["total"] > 0)
    full = told.where(told.says("name", "Full".__eq__))
    sizes = (full or told)["total"]
    if not len(sizes):
        return heap_max
    most, late = int(sizes.max()), sizes[len(sizes) // 2 :]
    if heap_max:
        return most if _GROWN * heap_max <= most < heap_max else heap_max
    return most if late.min() == most else None


def _filter(log: GcLog, window: tuple[float, float], clock: str) -> Callable[[Events[Any]], Mask]:
    begin, end = window
    if end <= begin:
        raise ValueError(f"the window ends ({end}) before it begins ({begin})")
    if clock not in ("uptime", "unix"):
        raise ValueError(f"the clock is unix or uptime, not {clock}")
    if clock == "unix" and any(jvm.first_unix is None for jvm in log.jvms):
        raise ValueError("the log has no wall-clock times (decorator time): give the window in uptime")
    column = "at" if clock == "uptime" else "unix"
    return lambda events: (begin < events[column]) & (events[column] <= end)


def _overlap(pauses: Events[Pause], window: tuple[float, float], clock: str) -> float:
    ends = pauses["at" if clock == "uptime" else "unix"]
    inside = np.minimum(ends, window[1]) - np.maximum(ends - pauses["ms"] / 1e3, window[0])
    return float(np.nansum(np.maximum(0.0, inside)))
