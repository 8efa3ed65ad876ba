"""What is live: the heap after collections of the old generation, and the working set; and whether the live set grows
without end, by a trend with an interval on the heap after old collections.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from leadline.gcanalysis.events import Column, Cycle, Events, GcLog, Mask, Pause
from leadline.gcanalysis.trend import Array, Estimate, Trend, thinned, trend
from leadline.model.units import rounded

_MARKING = ("Concurrent Mark Cycle", "Concurrent Cycle")


@dataclass(frozen=True)
class LivePoint:
    """Bytes in use at ``at`` (uptime, s) right after the old generation was collected."""

    jvm: int
    at: float
    unix: float | None
    size: int


@dataclass(frozen=True)
class WorkingSet:
    """``size`` in bytes. ``at_most``: the log has only young collections, which leave garbage in the old generation."""

    size: int
    basis: str
    at_most: bool


def live_points(log: GcLog) -> tuple[list[LivePoint], str]:
    """Points in the order of time and, in words, what they are.

    Full collections give one point each. Where the old generation is collected in steps (G1, generational Shenandoah)
    it is the lowest heap from one marking to the next; the last such stretch is left out, as it may be cut off. ZGC and
    Shenandoah in one generation give one a cycle, for ZGC what its marking found live.
    """
    found: list[LivePoint] = []
    words: list[str] = []
    for number, jvm in enumerate(log.jvms):
        pauses, cycles = (_sized(events, number) for events in (log.pauses, log.cycles))
        full = _points(pauses.where(whole(pauses)))
        young = log.cycles.says("kind", lambda kind: "(Young)" in kind) & (log.cycles["jvm"] == number)
        if jvm.collector == "Z":
            found += _points(cycles.where(cycles.says("kind", "Minor Collection".__ne__)))
            words.append("after collections of the whole heap")
        elif jvm.collector == "Shenandoah" and not young.any():
            found += full + _points(cycles)
            words.append("after collections")
        else:
            marked = log.cycles.says("kind", _marks) & (log.cycles["jvm"] == number)
            steps = _between(np.sort(log.cycles["at"][marked]).tolist(), pauses, cycles)
            found += full if not steps else sorted({*full, *steps}, key=lambda point: point.at)
            words.append("after full and mixed collections" if steps else "after full collections")
    found.sort(key=lambda point: (point.jvm, point.at))
    return found, " and ".join(dict.fromkeys(words))


def whole(pauses: Events[Pause]) -> Mask:
    """Which of them collected all of the heap."""
    young = pauses.says("kind", lambda kind: "(Young)" in kind)
    upgraded = pauses.says("cause", "Upgrade To Full GC".__eq__) | ~young
    return pauses.says("name", "Full".__eq__) | (pauses.says("name", "Degenerated GC".__eq__) & upgraded)


def _marks(kind: str) -> bool:
    return kind in _MARKING or "(Old)" in kind or "(Global)" in kind


def _sized(events: Events[Any], jvm: int) -> Events[Any]:
    """Those of one JVM that tell of the heap."""
    return events.where((events["jvm"] == jvm) & (events["before"] >= 0))


def _points(events: Events[Pause] | Events[Cycle]) -> list[LivePoint]:
    return [_point(event) for event in events]


def _point(event: Pause | Cycle) -> LivePoint:
    live = event.live if isinstance(event, Cycle) else None
    assert event.heap is not None
    return LivePoint(event.jvm, event.at, event.unix, event.heap.after if live is None else live)


def _between(ends: Sequence[float], pauses: Events[Pause], cycles: Events[Cycle]) -> list[LivePoint]:
    """The lowest heap of each stretch from the end of one marking to the end of the next."""
    # A full collection starts a stretch of its own: what is lower before it has another live set.
    if len(ends) < 2:
        return []
    steps = pauses.where(~whole(pauses))
    at = np.concatenate((steps["at"], cycles["at"]))
    order = np.argsort(at, kind="stable")
    after = np.concatenate((steps["after"], cycles["after"]))[order]
    stretches = pairwise(np.searchsorted(at[order], ends, side="right").tolist())
    places = [begin + int(after[begin:end].argmin()) for begin, end in stretches if end > begin]
    lowest = order[np.array(places, np.int64)]
    of_pauses = lowest < len(steps)
    return [*_points(steps.where(lowest[of_pauses])), *_points(cycles.where(lowest[~of_pauses] - len(steps)))]


def working_set(log: GcLog, points: Sequence[LivePoint], basis: str) -> WorkingSet | None:
    """Median of the later half of ``points``; without any the least heap after a young collection of that half.

    ``points`` are of one JVM. None without a collection that tells of the heap.
    """
    if points:
        late = sorted(point.size for point in points[len(points) // 2 :])
        return WorkingSet(late[len(late) // 2], basis, False)
    after = after_collections(log)
    if not len(after):
        return None
    return WorkingSet(int(after[len(after) // 2 :].min()), "after young collections", True)


def after_collections(log: GcLog) -> Column:
    """Bytes in use after pauses and cycles, in the order of JVMs and time."""
    # Remark and Cleanup of G1 free little; what is live shows after the collections themselves.
    own = ~log.pauses.says("name", ("Remark", "Cleanup").__contains__) & (log.pauses["before"] >= 0)
    parts = log.pauses.where(own), log.cycles.where(log.cycles["before"] >= 0)
    jvm, at, after = (np.concatenate([part[name] for part in parts]) for name in ("jvm", "at", "after"))
    in_order = ((jvm[1:] > jvm[:-1]) | ((jvm[1:] == jvm[:-1]) & (at[1:] >= at[:-1]))).all()
    return after if in_order else after[np.lexsort((at, jvm))]


@dataclass(frozen=True)
class Overhead:
    """Share of time in collection by the two formulas in use: of the whole cycle, and of the interval alone."""

    of_cycle: float | None  # pause / (interval + pause)
    of_interval: float | None  # pause / interval


def overhead(interval_s: float, pause_s: float) -> Overhead:
    """Of the mean interval between collections and the mean pause; None where the divisor is 0."""
    whole = interval_s + pause_s
    return Overhead(pause_s / whole if whole > 0 else None, pause_s / interval_s if interval_s > 0 else None)


@dataclass(frozen=True)
class HeapLine:
    """Heap = ``live`` + ``allocation`` x interval: bytes, bytes/s; ``r_squared`` of the least squares fit."""

    live: float
    allocation: float
    r_squared: float


def heap_line(heaps: Sequence[float], intervals_s: Sequence[float]) -> HeapLine | None:
    """A collection comes when what is allocated fills what the live set leaves.

    None for fewer than three sizes, and where the line would be of a negative live set or rate.
    """
    x, y = np.asarray(intervals_s, float), np.asarray(heaps, float)
    if len(set(heaps)) < 3 or len(set(intervals_s)) < 3:
        return None
    slope, live = np.polyfit(x, y, 1)
    if slope <= 0 or live < 0:
        return None
    residual = float(((y - live - slope * x) ** 2).sum())
    return HeapLine(float(live), float(slope), 1 - residual / float(((y - y.mean()) ** 2).sum()))


WARM_UP = 0.25  # of the time from the first to the last point is not looked at
FEWEST = 10  # points after the warm-up
LEVEL = 0.99  # of the interval of the slope
SURE = 0.95  # one-sided, that it goes on rising
AT_END = 0.975  # the same of the last tenth alone, of which few points tell
PACE_AT_END = 0.5  # of the pace of the whole series: what the last tenth has to keep
STEADY = 0.65  # of the pace of the earlier half: what the later half has to keep for a leak, warm-up and all
BEHIND = 0.8  # the same without the warm-up, where a cache that still fills is nearly straight
SMALLEST = 0.01  # of the live set: a rise below it over the whole log is not called a leak
FULL = 0.88  # of the heap's limit still in use behind a collection of the old generation: the heap is full
LAST = 2  # collections in a row that leave it full: after two without success HotSpot gives up
WIDEST = 1.0  # of the live set: an interval that allows for a larger rise or fall tells nothing

_MIB = float(1 << 20)


@dataclass(frozen=True)
class Leak:
    """``verdict``: "leak", "full", "growing", "levels off", "none", or "undetermined" with the reason in ``sentence``.
    Of a leak that met the heap's limit, the figures are those of the rise before it.

    ``slope``, ``low``, ``high``: bytes/s of the live set; ``p_value`` of no trend, two-sided. ``full_in_s``: seconds
    until the heap is full at this slope, from the log's end.
    """

    verdict: str
    sentence: str
    points: int
    basis: str
    slope: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = LEVEL
    p_value: float | None = None
    full_in_s: float | None = None


@dataclass(frozen=True)
class _Line:
    """A trend over ``span`` seconds; its slope with an interval, bytes/s."""

    found: Trend
    span: float
    low: float
    high: float

    @staticmethod
    def of(times: Array, sizes: Array, unit: float) -> _Line:
        slope = trend(*thinned(times, sizes), (STEADY, BEHIND))
        span, rise = float(times[-1] - times[0]), slope.rise
        low = min(rise.bound((1 - LEVEL) / 2), rise.value - unit) / span
        return _Line(slope, span, low, max(rise.bound((1 + LEVEL) / 2), rise.value + unit) / span)

    def rises(self, live: float) -> bool:
        return self.low * self.span > SMALLEST * live

    def goes_on(self, share: int) -> bool:
        """Surely, at a pace of this share (0: STEADY, 1: BEHIND) of the earlier one, and as no random walk would."""
        found, end = self.found, self.found.end
        surely = all(slope.bound(1 - SURE) > 0 for slope in (found.steps, found.keeps[share]))
        return surely and end.bound(1 - AT_END) > 0 and end.value >= PACE_AT_END * found.rise.value


def leak(points: Sequence[LivePoint], basis: str, heap_max: int | None = None) -> Leak:
    """Of the points of one JVM. The trend has to show, and to go on in the later half and the last tenth: of all the
    log, where a warm-up or a cache that fills is plain by its bend; or of what comes behind the warm-up.

    A live set that rises and then stays (a cache that fills, classes that are loaded) "levels off"; where the later
    half is too short to tell one from the other it is "growing".
    """
    if heap_max and (full_at := _full_from(points, heap_max)):
        return _full(points, basis, heap_max, *full_at)
    if not points or points[-1].at <= points[0].at:
        return _undetermined(len(points), basis, "no two collections at different times show what is live")
    times = np.array([point.at for point in points])
    sizes = np.array([float(point.size) for point in points])
    fresh = np.concatenate(([True], np.diff(times) > 0))  # the log's resolution may give two the same time
    times, sizes = times[fresh], sizes[fresh]
    keep = times >= times[0] + WARM_UP * (times[-1] - times[0])
    count = int(keep.sum())
    if count < FEWEST:
        told = f"too short to tell: of the heap {basis} the log has {count} figures behind the warm-up"
        return _undetermined(count, basis, f"{told}, {FEWEST} are needed")
    live = float(np.median(sizes[keep]))
    # Both ends of the line are known to half a unit of the log, mostly a MiB.
    unit = _MIB if not np.any(sizes % _MIB) else 1024.0 if not np.any(sizes % 1024) else 1.0
    line = _Line.of(times, sizes, unit)
    leaks = line.rises(live) and line.goes_on(0)
    if leaks:
        count = len(times)
    else:
        line = _Line.of(times[keep], sizes[keep], unit)
        leaks = line.rises(live) and line.goes_on(1)
    trend_, span, low, high = line.found, line.span, line.low, line.high
    slope, verdict, full = trend_.rise.value / span, "none", None
    if leaks:
        verdict = "leak"
    elif line.rises(live):
        verdict = "levels off" if trend_.keeps[0].bound(SURE) < 0 else "growing"
    elif (high - low) * span > 2 * WIDEST * max(live, unit):
        return _undetermined(count, basis, "too short to tell: the noise could hide the live set's doubling")
    if verdict == "leak" and heap_max and slope > 0:
        full = max(0.0, (heap_max - float(sizes[-1])) / slope)
    noise = ", of a random walk's drift" if trend_.walk else ""
    if trend_.period is not None:
        noise += f", beside a rhythm of {duration(trend_.period)}"
    interval = f"{_rate(low)} to {_rate(high)} MiB/h ({100 * LEVEL:g} %{noise})"
    if verdict == "leak":
        sentence = f"the live set grows by {_rate(slope)} MiB/h, {interval}, to the end of the log"
        if full is not None:
            sentence += f"; the heap is full in {duration(full)} at this rate"
    elif verdict == "levels off":
        sentence = f"the live set grew by {_rate(slope)} MiB/h, {interval}, but its later half has levelled off"
    elif verdict == "growing":
        sentence = f"the live set grows by {_rate(slope)} MiB/h, {interval}; a longer log has to tell whether it ends"
    elif low > 0:
        sentence = f"the live set rises by less than {100 * SMALLEST:g} % over the log: {interval}"
    else:
        sentence = f"no growth of the live set is shown: {interval}"
    return Leak(verdict, sentence, count, basis, slope, low, high, LEVEL, _p_value(trend_.rise), full)


def _full_from(points: Sequence[LivePoint], limit: int | None) -> tuple[int, int] | None:
    """Of the last points in a row that are all at the heap's limit the first and the one behind the last; None without.
    What follows may be an application that has caught its OutOfMemoryError.
    """
    if not limit:
        return None
    end = next((at for at in range(len(points), 0, -1) if points[at - 1].size >= FULL * limit), 0)
    begin = next((at for at in range(end, 0, -1) if points[at - 1].size < FULL * limit), 0)
    return (begin, end) if end - begin >= LAST else None


def _full(points: Sequence[LivePoint], basis: str, limit: int, begin: int, end: int) -> Leak:
    """Points at the limit say nothing of a trend: what rises cannot rise further. The trend is that before them."""
    before, late = leak(points[:begin], basis), points[begin:end]
    least = min(point.size for point in late)
    sentence = (
        f"the heap was full from {late[0].at:.1f} s on: {len(late)} times in a row, {basis}, at least "
        f"{least / _MIB:.0f} of {limit / _MIB:.0f} MiB ({100 * least / limit:.0f} %) stayed in use"
    )
    if before.verdict == "leak":
        grew = before.sentence.removesuffix(", to the end of the log").replace("grows", "grew")
        return replace(before, sentence=f"{grew}; {sentence}", full_in_s=0.0)
    return Leak("full", sentence, len(points), basis, full_in_s=0.0)


def _p_value(rise: Estimate) -> float:
    """Of no rise, two-sided."""
    if not rise.error:
        return 1.0 if not rise.value else 0.0
    return math.erfc(abs(rise.value) / rise.error / math.sqrt(2 * (1 + 1 / rise.freedom)))


def _undetermined(points: int, basis: str, why: str) -> Leak:
    return Leak("undetermined", f"no leak test: {why}", points, basis)


def _rate(slope: float) -> str:
    return rounded(slope * 3600 / _MIB, 3)


def duration(seconds: float) -> str:
    """In words, with a unit that suits."""
    for size, word in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{rounded(seconds / size, 3)} {word}"
    return f"{rounded(seconds, 3)} s"
