"""The bracketed fields before each message of the unified log, told apart by their form, in any order."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

_FIELDS = re.compile(r"(?:\[[^\]\[\n]*\])+")
_BEHIND = re.compile(r"[^\[\n]{1,80}(?=(?:\[[^\]\[\n]*\]){2,})")  # what a container's log puts before each line
_BARE = re.compile(r"GC\(\d+\) |Using (?:The )?[A-Z]|Safepoint \"|Total time for which ")
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)?)(s|ms|ns)")
_TAGS = re.compile(r"[a-z][a-z0-9_+]*(?:,[a-z0-9_+]+)*")
_LEVELS = frozenset(("trace", "debug", "info", "warning", "error"))
_SCALE = {"s": 1.0, "ms": 1e-3, "ns": 1e-9}
_EPOCH = 1e8  # s; an uptime of three years is not believed, a wall clock of 1973 neither
_NO_TAGS: frozenset[str] = frozenset()
_KEPT = 4096  # decorators' texts remembered: one line follows another within a millisecond


class Line(NamedTuple):
    """``uptime`` in seconds and ``unix`` in unix seconds, None where the log lacks that decorator."""

    uptime: float | None
    unix: float | None
    tags: frozenset[str]  # empty: the log has no tags
    message: str


class Splitter:
    """Lines into decorators and message. A log's lines share most of their fields, so these are remembered."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float | None, float | None, str]] = {}
        self._tags: dict[str, frozenset[str]] = {"": _NO_TAGS}

    def split(self, text: str) -> Line | None:
        """None for a line that is none of the log's. A log without decorators has only those known by their words."""
        end = text.find("] ") + 1
        if not end or text[0] != "[" or "[" in text[end : end + 1]:
            match = _FIELDS.match(text)
            if match is None:
                return self._elsewhere(text)
            end = match.end()
        # Time fields differ from line to line, the level and the tags after them do not.
        head = text[:end]
        found = self._known.get(head)
        if found is None:
            if len(self._known) > _KEPT:
                self._known.clear()
            found = self._known[head] = _fields(head)
        uptime, unix, tags = found
        known = self._tags.get(tags)
        if known is None:
            known = self._tags[tags] = frozenset(tags.split(","))
        return Line(uptime, unix, known, text[end:].strip())

    def _elsewhere(self, text: str) -> Line | None:
        behind = _BEHIND.match(text)
        if behind:
            match = _FIELDS.match(text, behind.end())
            if match and _known_field(match.group()):
                return self.split(text[behind.end() :])
        return Line(None, None, _NO_TAGS, text.strip()) if _BARE.match(text) else None


def _known_field(head: str) -> bool:
    """Whether one of the fields is a level or a time: brackets occur in any text."""
    return any(raw.strip() in _LEVELS or _NUMBER.fullmatch(raw.strip()) for raw in head[1:-1].split("]["))


def _fields(head: str) -> tuple[float | None, float | None, str]:
    uptime: float | None = None
    unix: float | None = None
    tags = ""
    for raw in head[1:-1].split("]["):
        field = raw.strip()
        number = _NUMBER.fullmatch(field)
        if number:
            seconds = float(number[1].replace(",", ".")) * _SCALE[number[2]]
            # Two clocks of one kind may be asked for (uptime and uptimenanos): the first printed is kept.
            if seconds < _EPOCH:
                uptime = seconds if uptime is None else uptime
            else:
                unix = seconds if unix is None else unix
        elif "T" in field and unix is None and field[:1].isdigit():
            unix = wall_clock(field)
        elif field not in _LEVELS and _TAGS.fullmatch(field):
            tags = field  # the last such field: a host's name comes before
    return uptime, unix, tags


def wall_clock(field: str) -> float | None:
    """Unix seconds of an ISO time; None when it is none."""
    try:
        return datetime.fromisoformat(field.replace(",", ".")).timestamp()
    except ValueError:
        return None
