"""Knobs: the parameters leadline can read, set, read back and undo."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatch
from typing import Protocol, runtime_checkable

from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.units import format_duration, format_size, parse_duration, parse_size


@runtime_checkable
class KnobOwner(Protocol):
    """A part of the system under test that has knobs. A service is given levels for its next start when it is
    configured; ``apply`` is for what runs.
    """

    def knobs(self) -> Sequence[Knob]: ...
    def apply(self, levels: Mapping[str, Level]) -> None:
        """Set levels in what runs. Raises UsageError for a level that is illegal or takes effect at a start only,
        TrialFailure: ``configuration`` when it is refused or another level is read back.
        """

    def read_back(self, name: str) -> Level:
        """The level in force. Raises LookupError where it cannot be asked, NotInPlay where its part is left out."""


class AtStart:
    """An owner whose knobs all take effect at a start."""

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Raises UsageError."""
        raise UsageError(f"{', '.join(levels)}: cannot be changed while it runs")


class Owners:
    """Knob's name to its owner, made once a study; itself an owner of all."""

    def __init__(self, *owners: KnobOwner) -> None:
        self._knobs = {knob.name: knob for owner in owners for knob in owner.knobs()}
        self._of = {knob.name: owner for owner in owners for knob in owner.knobs()}

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def knobs(self) -> Sequence[Knob]:
        return list(self._knobs.values())

    def levels(self, levels: Mapping[str, Level], owner: KnobOwner) -> dict[str, Level]:
        """Those of the knobs of ``owner``; names without an owner (pseudo-factors) are nobody's."""
        return {name: level for name, level in levels.items() if self._of.get(name) is owner}

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Set levels in what runs, one owner after the other."""
        for owner in dict.fromkeys(self._owner(name) for name in levels):
            owner.apply(self.levels(levels, owner))

    def read_back(self, name: str) -> Level:
        return self._owner(name).read_back(name)

    def _owner(self, name: str) -> KnobOwner:
        if name not in self._of:
            raise LookupError(f"no part of this system has a knob {name}")
        return self._of[name]


Level = int | float | str | bool
MIB = 1 << 20
_SHORTEST_NAME = 3  # letters of a program's own name that are looked for
_LONGEST_TEXT = 4096


class ApplyCost(StrEnum):
    """What leadline does to change a level, cheapest first."""

    LIVE = "live"
    RUN = "run"  # of the load driver
    RESTART = "restart"
    REMOUNT = "remount"
    REBOOT = "reboot"
    KERNEL = "kernel"


class Risk(StrEnum):
    """``CAUTION``: may cost performance or data. ``DANGEROUS``: may hang, starve or lock out a host."""

    SAFE = "safe"
    CAUTION = "caution"
    DANGEROUS = "dangerous"


class Owner(StrEnum):
    """Who sets a knob and reads it back."""

    HOST = "host"
    DATABASE = "database"
    SERVER = "server"
    JVM = "jvm"
    WEB = "web"
    APPLICATION = "application"
    GUEST = "guest"
    DRIVER = "driver"


class Kind(StrEnum):
    """How a level is written and compared."""

    INTEGER = "integer"
    NUMBER = "number"
    SIZE = "size"  # held as bytes (int)
    DURATION = "duration"  # held as seconds (float)
    BOOLEAN = "boolean"
    CHOICE = "choice"
    VECTOR = "vector"  # whole numbers, held as text with single spaces: "256 256 32 0 0"
    TEXT = "text"


@dataclass(frozen=True)
class Machine:
    """What limits depend on. Sizes in bytes."""

    memory: int
    cpus: int = 1
    huge_page: int = 2 << 20


@dataclass(frozen=True)
class Limit:
    """Where danger begins on one side of a range, and what happens beyond."""

    level: float
    why: str


@dataclass(frozen=True)
class Share:
    """A bound that depends on the machine: so much of its memory, counted in units of ``each`` bytes (0: huge pages;
    1: bytes, in whole MiB). ``per_cpu``: every CPU may take as much.
    """

    memory: float
    each: int = 1
    per_cpu: bool = False

    def on(self, machine: Machine) -> int:
        """The bound on this machine."""
        size = int(machine.memory * self.memory)
        if self.each == 1:
            size = size // MIB * MIB
        return size // (self.each or machine.huge_page) // (machine.cpus if self.per_cpu else 1)


@dataclass(frozen=True)
class Elements:
    """What holds for a vector as a whole; the bounds of its knob hold for each element.

    ``zeros``: places (from 0) where zero is safe whatever the bounds say. ``width``: danger begins where the last
    element is less than so far above the first.
    """

    length: int | None = None  # None: as many as this kernel has
    ascending: bool = False
    zeros: frozenset[int] = frozenset()
    width: Limit | None = None


@dataclass(frozen=True)
class Danger:
    """Why a level may hang, starve or lock out a host, and the nearest safe one."""

    why: str
    safe: Level


@dataclass(frozen=True)
class Knob:
    """One entry of the catalogue. Levels are held in ``unit`` (sizes in bytes, durations in seconds).

    ``risk`` is that of the safe range; levels beyond ``dangerous_below`` and ``dangerous_above`` need a disposable
    host. ``names`` maps a server or program to its own name for the parameter. ``relative`` holds bounds that depend on
    the machine, by the field they bound: see ``on``.
    """

    name: str
    kind: Kind
    apply_cost: ApplyCost
    summary: str
    default: Level | None = None  # the program's own default; None: see ``default_note``
    default_note: str = ""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None  # levels are multiples of it: the program would round others
    special: tuple[float, ...] = ()  # legal outside the range: 0 for "the kernel chooses"
    choices: tuple[str, ...] = ()
    elements: Elements | None = None
    risk: Risk = Risk.SAFE
    dangerous_below: Limit | None = None
    dangerous_above: Limit | None = None
    relative: Mapping[str, tuple[Share, str]] = field(default_factory=dict)
    owner: Owner = Owner.SERVER
    names: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # the manual that documents it
    values: Mapping[str, str] = field(default_factory=dict)  # of a choice whose levels have names: what each stands for
    refused: Mapping[str, str] = field(default_factory=dict)  # level that cannot be had here -> why, and where it can

    def on(self, machine: Machine) -> Knob:
        """The knob with the bounds that this machine gives it."""
        maximum, below, above = self.maximum, self.dangerous_below, self.dangerous_above
        for name, (share, why) in self.relative.items():
            bound = share.on(machine)
            if name == "maximum":
                maximum = bound if maximum is None else min(maximum, bound)
            elif name == "dangerous_below":
                below = Limit(bound, why)
            else:
                above = Limit(bound, why)
        return replace(self, maximum=maximum, dangerous_below=below, dangerous_above=above, relative={})

    def accept(self, raw: object, disposable: bool) -> Level:
        """``parse``, and a dangerous level only on a disposable host. Raises ValueError with the reason."""
        level = self.parse(raw)
        if not disposable and self.risk is Risk.DANGEROUS:
            raise ValueError("it is declared dangerous, so it needs a host that is marked disposable (--disposable)")
        if not disposable and (danger := self.danger(level)):
            raise ValueError(
                f"{self.format(level)} can hang, starve or lock out a host: {danger.why}; the nearest safe level is "
                f"{self.format(danger.safe)}, this one needs a host that is marked disposable (--disposable)"
            )
        return level

    def parse(self, raw: object) -> Level:
        """A level from what a study file or the command line says. Raises ValueError with the reason."""
        level = self._convert(raw)
        if self.choices and level not in self.choices:
            level = next((name for name, value in self.values.items() if value == level), level)
        if self.choices and level not in self.choices:
            near = nearest(str(level), list(self.choices))
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(f"{quoted(raw)} is not one of {', '.join(self.choices)}{hint}")
        if self.refused and str(level) in self.refused:
            raise ValueError(f"{raw} cannot be had here: {self.refused[str(level)]}")
        if isinstance(level, (int, float)) and not isinstance(level, bool):
            self._check_range(level, self.special)
            self._check_step(level)
        return level

    def danger(self, level: Level) -> Danger | None:
        """Why a legal level may hang, starve or lock out a host; None for a safe one."""
        if self.kind is Kind.VECTOR:
            return self._vector_danger([int(word) for word in str(level).split()])
        if isinstance(level, bool) or not isinstance(level, (int, float)):
            return None
        limit = self._beyond(level)
        return Danger(limit.why, self._like(limit.level)) if limit else None

    def risk_of(self, level: Level) -> Risk:
        return Risk.DANGEROUS if self.danger(level) else self.risk

    def format(self, level: Level) -> str:
        """A level as people write it, with the unit where it is not part of the text."""
        if self.kind is Kind.SIZE and isinstance(level, int):
            return format_size(level)
        if self.kind is Kind.DURATION and isinstance(level, (int, float)):
            return format_duration(level)
        if isinstance(level, bool):
            return "on" if level else "off"
        return f"{level:g}" if isinstance(level, float) else str(level)

    def format_bound(self, bound: float) -> str:
        """A bound of the range, as ``format``."""
        return self.format(self._like(bound))

    def _like(self, bound: float) -> Level:
        return bound if self.kind in (Kind.NUMBER, Kind.DURATION) else int(bound)

    def _beyond(self, level: float) -> Limit | None:
        below, above = self.dangerous_below, self.dangerous_above
        if below is not None and level < below.level:
            return below
        return above if above is not None and level > above.level else None

    def _said(self, level: float) -> str:
        """The level given, exactly: with its unit where that rounds nothing."""
        if self.kind is Kind.SIZE:
            return self.format(level)
        if self.kind is Kind.DURATION:
            text = self.format(level)
            return text if parse_duration(text) == level else f"{level:g}s"
        return quoted(level)

    def _check_range(self, level: float, special: tuple[float, ...]) -> None:
        if level in special:
            return
        also = f" (or {', '.join(self.format_bound(level) for level in special)})" if special else ""
        if self.minimum is not None and level < self.minimum:
            raise ValueError(
                f"{self._said(level)} is below the smallest legal value {self.format_bound(self.minimum)}{also}"
            )
        if self.maximum is not None and level > self.maximum:
            raise ValueError(
                f"{self._said(level)} is above the largest legal value {self.format_bound(self.maximum)}{also}"
            )

    def _check_step(self, level: float) -> None:
        if self.step is None or abs(level / self.step - round(level / self.step)) * self.step < 1e-9:
            return
        below = level // self.step * self.step
        near = " and ".join(self.format_bound(bound) for bound in (below, below + self.step))
        raise ValueError(
            f"{self._said(level)} would be rounded, as it is kept in steps of {self.format_bound(self.step)};"
            f" the nearest are {near}"
        )

    def _convert(self, raw: object) -> Level:
        if self.kind is Kind.BOOLEAN:
            return _boolean(raw)
        if self.kind in (Kind.CHOICE, Kind.TEXT):
            # YAML reads bare on/off as booleans in its 1.1 dialect
            if isinstance(raw, bool):
                return "on" if raw else "off"
            if not isinstance(raw, (int, float, str)):
                raise ValueError(f"{quoted(raw)} is not {_article(self.kind)}")
            return _text(raw)
        if self.kind is Kind.VECTOR:
            return self._vector(raw)
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError(f"{quoted(raw)} is not {_article(self.kind)}")
        if isinstance(raw, float) and not math.isfinite(raw):
            raise ValueError(f"{raw} is not {_article(self.kind)}")
        try:
            if self.kind is Kind.SIZE:
                return parse_size(raw if isinstance(raw, str) else _whole(raw))
            if self.kind is Kind.INTEGER:
                return _whole(raw)
            number = parse_duration(raw) if self.kind is Kind.DURATION else _number(raw)
        except OverflowError:
            raise ValueError(f"{quoted(raw)} is too large") from None
        if not math.isfinite(number):
            raise ValueError(f"{quoted(raw)} is not {_article(self.kind)}")
        return number

    def _vector(self, raw: object) -> str:
        """``256 256 32`` or ``256,256,32``."""
        elements = self.elements or Elements()
        words = _text(raw).replace(",", " ").split()
        example = f" such as '{self.default}'" if self.default else ""
        if not words or isinstance(raw, bool):
            raise ValueError(f"{quoted(raw)} is not a row of whole numbers{example}")
        try:
            levels = [_whole(word) for word in words]
        except ValueError:
            raise ValueError(f"{quoted(raw)} is not a row of whole numbers{example}") from None
        if elements.length is not None and len(levels) != elements.length:
            raise ValueError(
                f"{quoted(raw)} has {len(levels)} number{'' if len(levels) == 1 else 's'};"
                f" it takes {elements.length} numbers here,{example}"
            )
        for level in levels:
            self._check_range(level, self.special)
        if elements.ascending and levels != sorted(levels):
            ordered = " ".join(str(level) for level in sorted(levels))
            raise ValueError(f"{quoted(raw)} falls; its numbers go upwards: {ordered}")
        return " ".join(str(level) for level in levels)

    def _vector_danger(self, levels: list[int]) -> Danger | None:
        elements = self.elements or Elements()
        why, safe = "", list(levels)
        for place, level in enumerate(levels):
            limit = self._beyond(level)
            if limit and not (level == 0 and place in elements.zeros):
                why, safe[place] = why or limit.why, int(limit.level)
        if elements.width is not None and safe[-1] - safe[0] < elements.width.level:
            width, most = int(elements.width.level), int(self.maximum or 0)
            why = why or elements.width.why
            safe[-1] = min(safe[0] + width, most)
            safe[0] = min(safe[0], safe[-1] - width)
        return Danger(why, " ".join(str(level) for level in safe)) if why else None


def _boolean(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in ("true", "on", "yes", "1"):
        return True
    if word in ("false", "off", "no", "0"):
        return False
    raise ValueError(f"{quoted(raw)} is not on or off")


def _whole(raw: int | float | str) -> int:
    """Exactly: a float would round numbers above 2**53."""
    if isinstance(raw, str):
        try:
            return int(raw)
        except ValueError:
            raw = _number(raw)
    if raw != int(raw):
        raise ValueError(f"{quoted(raw)} is not a whole number")
    return int(raw)


def _number(raw: int | float | str) -> float:
    try:
        number = float(raw)
    except ValueError:
        raise ValueError(f"{quoted(raw)} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{quoted(raw)} is not a number that can be set")
    return number


def _article(kind: Kind) -> str:
    return f"{'an' if kind is Kind.INTEGER else 'a'} {kind.value}"


def _text(raw: object) -> str:
    text = raw if isinstance(raw, str) else str(raw) if isinstance(raw, float) else quoted(raw)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{quoted(text)} is longer than {_LONGEST_TEXT} characters")
    if not all(character.isprintable() for character in text):
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
        near = next((knob.name for knob in self.called(name)), None) or nearest(name, list(self._knobs))
        hint = f"; did you mean {near}?" if near else "; see leadline knobs"
        if not near and name.startswith(("net.", "vm.", "kernel.", "fs.")):
            hint = f"; a study can declare it: knobs: {{ host.{name.rpartition('.')[2]}: {{ sysctl: {name} }} }}"
        raise UsageError(f"unknown knob {quoted(name)}{hint}")

    def matching(self, pattern: str) -> list[Knob]:
        """Knobs of the family ``pattern`` (``vm``); else those whose name contains it or fits it as a shell pattern;
        else those that a program calls so.
        """
        family = [knob for knob in self._knobs.values() if knob.name.startswith(pattern.rstrip(".") + ".")]
        fitting = (knob for knob in self._knobs.values() if pattern in knob.name or fnmatch(knob.name, pattern))
        return family or list(fitting) or self.called(pattern)

    def called(self, name: str) -> list[Knob]:
        """Knobs that a program calls ``name`` (``maxThreads``, ``-Xmx``, ``-XX:+UseZGC``), else those whose name there
        holds it. Letters and digits count.
        """
        wanted = _letters(name)
        if len(wanted) < _SHORTEST_NAME:
            return []
        words = {knob.name: re.split("[/@, =]+", " ".join(knob.names.values())) for knob in self}
        own = {knob: [_letters(word) for word in words[knob]] for knob in words}
        same = [knob for knob in self if any(_fits(wanted, word) for word in own[knob.name])]
        return same or [knob for knob in self if any(wanted in word for word in own[knob.name])]


def _fits(wanted: str, word: str) -> bool:
    return fnmatch(wanted, word) and len(word.strip("*")) >= _SHORTEST_NAME


def _letters(name: str) -> str:
    """A program's own name to compare: ``-XX:MaxHeapSize`` is ``maxheapsize``, ``-XX:+Use...GC`` fits ``usezgc``."""
    return re.sub("[^a-z0-9*]", "", name.removeprefix("-XX:").replace("...", "*").lower())
