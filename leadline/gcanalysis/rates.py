"""Bytes a second: allocated by the application, promoted to the old generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from leadline.gcanalysis.events import Cleanup, Column, Cycle, Events, GcLog, Mask, Pause


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
