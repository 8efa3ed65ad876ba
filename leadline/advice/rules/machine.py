"""What a JVM and a kernel suggest."""

from __future__ import annotations

from leadline.advice.facts import Collection, Look, Rule, Sign, TrialFacts, number, percent, whole
from leadline.model.units import format_size

SWAPPED = 10.0  # pages a second
RECLAIMS = 1.0  # a second
STALLED_BY_STORAGE = 0.2  # share of the time that some task waited for storage
OVERFLOWS = 0.1  # connections a second
STEAL = 0.05


def others(trial: TrialFacts) -> list[Look]:
    """Programs that are none of the study's on the same CPUs: what a trial shows may be theirs."""
    share, sign = trial.host.others, None
    if share is None:
        return []
    if trial.disturbed:
        says = f"programs other than the study's used {percent(share)} of the CPUs"
        remedy = "stop them or take a quiet machine, then run the study again: no setting is judged by these trials"
        sign = Sign(says, {"other programs": (100 * share, "% of CPU")}, share, remedy=remedy)
    return [Look("kernel.others", "host", None, None, sign)]


def swap(trial: TrialFacts) -> list[Look]:
    """Pages of programs going to swap and back."""
    knob, pages = "vm.swappiness", trial.host.swapped_per_s
    if pages is None:
        return []
    now, sign = whole(trial, knob), None
    if pages >= SWAPPED:
        says = f"{number(pages)} pages a second were swapped in or out"
        figures = {"swapped": (pages, "pages/s")}
        if now is not None and now <= 1:
            sign = Sign(says, figures, pages, remedy="a smaller heap or smaller caches: memory is short")
        else:
            reason = "the page cache goes before the memory of programs; a heap that is swapped slows each collection"
            sign = Sign(says, figures, pages, 1, reason)
    return [Look("kernel.swap", "host", knob, now, sign)]


def reclaim(trial: TrialFacts) -> list[Look]:
    """Tasks that had to free memory themselves before they got some."""
    knob, often = "vm.min_free_kbytes", trial.host.direct_reclaims_per_s
    if often is None:
        return []
    now, sign = whole(trial, knob), None
    if often >= RECLAIMS:
        says = f"{number(often)} times a second a task had to reclaim memory itself"
        figures = {"direct reclaims": (often, "1/s")}
        total = trial.host.memory_total
        if now is None or (total is not None and 2 * now * 1024 > 0.05 * total):
            sign = Sign(says, figures, often, remedy="less memory in use: a smaller heap or smaller caches")
        else:
            sign = Sign(says, figures, often, 2 * now, "the kernel begins to reclaim earlier, beside the tasks")
    return [Look("kernel.reclaim", "host", knob, now, sign)]


def storage(trial: TrialFacts) -> list[Look]:
    """Tasks that wait for a disk while much is written."""
    knob, stalled = "vm.dirty_background_ratio", trial.host.io_stalled
    if stalled is None or trial.host.iowait is None:
        return []
    now, sign = whole(trial, knob), None
    if stalled >= STALLED_BY_STORAGE and trial.host.iowait >= 0.05:
        says = (
            f"some task waited for storage in {percent(stalled)} of the time, and the CPUs idled "
            f"{percent(trial.host.iowait)} of theirs for it"
        )
        figures = {"stalled": (100 * stalled, "% of time"), "iowait": (100 * trial.host.iowait, "% of CPU")}
        if now is not None and now >= 2:
            reason = "writing back begins earlier and in smaller portions"
            sign = Sign(says, figures, stalled, max(1, now // 2), reason)
        else:
            sign = Sign(says, figures, stalled, remedy="faster storage, or fewer forced writes (database.commit_delay)")
    return [Look("kernel.storage", "host", knob, now, sign)]


def backlog(trial: TrialFacts) -> list[Look]:
    """Connections lost because a listening socket's queue was full."""
    knob, lost = "net.core.somaxconn", trial.host.listen_overflows_per_s
    if lost is None:
        return []
    sign, now = None, whole(trial, knob)
    if lost >= OVERFLOWS:
        says = f"{number(lost)} connections a second found the queue of a listening socket full"
        figures = {"overflows": (lost, "connections/s")}
        remedy = f"raise the server's own backlog, and {knob} where it is below it; a client tries again after a second"
        sign = Sign(says, figures, lost, remedy=remedy)
    return [Look("kernel.backlog", "host", knob, now, sign)]


def steal(trial: TrialFacts) -> list[Look]:
    """CPU time that the hypervisor gave to others."""
    stolen = trial.host.steal
    if stolen is None:
        return []
    sign = None
    if stolen >= STEAL:
        says = f"the hypervisor gave {percent(stolen)} of the CPU time to others"
        remedy = "measure on a host that is not shared, or at another time; no setting mends this"
        sign = Sign(says, {"steal": (100 * stolen, "% of CPU")}, stolen, remedy=remedy)
    return [Look("kernel.steal", "host", None, None, sign)]


KERNEL_RULES = (
    Rule("kernel.others", "kernel", "other programs use the CPUs", others, majority=False),
    Rule("kernel.swap", "kernel", "the host swaps", swap),
    Rule("kernel.reclaim", "kernel", "memory is reclaimed too late", reclaim),
    Rule("kernel.storage", "kernel", "storage holds tasks up", storage),
    Rule("kernel.backlog", "kernel", "connections are lost", backlog),
    Rule("kernel.steal", "kernel", "the host is shared", steal),
)


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


JVM_RULES = (
    Rule("jvm.heap", "jvm", "heap too small", heap, ("throughput", "p50", "p99", "gc_share", "cpu_per_transaction")),
    Rule("jvm.pauses", "jvm", "long collection pauses", pauses, ("p99", "p999", "max")),
)
