"""Bytes a second: allocated by the application, promoted to the old generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leadline.gcanalysis.events import Cleanup, Cycle, GcLog, Pause

Inside = Callable[[Pause | Cycle | Cleanup], bool]


@dataclass(frozen=True)
class Rate:
    """``rate`` in bytes/s of ``size`` bytes, or None with the ``reason``."""

    rate: float | None
    reason: str = ""
    size: float = 0.0
    seconds: float = 0.0  # in which the application allocated it: without pauses


def allocations(pauses: Sequence[Pause]) -> list[tuple[Pause, float, float]]:
    """For each pause after the first one with heap figures: bytes the heap grew by since, and seconds.

    A pause before which the heap shrank (G1 frees regions beside the application) is left out.
    """
    pauses_ = [(pause, pause.heap) for pause in pauses if pause.heap]
    grown: list[tuple[Pause, float, float]] = []
    for (was, was_heap), (now, now_heap) in pairwise(pauses_):
        seconds = now.begin - was.at
        if was.jvm == now.jvm and seconds > 0 and now_heap.before >= was_heap.after:
            grown.append((now, float(now_heap.before - was_heap.after), seconds))
    return grown


def allocation(log: GcLog, inside: Inside) -> Rate:
    """Growth of the heap while only the application adds to it, over that time; of ZGC with what it freed meanwhile.

    All JVMs of the log together.
    """
    grown = seconds = 0.0
    for number, jvm in enumerate(log.jvms):
        pauses = [pause for pause in log.pauses if pause.jvm == number and inside(pause)]
        if jvm.collector == "Z":
            more, time = _by_reclaimed([cycle for cycle in log.cycles if cycle.jvm == number and inside(cycle)])
        elif jvm.collector == "Shenandoah":
            more, time = _by_cleanups(
                pauses, [cleanup for cleanup in log.cleanups if cleanup.jvm == number and inside(cleanup)]
            )
        else:
            found = allocations(pauses)
            more, time = sum(item[1] for item in found), sum(item[2] for item in found)
        grown, seconds = grown + more, seconds + time
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


def _by_reclaimed(cycles: Sequence[Cycle]) -> tuple[float, float]:
    """ZGC collects beside the application: allocated = growth of the heap + all that was given back meanwhile."""
    collections = sorted(
        (one.at - (one.ms or 0.0) / 1e3, one.heap.before, one.reclaimed)
        for one in cycles
        if one.heap and one.reclaimed is not None
    )
    if len(collections) < 2 or collections[-1][0] <= collections[0][0]:
        return 0.0, 0.0
    freed = sum(collection[2] for collection in collections[:-1])
    return float(max(0, collections[-1][1] - collections[0][1] + freed)), collections[-1][0] - collections[0][0]


def _by_cleanups(pauses: Sequence[Pause], cleanups: Sequence[Cleanup]) -> tuple[float, float]:
    """Shenandoah: from the end of one collection to the end of the next one's marking, before it makes copies."""
    events = [(cleanup.at, cleanup.at, cleanup.heap, cleanup.copied, cleanup.gc_id) for cleanup in cleanups]
    events += [(pause.at, pause.begin, pause.heap, False, pause.gc_id or 0) for pause in pauses if pause.heap]
    events.sort(key=lambda event: event[0])
    grown = seconds = 0.0
    for was, now in pairwise(events):
        # A degenerated collection goes on with the copies of the one that it takes over from.
        if not now[3] and (was[4] != now[4]) and now[1] > was[0] and now[2].before >= was[2].after:
            grown += now[2].before - was[2].after
            seconds += now[1] - was[0]
    return grown, seconds


def promotion(log: GcLog, inside: Inside, seconds: float) -> Rate:
    """Growth of the old generation in young collections over ``seconds`` of log; mixed collections are left out."""
    if log.timeless or seconds <= 0:
        return Rate(None, "the lines have no time" if log.timeless else "the log has no length")
    by_pause = [pause.promoted for pause in log.pauses if pause.promoted is not None and inside(pause)]
    by_cycle = [cycle.promoted for cycle in log.cycles if cycle.promoted is not None and inside(cycle)]
    if by_pause or by_cycle:
        size = float(sum(by_pause) + sum(by_cycle))
        return Rate(size / seconds, size=size)
    if any(jvm.collector == "Shenandoah" for jvm in log.jvms):
        return Rate(None, "Shenandoah's log does not tell what was promoted")
    if any(jvm.collector == "Z" for jvm in log.jvms) and not any("Minor" in cycle.kind for cycle in log.cycles):
        return Rate(None, "ZGC in one generation promotes nothing")
    return Rate(None, "no young collection tells of the old generation (log gc*, not only gc)")
