"""What a rule says of one trial, and the small tools that rules share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from leadline.advice.facts import TrialFacts
from leadline.model.knob import Level

MINUS = "\u2212"


@dataclass(frozen=True)
class Sign:
    """A rule found something in one trial. ``figures``: name to (value, unit). ``size`` orders signs of one rule.

    ``then`` is the level to try; where there is no knob for it, ``remedy`` says in words what to do. ``start`` stands
    in for the present level where none is set (a server's own choice).
    """

    says: str
    figures: dict[str, tuple[float, str]]
    size: float
    then: Level | None = None
    reason: str = ""
    remedy: str = ""
    start: Level | None = None


@dataclass(frozen=True)
class Look:
    """A rule looked at one subject of one trial. ``sign`` None: nothing found there."""

    rule: str
    subject: str
    knob: str | None = None
    now: Level | None = None
    sign: Sign | None = None


@dataclass(frozen=True)
class Rule:
    """``judge`` gives a look for each subject it has the figures for, and none where they were not recorded.

    ``responses``: what the change should better.
    """

    name: str
    layer: str
    title: str
    judge: Callable[[TrialFacts], list[Look]]
    responses: tuple[str, ...] = field(default=("throughput", "p50", "p90", "p99"))
    majority: bool = True  # told when more than half of the trials show it; else when one does
    counted: bool = False  # its figures count work for each transaction, whatever else uses the CPUs


_STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def round_up(value: float) -> int:
    """The next whole number that people would write: 43 gives 50, 11 gives 12."""
    if value <= 10:
        return max(1, math.ceil(value))
    power = float(10 ** math.floor(math.log10(value)))
    return next(math.ceil(step * power) for step in _STEPS if step * power >= value - 1e-9)


def number(value: float) -> str:
    """Three significant digits, thousands separated."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:,.0f}".replace("-", MINUS)
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}".replace("-", MINUS)


def percent(share: float) -> str:
    return f"{number(round(100 * share, 2))} %"


def whole(levels: TrialFacts, knob: str) -> int | None:
    """A knob's level where it is a whole number."""
    level = levels.levels.get(knob)
    return level if isinstance(level, int) and not isinstance(level, bool) else None


def busy_note(trial: TrialFacts) -> str:
    """A warning where the host has no CPU left for what a larger pool would let in."""
    idle = trial.host.idle
    if idle is None or idle >= 0.1:
        return ""
    return f"; only {percent(idle)} of the CPUs were idle, so the queue may only move"
