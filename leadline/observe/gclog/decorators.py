"""The bracketed fields before each message of the unified log, told apart by their form, in any order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_FIELDS = re.compile(r"(?:\[[^\]\n]*\])+")
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)?)(s|ms|ns)")
_TAGS = re.compile(r"[a-z][a-z0-9_+]*(?:,[a-z0-9_+]+)*")
_LEVELS = frozenset(("trace", "debug", "info", "warning", "error"))
_SCALE = {"s": 1.0, "ms": 1e-3, "ns": 1e-9}
_EPOCH = 1e8  # s; an uptime of three years is not believed, a wall clock of 1973 neither


@dataclass(frozen=True, slots=True)
class Line:
    """``uptime`` in seconds and ``unix`` in unix seconds, None where the log lacks that decorator."""

    uptime: float | None
    unix: float | None
    tags: frozenset[str]  # empty: the log has no tags
    message: str


def split(text: str) -> Line | None:
    """None for a line without decorators."""
    match = _FIELDS.match(text)
    if match is None:
        return None
    uptime: float | None = None
    unix: float | None = None
    tags = ""
    for raw in match.group()[1:-1].split("]["):
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
            unix = _wall_clock(field)
        elif field not in _LEVELS and _TAGS.fullmatch(field):
            tags = field  # the last such field: a host's name comes before
    return Line(uptime, unix, frozenset(tags.split(",")) if tags else frozenset(), text[match.end() :].strip())


def _wall_clock(field: str) -> float | None:
    try:
        return datetime.fromisoformat(field.replace(",", ".")).timestamp()
    except ValueError:
        return None
