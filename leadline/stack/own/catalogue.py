"""What an artifact tells of its framework's properties: those that are knobs, and why others are none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from leadline.model.errors import nearest, quoted
from leadline.model.knob import Kind, Knob, Level
from leadline.model.ownknob import PREFIX


@dataclass(frozen=True)
class Catalogue:
    """``removed``: names that have no effect at a start, with what is told of them. ``free``: properties with names of
    the application's own below them; ``patterns``: names with a part of the application's own.
    """

    knobs: Mapping[str, Knob]
    removed: Mapping[str, str]
    free: frozenset[str]
    patterns: tuple[re.Pattern[str], ...] = ()

    def misspelt(self, property_name: str) -> str:
        """Why a property that is set elsewhere has no effect: it was removed, or another of its group is like it;
        empty where it may be the application's own.
        """
        name = _canonical(property_name)
        if name in self.removed:
            return self.removed[name]
        group, _, last = name.rpartition(".")
        exists = PREFIX + name in self.knobs or any(name.startswith(f"{free}.") or name == free for free in self.free)
        exists = exists or any(pattern.fullmatch(property_name) for pattern in self.patterns)
        siblings = [
            sibling for knob in self.knobs for above, _, sibling in [knob.rpartition(".")] if above == PREFIX + group
        ]
        near = None if exists or not group else nearest(last, siblings)
        return f"there is no property {quoted(name)}; did you mean {group}.{near}?" if near else ""

    def misspelt_variable(self, variable: str) -> str:
        """The same of an environment variable that stands for a property: ``SERVER_TOMCAT_THREADS_MAX``. Only in groups
        of two words or more: others may be variables of the application's own.
        """
        squeezed = _squeezed(re.sub(r"_\d+(_.*)?$", "", variable))  # an entry of a list
        removed = next((sentence for name, sentence in self.removed.items() if _squeezed(name) == squeezed), "")
        knobs_squeezed = {_squeezed(name): name for name in (knob.removeprefix(PREFIX) for knob in self.knobs)}
        if removed or squeezed in knobs_squeezed or any(squeezed.startswith(_squeezed(name)) for name in self.free):
            return f"{variable}: {removed}" if removed else ""
        near = knobs_squeezed.get(nearest(squeezed, list(knobs_squeezed)) or "", "")
        group = near.rpartition(".")[0]
        if "." not in group or not squeezed.startswith(_squeezed(group)):
            return ""
        return f"there is no property of the variable {quoted(variable)}; did you mean that of {near}?"


def level_of(knob: Knob, told: object) -> Level:
    """The level from what a bean holds: durations in seconds, sizes in bytes. Raises LookupError."""
    if told is None:
        raise LookupError(f"{knob.name} has no value in the running application")
    try:
        if knob.kind is Kind.DURATION:
            return round(float(str(told)), 9)
        if knob.kind is Kind.SIZE:
            return int(str(told))
        return knob.parse(told)
    except ValueError as error:
        raise LookupError(f"{knob.name}: {error}") from error


def live_value(knob: Knob, level: Level) -> str:
    """A level as a setter of the running application takes it: durations in milliseconds."""
    if knob.kind is Kind.DURATION:
        return str(round(float(level) * 1000))
    return str(level).lower() if isinstance(level, bool) else str(level)


def _squeezed(name: str) -> str:
    """Letters and digits: alike for a property and for the ways to write its variable."""
    return re.sub(r"[^A-Z0-9]", "", name.upper())


def _canonical(name: str) -> str:
    """Boot's own form of a name: ``maximumPoolSize`` is ``maximum-pool-size``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower().replace("_", "-")
