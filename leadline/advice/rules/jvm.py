"""Heap too small, pauses too long."""

from __future__ import annotations

from leadline.advice.facts import Collection, TrialFacts
from leadline.advice.look import Look, Rule, Sign, number, percent, whole
from leadline.model.units import format_size

SHARE = 0.05  # of the time in pauses
STALLED = 0.01
AIM = 0.02  # share of the time in pauses that a larger heap should come to
LARGEST = 8  # times the heap
LONG_MS = 200.0
SLOWER = 2.0  # p99 of seconds with a pause against those without
HEAP, COLLECTOR = "jvm.heap", "jvm.collector"
_MIB = 1 << 20
_NAMES = {"Serial": "serial", "Parallel": "parallel", "G1": "g1", "Z": "zgc", "Shenandoah": "shenandoah"}
_NEXT = {"serial": "g1", "parallel": "g1", "g1": "zgc"}
_CONCURRENT = ("g1", "zgc", "shenandoah")


def heap(trial: TrialFacts) -> list[Look]:
    """Too much of the time in collection, threads that wait for memory, or collections of last resort."""
    collection = trial.collection
    if collection is None or collection.heap_max is None or collection.share is None or collection.span_s <= 0:
        return []
    now = whole(trial, HEAP)
    return [Look("jvm.heap", "heap", HEAP, collection.heap_max if now is None else now, _small(collection, trial))]


def _small(found: Collection, trial: TrialFacts) -> Sign | None:
    share = found.share or 0.0
    last_resort = found.degenerated + (found.full if _NAMES.get(found.collector) in _CONCURRENT else 0)
    if share < SHARE and found.stall_share < STALLED and last_resort < 2:
        return None
    heap_max = found.heap_max or 0
    parts = [f"{percent(share)} of the time went into {found.pauses} pauses of {number(found.mean_ms)} ms on average"]
    figures = {"in pauses": (100 * share, "% of time"), "pauses": (float(found.pauses), "")}
    figures["heap"] = (heap_max / _MIB, "MiB")
    if found.interval_s is not None:
        parts.append(f"one every {number(found.interval_s)} s")
        figures["interval"] = (found.interval_s, "s")
    if found.stall_share >= STALLED:
        parts.append(f"threads waited {percent(found.stall_share)} of the time for memory")
        figures["stalls"] = (100 * found.stall_share, "% of time")
    if last_resort:
        parts.append(f"{last_resort} collection{'s were' if last_resort > 1 else ' was'} full or degenerated")
        figures["last resort"] = (float(last_resort), "collections")
    if found.live is not None:
        parts.append(f"{number(found.live / _MIB)} of {number(heap_max / _MIB)} MiB were live")
        figures["live"] = (found.live / _MIB, "MiB")
    says = ", ".join(parts)
    times, expected = _times(found)
    room = trial.host.memory_available
    while times > 1 and room is not None and (times - 1) * heap_max > 0.5 * room:
        times //= 2
    if times == 1:
        free = number((room or 0) / _MIB)
        return Sign(says, figures, share, remedy=f"a larger {HEAP} does not fit: {free} MiB of memory are available")
    then = heap_max * times
    reason = f"{format_size(then)}: {expected}" if expected else "twice the heap: how much is live is not known"
    return Sign(says, figures, share, then, reason)


def _times(found: Collection) -> tuple[int, str]:
    """How many times the heap, and what the share comes to: at the same allocation the interval between collections
    grows with what the live set leaves of the heap, and a pause costs what it did.
    """
    heap_max, live, interval = found.heap_max or 0, found.live, found.interval_s
    if live is None or interval is None or not 0 < live < heap_max:
        return 2, ""
    pause = found.mean_ms / 1e3
    times, share, longer = 1, 1.0, interval
    while times < LARGEST and share > AIM:
        times *= 2
        longer = interval * (times * heap_max - live) / (heap_max - live)
        share = pause / (longer + pause)
    return times, f"the interval would grow to about {number(longer)} s and the share fall to {percent(share)}"


def pauses(trial: TrialFacts) -> list[Look]:
    """Single pauses so long that the seconds that hold one are much slower."""
    collection = trial.collection
    if collection is None or collection.p99_with_ms is None or not collection.p99_without_ms:
        return []
    now = _NAMES.get(collection.collector)
    slower = collection.p99_with_ms / collection.p99_without_ms
    sign = None
    if collection.max_ms >= LONG_MS and slower >= SLOWER:
        says = (
            f"the longest pause was {number(collection.max_ms)} ms; p99 was {number(collection.p99_with_ms)} ms in "
            "the median "
            f"second with a pause and {number(collection.p99_without_ms)} ms without"
        )
        figures = {"longest pause": (collection.max_ms, "ms"), "slower": (slower, "times")}
        then = _NEXT.get(now or "")
        if then is None:
            sign = Sign(says, figures, slower, remedy="a larger heap, or less allocation in the application")
        else:
            reason = f"{then} does more of its work beside the application, at the price of more CPU"
            sign = Sign(says, figures, slower, then, reason)
    return [Look("jvm.pauses", "collector", COLLECTOR, now, sign)]


RULES = (
    Rule("jvm.heap", "jvm", "heap too small", heap, ("throughput", "p50", "p99", "gc_share", "cpu_per_transaction")),
    Rule("jvm.pauses", "jvm", "long collection pauses", pauses, ("p99", "p999", "max")),
)
