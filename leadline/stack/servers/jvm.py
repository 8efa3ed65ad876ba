"""Knobs of the JVM and its product flags: options of its command line, read from the flags of the running JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from leadline import catalogue
from leadline.host.base import Files
from leadline.host.files import variable
from leadline.host.java import java_says
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import ApplyCost, AtStart, Kind, Knob, Level, Owner
from leadline.stack.servers import large_pages

PREFIX = "jvm.flag."
_SEPARATORS = re.compile(r"[\s,'\"=\\]")  # of the recorder's options
_ROW = re.compile(r"\s*(\w+)\s+(\w+)\s+=(.*?)\s*\{([^}]*)\}\s*\{[^}]*\}\s*")
_RANGE = re.compile(r"\s*\w+\s+(\w+)\s+\[\s*(\S+)\s+\.\.\.\s+(\S+)\s*\]")
_KINDS = {
    "bool": Kind.BOOLEAN,
    "size_t": Kind.SIZE,
    "double": Kind.NUMBER,
    "ccstr": Kind.TEXT,
    "ccstrlist": Kind.TEXT,
}


def flag_knobs(home: Path) -> Mapping[str, Knob]:
    """Every product flag of the JVM in a JAVA_HOME by the knob's name, ``jvm.flag.NAME``, but those that leadline has
    by another name: two knobs of one flag would contradict each other. Empty where it does not tell them.
    """
    library = next((path for path in (home / "release", home / "bin" / "java") if path.exists()), home)
    try:
        return _flag_knobs(home, library.stat().st_mtime_ns)
    except OSError:
        return {}


@lru_cache(maxsize=8)
def _flag_knobs(home: Path, changed: int) -> Mapping[str, Knob]:  # noqa: ARG001 - a new JVM is asked again
    values, ranges = (java_says(home, f"-XX:+PrintFlags{which}").stdout for which in ("Final", "Ranges"))
    return knobs_in(values, ranges)


def knobs_in(values: str, ranges: str) -> Mapping[str, Knob]:
    """The knobs in what ``-XX:+PrintFlagsFinal`` and ``-XX:+PrintFlagsRanges`` print."""
    bounds = {match[1]: (match[2], match[3]) for line in ranges.splitlines() if (match := _RANGE.match(line))}
    knobs = {}
    for line in values.splitlines():
        match = _ROW.fullmatch(line)
        if match is not None and match[2] not in _elsewhere():
            knobs[PREFIX + match[2]] = _knob(match[1], match[2], match[3].strip(), match[4], bounds.get(match[2]))
    return knobs


def _knob(java: str, name: str, value: str, groups: str, bounds: tuple[str, str] | None) -> Knob:
    kind = _KINDS.get(java, Kind.INTEGER)
    live = "manageable" in groups.split()
    low, high = (float(bound) for bound in bounds) if bounds else (None, None)
    if kind is Kind.BOOLEAN:
        low = high = None
    return Knob(
        PREFIX + name,
        kind,
        ApplyCost.LIVE if live else ApplyCost.RESTART,
        f"Flag of this JVM ({java}, {groups})",
        _level(kind, value),
        "" if value else "empty",
        minimum=low,
        maximum=high,
        owner=Owner.JVM,
        names={"jvm": f"-XX:{'+' if kind is Kind.BOOLEAN else ''}{name}"},
        source="-XX:+PrintFlagsFinal and -XX:+PrintFlagsRanges of this JVM",
    )


def _level(kind: Kind, text: str) -> Level | None:
    if kind is Kind.TEXT:
        return text or None
    if kind is Kind.BOOLEAN:
        return text == "true"
    return float(text) if kind is Kind.NUMBER else int(text)


def level_of(knob: Knob, text: str) -> Level:
    """The level from the flag's value in a running JVM. Raises LookupError."""
    try:
        level = _level(knob.kind, text)
    except ValueError as error:
        raise LookupError(f"{knob.name}: {error}") from error
    return "" if level is None else level


def option(knob: Knob, level: Level) -> str:
    """The word of the command line that sets a level."""
    if isinstance(level, bool):
        return f"-XX:{'+' if level else '-'}{knob.name.removeprefix(PREFIX)}"
    return f"-XX:{assigned(knob.name, level)}"


def assigned(name: str, level: Level) -> str:
    """``NAME=VALUE`` as the JVM takes it."""
    text = "true" if level is True else "false" if level is False else level
    return f"{name.removeprefix(PREFIX)}={text}"


def refusal(home: Path, options: list[str]) -> str:
    """Why the JVM does not start with these options, in its own words; empty where it does."""
    try:
        done = java_says(home, *options)
    except OSError as error:
        return str(error)
    lines_said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    problems = [
        line for line in lines_said if not line.startswith(("Error: Could not create", "Error: A fatal exception"))
    ]
    return "; ".join(problems[:2]) if done.returncode else ""


def elsewhere(name: str, known: Mapping[str, Knob]) -> str:
    """Why there is no knob ``jvm.flag.NAME``: leadline has it by another name, or the JVM has one that is like it;
    empty for other names.
    """
    if not name.startswith(PREFIX) or name in known:
        return ""
    flag = name.removeprefix(PREFIX)
    if (other_name := _elsewhere().get(flag)) is not None:
        return f"the flag {flag} is the knob {other_name} here; write that"
    near = nearest(name, list(known))
    return f"this JVM has no product flag {flag}" + (f"; did you mean {near}?" if near else "")


@lru_cache(maxsize=1)
def _elsewhere() -> Mapping[str, str]:
    """Flags that other knobs set, with the names of those."""
    knob_of_flag = {flag.name: name for name, flag in FLAG_OF.items()}
    knob_of_flag |= dict.fromkeys(COLLECTOR_FLAGS.values(), COLLECTOR.name)
    return knob_of_flag | dict.fromkeys(("UseTransparentHugePages", "UseLargePages"), LARGE_PAGES.name)


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
MALLOC_ARENAS = _KNOBS["jvm.malloc_arenas"]
_ARENAS = "MALLOC_ARENA_MAX"  # mallopt(3)

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

# Written by themselves below; the others are -XX:FLAG=LEVEL or -XX:+FLAG.
_NO_TARGET = 2**53  # milliseconds; the parallel collector without one says about 2**64
_SHORT = {HEAP.name: "-Xmx", HEAP_INITIAL.name: "-Xms", YOUNG_SIZE.name: "-Xmn", THREAD_STACK.name: "-Xss"}


# Without it a sample in compiled code is credited to the nearest safepoint, often in another inlined method. The JVM
# sets it by itself only where a recording is asked for at its start.
EXACT_FRAMES = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints")


def recorder(directory: Path) -> list[str]:
    """Options of a JVM whose flight recorder will run. It works in ``directory``, which it makes: what a killed JVM
    leaves is the trial's, not the temporary directory's of the host. Not where a path has characters that separate
    options.
    """
    plain = _SEPARATORS.search(str(directory)) is None
    return [*EXACT_FRAMES, *([f"-XX:FlightRecorderOptions:repository={directory}"] if plain else ())]


def options(
    settings: Mapping[str, Level], log: Path | None, known: Mapping[str, Knob] = MappingProxyType({})
) -> list[str]:
    """Command-line options of the JVM for these levels; with ``log``, the collector's log goes there. ``known``: flags
    of this JVM (``jvm.flag.NAME``).

    Raises UsageError for levels that contradict each other.
    """
    # Loading the agent into a running JVM would otherwise print a warning from Java 21 on.
    chosen = ["-XX:+EnableDynamicAgentLoading"]
    _check(settings)
    levels = {name: settings[name] for name in _KNOBS if name in settings}
    if HEAP.name in levels:
        levels.setdefault(HEAP_INITIAL.name, levels[HEAP.name])
    levels.pop(MALLOC_ARENAS.name, None)  # a variable
    for name, level_ in levels.items():
        if name == COLLECTOR.name:
            chosen.append(f"-XX:+{COLLECTOR_FLAGS[str(level_)]}")
        elif name == LARGE_PAGES.name:
            chosen += large_pages.options(str(level_))
        elif name in _SHORT:
            chosen.append(f"{_SHORT[name]}{level_}")
        else:
            chosen.append(_flag_option(name, level_))
    chosen += [option(known[name], level_) for name, level_ in settings.items() if name in known]
    if log is not None:
        chosen.append(f"-Xlog:gc*,safepoint:file={_log_path(log)}:uptime,time,level,tags:filecount=0")
    return chosen


def environment(settings: Mapping[str, Level]) -> dict[str, str]:
    """Variables of the JVM's process for these levels. 0, which is below what glibc takes, stands in the place of a
    number that leadline's own environment may have.
    """
    return {_ARENAS: str(settings[MALLOC_ARENAS.name])} if MALLOC_ARENAS.name in settings else {}


def _flag_option(name: str, level_: Level) -> str:
    if isinstance(level_, bool):
        return f"-XX:{'+' if level_ else '-'}{FLAG_OF[name].name}"
    return f"-XX:{_flag(name, level_)}"


def _flag(name: str, level_: Level) -> str:
    flag = FLAG_OF[name]
    return f"{flag.name}={level_ if isinstance(level_, str) else round(level_ / flag.unit)}"


def flags(levels: Mapping[str, Level]) -> dict[str, str]:
    """What the agent is told for live levels: flags that the JVM lets change while it runs (``manageable``)."""
    return {
        f"flag.{name}": _flag(name, level_) if name in FLAG_OF else assigned(name, level_)
        for name, level_ in levels.items()
    }


def _check(settings: Mapping[str, Level]) -> None:
    for smaller in (HEAP_INITIAL, SOFT_MAX_HEAP, YOUNG_SIZE):
        size, heap = settings.get(smaller.name), settings.get(HEAP.name)
        if isinstance(heap, int) and isinstance(size, int) and size > heap:
            raise UsageError(
                f"{smaller.name} {smaller.format(size)} is larger than {HEAP.name} {HEAP.format(heap)};"
                f" the largest legal value is {HEAP.format(heap)}"
            )
    if YOUNG_SIZE.name in settings and YOUNG_RATIO.name in settings:
        raise UsageError(f"{YOUNG_SIZE.name} and {YOUNG_RATIO.name} say the same thing twice; keep one of them")
    region = settings.get(G1_REGION_SIZE.name)
    if isinstance(region, int) and region & (region - 1):
        nearest = 1 << (region.bit_length() - 1)
        raise UsageError(
            f"{G1_REGION_SIZE.name} {G1_REGION_SIZE.format(region)} is not a power of two;"
            f" the nearest below is {G1_REGION_SIZE.format(nearest)}"
        )
    if COLLECTOR.name in settings:
        for name in ONLY_WITH:
            if name in settings and settings[COLLECTOR.name] not in ONLY_WITH[name]:
                raise UsageError(_no_effect(name, str(settings[COLLECTOR.name])))


def _no_effect(name: str, collector: str) -> str:
    able = ONLY_WITH[name]
    return f"{name} has no effect with the {collector} collector, only with {', '.join(able)} ({COLLECTOR.name})"


def fit_for_log(path: Path) -> bool:
    """Whether the JVM takes it as the name of a log: it knows no way to write a quotation mark."""
    return '"' not in str(path)


def _log_path(path: Path) -> str:
    text = str(path).replace("%", "%%")
    return f'"{text}"' if ":" in text else text


class Jvm(AtStart):
    """A server's JVM as the owner of its knobs. ``asked``: the flags in force, the host's files, the JVM's pid."""

    def __init__(self, asked: Callable[[], tuple[Mapping[str, str], Files, int]]) -> None:
        self._asked = asked
        self._home: Path | None = None

    def of(self, home: Path | None) -> None:
        """Have the flags of the JVM in this JAVA_HOME as knobs, too."""
        self._home = home

    @property
    def flags(self) -> Mapping[str, Knob]:
        """``jvm.flag.NAME`` of every product flag that has no knob of another name; empty before ``of``."""
        return flag_knobs(self._home) if self._home is not None else {}

    def knobs(self) -> Sequence[Knob]:
        return (*KNOBS, *self.flags.values())

    def read_back(self, name: str) -> Level:
        """Raises LookupError, KeyError."""
        if (knob := self.flags.get(name)) is not None:
            values, _, _ = self._asked()
            return level_of(knob, values[name.removeprefix(PREFIX)])
        return level(name, *self._asked())


def level(name: str, flags: Mapping[str, str], files: Files, pid: int) -> Level:
    """A knob's level from the flags of the running JVM ``pid``. Raises LookupError if they do not tell."""
    if name not in _KNOBS:
        raise LookupError(f"{name} is not a knob of the JVM; it has {', '.join(_KNOBS)}")
    if name == LARGE_PAGES.name:
        return large_pages.found(flags, files, pid)
    if name == MALLOC_ARENAS.name:
        try:
            return int(variable(files, [pid], _ARENAS, "0"))
        except ValueError as error:
            raise LookupError(f"{name}: {error}") from error
    if name == COLLECTOR.name:
        return _collector(flags)
    if name in ONLY_WITH and (collector := _collector(flags)) not in ONLY_WITH[name]:
        raise LookupError(_no_effect(name, collector))
    if name == ZGC_GENERATIONAL.name and FLAG_OF[name].name not in flags:
        return True  # a JVM that runs with it and does not know it any more: Java 24 and later
    if name == YOUNG_SIZE.name and flags["NewSize"] != flags["MaxNewSize"]:
        raise LookupError(f"the young generation may have {flags['NewSize']} to {flags['MaxNewSize']} bytes")
    flag = FLAG_OF[name]
    value = flags[flag.name]
    kind = _KNOBS[name].kind
    if kind is Kind.BOOLEAN:
        return value == "true"
    if kind is Kind.CHOICE:
        return value
    if name == PAUSE_TARGET.name and not 0 < int(value) < _NO_TARGET:
        raise LookupError("the JVM aims at no pause")
    scaled = int(value) * flag.unit
    return scaled if kind is Kind.DURATION else round(scaled)


def _collector(flags: Mapping[str, str]) -> str:
    for collector, flag in COLLECTOR_FLAGS.items():
        if flags.get(flag) == "true":
            return collector
    raise LookupError(f"the JVM names none of {', '.join(COLLECTOR.choices)} as its collector")
