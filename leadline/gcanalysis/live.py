"""What is live: the heap after collections of the old generation, and the working set."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from leadline.gcanalysis.events import Cycle, GcLog, Pause

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
        pauses = [pause for pause in log.pauses if pause.jvm == number and pause.heap]
        cycles = [cycle for cycle in log.cycles if cycle.jvm == number]
        full = [_point(pause) for pause in pauses if is_whole(pause)]
        if jvm.collector == "Z":
            found += [_point(cycle) for cycle in cycles if cycle.kind != "Minor Collection" and cycle.heap]
            words.append("after collections of the whole heap")
        elif jvm.collector == "Shenandoah" and not any("(Young)" in cycle.kind for cycle in cycles):
            found += full + [_point(cycle) for cycle in cycles if cycle.heap]
            words.append("after collections")
        else:
            steps = _between_markings(pauses, cycles)
            found += full if not steps else sorted({*full, *steps}, key=lambda point: point.at)
            words.append("after full and mixed collections" if steps else "after full collections")
    found.sort(key=lambda point: (point.jvm, point.at))
    return found, " and ".join(dict.fromkeys(words))


def is_whole(pause: Pause) -> bool:
    """Whether it collected all of the heap."""
    upgraded = pause.cause == "Upgrade To Full GC" or "(Young)" not in pause.kind
    return pause.name == "Full" or (pause.name == "Degenerated GC" and upgraded)


def _point(event: Pause | Cycle) -> LivePoint:
    live = event.live if isinstance(event, Cycle) else None
    assert event.heap is not None
    return LivePoint(event.jvm, event.at, event.unix, event.heap.after if live is None else live)


def _between_markings(pauses: Sequence[Pause], cycles: Sequence[Cycle]) -> list[LivePoint]:
    """The lowest heap of each stretch from the end of one marking to the end of the next."""
    ends = sorted(
        cycle.at for cycle in cycles if cycle.kind in _MARKING or "(Old)" in cycle.kind or "(Global)" in cycle.kind
    )
    # A full collection starts a stretch of its own: what is lower before it has another live set.
    after: list[Pause | Cycle] = [p for p in pauses if not is_whole(p)]
    after += [cycle for cycle in cycles if cycle.heap]
    after.sort(key=lambda event: event.at)
    points, times = [], [event.at for event in after]
    for begin, end in pairwise(ends):
        inside = [event for event in after[bisect_right(times, begin) : bisect_right(times, end)] if event.heap]
        if inside:
            points.append(_point(min(inside, key=lambda event: event.heap.after if event.heap else 0)))
    return points


def working_set(log: GcLog, points: Sequence[LivePoint], basis: str) -> WorkingSet | None:
    """Median of the later half of ``points``; without any the least heap after a young collection of that half.

    ``points`` are of one JVM. None without a collection that tells of the heap.
    """
    if points:
        late = sorted(point.size for point in points[len(points) // 2 :])
        return WorkingSet(late[len(late) // 2], basis, False)
    events: list[Pause | Cycle] = [p for p in log.pauses if p.heap and p.name not in ("Remark", "Cleanup")]
    events += [cycle for cycle in log.cycles if cycle.heap]
    events.sort(key=lambda event: (event.jvm, event.at))
    after = [event.heap.after for event in events if event.heap]
    if not after:
        return None
    return WorkingSet(min(after[len(after) // 2 :]), "after young collections", True)
