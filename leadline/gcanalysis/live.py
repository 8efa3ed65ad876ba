"""What is live: the heap after collections of the old generation, and the working set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from leadline.gcanalysis.events import Column, Cycle, Events, GcLog, Mask, Pause

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
