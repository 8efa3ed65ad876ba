"""The load as an owner of knobs: ``load.users``, ``load.rate`` and every parameter of the scenario as ``load.NAME``.

They take effect with the run of the driver that every trial makes; what was in force is what the driver's own summary
says of that run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from leadline import catalogue
from leadline.load.result import read_summary
from leadline.load.scenario import find_scenario, parameters
from leadline.model.errors import LeadlineError, NotInPlay, UsageError, did_you_mean, quoted
from leadline.model.knob import ApplyCost, AtStart, Kind, Knob, Level, Owner
from leadline.model.units import parse_duration
from leadline.model.workload import OPEN, RATE, USERS, Workload, is_load, load_at

GENERAL = tuple(catalogue.load("load").values())
_NOT_RUN = "told by the driver after its run"
_DATA = "units"  # the parameter that leadline sets, to the scale of the data
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)


def load_knobs(load: Workload) -> list[Knob]:
    """What this workload can vary; nothing of another generator's load. A scenario that cannot be read has no
    parameters here: what is wrong with it is told elsewhere.
    """
    if load.generator is not None:
        return []
    own = {"closed": USERS, **dict.fromkeys(OPEN, RATE)}.get(load.arrivals)
    return [*(knob for knob in GENERAL if knob.name == own), *_parameters(load)]


def why_not(name: str, load: Workload) -> str:
    """Why this load has no knob of that name; empty for a name that is no load's."""
    if not is_load(name):
        return ""
    if load.generator is not None:
        return f"{load.generator.name} brings its own load, in which nothing is varied: leave workload.generator out"
    if name == USERS:
        instead = f"vary {RATE}, or " if load.arrivals in OPEN else ""
        return f"{USERS} is of closed arrivals, these are {load.arrivals}: {instead}write `arrivals: closed`"
    if name == RATE:
        instead = f"vary {USERS}, or " if load.arrivals == "closed" else ""
        return f"{RATE} is of open arrivals, these are {load.arrivals}: {instead}write `arrivals: open`"
    if name == f"load.{_DATA}":
        return f"{name} is workload.load_units, which scales the data as well: it is the same in all trials"
    names = [knob.name for knob in load_knobs(load)]
    hint = did_you_mean(name, names) or f"what can be varied: {', '.join(names)}"
    return f"scenario {load.scenario} has no parameter {quoted(name.partition('.')[2])}; {hint}"


class LoadOwner(AtStart):
    """Owner of the knobs of a study's load. ``begin`` is told the levels of each trial before its driver runs."""

    def __init__(self, load: Workload) -> None:
        self._load = load
        self._knobs = load_knobs(load)
        self._levels: dict[str, Level] = {}
        self._directory: Path | None = None

    def knobs(self) -> Sequence[Knob]:
        return self._knobs

    def begin(self, levels: Mapping[str, Level], directory: Path) -> None:
        """A trial with these levels (those of others are left alone), whose driver writes to ``directory``."""
        names: Collection[str] = {knob.name for knob in self._knobs}
        self._levels = {name: level for name, level in levels.items() if name in names}
        self._directory = directory / "driver"

    def at(self, load: Workload) -> Workload:
        """``load`` with the levels of the trial."""
        return load_at(load, self._levels, self._knobs)

    def read_back(self, name: str) -> Level:
        """What the driver says it did. Raises NotInPlay before its run, LookupError where it does not tell."""
        knob = next((knob for knob in self._knobs if knob.name == name), None)
        if knob is None:
            raise LookupError(f"this load has no knob {name}")
        if self._directory is None or not (self._directory / "summary.json").exists():
            raise NotInPlay(_NOT_RUN)
        try:
            result = read_summary(self._directory)
        except LeadlineError as error:
            raise LookupError(str(error)) from error
        variable = name.partition(".")[2]
        value = {USERS: result.arrivals.users, RATE: result.arrivals.rate}.get(name, result.variables.get(variable))
        if value is None:
            raise LookupError(f"the driver does not tell {variable}")
        try:
            return knob.parse(value)
        except ValueError as error:
            raise LookupError(f"the driver says of {variable}: {error}") from error


def _parameters(load: Workload) -> list[Knob]:
    try:
        declared = parameters(find_scenario(load.scenario))
    except UsageError:
        return []
    return [
        _parameter(name, load.variables.get(name, default), load.scenario)
        for name, default in declared.items()
        if name not in (_DATA, "users", "rate")
    ]


def _parameter(name: str, default: object, scenario: str) -> Knob:
    """Its kind is that of its default: a duration, a number or a text."""
    text = str(default)
    kind, unit = Kind.TEXT, ""
    default_: Level | None = text
    if _WHOLE.fullmatch(text):
        kind, default_ = Kind.INTEGER, int(text)
    elif _number(text) is not None:
        kind, default_ = Kind.NUMBER, _number(text)
    elif _duration(text) is not None:
        kind, default_, unit = Kind.DURATION, _duration(text), "seconds"
    elif "${" in text:
        default_ = None
    return Knob(
        f"load.{name}",
        kind,
        ApplyCost.RUN,
        f"Parameter {name} of scenario {scenario}",
        default=default_,
        default_note="" if default_ is not None else text,
        unit=unit,
        minimum=None if kind is Kind.TEXT else 0,
        owner=Owner.DRIVER,
        names={"leadline-load": f"--var {name}"},
        source="docs/reference/load.md",
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _duration(text: str) -> float | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None
