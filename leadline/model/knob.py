"""Knobs: the parameters leadline can read, set, read back and undo."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatch

from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.units import format_duration, format_size, parse_duration, parse_size

Level = int | float | str | bool
_LARGEST = 2**64 - 1  # what a kernel setting can hold
_LONGEST_TEXT = 4096


class ApplyCost(StrEnum):
    """What a change needs, cheapest first."""

    LIVE = "live"
    RESTART = "restart"
    REMOUNT = "remount"
    REBOOT = "reboot"
    KERNEL = "kernel"


class Risk(StrEnum):
    SAFE = "safe"
    CAUTION = "caution"
    DANGEROUS = "dangerous"


class Kind(StrEnum):
    """How a level is written and compared."""

    INTEGER = "integer"
    NUMBER = "number"
    SIZE = "size"  # held as bytes (int)
    DURATION = "duration"  # held as seconds (float)
    BOOLEAN = "boolean"
    CHOICE = "choice"
    TEXT = "text"


@dataclass(frozen=True)
class Knob:
    """One entry of the catalogue. Levels are held in ``unit`` (sizes in bytes, durations in seconds).

    ``dangerous`` tells which levels can hang a host: refused unless the host is disposable.
    ``names`` maps a server or program to its own name for the parameter.
    """

    name: str
    kind: Kind
    apply_cost: ApplyCost
    summary: str
    default: Level | None = None  # the program's own default; None: depends on the host
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    risk: Risk = Risk.SAFE
    dangerous_above: float | None = None
    dangerous_below: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # the manual that documents it
    refused: Mapping[str, str] = field(default_factory=dict)  # level that cannot be had here -> why, and where it can

    def parse(self, raw: object) -> Level:
        """A level from what a study file or the command line says. Raises ValueError with the reason."""
        level = self._convert(raw)
        if self.choices and level not in self.choices:
            near = nearest(str(level), list(self.choices))
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(f"{quoted(raw)} is not one of {', '.join(self.choices)}{hint}")
        if str(level) in self.refused:
            raise ValueError(f"{raw} cannot be had here: {self.refused[str(level)]}")
        if isinstance(level, (int, float)) and not isinstance(level, bool):
            if self.minimum is not None and level < self.minimum:
                raise ValueError(f"{raw} is below the smallest legal value {self.format(self._like(self.minimum))}")
            if self.maximum is not None and level > self.maximum:
                raise ValueError(f"{raw} is above the largest legal value {self.format(self._like(self.maximum))}")
        return level

    def _like(self, bound: float) -> Level:
        return bound if self.kind in (Kind.NUMBER, Kind.DURATION) else int(bound)

    def _convert(self, raw: object) -> Level:
        if self.kind is Kind.BOOLEAN:
            if isinstance(raw, bool):
                return raw
            word = str(raw).strip().lower()
            if word in ("true", "on", "yes", "1"):
                return True
            if word in ("false", "off", "no", "0"):
                return False
            raise ValueError(f"{quoted(raw)} is not on or off")
        if self.kind in (Kind.CHOICE, Kind.TEXT):
            # YAML reads bare on/off as booleans in its 1.1 dialect
            if isinstance(raw, bool):
                return "on" if raw else "off"
            if not isinstance(raw, (int, float, str)):
                raise ValueError(f"{quoted(raw)} is not a {self.kind.value}")
            return _text(raw)
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError(f"{quoted(raw)} is not a {self.kind.value}")
        if self.kind is Kind.SIZE:
            return parse_size(raw if isinstance(raw, str) else int(_number(raw)))
        if self.kind is Kind.DURATION:
            return parse_duration(raw)
        number = _number(raw)
        if self.kind is not Kind.INTEGER:
            return number
        if number != int(number):
            raise ValueError(f"{quoted(raw)} is not a whole number")
        try:
            exact = int(raw)
        except ValueError:  # as in 1e3
            exact = int(number)
        if abs(exact) > _LARGEST:
            raise ValueError(f"{quoted(raw)} is too large a number")
        return exact

    def format(self, level: Level) -> str:
        """A level as people write it, with the unit where it is not part of the text."""
        if self.kind is Kind.SIZE and isinstance(level, int):
            return format_size(level)
        if self.kind is Kind.DURATION and isinstance(level, (int, float)):
            return format_duration(level)
        if isinstance(level, bool):
            return "on" if level else "off"
        return f"{level:g}" if isinstance(level, float) else str(level)

    def is_dangerous(self, level: Level) -> bool:
        """Whether this level can hang a host."""
        if self.risk is Risk.DANGEROUS and self.dangerous_above is None and self.dangerous_below is None:
            return True
        if isinstance(level, bool) or not isinstance(level, (int, float)):
            return False
        above = self.dangerous_above is not None and level > self.dangerous_above
        below = self.dangerous_below is not None and level < self.dangerous_below
        return above or below


def _number(raw: float | str) -> float:
    try:
        number = float(raw[:_LONGEST_TEXT] if isinstance(raw, str) else raw)
    except ValueError:
        raise ValueError(f"{quoted(raw)} is not a number") from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{quoted(raw)} is not a finite number")
    return number


def _text(raw: float | str) -> str:
    text = raw if isinstance(raw, str) else str(_number(raw)) if isinstance(raw, float) else quoted(raw)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{quoted(text)} is longer than {_LONGEST_TEXT} characters")
    if not all(each.isprintable() for each in text):
        raise ValueError(f"{quoted(text)} has characters that do not print")
    return text


class Catalogue:
    """All knobs by name. Raises UsageError for unknown names, naming the nearest one."""

    def __init__(self, knobs: Iterable[Knob]) -> None:
        self._knobs: dict[str, Knob] = {}
        for knob in knobs:
            if knob.name in self._knobs:
                raise ValueError(f"knob {knob.name} is in the catalogue twice")
            self._knobs[knob.name] = knob

    def __iter__(self) -> Iterator[Knob]:
        return iter(self._knobs.values())

    def __contains__(self, name: str) -> bool:
        return name in self._knobs

    def names(self) -> list[str]:
        return list(self._knobs)

    def get(self, name: str) -> Knob:
        if name in self._knobs:
            return self._knobs[name]
        near = nearest(name, list(self._knobs))
        hint = f"; did you mean {near}?" if near else "; see leadline knobs"
        raise UsageError(f"unknown knob {quoted(name)}{hint}")

    def matching(self, pattern: str) -> list[Knob]:
        """Knobs of the family ``pattern`` (``vm``); else those whose name contains it or fits it as a shell pattern."""
        family = [knob for knob in self._knobs.values() if knob.name.startswith(pattern.rstrip(".") + ".")]
        fitting = (knob for knob in self._knobs.values() if pattern in knob.name or fnmatch(knob.name, pattern))
        return family or list(fitting)
