"""The bracketed fields before each message of the unified log, told apart by their form, in any order.

Anything may stand before them (a container's name, a time stamp, another bracket): where the fields end is known by the
words that begin the JVM's messages, and what the fields are is learnt from these lines and remembered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

_MESSAGE = re.compile(
    r"GC\(\d+\) |Using (?:The )?(?:Serial|Parallel|G1|Z|Shenandoah|Epsilon|Concurrent Mark Sweep)\b|Safepoint \"|"
    r"Total time for which|Entering safepoint region|(?:Allocation|Relocation|Page Cache Flush) Stall \(|"
    r"Cancelling GC|Version: \d|Heap [Rr]egion [Ss]ize: \d|(?:Heap )?Max Capacity: \d"
)
_NUMBER = re.compile(r"(\d{1,24}(?:[.,]\d{1,12})?)(s|ms|ns)")
_TAGS = re.compile(r"[a-z][a-z0-9_+]*(?:,[a-z0-9_+]+)*")
_OURS = frozenset(("gc", "safepoint"))
_SCALE = {"s": 1.0, "ms": 1e-3, "ns": 1e-9}
_EPOCH = 1e8  # s; an uptime of three years is not believed, a wall clock of 1973 neither
_BEYOND = 1e11  # s; damaged
_NO_TAGS: frozenset[str] = frozenset()
_MOST_FIELDS = 16  # the JVM knows twelve decorators
_SHIFTED = 3  # characters by which a prefix with a number in it gets longer
_FARTHEST = 1000  # characters before the message


class Line(NamedTuple):
    """``uptime`` in seconds and ``unix`` in unix seconds, None where the log lacks that decorator."""

    uptime: float | None
    unix: float | None
    tags: frozenset[str]  # empty: the log has no tags
    message: str
    number: str = ""  # of the process or of the thread, where the log has such a decorator


class _Layout(NamedTuple):
    """Places of the fields, -1 for one that the log has not."""

    uptime: int
    wall: int
    tags: int
    number: int = -1


class Splitter:
    """Lines into decorators and message. What a log's fields are is remembered by their number."""

    def __init__(self) -> None:
        self._tags: dict[str, frozenset[str]] = {"": _NO_TAGS}
        self._layouts: dict[int, _Layout] = {}
        self._forms: set[tuple[int, str]] = set()  # number of fields, kind of the first one
        self._deferred: Counter[tuple[int, str]] = Counter()
        self._no_tags: set[str] = set()  # last fields that are none: hosts, levels
        self._begin = 0  # where the fields began in the line before
        self._stamp = ""
        self._unix: float | None = None

    def split(self, text: str) -> Line | None:
        """None for a line that is none of the log's. A log without decorators has only those known by their words."""
        begin = self._begin
        if text[begin : begin + 1] == "[":
            end = text.find("] ", begin) + 1
            # Behind the last field comes no other one: it would be what a container puts before each line.
            if end and text[end + 1 : end + 2] != "[":
                line = self._line(text[begin + 1 : end - 1].split("]["), text, end)
                if line is not None:
                    return line
        return self._search(text)

    def belongs(self, text: str) -> bool:
        """Whether a line has the log's decorators, without a look at them."""
        begin = self._begin
        if text[begin : begin + 1] == "[":
            end = text.find("] ", begin, begin + _FARTHEST)
            if end >= 0 and (text.count("][", begin, end) + 1, _kind(text[begin + 1])) in self._forms:
                return True
        return _MESSAGE.search(text, 0, _FARTHEST) is not None or bool(_forms(text, begin) & self._forms)

    def defer(self, text: str) -> None:
        """A line that came before any that teaches what the fields are."""
        self._deferred.update(_forms(text))

    def recall(self) -> int:
        """How many of the deferred lines have the log's decorators, as is known now."""
        count = max((self._deferred[form] for form in self._forms), default=0)
        self._deferred.clear()
        return count

    def _search(self, text: str) -> Line | None:
        match = _MESSAGE.search(text, 0, _FARTHEST)
        if match is None:
            return self._by_fields(text)
        begin, fields = _fields_before(text, match.start())
        if not fields:
            if self._layouts:  # the rest of a torn line, or a program's own words
                return None
            return Line(None, None, _NO_TAGS, text[match.start() :].strip())
        self._begin = begin
        return self._line(fields, text, match.start(), learn=True)

    def _by_fields(self, text: str) -> Line | None:
        """A message that no word tells: by fields of a number that is known, or by a tag."""
        end = text.find("] ", 0, _FARTHEST)
        while end >= 0:
            begin, fields = _fields_before(text, end + 1)
            if len(fields) in self._layouts or (len(fields) > 1 and any(_ours(field) for field in fields)):
                line = self._line(fields, text, end + 1, learn=True)
                if line is not None and (line.uptime is not None or line.unix is not None or line.tags & _OURS):
                    self._begin = begin
                    return line
            end = text.find("] ", end + 1, _FARTHEST)
        return None

    def _line(self, fields: list[str], text: str, end: int, learn: bool = False) -> Line | None:
        """By the places of the fields in lines before; None where this line does not fit them."""
        layout = self._layouts.get(len(fields))
        if layout is not None:
            last = fields[-1]
            if layout.tags != len(fields) - 1 and last[:1].isalpha() and last not in self._no_tags:
                if _ours(last):
                    layout = None
                else:
                    self._no_tags.add(last)
        clocks = self._clocks(fields, layout) if layout is not None else None
        if clocks is None:
            if not learn:
                return None
            before, layout = layout, self._learnt(fields, layout)
            # A damaged time, or a program's own field, takes no clock from the lines that follow.
            if before is None or not (before.uptime >= 0 > layout.uptime or before.wall >= 0 > layout.wall):
                self._layouts[len(fields)] = layout
                self._forms.add((len(fields), _kind(fields[0])))
            clocks = self._clocks(fields, layout) or (None, None)
        assert layout is not None
        tags = _NO_TAGS
        if layout.tags >= 0:
            word = fields[layout.tags]
            known = self._tags.get(word)
            if known is None:
                stripped = word.strip()
                known = frozenset(stripped.split(",")) if _TAGS.fullmatch(stripped) else _NO_TAGS
                if len(self._tags) < 10_000:
                    self._tags[word] = known
            tags = known
        number = fields[layout.number].strip() if layout.number >= 0 else ""
        return Line(clocks[0], clocks[1], tags, text[end:].strip(), number)

    def _clocks(self, fields: list[str], layout: _Layout) -> tuple[float | None, float | None] | None:
        """Uptime and unix seconds; None where a field is not of the form that its place has had."""
        uptime: float | None = None
        unix: float | None = None
        if layout.uptime >= 0:
            uptime = _seconds(fields[layout.uptime])
            if uptime is None or uptime >= _EPOCH:
                return None
        if layout.wall >= 0:
            stamp = fields[layout.wall]
            if stamp != self._stamp:
                self._unix, self._stamp = _wall(stamp), stamp
            unix = self._unix
            if unix is None:
                return None
        return uptime, unix

    @staticmethod
    def _learnt(fields: Sequence[str], before: _Layout | None) -> _Layout:
        """By the form of each field. Of two clocks of one kind the younger (uptimenanos beside timenanos)."""
        uptime = wall = tags = number = -1
        least = _EPOCH
        for index, raw in enumerate(fields):
            seconds = _seconds(raw)
            if seconds is not None and seconds < least:
                uptime, least = index, seconds
            elif wall < 0 and _wall(raw) is not None:
                wall = index
            elif _ours(raw):
                tags = index  # the last such field: a host may be called so too, and stands before
            elif number < 0 and raw.strip().isdecimal():
                number = index
        if tags < 0 and before is not None:
            tags = before.tags
        return _Layout(uptime, wall, tags, number)


def _fields_before(text: str, end: int) -> tuple[int, list[str]]:
    """Where the brackets that end before ``end`` begin, without a gap between them, and what is in them."""
    place = end
    while place and text[place - 1] in " \t":
        place -= 1
    fields: list[str] = []
    while place and text[place - 1] == "]" and len(fields) < _MOST_FIELDS:
        begin = text.rfind("[", 0, place - 1)
        if begin < 0 or "]" in text[begin + 1 : place - 1]:
            break
        fields.append(text[begin + 1 : place - 1])
        place = begin
    return place, fields[::-1]


def _forms(text: str, about: int | None = None) -> set[tuple[int, str]]:
    """What fields may stand before the message, by their number and the kind of the first one.

    A single word in brackets is one only near the place ``about``: elsewhere it is a program's own, a thread's name.
    """
    forms = set()
    end = text.find("] ", 0, _FARTHEST)
    while end >= 0:
        begin, fields = _fields_before(text, end + 1)
        form = (len(fields), _kind(fields[0]) if fields else "")
        if fields and (form != (1, "word") or about is None or abs(begin - about) <= _SHIFTED):
            forms.add(form)
        end = text.find("] ", end + 1, _FARTHEST)
    return forms


def _kind(field: str) -> str:
    """A number or a time, a word of the JVM's (level, tag), anything else."""
    first = field.lstrip()[:1]
    return "number" if first.isdigit() else "word" if first.islower() else ""


def _ours(field: str) -> bool:
    """Whether a field has a tag of the collector's lines, so that its place is that of the tags."""
    stripped = field.strip()
    return len(stripped) < 100 and bool(_OURS & set(stripped.split(","))) and bool(_TAGS.fullmatch(stripped))


def _seconds(field: str) -> float | None:
    """Of a number with its unit, damaged ones excepted."""
    number = _NUMBER.fullmatch(field.strip())
    if number is None:
        return None
    seconds = float(number[1].replace(",", ".")) * _SCALE[number[2]]
    return seconds if seconds < _BEYOND else None


def _wall(field: str) -> float | None:
    """Unix seconds of a time or of milliseconds since 1970."""
    seconds = _seconds(field)
    if seconds is not None:
        return seconds if seconds >= _EPOCH else None
    stripped = field.strip()
    return wall_clock(stripped) if "T" in stripped and stripped[:1].isdigit() else None


def wall_clock(field: str) -> float | None:
    """Unix seconds of an ISO time; None when it is none."""
    try:
        return datetime.fromisoformat(field.replace(",", ".")).timestamp()
    except (ValueError, OverflowError):
        return None
