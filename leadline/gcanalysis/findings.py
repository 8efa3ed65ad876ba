"""What happened in a JVM by its GC log: a table of rules over its events, each with the study that would test it.

A rule gives nothing on a log that is as it should be. What another finding explains (a full heap stalls, fails to
promote and collects in full) is not told beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from statistics import median
from typing import Any, cast

import numpy as np

from leadline.gcanalysis.events import Column, Cycle, Events, GcLog, Pause, Safepoint, Sign
from leadline.gcanalysis.live import FULL, LAST, Leak, LivePoint, duration, whole
from leadline.model.units import format_size, rounded

_MIB = float(1 << 20)
_SHOWN = 5  # lines of evidence
_LONG_MS = 50.0  # of a stop that a user may notice
_SLOW_MS = 100.0  # to stop all threads; on a busy machine some tens of ms are usual
_DEGENERATED = 5  # young collections in a row, each of which found no room
_MANY = 100_000  # references of one kind in one collection
_SHARE = 0.01  # of the time: what is told though no part of it is long
_BUSY = 0.10  # of the time in pauses: too much for any collector
_GAVE_BACK = 0.02  # of the limit: a full collection that frees less has freed nothing
_NEARLY = 0.7  # of the limit, still in use behind a full collection that freed nothing
_WAITED_MS = 20.0  # the log's CPU times have a hundredth of a second
_COLLECTS = ("G1", "Gen", "Parallel", "Serial", "Z", "XMark", "XReloc", "XVer", "Shenandoah", "CMS", "Collect", "GC_")
_ASKED = ("System.gc()", "Metadata GC", "Initiated GC", "Diagnostic Command")  # collections not for want of heap
_LIMITS = {"Metaspace": "metaspace", "Compressed class space": "metaspace", "unable to create": "threads"}


@dataclass(frozen=True)
class Finding:
    """``count`` events in ``lines`` (the first of them, from 1), which took ``share`` of the log's time (None where
    that is no time). ``factors``: the levels to compare, the first as it was; empty where only the program can change.
    """

    name: str
    sentence: str
    meaning: str
    count: int
    share: float | None
    lines: tuple[int, ...]
    factors: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # what the JVM had beside them
    jvm: int = 0

    @property
    def study(self) -> str:
        """A study file that tests it on the reference application; empty without factors."""
        if not self.factors:
            return ""
        levels = [f"  {name}: [{', '.join(map(_level, values))}]" for name, values in self.factors.items()]
        kept = [f"  {name}: {_level(value)}" for name, value in self.settings.items() if name not in self.factors]
        return "\n".join(
            [
                f"study: gc-{self.name}",
                f"question: Does {' or '.join(self.factors)} mend what the GC log shows ({self.name})?",
                "# Your own application instead: leadline stack init",
                "stack: { app: brokerage, mode: direct, server: liberty, database: postgres }",
                "workload: { scenario: brokerage-classic, arrivals: closed, users: 50, variables: { think: 20ms },",
                "  ramp_up: 20s, steady: 60s, ramp_down: 1s }",
                "factors:",
                *levels,
                *(["settings:", *kept] if kept else []),
                "design: { kind: one-at-a-time, replicates: 5 }",
                "responses: [throughput, p99, gc_share, cpu_per_transaction]",
                "limits: { errors: 0.1% }",
                "",
            ]
        )


def _level(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class View:
    """The events of one JVM and what was made of them. ``limit``: bytes that can be in use at once."""

    log: GcLog
    leak: Leak
    points: Sequence[LivePoint]
    limit: int | None
    allocation: float | None = None  # bytes/s
    promotion: float | None = None

    @cached_property
    def span(self) -> float:
        """Seconds of log; 0 without times."""
        return 0.0 if self.log.timeless else self.log.jvms[0].last - self.log.jvms[0].first

    @property
    def collector(self) -> str:
        return self.log.jvms[0].collector

    def share(self, ms: float) -> float | None:
        return min(1.0, ms / 1e3 / self.span) if self.span > 0 else None

    def signs(self, name: str) -> Events[Sign]:
        return self.log.signs.where(self.log.signs.says("name", name.__eq__))

    def pauses(self, *words: str) -> Events[Pause]:
        """Whose kind or cause has one of the words."""
        pauses = self.log.pauses
        return pauses.where(pauses.says("kind", _has(*words)) | pauses.says("cause", _has(*words)))

    @cached_property
    def whole(self) -> list[Pause | Cycle]:
        """Collections of all of the heap that tell of it, and those that became pauses for want of room."""
        pauses, cycles = self.log.pauses, self.log.cycles
        failed = pauses.says("name", ("Full", "Degenerated GC").__contains__)
        major = cycles.says("kind", ("Major Collection", "Garbage Collection").__contains__)
        events: list[Pause | Cycle] = [*pauses.where(failed & (pauses["before"] >= 0))]
        events += cycles.where(major & (cycles["before"] >= 0))
        return sorted(events, key=lambda event: event.at)

    @cached_property
    def exhausted(self) -> list[Pause | Cycle]:
        """The longest run of collections of all of the heap that gave nothing back, at its limit."""
        runs: list[list[Pause | Cycle]] = [[]]
        for event in self.whole if self.limit else ():
            if _gave_nothing(event, self.limit or 0):
                runs[-1].append(event)
            else:
                runs.append([])
        longest = max(runs, key=len)
        pauses = [event for event in longest if isinstance(event, Pause)]
        count = len(longest) - len(pauses) + int(whole(Events.of(Pause, pauses)).sum())
        return longest if count >= LAST or len(longest) >= _DEGENERATED else []


def _has(*words: str) -> Callable[[str], bool]:
    return lambda text: any(word in text for word in words)


def _gave_nothing(event: Pause | Cycle, limit: int) -> bool:
    heap = event.heap
    assert heap is not None
    freed = heap.before - heap.after
    if isinstance(event, Cycle) and (event.live or 0) < _NEARLY * limit:  # full of what is new
        return False
    return heap.after >= FULL * limit or (heap.after >= _NEARLY * limit and freed < _GAVE_BACK * limit)


def findings(view: View) -> list[Finding]:
    """Of one JVM, in the order of ``RULES``; without those that another one explains."""
    made = [finding for rule in RULES if (finding := rule(view)) is not None]
    explained = {name for finding in made for name in _EXPLAINS.get(finding.name, ())}
    limit = view.log.jvms[0].heap_max
    settings = {
        **_collector(view),
        **({"jvm.heap": format_size(limit)} if limit else {}),
    }
    return [replace(finding, settings=settings) for finding in made if finding.name not in explained]


def _by_events(
    view: View,
    name: str,
    events: Sequence[Any],
    sentence: str,
    meaning: str,
    factors: Mapping[str, tuple[Any, ...]] | None = None,
    pauses: Events[Pause] | None = None,
) -> Finding:
    """A finding by its events. ``pauses``: those of them that took time, all where none are named."""
    stopped = cast("Events[Pause]", events) if pauses is None else pauses
    return Finding(name, sentence, meaning, len(events), view.share(_ms(stopped)), _lines(events), factors or {})


def _lines(events: Iterable[Any]) -> tuple[int, ...]:
    return tuple(islice((line for event in events if (line := getattr(event, "line", 0))), _SHOWN))


def _ms(pauses: Events[Pause]) -> float:
    return math.fsum(pauses["ms"].tolist())


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _size(size: float) -> str:
    return f"{rounded(size / _MIB, 3)} MiB"


def _percent(share: float | None) -> str:
    return "" if share is None else f", {rounded(100 * share, 2)} % of the time"


def _longest(pauses: Events[Pause]) -> str:
    return f"longest {rounded(float(pauses['ms'].max()), 3)} ms"


def _heaps(view: View, *times: int) -> dict[str, tuple[Any, ...]]:
    """The heap as it was against multiples of it."""
    limit = view.log.jvms[0].heap_max or view.limit
    if not limit:
        return {}
    mebibytes = max(1, round(limit / _MIB))
    return {"jvm.heap": tuple(format_size((mebibytes * n) << 20) for n in (1, *times))}


def _earlier(view: View) -> dict[str, tuple[Any, ...]]:
    """A larger heap, and marking of G1 that begins earlier."""
    return {**_heaps(view, 2), "jvm.g1_initiating_occupancy": (45, 25)}


def _collector(view: View) -> dict[str, Any]:
    """As a knob's level; empty for one that no JVM of today has."""
    now = {"Z": "zgc"}.get(view.collector, view.collector.lower())
    return {"jvm.collector": now} if now in ("serial", "parallel", "g1", "zgc", "shenandoah") else {}


def _out_of_heap(view: View) -> Finding | None:
    errors = [*_errors(view, "heap"), *view.signs("overhead limit")]
    run = view.exhausted
    if not run and not errors and view.leak.verdict != "full" and view.leak.full_in_s != 0.0:
        return None
    parts = []
    ms = math.fsum(event.ms or 0.0 for event in run)
    if run:
        freed = median(event.heap.before - event.heap.after for event in run if event.heap)
        least = min(event.heap.after for event in run if event.heap)
        parts.append(
            f"{_times(len(run), 'collection')} of the whole heap in a row gave back {_size(max(0, freed))} each "
            f"(median), {_size(least)} or more of {_size(view.limit or 0)} stayed in use, from {run[0].at:.1f} s on"
        )
        lasted = run[-1].at - run[0].at
        if lasted > 0 and isinstance(run[0], Pause):
            parts.append(f"{rounded(min(100.0, 100 * ms / 1e3 / lasted), 2)} % of that time was collection")
    elif view.leak.full_in_s == 0.0:
        parts.append(view.leak.sentence)
    if errors:
        parts.append(f"the JVM reported {_times(len(errors), 'OutOfMemoryError')} of the heap")
    if view.leak.slope and view.leak.verdict == "leak" and run:
        parts.append(f"the live set had grown by {rounded(view.leak.slope * 60 / _MIB, 3)} MiB/min before")
    return Finding(
        "heap-exhausted",
        "; ".join(parts),
        "What is live does not fit: either the heap is too small for the program, or the program never lets go.",
        len(run) or len(errors) or view.leak.points,
        view.share(ms),
        _lines([*run, *errors]),
        _heaps(view, 2, 4),
    )


def _errors(view: View, what: str) -> Events[Sign]:
    """The OutOfMemoryErrors of "heap", "metaspace", "direct" (buffers) or "threads"."""

    def of(text: str) -> bool:
        if "direct" in text.lower():
            return what == "direct"
        return what == next((which for words, which in _LIMITS.items() if words in text), "heap")

    signs = view.signs("out of memory")
    return signs.where(signs.says("value", of))


def _leaks(view: View) -> Finding | None:
    if view.leak.verdict != "leak" or view.leak.full_in_s == 0.0:
        return None
    meaning = "The program keeps more and more: a larger heap only delays the end."
    return Finding("live-set-grows", view.leak.sentence, meaning, view.leak.points, None, (), _heaps(view, 2))


def _metaspace(view: View) -> Finding | None:
    pauses, cycles, signs = view.log.pauses, view.log.cycles, view.signs("asked")
    threshold = pauses.where(pauses.says("cause", _has("Metadata GC", "Last ditch")))
    of_cycles = cycles.where(cycles.says("cause", _has("Metadata GC")))
    asked = signs.where(signs.says("value", _has("Metadata GC")))
    full = [*_errors(view, "metaspace"), *view.signs("metaspace full")]
    last = [*threshold["cause"][threshold.says("cause", _has("Clear Soft", "Last ditch"))]]
    last += [*of_cycles["cause"][of_cycles.says("cause", _has("Clear Soft"))]]
    last_asked = asked.where(asked.says("value", _has("Clear Soft")))
    numbered = {p.gc_id if p.gc_id is not None else p.at for p in threshold}
    count, ms = max(len(numbered | set(of_cycles["gc_id"].tolist())), len(asked)), _ms(threshold)
    share = view.share(ms)
    if full or last or last_asked:
        sentence = f"metaspace was full ({_times(len(full) + len(last) + len(last_asked), 'sign')} of it)"
        if count:
            sentence += f"; {_times(count, 'collection')} for it{_percent(share)}"
        meaning = "Classes do not fit into -XX:MaxMetaspaceSize: loaders that are kept, or a limit that is too low."
        factors = {"jvm.flag.MaxMetaspaceSize": ("64m", "256m")}
        where = _lines([*full, *threshold, *last_asked])
        return Finding("metaspace-exhausted", sentence, meaning, count or len(full), share, where, factors)
    collections = len(np.unique(np.where(pauses["gc_id"] >= 0, pauses["gc_id"], pauses["at"])))
    if count < 1 or (count < 3 and count < 0.5 * collections):
        return None
    return Finding(
        "metaspace-threshold",
        f"{_times(count, 'collection')} because metaspace reached its threshold{_percent(share)}",
        "Classes asked for them, not objects: a higher -XX:MetaspaceSize spares them, unless loaders are kept.",
        count,
        share,
        _lines([*threshold, *asked]),
        {"jvm.flag.MetaspaceSize": ("21m", "128m")},
    )


def _direct(view: View) -> Finding | None:
    errors = _errors(view, "direct")
    if not errors and not _ends_for_direct_memory(view):
        return None
    told = f"{_times(len(errors), 'OutOfMemoryError')} of direct buffers" if errors else ""
    return Finding(
        "direct-memory-exhausted",
        told
        or "the log ends half a second after a System.gc() of a heap that was not full, as the JDK waits before it "
        "gives up on direct memory",
        "Direct buffers are outside of the heap: they are kept, or -XX:MaxDirectMemorySize is too low.",
        max(1, len(errors)),
        None,
        _lines(errors or view.log.pauses[-1:]),
        {"jvm.flag.MaxDirectMemorySize": ("64m", "256m")},
    )


def _ends_for_direct_memory(view: View) -> bool:
    """The JDK asks for a collection, and waits 0.51 s for one to free buffers before it throws."""
    explicit = _explicit_events(view)
    if not explicit or view.span <= 0:
        return False
    rest = view.log.jvms[0].last - explicit[-1].at
    return 0.49 <= rest <= 0.62 and not (view.log.pauses["at"] > explicit[-1].at + 0.1).any()


def _threads(view: View) -> Finding | None:
    errors = _errors(view, "threads")
    if not errors:
        return None
    return Finding(
        "threads-exhausted",
        f"{_times(len(errors), 'OutOfMemoryError')}: no further thread could be created",
        "The system's limit of threads or of memory was met; a larger heap leaves less room for stacks.",
        len(errors),
        None,
        _lines(errors),
        {"jvm.thread_stack": ("1m", "256k")},
    )


def _explicit_events(view: View) -> list[Pause | Cycle | Sign]:
    called = ("System.gc()", "System GC").__contains__
    pauses, cycles, signs = view.log.pauses, view.log.cycles, view.signs("asked")
    # Parallel collects the young generation first.
    part = pauses.says("name", "Young".__eq__) & ~pauses.says("kind", _has("Concurrent Start"))
    events: dict[object, Pause | Cycle | Sign] = {}
    for cycle in cycles.where(cycles.says("cause", called)):
        events.setdefault(cycle.gc_id, cycle)
    for pause in pauses.where(pauses.says("cause", called) & ~part):
        events.setdefault(pause.at if pause.gc_id is None else pause.gc_id, pause)
    for sign in signs.where(signs.says("value", called)):
        events.setdefault(sign.at, sign)
    return sorted(events.values(), key=lambda event: event.at)


def _explicit(view: View) -> Finding | None:
    events = _explicit_events(view)
    if len(events) < 2:
        return None
    ms = math.fsum(event.ms for event in events if isinstance(event, Pause))
    gaps = [later.at - event.at for event, later in pairwise(events)]
    period = "" if view.log.timeless else f", every {duration(median(gaps))} (median)"
    return Finding(
        "explicit-gc",
        f"System.gc() was called {_times(len(events), 'time')}{period}{_percent(view.share(ms))}",
        "A program or library asks for full collections: RMI, direct memory, or a call in the code.",
        len(events),
        view.share(ms),
        _lines(events),
        {"jvm.flag.DisableExplicitGC": (False, True)},
    )


def _by_tool(view: View) -> Finding | None:
    pauses = view.pauses("Heap Inspection Initiated GC", "Heap Dump Initiated GC", "Diagnostic Command")
    if not pauses:
        return None
    sentence = f"{_times(len(pauses), 'collection')} for a heap dump, a histogram or jcmd, {_longest(pauses)}"
    meaning = "Somebody or some monitoring looks into the heap: each look is a full collection."
    return _by_events(view, "asked-by-tool", pauses, sentence, meaning)


def _to_space(view: View) -> Finding | None:
    pauses = view.pauses("to-space exhausted", "to-space overflow", "Evacuation Failure: Allocation")
    signs = [*view.signs("to-space exhausted"), *pauses]
    if not signs:
        return None
    sentence = f"{_times(len(signs), 'evacuation')} of G1 found no free region to copy to"
    meaning = "More survived than there was room for: marking began too late, or the heap is too small for the bursts."
    return _by_events(view, "to-space-exhausted", signs, sentence, meaning, _earlier(view), pauses)


def _promotion(view: View) -> Finding | None:
    pauses = view.pauses("promotion failed")
    events = [*view.signs("promotion failed"), *pauses]
    if not events:
        return None
    sentence = f"{_times(len(events), 'young collection')} could not promote: the old generation had no room"
    meaning = "Young collections turn into full ones: the old generation is too small or too fragmented."
    return _by_events(view, "promotion-failed", events, sentence, meaning, _heaps(view, 2), pauses)


def _mode_failure(view: View) -> Finding | None:
    pauses = view.pauses("concurrent mode")
    events = [*view.signs("concurrent mode failure"), *pauses]
    if not events:
        return None
    sentence = f"{_times(len(events), 'collection')} beside the application came too late and ended in a full one"
    meaning = "The old generation filled while CMS was collecting it: it has to begin earlier, or have more room."
    return _by_events(view, "concurrent-mode-failure", events, sentence, meaning, _heaps(view, 2), pauses)


def _g1_behind(view: View) -> Finding | None:
    if view.collector not in ("G1", ""):
        return None
    own = ("G1 Compaction Pause", "Allocation Failure", "G1 Evacuation Pause", "G1 Humongous Allocation")
    pauses = view.log.pauses
    full = pauses.where(pauses.says("name", "Full".__eq__) & pauses.says("cause", own.__contains__))
    if not full or (view.collector == "" and not view.pauses("G1")):
        return None
    aborted = len(view.signs("marking aborted"))
    beside = f", {aborted} of them while marking was under way" if aborted else ""
    many = f"{_times(len(full), 'full collection')} of G1{beside}"
    sentence = f"{many}, {_longest(full)}{_percent(view.share(_ms(full)))}"
    meaning = "Marking and mixed collections do not keep up with what is allocated or promoted."
    return _by_events(view, "g1-full", full, sentence, meaning, _earlier(view))


def _humongous(view: View) -> Finding | None:
    caused = view.pauses("G1 Humongous Allocation")
    sizes = [int(size) for size in view.signs("humongous").groups("value") if size.isdigit()]
    limit = view.log.jvms[0].heap_max or view.limit
    most = max(sizes, default=0) / limit if limit else 0.0
    if len(caused) < 3 and most < 0.25:
        return None
    part = f"; humongous objects took up to {rounded(100 * most, 2)} % of the heap" if most else ""
    return Finding(
        "humongous",
        f"{_times(len(caused), 'pause')} for humongous allocation (objects of half a region or more){part}",
        "Large arrays take whole regions and start marking: larger regions make them ordinary objects.",
        len(caused) or len(view.signs("humongous")),
        view.share(_ms(caused)),
        _lines(caused or view.signs("humongous")),
        {"jvm.g1_region_size": ("1m", "8m", "32m")},
    )


def _stalls(view: View) -> Finding | None:
    stalls = view.log.stalls.where(view.log.stalls.says("kind", "Allocation Stall".__eq__))
    if not stalls:
        return None
    ms = math.fsum(stalls["ms"].tolist())
    return Finding(
        "allocation-stalls",
        f"{_times(len(stalls), 'allocation stall')}, {rounded(ms, 3)} thread-ms, longest "
        f"{rounded(float(stalls['ms'].max()), 3)} ms",
        "Threads waited for ZGC to free memory: the heap has too little room for the allocation during a collection.",
        len(stalls),
        None,
        _lines(stalls),
        {**_heaps(view, 2), "jvm.gc_concurrent_threads": (1, 2)},
    )


def _relocation(view: View) -> Finding | None:
    stalls = view.log.stalls.where(view.log.stalls.says("kind", "Allocation Stall".__ne__))
    ms = math.fsum(stalls["ms"].tolist())
    if ms < _LONG_MS:
        return None
    kinds = ", ".join(stalls.groups("kind"))
    sentence = f"{_times(len(stalls), 'stall')} ({kinds}), {rounded(ms, 3)} thread-ms"
    meaning = "Threads waited for pages that were being moved: memory was nearly used up."
    return Finding("relocation-stalls", sentence, meaning, len(stalls), None, _lines(stalls), _heaps(view, 2))


def _degenerated(view: View) -> Finding | None:
    names = ("Degenerated GC", *(("Full",) if view.collector == "Shenandoah" else ()))
    pauses = view.log.pauses.where(view.log.pauses.says("name", names.__contains__))
    if not pauses:
        return None
    full = int(pauses.says("name", "Full".__eq__).sum())
    many = f"{len(pauses) - full} degenerated and {full} full collections of Shenandoah"
    sentence = f"{many}, {_longest(pauses)}{_percent(view.share(_ms(pauses)))}"
    meaning = "Allocation outran the concurrent cycle, which ended in a pause: begin earlier, or give it more room."
    factors = {**_heaps(view, 2), "jvm.shenandoah_heuristics": ("adaptive", "compact")}
    return _by_events(view, "degenerated", pauses, sentence, meaning, factors)


def _pacing(view: View) -> Finding | None:
    signs = view.signs("pacing")
    seconds = math.fsum(float(sign.value) for sign in signs)
    share = view.share(1e3 * seconds)
    if seconds < 0.5 or (share or 0.0) < 5 * _SHARE:
        return None
    sentence = f"Shenandoah's pacer held threads back for {rounded(seconds, 3)} s in all"
    meaning = "Allocating threads were slowed down, which no pause shows: latency without a stop."
    return Finding("pacing", sentence, meaning, len(signs), share, _lines(signs), _heaps(view, 2))


def _pinned(view: View) -> Finding | None:
    pinned, locker = view.pauses("Pinned"), view.pauses("GCLocker Initiated GC")
    events = pinned or locker
    if len(events) < (1 if pinned else 3):
        return None
    many = f"{_times(len(events), 'collection')} met objects that native code held (JNI critical sections)"
    meaning = "Native code pins arrays (compression, encryption): collections wait for it or leave regions uncollected."
    factors = {"jvm.collector": (*_collector(view).values(), "zgc")}
    return _by_events(view, "pinned", events, f"{many}{_percent(view.share(_ms(events)))}", meaning, factors)


def _operations(points: Events[Safepoint], ms: Column) -> list[tuple[str, Column]]:
    """The ``ms`` of each operation's stops, the largest sum first."""
    groups = [(operation or "unnamed", ms[own]) for operation, own in points.groups("operation").items()]
    return sorted(groups, key=lambda group: -float(group[1].sum()))


def _reaching(view: View) -> Finding | None:
    """Time to safepoint."""
    slow = view.log.safepoints.where(view.log.safepoints["reaching_ms"] >= 1)
    reaching = slow["reaching_ms"]
    ms, worst = math.fsum(reaching.tolist()), float(reaching.max(initial=0.0))
    share = view.share(ms)
    if worst < _SLOW_MS and (len(slow) < 10 or (share or 0.0) < _BUSY):
        return None
    by = ", ".join(
        f"{operation} {len(own)} times, longest {rounded(float(own.max()), 3)} ms"
        for operation, own in _operations(slow, reaching)[:3]
    )
    return Finding(
        "time-to-safepoint",
        f"threads took {rounded(ms, 3)} ms to stop{_percent(share)}: {by}",
        "A thread ran on without a poll (a counted loop, a large copy, a page fault) while all others stood.",
        len(slow),
        share,
        _lines(slow.where(np.argsort(-reaching, kind="stable"))),
        {"jvm.flag.LoopStripMiningIter": (1000, 100)},
    )


def _no_collection(view: View) -> Finding | None:
    points = view.log.safepoints
    others = points.where(points.says("operation", lambda name: bool(name) and not name.startswith(_COLLECTS)))
    stood = others["total_ms"] - others["reaching_ms"]
    ms, worst = math.fsum(stood.tolist()), float(stood.max(initial=0.0))
    share = view.share(ms)
    if worst < _LONG_MS and (len(others) < 3 or (share or 0.0) < _SHARE):
        return None
    by = ", ".join(f"{len(own)} {operation}" for operation, own in _operations(others, others["total_ms"])[:4])
    return Finding(
        "stops-without-collection",
        f"{_times(len(others), 'stop')} of all threads that collected nothing, {rounded(ms, 3)} ms"
        f"{_percent(share)}: {by}",
        "Thread dumps, deoptimisation or agents stop the application as a collection does.",
        len(others),
        share,
        _lines(others.where(np.argsort(-others["total_ms"], kind="stable"))),
    )


def _references(view: View) -> Finding | None:
    signs, many = view.signs("references"), view.signs("many references")
    ms = math.fsum(float(value.replace(",", ".")) for value in signs.texts("value"))
    slow = ms >= _LONG_MS and ms >= 0.2 * _ms(view.log.pauses)
    most = max(map(int, many.groups("value")), default=0)
    if not slow and most < _MANY:
        return None
    parts = [f"{rounded(ms, 3)} ms of the pauses went into references (weak, soft, final, phantom)"] if slow else []
    parts += [f"up to {most} references of one kind in a collection"] if most >= _MANY else []
    meaning = "The program holds very many reference objects; each collection of their generation visits them all."
    share = view.share(ms) if slow else None
    factors = {"jvm.flag.ParallelRefProcEnabled": (False, True)} if slow else {}
    return Finding(
        "references", "; ".join(parts), meaning, len(signs) + len(many), share, _lines([*signs, *many]), factors
    )


def _one_worker(view: View) -> Finding | None:
    cpus, workers = view.signs("cpus"), view.signs("workers")
    one = [sign for sign in (*cpus, *(workers if view.collector in ("G1", "Parallel") else ())) if sign.value == "1"]
    if not one:
        return None
    sentence = "the JVM sees one CPU" if one[0].name == "cpus" else f"{view.collector} collects with one thread"
    meaning = "Pauses are as long as one thread needs, and collecting beside the application takes its CPU."
    now = (1, 2)
    factors: dict[str, tuple[Any, ...]] = {"jvm.flag.ActiveProcessorCount": now}
    return Finding("one-cpu", sentence, meaning, len(one), None, _lines(one), factors)


def _starved(view: View) -> Finding | None:
    long = view.log.cpu.where(1e3 * view.log.cpu["real"] >= _WAITED_MS)
    waited = long.where(long["user"] + long["system"] < 0.75 * long["real"] - 0.005)
    ms = 1e3 * math.fsum((waited["real"] - waited["user"] - waited["system"]).tolist())
    if len(waited) < max(5, len(long) / 2) or ms < 0.2 * _ms(view.log.pauses):
        return None
    return Finding(
        "starved",
        f"{_times(len(waited), 'pause')} of {len(long)} of {_WAITED_MS:g} ms and more took longer than their CPU time, "
        f"by {rounded(ms, 3)} ms in all",
        "The collector waited for a CPU (neighbours, a quota) or for memory that was swapped out.",
        len(waited),
        view.share(ms),
        (),
        {"jvm.gc_threads": (2, 1)},
    )


def _kernel(view: View) -> Finding | None:
    cpu = view.log.cpu
    in_kernel = cpu["system"] > np.maximum(2 * cpu["user"], cpu["real"] / 2)
    heavy = cpu.where((1e3 * cpu["real"] >= _WAITED_MS) & in_kernel)
    real = 1e3 * math.fsum(heavy["real"].tolist())
    if len(heavy) < 5 or real < 0.5 * _ms(view.log.pauses):
        return None
    seconds = math.fsum(heavy["system"].tolist())
    return Finding(
        "kernel-time",
        f"{_times(len(heavy), 'pause')} spent their CPU in the kernel, {rounded(seconds, 3)} s",
        "Page faults, transparent huge pages or reclaim: the heap's memory is got or cleared in pauses.",
        len(heavy),
        view.share(real),
        (),
        {"jvm.pre_touch": (False, True), "jvm.large_pages": ("off", "transparent")},
    )


def _premature(view: View) -> Finding | None:
    pauses = view.log.pauses
    of_old = pauses.says("name", "Full".__eq__) | pauses.says("kind", _has("(Mixed)"))
    old = pauses.where(of_old & (pauses["before"] >= 0) & pauses.says("cause", "System.gc()".__ne__))
    if len(old) < 3 or not view.allocation or not view.promotion or view.promotion < 0.1 * view.allocation:
        return None
    freed = float(np.median((old["before"] - old["after"]) / np.maximum(1, old["before"])))
    if freed < 0.3:
        return None
    sentence = (
        f"{rounded(100 * view.promotion / view.allocation, 2)} % of what was allocated was promoted "
        f"({_size(view.promotion)}/s), and old collections freed {rounded(100 * freed, 2)} % of the heap (median)"
    )
    meaning = (
        "Objects reach the old generation and die there: the young generation is too small for how long they live."
    )
    return _by_events(view, "premature-promotion", old, sentence, meaning, {"jvm.young_ratio": (2, 1)})


def _small(view: View) -> Finding | None:
    own = view.log.pauses.where(~view.log.pauses.says("cause", _has(*_ASKED)))
    share = view.share(_ms(own))
    if (share or 0.0) < _BUSY or len(own) < 10:
        return None
    late = sorted(point.size for point in view.points[len(view.points) // 2 :])
    live = f"; {_size(late[len(late) // 2])} of {_size(view.limit)} are live" if late and view.limit else ""
    rate = f", {_size(view.allocation)}/s are allocated" if view.allocation else ""
    sentence = f"{rounded(100 * (share or 0.0), 2)} % of the time is pauses{live}{rate}"
    meaning = "The collector has too little room for the rate of allocation: a larger heap collects less often."
    return _by_events(view, "heap-small", own, sentence, meaning, _heaps(view, 2, 4))


def _dropped(view: View) -> Finding | None:
    signs = view.signs("messages dropped")
    if not signs:
        return None
    count = sum(int(sign.value) for sign in signs)
    sentence = (
        f"the JVM dropped {_times(count, 'message')} of this log (asynchronous logging): every figure may be short"
    )
    meaning = "The log's buffer was full: -XX:AsyncLogBufferSize."
    return Finding("messages-dropped", sentence, meaning, count, None, _lines(signs))


RULES: tuple[Callable[[View], Finding | None], ...] = (
    _out_of_heap, _metaspace, _direct, _threads, _leaks, _small, _to_space, _promotion, _mode_failure, _g1_behind,
    _humongous, _stalls, _relocation, _degenerated, _pacing, _pinned, _explicit, _by_tool, _reaching, _no_collection,
    _references, _premature, _starved, _kernel, _one_worker, _dropped,
)  # fmt: skip
# What a finding explains, so that it is not told beside it.
_OF_A_FULL_HEAP = (
    "heap-small", "to-space-exhausted", "promotion-failed", "concurrent-mode-failure", "g1-full", "allocation-stalls",
    "relocation-stalls", "degenerated", "pacing", "premature-promotion", "live-set-grows",
)  # fmt: skip
_EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "heap-exhausted": _OF_A_FULL_HEAP,
    "heap-small": ("premature-promotion",),
    "direct-memory-exhausted": ("explicit-gc",),
}
