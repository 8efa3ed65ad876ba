"""What a GC log says, as values.

``at`` is the JVM's uptime in seconds when the line was written (the end of what it tells of), ``unix`` the same in
unix seconds where the log has wall-clock times, ``jvm`` counts the JVMs that wrote into one file. Both times have the
log's own resolution, a millisecond by default; durations are exact to what the JVM printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Heap:
    """Bytes in use before and after, and committed where the line tells."""

    before: int
    after: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """One stop of the application for the collector."""

    at: float
    unix: float | None
    jvm: int
    gc_id: int | None
    kind: str  # "Pause Young (Normal) (G1 Evacuation Pause)", generation included: "Y: Pause Mark Start (Major)"
    name: str  # "Young", "Full", "Mark Start", "Degenerated GC"
    cause: str  # "G1 Evacuation Pause"; empty where the log gives none
    ms: float
    heap: Heap | None = None
    promoted: int | None = None  # bytes by which the old generation grew; None where the log does not tell
    line: int = field(default=0, compare=False)  # of the log, from 1

    @property
    def begin(self) -> float:
        return self.at - self.ms / 1e3


@dataclass(frozen=True, slots=True)
class Cycle:
    """A collection that runs beside the application: G1's marking, a collection of ZGC or Shenandoah."""

    at: float
    unix: float | None
    jvm: int
    gc_id: int
    kind: str  # "Concurrent Mark Cycle", "Minor Collection", "Garbage Collection", "Shenandoah Cycle (Young)"
    cause: str
    ms: float | None  # None where the log has not its beginning
    heap: Heap | None = None
    live: int | None = None  # bytes found live by marking, where all of the heap was marked (ZGC)
    reclaimed: int | None = None  # bytes (ZGC)
    promoted: int | None = None  # bytes (generational ZGC)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a collection that runs beside the application, at its end."""

    at: float
    unix: float | None
    jvm: int
    kind: str  # "Concurrent Mark From Roots", "Y: Concurrent Relocate"
    ms: float


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Shenandoah gives regions back: after marking (``copied`` false), and after evacuation.

    Before the second one the heap has grown by the collector's own copies as well as by the application.
    """

    at: float
    unix: float | None
    jvm: int
    gc_id: int
    heap: Heap
    copied: bool


@dataclass(frozen=True, slots=True)
class Stall:
    """A thread that had to wait for the collector outside of a pause (ZGC)."""

    at: float
    unix: float | None
    jvm: int
    kind: str  # "Allocation Stall", "Relocation Stall"
    thread: str
    ms: float
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Safepoint:
    """One stop of all threads for any reason; ``total_ms`` includes reaching it."""

    at: float
    unix: float | None
    jvm: int
    operation: str
    reaching_ms: float
    total_ms: float
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class GcCpu:
    """CPU of a pause's threads beside its wall time, seconds in the log's hundredths."""

    at: float
    unix: float | None
    jvm: int
    gc_id: int | None
    user: float
    system: float
    real: float


@dataclass(frozen=True, slots=True)
class Sign:
    """What a line tells besides pauses and cycles; ``value`` is its number or its words."""

    at: float
    unix: float | None
    jvm: int
    name: str  # "to-space exhausted", "humongous", "out of memory"; all in driver/gclog/src/forms.rs
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class UnknownLine:
    """A line about a pause that this parser does not know: every figure may be short of it."""

    number: int  # from 1
    text: str


@dataclass(slots=True)
class Jvm:
    """One JVM in the log: what it said of itself, and its uptime at its first and last line."""

    collector: str = ""  # "G1", "Serial", "Parallel", "Z", "Shenandoah", "CMS", a policy of OpenJ9
    version: str = ""
    first: float = 0.0
    last: float = 0.0
    first_unix: float | None = None
    last_unix: float | None = None
    heap_max: int | None = None  # bytes it may grow to
    ids: list[tuple[int, int]] = field(default_factory=list)  # collections seen in any line: first and last of each run
    begun: dict[int, int] = field(default_factory=dict)  # pauses that began and have not ended: id -> line


Column = NDArray[Any]  # int64 or float64
Mask = NDArray[np.bool_]
E = TypeVar("E")

_HEAP = ("before", "after", "total")
_BLOCK = 1024  # rows made at once


def _kinds(kind: type) -> dict[str, str]:
    """A field's name and type, as ``str``, ``int | None``, in the order of the columns; a heap has three."""
    kinds: dict[str, str] = {}
    for one in fields(cast(Any, kind)):
        kinds.update(dict.fromkeys(_HEAP, "int | None") if "Heap" in str(one.type) else {one.name: str(one.type)})
    return kinds


class Events(Sequence[E], Generic[E]):
    """Events of one ``kind`` as columns, ``events["ms"]``; a row is made when it is asked for.

    What is None is NaN in a column of floats, -1 in one of integers; a text is its place in ``words``. The columns of
    a heap are "before", "after" and "total".
    """

    __slots__ = ("_columns", "_kinds", "_length", "_made", "kind", "words")

    def __init__(
        self, kind: type[E], length: int, made: Callable[[str], Column], words: Sequence[str], **columns: Column
    ) -> None:
        self.kind, self.words, self._length, self._made = kind, words, length, made
        self._columns, self._kinds = columns, _kinds(kind)  # those that were asked for

    @classmethod
    def of(cls, kind: type[E], rows: Iterable[E] = ()) -> Events[E]:
        """The columns of ``rows``."""
        words: dict[str, int] = {}
        columns: dict[str, list[float]] = {name: [] for name in _kinds(kind)}
        for row in rows:
            for one in fields(cast(Any, kind)):
                value = getattr(row, one.name)
                if "Heap" in str(one.type):
                    for name in _HEAP:
                        size = getattr(value, name, None)
                        columns[name].append(-1 if size is None else size)
                elif isinstance(value, str):
                    columns[one.name].append(words.setdefault(value, len(words)))
                else:
                    missing = -1 if str(one.type).startswith("int") else np.nan
                    columns[one.name].append(missing if value is None else value)
        kinds = _kinds(kind)
        arrays: dict[str, Column] = {name: np.array(values, _type(kinds[name])) for name, values in columns.items()}
        return cls(kind, len(arrays["at"]), arrays.__getitem__, list(words))

    @classmethod
    def read(cls, kind: type[E], matrix: NDArray[np.int64], words: Sequence[str]) -> Events[E]:
        """Of rows of 8 bytes a cell."""
        kinds, by_column = _kinds(kind), np.empty(matrix.shape[::-1], np.int64)
        for begin in range(0, len(matrix), _BLOCK):  # both sides of a block stay in the CPU's cache
            by_column[:, begin : begin + _BLOCK] = matrix[begin : begin + _BLOCK].T
        columns = {name: by_column[place].view(_type(type_)) for place, (name, type_) in enumerate(kinds.items())}
        return cls(kind, len(matrix), columns.__getitem__, words)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(self._kinds)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: str) -> Column: ...
    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> Events[E]: ...
    def __getitem__(self, index: str | int | slice) -> Column | E | Events[E]:
        if isinstance(index, str):
            if index not in self._columns:
                self._columns[index] = self._made(index)
            return self._columns[index]
        if isinstance(index, slice):
            return self.where(index)
        place = range(len(self))[index]
        return next(self._rows(place, place + 1))

    def __iter__(self) -> Iterator[E]:
        for begin in range(0, len(self), _BLOCK):
            yield from self._rows(begin, begin + _BLOCK)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Events({list(self)!r})"

    def _rows(self, begin: int, end: int) -> Iterator[E]:
        lists = {name: self._values(name, self[name][begin:end]) for name in self._kinds}
        if "before" in lists:
            sizes = zip(*(lists.pop(name) for name in _HEAP), strict=True)
            lists["heap"] = [None if before is None else Heap(before, after, total) for before, after, total in sizes]
        ordered = [lists[one.name] for one in fields(cast(Any, self.kind))]
        return map(self.kind, *ordered)

    def _values(self, name: str, column: Column) -> list[Any]:
        values, type_ = column.tolist(), self._kinds[name]
        if type_ == "str":
            return [self.words[value] for value in values]
        if type_ == "bool":
            return list(map(bool, values))
        if type_ == "float | None":
            return [None if value != value else value for value in values]
        return [None if value < 0 else value for value in values] if type_ == "int | None" else values

    def where(self, rows: Mask | slice | NDArray[np.int64]) -> Events[E]:
        """Those of a mask, or of places in another order."""
        if isinstance(rows, slice):
            length = len(range(*rows.indices(self._length)))
        else:
            length = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)
            if length == self._length and rows.dtype == np.bool_:
                return self
        return Events(self.kind, length, lambda name: self[name][rows], self.words)

    def says(self, name: str, holds: Callable[[str], bool]) -> Mask:
        """Which events have a text in the column ``name`` for which this holds."""
        known = np.zeros(len(self.words), bool)
        for word in self._used(name):
            known[word] = holds(self.words[word])
        return cast(Mask, known[self[name]])

    def _used(self, name: str) -> list[int]:
        column = self[name]
        return np.flatnonzero(np.bincount(column)).tolist() if len(column) else []

    def texts(self, name: str) -> list[str]:
        """The column ``name`` as texts."""
        return self._values(name, self[name])

    def groups(self, name: str) -> dict[str, Mask]:
        """Which events have each of the texts in the column ``name``."""
        return {self.words[word]: self[name] == word for word in self._used(name)}

    def of_jvm(self, jvm: int) -> Events[E]:
        """As if it were the only one."""
        own = self.where(self["jvm"] == jvm)
        return Events(self.kind, len(own), own.__getitem__, self.words, jvm=np.zeros(len(own), np.int64))

    @property
    def begin(self) -> Column:
        """When each began, uptime in s; NaN where the log does not tell."""
        return self["at"] - self["ms"] / 1e3


def _type(kind: str) -> type:
    return np.float64 if kind.startswith("float") else np.int64


# Lists of a log; each event has ``jvm``.
KINDS: Mapping[str, type] = {
    "pauses": Pause,
    "cycles": Cycle,
    "phases": Phase,
    "cleanups": Cleanup,
    "stalls": Stall,
    "safepoints": Safepoint,
    "cpu": GcCpu,
    "signs": Sign,
}


@dataclass(slots=True)
class GcLog:
    """All events of one log in the order of its lines; a log may lie in several files (rotation)."""

    pauses: Events[Pause] = field(default_factory=lambda: Events.of(Pause))
    cycles: Events[Cycle] = field(default_factory=lambda: Events.of(Cycle))
    phases: Events[Phase] = field(default_factory=lambda: Events.of(Phase))
    cleanups: Events[Cleanup] = field(default_factory=lambda: Events.of(Cleanup))
    stalls: Events[Stall] = field(default_factory=lambda: Events.of(Stall))
    safepoints: Events[Safepoint] = field(default_factory=lambda: Events.of(Safepoint))
    cpu: Events[GcCpu] = field(default_factory=lambda: Events.of(GcCpu))
    signs: Events[Sign] = field(default_factory=lambda: Events.of(Sign))
    unknown: list[UnknownLine] = field(default_factory=list)  # the first 1,000 of them
    damaged: list[UnknownLine] = field(default_factory=list)
    more_unknown: int = 0
    more_damaged: int = 0
    jvms: list[Jvm] = field(default_factory=list)
    lines: int = 0
    understood: int = 0  # lines that are the log's: with its fields, its records, its elements
    format: str = ""
    library: str = ""  # a format that is not read
    foreign: int = 0  # lines that are none of the log's: a program's own output
    truncated: bool = False  # the last line is cut
    timeless: bool = False  # lines have neither uptime nor wall clock
    alternating: bool = False  # several JVMs wrote line by line and cannot be told apart
    allocation_unknown: str = ""  # why no rate of allocation can be told
    notes: list[str] = field(default_factory=list)  # what was read otherwise than asked: rotated files, mixed lines

    @property
    def silent(self) -> str:
        """Why a log without a pause says nothing of pauses: that is never a zero. Empty where it has pauses."""
        if self.pauses:
            return ""
        if not self.lines and not self.jvms:
            return "the log is empty: that it has no pause says nothing of the JVM"
        if self.cycles and any(jvm.collector in ("Z", "") for jvm in self.jvms):
            return "this log has no pauses: `-Xlog:gc` of ZGC does not write them; use -Xlog:gc*"
        if any(jvm.collector == "Epsilon" for jvm in self.jvms):
            return "this log has no pauses: Epsilon does not collect"
        collections = sum(last - first + 1 for jvm in self.jvms for first, last in jvm.ids)
        if self.cycles or collections:
            plural = _plural(max(collections, len(self.cycles)), "collection")
            return f"this log has {plural} and no line of a pause: what was logged leaves them out; use -Xlog:gc*"
        if self.unknown:
            return "this log has no pause that could be read"
        return "this log has no collection: it says nothing of pauses"

    def of(self, jvm: int) -> GcLog:
        """The events of one JVM, which is number 0 in the result. What belongs to no JVM is left out."""
        part = GcLog(jvms=[self.jvms[jvm]], timeless=self.timeless, format=self.format)
        part.allocation_unknown = self.allocation_unknown
        for name in KINDS:
            setattr(part, name, getattr(self, name).of_jvm(jvm))
        return part

    def where(self, inside: Callable[[Events[Any]], Mask]) -> GcLog:
        """With those of each kind of events for which ``inside`` holds."""
        lists = {name: getattr(self, name) for name in KINDS}
        return replace(self, **{name: events.where(inside(events)) for name, events in lists.items()})

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that makes the figures less than those of the whole life of one JVM, in sentences."""
        warnings = list(self.notes)
        if self.silent:
            warnings.append(self.silent)
        if self.unknown:
            first, count = self.unknown[0], len(self.unknown) + self.more_unknown
            lines = "1 line about a pause is" if count == 1 else f"{count} lines about pauses are"
            warnings.append(
                f"{lines} not known, so every figure may be short of {'it' if count == 1 else 'them'}; the first is "
                f"line {first.number}: {first.text}"
            )
        if self.damaged:
            first, count = self.damaged[0], len(self.damaged) + self.more_damaged
            lines = "1 line is damaged and was" if count == 1 else f"{count} lines are damaged and were"
            warnings.append(f"{lines} left out; the first is line {first.number}: {first.text}")
        if self.alternating:
            warnings.append(
                "lines of several JVMs alternate and cannot be told apart: the pauses are those of all, and nothing "
                "that needs a time is told; log each to a file of its own, or with the decorators uptime and time"
            )
        elif len(self.jvms) > 1:
            warnings.append(f"{len(self.jvms)} JVMs wrote into this log; the first figures take them together")
        for number, jvm in enumerate(() if self.alternating else self.jvms):
            who = f"JVM {number + 1}: " if len(self.jvms) > 1 else ""
            warnings += [f"{who}{text}" for text in _gaps(jvm)]
        if self.timeless and not self.alternating and (self.pauses or self.cycles):
            warnings.append("the lines have no time: nothing that needs one is told")
        if self.truncated:
            warnings.append("the last line is cut")
        return tuple(warnings)


CANCELLED = "cancelled before it began"


def _gaps(jvm: Jvm) -> list[str]:
    """Collections that must have been and are not in the log: ids count up from 0 without a gap."""
    gaps = []
    if jvm.ids:
        low, high = jvm.ids[0][0], jvm.ids[-1][1]
        if low:
            gaps.append(f"the log begins with collection {low}: the first {low} are not in it")
        missing = [[run[1] + 1, other[0] - 1] for run, other in pairwise(jvm.ids)]
        if missing:
            count = sum(last - first + 1 for first, last in missing)
            # Shenandoah numbers a concurrent cycle before it looks whether an allocation has failed meanwhile.
            or_not = f", or {CANCELLED}" if jvm.collector.startswith("Shenandoah") else ""
            gaps.append(f"{_plural(count, 'collection')} missing in the middle{or_not}: {_written(missing)}")
        # The last collection of a JVM that was killed, or of a log still being written, is no gap.
        lost = sorted(number for number in jvm.begun if number < high)
        if lost:
            gaps.append(
                f"{_plural(len(lost), 'pause')} began and did not end in the log: collections {_written(_runs(lost))}"
            )
    return gaps


def shown(text: str) -> str:
    """A line that is shown, without what a terminal would take for commands."""
    return "".join(mark if mark.isprintable() else "?" for mark in text)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _runs(numbers: list[int]) -> list[list[int]]:
    """First and last of each run of neighbours."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _written(runs: list[list[int]], most: int = 6) -> str:
    """``3, 7-9``; cut after ``most`` of them."""
    words = [f"{low}" if low == high else f"{low}-{high}" for low, high in runs[:most]]
    return ", ".join(words) + (", ..." if len(runs) > most else "")
