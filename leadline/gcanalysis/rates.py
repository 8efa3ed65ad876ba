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


@dataclass(frozen=True)
class Step:
    """Bytes that the application allocated in the ``seconds`` up to ``at`` (uptime), when ``unix`` was it."""

    at: float
    unix: float | None
    size: float
    seconds: float


def allocations(log: GcLog, jvm: int, inside: Inside = lambda _: True) -> list[Step]:
    """Of one JVM, from one collection to the next: the heap grows while only the application adds to it; of ZGC it is
    growth with what was freed meanwhile.
    """
    pauses = [pause for pause in log.pauses if pause.jvm == jvm and inside(pause)]
    if log.jvms[jvm].collector == "Z":
        return _by_reclaimed([cycle for cycle in log.cycles if cycle.jvm == jvm and inside(cycle)])
    if log.jvms[jvm].collector == "Shenandoah":
        return _by_cleanups(pauses, [one for one in log.cleanups if one.jvm == jvm and inside(one)])
    return _by_pauses(pauses)


def _by_pauses(pauses: Sequence[Pause]) -> list[Step]:
    """A pause before which the heap shrank (G1 frees regions beside the application) is left out."""
    pauses_ = [(pause, pause.heap) for pause in pauses if pause.heap]
    steps: list[Step] = []
    for (was, was_heap), (now, now_heap) in pairwise(pauses_):
        seconds = now.begin - was.at
        if seconds > 0 and now_heap.before >= was_heap.after:
            steps.append(
                Step(now.begin, now.unix and now.unix - now.ms / 1e3, now_heap.before - was_heap.after, seconds)
            )
    return steps


def allocation(log: GcLog, inside: Inside) -> Rate:
    """The ``allocations`` of all JVMs of the log together."""
    grown = seconds = 0.0
    for number in range(len(log.jvms)):
        steps = allocations(log, number, inside)
        grown, seconds = grown + sum(step.size for step in steps), seconds + sum(step.seconds for step in steps)
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


def _by_reclaimed(cycles: Sequence[Cycle]) -> list[Step]:
    """ZGC collects beside the application: from the beginning of one collection to that of the next."""
    collections = [(one.at - (one.ms or 0.0) / 1e3, one, one.heap, one.reclaimed) for one in cycles]
    known = sorted((item for item in collections if item[2] and item[3] is not None), key=lambda item: item[0])
    steps: list[Step] = []
    for (was, _, was_heap, freed), (now, cycle, now_heap, _) in pairwise(known):
        if was_heap and now_heap and freed is not None:
            unix = None if cycle.unix is None else cycle.unix - (cycle.ms or 0.0) / 1e3
            steps.append(Step(now, unix, now_heap.before - was_heap.before + freed, now - was))
    return steps


def _by_cleanups(pauses: Sequence[Pause], cleanups: Sequence[Cleanup]) -> list[Step]:
    """Shenandoah: from the end of one collection to the end of the next one's marking, before it makes copies."""
    events = [(one.at, one.at, one.heap, one.copied, one.gc_id, one.unix) for one in cleanups]
    events += [(p.at, p.begin, p.heap, False, p.gc_id or 0, p.unix) for p in pauses if p.heap]
    events.sort(key=lambda event: event[0])
    steps: list[Step] = []
    for was, now in pairwise(events):
        # A degenerated collection goes on with the copies of the one that it takes over from.
        if not now[3] and (was[4] != now[4]) and now[1] > was[0] and now[2].before >= was[2].after:
            steps.append(Step(now[0], now[5], now[2].before - was[2].after, now[1] - was[0]))
    return steps


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
