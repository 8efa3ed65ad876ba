"""The forms of the unified log's messages that carry figures."""

from __future__ import annotations

import re

from leadline.gcanalysis.events import Heap

# Serial, Parallel, G1, CMS of JDK 11; ZGC; Shenandoah.
PAUSES = frozenset(
    (
        *("Young", "Full", "Mixed", "Remark", "Cleanup", "Initial Mark"),
        *("Mark Start", "Mark End", "Relocate Start"),
        *("Init Mark", "Final Mark", "Init Update Refs", "Final Update Refs", "Final Roots", "Degenerated GC"),
        *("Incremental GC", "Full GC"),  # of native images
        *("Init Evac", "Final Evac", "Init Traversal", "Final Traversal", "Verify Final Roots"),
    )
)
# With these the parentheses after the name end in the cause; elsewhere they tell of the phase.
CAUSED = frozenset(("Young", "Full", "Mixed", "Initial Mark"))
OF_NATIVE_IMAGES = {"Incremental GC": "Young", "Full GC": "Full"}
# Of these a collection has one.
ONCE = frozenset(("Young", "Full", "Mixed", "Initial Mark", "Mark Start", "Init Mark"))
G1_TYPES = frozenset(("Normal", "Concurrent Start", "Prepare Mixed", "Mixed", "Concurrent End", "Mixed GC"))

_ID = r"(?:GC\((?P<id>\d+)\) )?(?:(?P<generation>[YyOo]): )?"
_GROUPS = r"(?P<groups>(?: \((?:[^()]|\([^()]*\))*\))*)"
_HEAP = (
    r"(?P<before>\d+(?:\.\d+)?)(?P<before_unit>[BKMGT])(?:\(\d+%\))?->"
    r"(?P<after>\d+(?:\.\d+)?)(?P<after_unit>[BKMGT])(?:\(\d+%\)|\((?P<total>\d+)(?P<total_unit>[BKMGT])\))?"
)
PAUSE = re.compile(_ID + r"Pause (?P<name>[A-Z][A-Za-z ]*?)" + _GROUPS + rf"(?: {_HEAP})? (?P<ms>\d+[.,]\d+)ms")
# Without heap and time it is the line at a pause's beginning.
BEGINNING = re.compile(_ID + rf"Pause (?:{'|'.join(sorted(PAUSES))})" + _GROUPS)
STATISTICS = re.compile(r"Pause [A-Za-z ]{1,40}(?:\([GN]\))? *(?:\d{1,12} us|= +[\d.]{1,12} s \(a)")
PAUSE_AT_ALL = re.compile(_ID + r"Pause\b")
COLLECTION = re.compile(
    _ID + r"(?P<name>(?:Garbage|Minor|Major) Collection)" + _GROUPS + rf"(?: {_HEAP}(?: (?P<s>\d+[.,]\d+)s)?)?"
)
MARK_CYCLE = re.compile(_ID + r"(?P<name>Concurrent(?: Mark| Undo)? Cycle)" + r"(?: (?P<ms>\d+[.,]\d+)ms)?")
PHASE = re.compile(_ID + r"Concurrent (?P<name>[A-Za-z ]+?)" + _GROUPS + rf"(?: {_HEAP})? (?P<ms>\d+[.,]\d+)ms")
STALL = re.compile(
    r"(?:GC\(\d+\) )?(?P<kind>(?:Allocation|Relocation|Page Cache Flush) Stall) "
    r"\((?P<thread>.*)\) (?P<ms>\d+[.,]\d+)ms"
)
CPU = re.compile(_ID + r"User=(?P<user>\d+[.,]\d+)s Sys=(?P<sys>\d+[.,]\d+)s Real=(?P<real>\d+[.,]\d+)s")
SAFEPOINT = re.compile(
    r'Safepoint "(?P<operation>[^"]*)", .*?Reaching safepoint: +(?P<reaching>\d+) ns,.*? Total: +(?P<total>\d+) ns.*'
)
STOPPED = re.compile(  # JDK 11 and 12
    r"Total time for which application threads were stopped: (?P<total>\d+[.,]\d+) seconds, "
    r"Stopping threads took: (?P<reaching>\d+[.,]\d+) seconds"
)
ENTERING = re.compile(r"Entering safepoint region: (?P<operation>.*)")
CAPACITY = re.compile(_ID + r" *Capacity: +(?:\d+[BKMGT] \(\d+%\) +){3}(?P<total>\d+)(?P<total_unit>[BKMGT]) .*")
MAXIMUM = re.compile(r"(?:GC\(\d+\) )?(?:[YyOo]: )?(?:Heap )?Max Capacity: (?P<total>\d+)(?P<total_unit>[BKMGT]).*")
CANCELLED = re.compile(r"Cancelling GC: (?P<cause>.*)")
USING = re.compile(r"Using (?:The )?(?P<name>Serial|Parallel|G1|Z|Shenandoah|Epsilon|Concurrent Mark Sweep)\b.*")
VERSION = re.compile(r"Version: (?P<version>\S+).*")
# Occupancy of the old generation around a pause: bytes of Serial, Parallel, CMS; regions of G1.
OLD = re.compile(
    r"GC\((?P<id>\d+)\) (?:Tenured|ParOldGen|PSOldGen|CMS): (?P<before>\d+)K(?:\(\d+K\))?->(?P<after>\d+)K.*"
)
OLD_REGIONS = re.compile(r"GC\((?P<id>\d+)\) Old regions: (?P<before>\d+)->(?P<after>\d+).*")
REGION_SIZE = re.compile(r"Heap [Rr]egion [Ss]ize: (?P<size>\d+)(?P<unit>[BKMG])")
# A row of ZGC's table of the heap: columns are mark start, mark end, relocate start, relocate end.
Z_ROW = re.compile(r"GC\((?P<id>\d+)\) (?:[YyOo]: )? *(?P<name>Live|Reclaimed|Promoted): +(?P<columns>[-\dBKMGT()% ]+)")
Z_CELL = re.compile(r"(\d+)([BKMGT]) \(")
# Decorators in the middle of a line: two lines were torn into one.
SPLICED = re.compile(r"\[\d[^\]\[]*\](?:\[[^\]\[]*\])*\[(?:trace|debug|info|warning|error) *\]")

# What a line tells besides pauses, by the name of a ``Sign``; a group has its number or its words.
_SIGNS = {
    "to-space exhausted": r"GC\(\d+\) To-space exhausted",
    "promotion failed": r"GC\(\d+\) Promotion failed$",
    "concurrent mode failure": r"GC\(\d+\) Concurrent [Mm]ode [Ff]ailure",
    "marking aborted": r"GC\(\d+\) Concurrent Mark Abort",
    "humongous": r"GC\(\d+\) Humongous regions: (\d+)->\d+",
    "out of memory": r"Out Of Memory \((.{1,100})\)|.{0,400}?java\.lang\.OutOfMemoryError(?:: (.{1,120}))?",
    "overhead limit": r"GC [Oo]verhead [Ll]imit [Ee]xceeded.*",
    "metaspace full": r"Metaspace \(.{1,40}\) allocation failed",
    "messages dropped": r" *(\d+) messages dropped due to async logging",
    "workers": r"Parallel Workers: (\d+)",
    "cpus": r"CPUs: \d+ total, (\d+) available",
    "asked": r"Trigger(?: \([A-Z][a-z]+\))?: (?:(?:Explicit )?GC request \((.{1,60})\)|(Metadata GC .{1,40}))",
    "pacing": r"Pacing +=\s+(\d+\.\d+) s \(a",
    "many references": r"GC\(\d+\) (?:[YyOo]: )?(?:Encountered references: )?"
    r"(?:(?:Soft|Weak|Final): \d+(?:, | encountered.*))*(?:Soft|Weak|Final|Phantom)(?: References)?: +(\d{6,12})\b",
    "references": r"(?:GC\(\d+\) )?\s*Reference Processing:? +(\d+[.,]\d+)ms",
}
_SIGN_NAMES = tuple(_SIGNS)
_SIGN = re.compile("|".join(f"(?P<s{n}>{form})" for n, form in enumerate(_SIGNS.values())))


def sign_of(message: str) -> tuple[str, str] | None:
    """The name of what a message tells besides pauses, and its number or words."""
    match = _SIGN.match(message)
    if match is None:
        return None
    place = next(n for n in range(len(_SIGN_NAMES)) if match[f"s{n}"] is not None)
    inner = [text for text in match.groups()[match.re.groupindex[f"s{place}"] :] if text is not None]
    return _SIGN_NAMES[place], inner[0].strip() if inner else ""


def may_be_sign(text: str) -> bool:
    """Whether a line can hold a sign: decided before it is split."""
    return (
        "xhausted" in text
        or ("Humongous regions: " in text and "regions: 0->0" not in text)
        or "OutOfMemoryError" in text
        or "Out Of Memory (" in text
        or "llocation failed" in text
        or "romotion failed" in text
        or "ode failure" in text
        or " dropped due" in text
        or "Mark Abort" in text
        or " Workers: " in text
        or "CPUs: " in text
        or "Trigger" in text
        or "Pacing  " in text
        or "verhead " in text
        or "Reference Processing" in text
        or "References: " in text
        or "ncountered" in text
    )


# Pauses as the three formats tell them: in a log of one, a line of another is a pause that is not read.
OF_JDK_8 = re.compile(r"\[(?:Full |Incremental )?GC.*\d secs\]")
OF_UNIFIED = re.compile(r"GC\(\d+\) Pause .*\d[.,]\d{1,9}ms\s*$")
OF_OPENJ9 = re.compile(r"<exclusive-end\b")

_DIGITS = 16
UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def matters(text: str) -> bool:
    """Whether a line can be of use. Most are not: this decides how long a log takes (a loop costs twice as much)."""
    return (
        "Pause" in text
        or "Concurrent " in text
        or "Coalescing" in text
        or "Safepoint " in text
        or "User=" in text
        or "Collection" in text
        or " Stall (" in text
        or "apacity: " in text
        or " Old regions: " in text
        or "OldGen: " in text
        or " Tenured: " in text
        or " CMS: " in text
        or "Reclaimed: " in text
        or "Live: " in text
        or "Promoted: " in text
        or "Cancelling GC" in text
        or ("Using " in text and ") Using " not in text)
        or "egion " in text
        or "Version: " in text
        or "Total time for which" in text
        or "Entering safepoint" in text
    )


def optional(number: str | None) -> int | None:
    """The number, or None."""
    return None if number is None else whole(number)


def whole(number: str) -> int:
    """Raises ValueError for more digits than any figure of a JVM has: the line is damaged."""
    if len(number) > _DIGITS:
        raise ValueError(f"{len(number)} digits")
    return int(number)


def decimal(number: str) -> float:
    """Of a locale with a point or a comma. Raises ValueError as ``whole``."""
    if len(number) > _DIGITS:
        raise ValueError(f"{len(number)} digits")
    return float(number.replace(",", "."))


def to_bytes(number: str, unit: str) -> int:
    """``number`` of ``unit`` (B to T); a native image's has a fraction."""
    return round(decimal(number) * UNITS[unit]) if "." in number else whole(number) * UNITS[unit]


def heap_of(match: re.Match[str]) -> Heap | None:
    """The heap's change in a message that may have one."""
    if not match["before"]:
        return None
    total = to_bytes(match["total"], match["total_unit"]) if match["total"] else None
    return Heap(to_bytes(match["before"], match["before_unit"]), to_bytes(match["after"], match["after_unit"]), total)


def split_groups(groups: str) -> list[str]:
    """``(a) (b (c))`` as ``a``, ``b (c)``."""
    return [group[1:-1] for group in re.findall(r"\((?:[^()]|\([^()]*\))*\)", groups)]


def first_group(groups: str) -> str:
    """The first of them, or empty."""
    return next(iter(split_groups(groups)), "")
