"""The JVM's knobs: flags, and the collectors that have a setting; the definitions are in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline import catalogue

_KNOBS = catalogue.load("jvm")
KNOBS = tuple(_KNOBS.values())
HEAP = _KNOBS["jvm.heap"]
HEAP_INITIAL = _KNOBS["jvm.heap_initial"]
SOFT_MAX_HEAP = _KNOBS["jvm.soft_max_heap"]
PRE_TOUCH = _KNOBS["jvm.pre_touch"]
COLLECTOR = _KNOBS["jvm.collector"]
GC_THREADS = _KNOBS["jvm.gc_threads"]
GC_CONCURRENT_THREADS = _KNOBS["jvm.gc_concurrent_threads"]
PAUSE_TARGET = _KNOBS["jvm.gc_pause_target"]
YOUNG_SIZE = _KNOBS["jvm.young_size"]
YOUNG_RATIO = _KNOBS["jvm.young_ratio"]
G1_REGION_SIZE = _KNOBS["jvm.g1_region_size"]
G1_OCCUPANCY = _KNOBS["jvm.g1_initiating_occupancy"]
ZGC_GENERATIONAL = _KNOBS["jvm.zgc_generational"]
SHENANDOAH_HEURISTICS = _KNOBS["jvm.shenandoah_heuristics"]
THREAD_STACK = _KNOBS["jvm.thread_stack"]
LARGE_PAGES = _KNOBS["jvm.large_pages"]

COLLECTOR_FLAGS: Mapping[str, str] = {
    "serial": "UseSerialGC",
    "parallel": "UseParallelGC",
    "g1": "UseG1GC",
    "zgc": "UseZGC",
    "shenandoah": "UseShenandoahGC",
}

# Collectors in which a setting has an effect; the others take the flag without a word.
ONLY_WITH: Mapping[str, tuple[str, ...]] = {
    SOFT_MAX_HEAP.name: ("zgc", "shenandoah"),
    GC_THREADS.name: ("parallel", "g1", "zgc", "shenandoah"),
    GC_CONCURRENT_THREADS.name: ("g1", "zgc", "shenandoah"),
    PAUSE_TARGET.name: ("parallel", "g1"),
    YOUNG_SIZE.name: ("serial", "parallel", "g1"),
    YOUNG_RATIO.name: ("serial", "parallel", "g1"),
    G1_REGION_SIZE.name: ("g1",),
    G1_OCCUPANCY.name: ("g1",),
    ZGC_GENERATIONAL.name: ("zgc",),
    SHENANDOAH_HEURISTICS.name: ("shenandoah",),
}


@dataclass(frozen=True)
class Flag:
    """A flag of the JVM that holds a level: a number of ``unit``, a word, or on and off."""

    name: str
    unit: float = 1


FLAG_OF: Mapping[str, Flag] = {
    HEAP.name: Flag("MaxHeapSize"),
    HEAP_INITIAL.name: Flag("InitialHeapSize"),
    SOFT_MAX_HEAP.name: Flag("SoftMaxHeapSize"),
    PRE_TOUCH.name: Flag("AlwaysPreTouch"),
    GC_THREADS.name: Flag("ParallelGCThreads"),
    GC_CONCURRENT_THREADS.name: Flag("ConcGCThreads"),
    PAUSE_TARGET.name: Flag("MaxGCPauseMillis", 0.001),
    YOUNG_SIZE.name: Flag("MaxNewSize"),
    YOUNG_RATIO.name: Flag("NewRatio"),
    G1_REGION_SIZE.name: Flag("G1HeapRegionSize"),
    G1_OCCUPANCY.name: Flag("InitiatingHeapOccupancyPercent"),
    ZGC_GENERATIONAL.name: Flag("ZGenerational"),
    SHENANDOAH_HEURISTICS.name: Flag("ShenandoahGCHeuristics"),
    THREAD_STACK.name: Flag("ThreadStackSize", 1024),
}

# What the agent is asked for; a flag that this JVM does not have is left out of its answer.
FLAGS = (
    *COLLECTOR_FLAGS.values(),
    *(flag.name for flag in FLAG_OF.values()),
    "NewSize",
    "UseTransparentHugePages",
    "UseLargePages",
)
