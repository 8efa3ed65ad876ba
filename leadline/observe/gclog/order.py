"""Events in the order of time, whatever the order of the lines, and what no JVM can have done.

People have logs with the newest line first, shuffled by what collected them, or with the pages of a rotated log in
another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from leadline.gcanalysis.events import EVENTS, GcLog, Jvm, Pause

SLACK = 1.0  # s by which lines of several threads may be out of order
_SAME_START = 0.25  # s; uptime and wall clock of one JVM agree on when it began
_PIECES = 3  # of one JVM; two may be one that started over
_WITHIN = 0.95  # of the pauses' time that safepoints have to cover, the longest pause left out
_SHRUNK = 2 << 20  # bytes by which the heap may seem smaller: sizes are rounded
_OVERLAP = 0.1  # s by which a pause may begin before the one in front has ended: a line is written late


def put_in_order(log: GcLog, started: Sequence[bool]) -> None:
    """Join the pieces of one JVM and order the events. ``started`` (one for each JVM): it has told of its start."""
    if _one_by_numbers(log, started):
        owners = [0] * len(log.jvms)
    else:
        owners = _by_start(log.jvms)
    together = len(set(owners)) < len(owners)
    if together:
        _join(log, owners)
    late = sum(other.at < pause.at - SLACK for pause, other in pairwise(log.pauses) if pause.jvm == other.jvm)
    if late or together:
        for name in EVENTS:
            getattr(log, name).sort(key=lambda event: (event.jvm, event.at, getattr(event, "gc_id", None) or 0))
        log.notes.append("the lines were not in the order of time: the events were put in order")


def check_physics(log: GcLog) -> None:
    """Note what no JVM can have done, and take away the figures that rest on it."""
    overlaps = [(pause, other) for pause, other in pairwise(log.pauses) if _overlap(pause, other)]
    if overlaps and not log.timeless:
        first = overlaps[0][1]
        which = "" if first.gc_id is None else f" (collection {first.gc_id})"
        count = "1 pause begins" if len(overlaps) == 1 else f"{len(overlaps)} pauses begin"
        log.notes.append(
            f"{count} before the one in front has ended, the first at {first.begin:.3f} s{which}: a JVM stops once "
            "at a time, so the times are wrong or of several JVMs"
        )
        log.timeless = True
    for number, jvm in enumerate(log.jvms):
        who = f"JVM {number + 1}: " if len(log.jvms) > 1 else ""
        pauses = [pause for pause in log.pauses if pause.jvm == number]
        stopped, length = sum(pause.ms for pause in pauses) / 1e3, jvm.last - jvm.first
        if not log.timeless and stopped > length + SLACK + max((p.ms for p in pauses), default=0.0) / 1e3:
            log.notes.append(f"{who}{stopped:.1f} s of pauses in {length:.1f} s of log: the times are wrong")
            log.timeless = True
        _check_safepoints(log, number, pauses, who)
        _check_heap(log, jvm, pauses, who)


def _check_safepoints(log: GcLog, number: int, pauses: Sequence[Pause], who: str) -> None:
    """A pause is inside of a stop of all threads, so that stops take longer."""
    own = [point for point in log.safepoints if point.jvm == number]
    paused = sum(pause.ms for pause in pauses) - max((pause.ms for pause in pauses), default=0.0)
    if own and _WITHIN * paused > sum(point.total_ms for point in own):
        log.notes.append(f"{who}the safepoints take less time than the pauses inside them: they are not all in the log")
        log.safepoints[:] = [point for point in log.safepoints if point.jvm != number]


def _check_heap(log: GcLog, jvm: Jvm, pauses: Sequence[Pause], who: str) -> None:
    """What nothing but a pause frees cannot have shrunk before the next one."""
    if jvm.collector not in ("Serial", "Parallel"):
        return
    shrunk = [
        (pause, other)
        for pause, other in pairwise([pause for pause in pauses if pause.heap])
        if pause.heap and other.heap and other.heap.before < pause.heap.after - _SHRUNK
    ]
    if shrunk:
        at = shrunk[0][1].at
        log.notes.append(
            f"{who}the heap shrank {len(shrunk)} times without a collection, first before {at:.3f} s: collections are "
            "missing or lines are of several JVMs, so no rate of allocation is told"
        )
        log.allocation_unknown = "the heap shrank without a collection"


def _overlap(one: Pause, other: Pause) -> bool:
    return one.jvm == other.jvm and other.begin < one.at - _OVERLAP


def _one_by_numbers(log: GcLog, started: Sequence[bool]) -> bool:
    """Whether what looks like several JVMs has each collection once, later ones at later times, and no second start."""
    if len(log.jvms) < _PIECES or sum(started) > 1:
        return False
    if sum(len(jvm.ids) for jvm in log.jvms) != len(set().union(*(jvm.ids for jvm in log.jvms))):
        return False
    numbered = sorted((pause.gc_id, pause.at) for pause in log.pauses if pause.gc_id is not None)
    return len(numbered) >= _PIECES and all(later[1] >= pair[1] - SLACK for pair, later in pairwise(numbered))


def _by_start(jvms: Sequence[Jvm]) -> list[int]:
    """For each JVM the first one that began at the same time by wall clock and uptime; itself where none is known.
    Without uptime the time of day goes back several times only where lines are out of order.
    """
    owners: list[int] = []
    for number, jvm in enumerate(jvms):
        began = None if jvm.first_unix is None else jvm.first_unix - jvm.first
        if began == 0 and (jvm.ids or len(jvms) < _PIECES):
            began = None
        same = (
            at
            for at in owners
            if began is not None
            and (unix := jvms[at].first_unix) is not None
            and abs(unix - jvms[at].first - began) <= _SAME_START
        )
        owners.append(next(same, number))
    return owners


def _join(log: GcLog, owners: Sequence[int]) -> None:
    """``owners``: for each JVM the one that it is a piece of."""
    owners_left = sorted(set(owners))
    for number, owner in enumerate(owners):
        if number != owner:
            _take(log.jvms[owner], log.jvms[number])
    log.jvms[:] = [log.jvms[at] for at in owners_left]
    place = [owners_left.index(owner) for owner in owners]
    for name in EVENTS:
        events = getattr(log, name)
        events[:] = [replace(event, jvm=place[event.jvm]) for event in events]


def _take(jvm: Jvm, piece: Jvm) -> None:
    jvm.collector, jvm.version = jvm.collector or piece.collector, jvm.version or piece.version
    jvm.heap_max = jvm.heap_max or piece.heap_max
    if piece.first < jvm.first:
        jvm.first, jvm.first_unix = piece.first, piece.first_unix
    if piece.last > jvm.last:
        jvm.last, jvm.last_unix = piece.last, piece.last_unix
    jvm.ids |= piece.ids
    jvm.begun.update(piece.begun)
