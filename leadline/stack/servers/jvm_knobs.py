"""The JVM's knobs by definition: ranges, flags, and the collectors that have a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from leadline.model.knob import ApplyCost, Kind, Knob, Risk

_SOURCE = "The java command, JDK 17 tool reference"
_SOURCE_SHENANDOAH = "OpenJDK wiki, Shenandoah GC"
MIB = 1024**2


def _knob(name: str, kind: Kind, flag: str, summary: str, **more: object) -> Knob:
    made = Knob(f"jvm.{name}", kind, ApplyCost.RESTART, summary, names={"jvm": flag}, source=_SOURCE)
    return replace(made, **more)  # type: ignore[arg-type]


HEAP = _knob(
    "heap",
    Kind.SIZE,
    "-Xmx",
    "Maximum heap of the server's JVM, and its initial heap unless jvm.heap_initial says otherwise;"
    " the JVM rounds up to its region size",
    unit="bytes",
    minimum=MIB,
    risk=Risk.CAUTION,
)
HEAP_INITIAL = _knob("heap_initial", Kind.SIZE, "-Xms", "Initial heap of the server's JVM", unit="bytes", minimum=MIB)
SOFT_MAX_HEAP = _knob(
    "soft_max_heap",
    Kind.SIZE,
    "-XX:SoftMaxHeapSize",
    "Heap that the collector tries to stay within; it may grow to jvm.heap where it otherwise had to stall",
    unit="bytes",
    minimum=MIB,
)
PRE_TOUCH = _knob(
    "pre_touch",
    Kind.BOOLEAN,
    "-XX:+AlwaysPreTouch",
    "Every page of the heap is touched at the start, so that no request pays for its first use",
    default=False,
)
COLLECTOR = _knob(
    "collector",
    Kind.CHOICE,
    "-XX:+Use...GC",
    "Garbage collector of the server's JVM",
    choices=("serial", "parallel", "g1", "zgc", "shenandoah"),
)
GC_THREADS = _knob(
    "gc_threads",
    Kind.INTEGER,
    "-XX:ParallelGCThreads",
    "Threads of a parallel collection pause",
    minimum=1,
    maximum=1024,
    unit="threads",
)
GC_CONCURRENT_THREADS = _knob(
    "gc_concurrent_threads",
    Kind.INTEGER,
    "-XX:ConcGCThreads",
    "Threads that collect beside the application; not more than jvm.gc_threads in G1 and Shenandoah",
    minimum=1,
    maximum=1024,
    unit="threads",
)
PAUSE_TARGET = _knob(
    "gc_pause_target",
    Kind.DURATION,
    "-XX:MaxGCPauseMillis",
    "Pause that the collector sizes its young generation for; a goal, not a limit. G1 begins with 200 ms,"
    " the parallel collector with none",
    unit="seconds",
    minimum=0.001,
    maximum=3600,
)
YOUNG_SIZE = _knob(
    "young_size",
    Kind.SIZE,
    "-Xmn",
    "Size of the young generation, fixed; G1 then no longer sizes it for its pause target",
    unit="bytes",
    minimum=MIB,
)
YOUNG_RATIO = _knob(
    "young_ratio",
    Kind.INTEGER,
    "-XX:NewRatio",
    "Size of the old generation as a multiple of the young one",
    minimum=1,
    maximum=1000,
)
G1_REGION_SIZE = _knob(
    "g1_region_size",
    Kind.SIZE,
    "-XX:G1HeapRegionSize",
    "Size of G1's regions, a power of two; objects of half a region and more are allocated by themselves",
    unit="bytes",
    minimum=MIB,
    maximum=512 * MIB,  # 32m until Java 17: the JVM itself says so
)
G1_OCCUPANCY = _knob(
    "g1_initiating_occupancy",
    Kind.INTEGER,
    "-XX:InitiatingHeapOccupancyPercent",
    "Occupancy of the heap at which G1 first begins to mark; it adapts afterwards",
    default=45,
    minimum=0,
    maximum=100,
    unit="%",
)
ZGC_GENERATIONAL = _knob(
    "zgc_generational",
    Kind.BOOLEAN,
    "-XX:+ZGenerational",
    "Young objects collected by themselves in ZGC: a choice in Java 21 to 23, always on later, not there before",
    source="The java command, JDK 21 tool reference",
)
SHENANDOAH_HEURISTICS = _knob(
    "shenandoah_heuristics",
    Kind.CHOICE,
    "-XX:ShenandoahGCHeuristics",
    "When Shenandoah begins a cycle: by the rate of allocation, at a fixed occupancy, or all the time",
    default="adaptive",
    choices=("adaptive", "static", "compact"),
    source=_SOURCE_SHENANDOAH,
)
THREAD_STACK = _knob(
    "thread_stack",
    Kind.SIZE,
    "-Xss",
    "Stack of a Java thread",
    default=MIB,
    unit="bytes",
    minimum=64 * 1024,
    maximum=1024 * MIB,
)
LARGE_PAGES = _knob(
    "large_pages",
    Kind.CHOICE,
    "-XX:+UseTransparentHugePages, -XX:+UseLargePages",
    "Large pages behind the heap: transparent ones on request (madvise), or explicit ones reserved in vm.nr_hugepages",
    default="off",
    choices=("off", "transparent", "explicit"),
    risk=Risk.CAUTION,
)
KNOBS = (
    HEAP,
    HEAP_INITIAL,
    SOFT_MAX_HEAP,
    PRE_TOUCH,
    COLLECTOR,
    GC_THREADS,
    GC_CONCURRENT_THREADS,
    PAUSE_TARGET,
    YOUNG_SIZE,
    YOUNG_RATIO,
    G1_REGION_SIZE,
    G1_OCCUPANCY,
    ZGC_GENERATIONAL,
    SHENANDOAH_HEURISTICS,
    THREAD_STACK,
    LARGE_PAGES,
)

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
