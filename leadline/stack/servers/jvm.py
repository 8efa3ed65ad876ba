"""The JVM's knobs, the same for every Java server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level, Risk

_SOURCE = "The java command, JDK 17 tool reference"

HEAP = Knob(
    "jvm.heap",
    Kind.SIZE,
    ApplyCost.RESTART,
    "Maximum heap of the server's JVM, and its initial heap unless jvm.heap_initial says otherwise;"
    " the JVM rounds up to its region size",
    unit="bytes",
    minimum=1024**2,
    risk=Risk.CAUTION,
    names={"jvm": "-Xmx"},
    source=_SOURCE,
)
HEAP_INITIAL = Knob(
    "jvm.heap_initial",
    Kind.SIZE,
    ApplyCost.RESTART,
    "Initial heap of the server's JVM",
    unit="bytes",
    minimum=1024**2,
    names={"jvm": "-Xms"},
    source=_SOURCE,
)
COLLECTOR = Knob(
    "jvm.collector",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "Garbage collector of the server's JVM",
    choices=("serial", "parallel", "g1", "zgc", "shenandoah"),
    names={"jvm": "-XX:+Use...GC"},
    source=_SOURCE,
)
LARGE_PAGES = Knob(
    "jvm.large_pages",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "Large pages behind the heap: transparent ones on request (madvise), or explicit ones reserved in vm.nr_hugepages",
    default="off",
    choices=("off", "transparent", "explicit"),
    risk=Risk.CAUTION,
    names={"jvm": "-XX:+UseTransparentHugePages, -XX:+UseLargePages"},
    source=_SOURCE,
)
GC_THREADS = Knob(
    "jvm.gc_threads",
    Kind.INTEGER,
    ApplyCost.RESTART,
    "Threads of a parallel collection pause",
    minimum=1,
    maximum=1024,
    unit="threads",
    names={"jvm": "-XX:ParallelGCThreads"},
    source=_SOURCE,
)
KNOBS = (HEAP, HEAP_INITIAL, COLLECTOR, LARGE_PAGES, GC_THREADS)

_LARGE_PAGE_KIB = 2048  # the smallest explicit large page of the CPUs that leadline runs on
_COLLECTOR_FLAGS = {
    "serial": "UseSerialGC",
    "parallel": "UseParallelGC",
    "g1": "UseG1GC",
    "zgc": "UseZGC",
    "shenandoah": "UseShenandoahGC",
}
# What the agent is asked for; a flag that this JVM does not have is left out of its answer.
FLAGS = (
    *_COLLECTOR_FLAGS.values(),
    "MaxHeapSize",
    "InitialHeapSize",
    "UseTransparentHugePages",
    "UseLargePages",
    "ParallelGCThreads",
    "ConcGCThreads",
)


def options(settings: Mapping[str, Level], raw: Path | None) -> list[str]:
    """Command-line options of the JVM for these levels; with ``raw``, the collector's log goes to ``raw/gc.log``.

    Raises UsageError for levels that contradict each other.
    """
    # Loading the agent into a running JVM would otherwise print a warning from Java 21 on.
    chosen = ["-XX:+EnableDynamicAgentLoading"]
    heap, initial = settings.get(HEAP.name), settings.get(HEAP_INITIAL.name, settings.get(HEAP.name))
    if isinstance(heap, int) and isinstance(initial, int) and initial > heap:
        raise UsageError(
            f"{HEAP_INITIAL.name} {HEAP_INITIAL.format(initial)} is larger than {HEAP.name} {HEAP.format(heap)};"
            f" the largest legal value is {HEAP.format(heap)}"
        )
    if initial is not None:
        chosen.append(f"-Xms{initial}")
    if heap is not None:
        chosen.append(f"-Xmx{heap}")
    if COLLECTOR.name in settings:
        chosen.append(f"-XX:+{_COLLECTOR_FLAGS[str(settings[COLLECTOR.name])]}")
    pages = settings.get(LARGE_PAGES.name)
    if pages == "transparent":
        chosen.append("-XX:+UseTransparentHugePages")
    elif pages == "explicit":
        chosen.append("-XX:+UseLargePages")
    elif pages == "off":
        chosen += ["-XX:-UseTransparentHugePages", "-XX:-UseLargePages"]
    if GC_THREADS.name in settings:
        chosen.append(f"-XX:ParallelGCThreads={settings[GC_THREADS.name]}")
    if raw is not None:
        chosen.append(f"-Xlog:gc*,safepoint:file={_log_path(raw / 'gc.log')}:uptime,time,level,tags:filecount=0")
    return chosen


def _log_path(path: Path) -> str:
    text = str(path).replace("%", "%%")
    return f'"{text}"' if ":" in text else text


def level(name: str, flags: Mapping[str, str], pid: int) -> Level:
    """A knob's level from the flags of the running JVM ``pid``. Raises LookupError if they do not tell."""
    if name == HEAP.name:
        return int(flags["MaxHeapSize"])
    if name == HEAP_INITIAL.name:
        return int(flags["InitialHeapSize"])
    if name == GC_THREADS.name:
        return int(flags["ParallelGCThreads"])
    if name == COLLECTOR.name:
        for collector, flag in _COLLECTOR_FLAGS.items():
            if flags.get(flag) == "true":
                return collector
        raise LookupError(f"the JVM names none of {', '.join(COLLECTOR.choices)} as its collector")
    if name == LARGE_PAGES.name:
        return _large_pages(flags, pid)
    raise LookupError(f"{name} is not a knob of the JVM; it has {', '.join(knob.name for knob in KNOBS)}")


def _large_pages(flags: Mapping[str, str], pid: int) -> str:
    if flags.get("UseTransparentHugePages") == "true":
        return "transparent"
    # The flag stays on when too few pages were reserved and the JVM fell back to small ones; the kernel knows.
    if flags.get("UseLargePages") == "true" and _reserved_pages(pid) >= int(flags["InitialHeapSize"]):
        return "explicit"
    return "off"


def _reserved_pages(pid: int) -> int:
    """Bytes of the process mapped in explicit large pages (proc_pid_smaps(5))."""
    try:
        lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    except OSError as error:
        raise LookupError(f"cannot ask the kernel for the pages of JVM {pid}: {error}") from error
    total = size = 0
    for line in lines:
        if line.startswith("Size:"):
            size = int(line.split()[1]) * 1024
        elif line.startswith("KernelPageSize:") and int(line.split()[1]) >= _LARGE_PAGE_KIB:
            total += size
    return total
