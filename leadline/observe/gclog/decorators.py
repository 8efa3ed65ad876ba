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
_BEYOND = 1e11  # s; damaged
_NO_TAGS: frozenset[str] = frozenset()


class Line(NamedTuple):
    """``uptime`` in seconds and ``unix`` in unix seconds, None where the log lacks that decorator."""

    uptime: float | None
    unix: float | None
    tags: frozenset[str]  # empty: the log has no tags
    message: str


class Splitter:
    """Lines into decorators and message. All lines of a log have the same kinds of fields, so these are remembered."""

    def __init__(self) -> None:
        self._tags: dict[str, frozenset[str]] = {"": _NO_TAGS}
        self._places: tuple[int, int, int, int] | None = None  # number of fields; uptime, wall clock (or -1), tags
        self._stamp = ""
        self._unix = 0.0

    def split(self, text: str) -> Line | None:
        """None for a line that is none of the log's. A log without decorators has only those known by their words."""
        end = text.find("] ") + 1
        if not end or text[0] != "[":
            match = _FIELDS.match(text)
            if match is None:
                return self._elsewhere(text)
            end = match.end()
        fields = text[1 : end - 1].split("][")
        known = self._quick(fields)
        if known is None:
            uptime, unix, tags = self._slow(fields)
        else:
            uptime, unix, tags = known
        found = self._tags.get(tags)
        if found is None:
            stripped = tags.strip()
            found = self._tags[tags] = frozenset(stripped.split(",")) if _TAGS.fullmatch(stripped) else _NO_TAGS
        return Line(uptime, unix, found, text[end:].strip())

    def _quick(self, fields: list[str]) -> tuple[float, float | None, str] | None:
        """By the places of the lines before; None where this line does not fit them."""
        places = self._places
        if places is None or places[0] != len(fields):
            return None
        _, up, wall, tags = places
        try:
            if fields[up][-1] != "s":
                return None
            uptime = float(fields[up][:-1])
            if not 0.0 <= uptime < _EPOCH:
                return None
            if wall < 0:
                return uptime, None, fields[tags]
            if fields[wall] != self._stamp:
                self._unix = datetime.fromisoformat(fields[wall]).timestamp()
                self._stamp = fields[wall]
        except ValueError:
            return None
        return uptime, self._unix, fields[tags]

    def _slow(self, fields: list[str]) -> tuple[float | None, float | None, str]:
        """By the form of each field; learns the places of the usual decorators."""
        uptime: float | None = None
        unix: float | None = None
        up = wall = place = -1
        for index, raw in enumerate(fields):
            field = raw.strip()
            number = _NUMBER.fullmatch(field)
            if number:
                seconds = float(number[1].replace(",", ".")) * _SCALE[number[2]]
                if seconds >= _BEYOND:
                    continue
                # Two clocks of one kind may be asked for (uptime and uptimenanos): the first printed is kept.
                if seconds >= _EPOCH:
                    unix = seconds if unix is None else unix
                elif uptime is None:
                    uptime, up = seconds, index if number[2] == "s" else -1
            elif "T" in field and unix is None and field[:1].isdigit():
                unix, wall = wall_clock(field), index
            elif field not in _LEVELS and _TAGS.fullmatch(field):
                place = index  # the last such field: a host's name comes before
        usual = up >= 0 and place == len(fields) - 1 and (unix is None) == (wall < 0)
        self._places = (len(fields), up, wall, place) if usual else None
        return uptime, unix, fields[place] if place >= 0 else ""

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


def wall_clock(field: str) -> float | None:
    """Unix seconds of an ISO time; None when it is none."""
    try:
        return datetime.fromisoformat(field.replace(",", ".")).timestamp()
    except (ValueError, OverflowError):
        return None
