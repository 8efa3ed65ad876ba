"""Conditions under which a command fails (``--fail 'p99>10%'``): one grammar, and what intervals say of them.

A condition is ``RESPONSE>MARGIN`` of what harms by growing, ``RESPONSE<-MARGIN`` of what harms by shrinking. A margin
in percent is a change against the baseline; any other unit, and a share of errors, is a limit of a load itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from leadline.model.errors import UsageError, did_you_mean, quoted
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.knob import Level
from leadline.model.result import RESPONSES, Effect, Interval, StudyAnalysis, Verdict
from leadline.model.units import parse_duration, signed

EXAMPLES = "write cpu>3%, p99>10% or throughput<-5%"
SHARES = ("errors", "dropped")  # of a load: their percents are shares, not changes
LOAD_LIMITS = ("mean", "p50", "p90", "p95", "p99", "p999", "max", *SHARES, "throughput")
SOAK_RESPONSES = ("throughput", "p99", "memory")
_CPU = ("cpu_per_transaction", "steady_cpu_per_transaction")  # of slots the second, unless the study names the first
_SHORT = {"cpu": _CPU, "steady_cpu": _CPU[1:], "p99.9": ("p999",)}
_FORM = re.compile(r"([^<>=]*)([<>])=?(.*)")


class State(StrEnum):
    """What the simultaneous interval of a change says of a condition."""

    BROKEN = "broken"  # the whole interval lies beyond the margin
    KEPT = "kept"  # none of it does
    UNDECIDED = "undecided"  # it holds both, or there is none


@dataclass(frozen=True)
class Condition:
    """``margin``: percent of harm beyond which it is broken; None of a limit of a load, which the driver judges."""

    text: str
    response: str
    margin: float | None

    @property
    def sign(self) -> int:
        """+1 where a growing response does harm, -1 where a shrinking one does."""
        return _sign(self.response)


@dataclass(frozen=True)
class Change:
    """A change of a response in percent, with its simultaneous interval; None with the ``reason``. ``what``: of which
    level, or empty. ``failed``: every trial of the level failed.
    """

    response: str
    what: str
    percent: float | None
    interval: Interval | None
    reason: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Judged:
    """A condition held against one change; ``change`` is None where the response was not compared."""

    condition: Condition
    state: State
    change: Change | None

    @property
    def line(self) -> str:
        change = self.change
        subject = f"--fail {self.condition.text}: {self.state.value}"
        if change is None:
            return f"{subject}: {self.condition.response} was not compared"
        what = f"{change.what}: " if change.what else ""
        if change.percent is None or change.interval is None:
            why = "every trial failed" if change.failed else change.reason or "no interval"
            return f"{subject}: {what}{why}"
        low, high = signed(change.interval.low, 3), signed(change.interval.high, 3)
        return f"{subject}: {what}{self.condition.response} {signed(change.percent, 3)} % [{low}, {high}]"

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        change = None if self.change is None else asdict(self.change)
        return {"condition": self.condition.text, "state": self.state.value, "change": change}


def parse(texts: Iterable[str], responses: Collection[str], limits: bool = False) -> tuple[Condition, ...]:
    """Conditions on these responses; ``limits``: also those of a load itself. Raises UsageError."""
    return tuple(_parse("".join(text.split()), responses, limits) for text in texts)


def _parse(text: str, responses: Collection[str], limits: bool) -> Condition:
    name, sign, value = _split(text)
    if name in _SHORT and name not in responses:
        name = next((long for long in _SHORT[name] if long in responses), _SHORT[name][0])
    absolute = limits and (not value.endswith("%") or name in SHARES)
    choices = LOAD_LIMITS if absolute else responses
    if name not in choices:
        hint = did_you_mean(name, list(choices)) or f"there are {', '.join(choices)}"
        raise UsageError(f"--fail {quoted(text)}: {quoted(name)} is not measured here; {hint}")
    if absolute:
        _check_limit(text, name, sign, value)
        return Condition(text, name, None)
    harm = _sign(name)
    match = re.fullmatch(r"([-+]?)(\d+\.?\d*|\.\d+)%", value, re.ASCII)
    if not match:
        form = f"write {name}{'>' if harm > 0 else '<-'}5%"
        raise UsageError(f"--fail {quoted(text)}: {quoted(value)} is no change in percent of the baseline; {form}")
    right = (">", ("", "+")) if harm > 0 else ("<", ("-",))
    margin = float(match[2])
    if sign != right[0] or (match[1] not in right[1] and margin):
        form = f"{name}{'>' if harm > 0 else '<-'}{match[2]}%"
        raise UsageError(f"--fail {quoted(text)}: it names the harm, not what is wanted; write {form}")
    return Condition(text, name, margin)


def _split(text: str) -> tuple[str, str, str]:
    match = _FORM.fullmatch(text)
    if not match or not match[1] or not match[3]:
        raise UsageError(f"--fail {quoted(text)}: no condition; {EXAMPLES}")
    return match[1], match[2], match[3]


def _check_limit(text: str, name: str, sign: str, value: str) -> None:
    """As leadline-load reads it, which judges it."""
    right, form = "<" if name == "throughput" else ">", limit_example(name)
    if sign != right:
        raise UsageError(f"--fail {quoted(text)}: it names the harm, not what is wanted; write {name}{right}{value}")
    try:
        if name in SHARES or name == "throughput":
            float(value.removesuffix("%").removesuffix("/s"))
        else:
            parse_duration(value)
    except ValueError:
        raise UsageError(f"--fail {quoted(text)}: {quoted(value)} is no limit of {name}; write {form}") from None


def limit_example(name: str) -> str:
    """A limit of a load, as it is written."""
    return "throughput<100" if name == "throughput" else f"{name}>0.1%" if name in SHARES else f"{name}>200ms"


def _sign(response: str) -> int:
    kind = RESPONSES.get(response)
    return -1 if kind is not None and kind.higher_is_better else 1


def judge(conditions: Sequence[Condition], changes: Sequence[Change]) -> tuple[Judged, ...]:
    """Every condition against every change of its response."""
    judged = []
    for condition in conditions:
        own = [change for change in changes if change.response == condition.response]
        judged += [Judged(condition, _state(condition, change), change) for change in own]
        if not own:
            judged.append(Judged(condition, State.UNDECIDED, None))
    return tuple(judged)


def _state(condition: Condition, change: Change) -> State:
    if change.failed:
        return State.BROKEN
    if change.interval is None or condition.margin is None:
        return State.UNDECIDED
    low, high = harm_of(condition, change.interval)
    return State.BROKEN if low > condition.margin else State.KEPT if high <= condition.margin else State.UNDECIDED


def harm_of(condition: Condition, interval: Interval) -> tuple[float, float]:
    """The ends of an interval, as percent of harm."""
    ends = (interval.low, interval.high)
    return ends if condition.sign > 0 else (-ends[1], -ends[0])


def exit_code(judged: Sequence[Judged], undecided_fails: bool = True) -> int:
    """1 where a condition is broken, 4 where one is undecided, unless that passes; else 0."""
    states = [row.state for row in judged]
    if State.BROKEN in states:
        return 1
    return NO_ANSWER_CODE if undecided_fails and State.UNDECIDED in states else 0


def changes_of_study(
    analysis: StudyAnalysis, describe: Callable[[str, Level], str] = lambda _factor, level: str(level)
) -> list[Change]:
    """Of every level, as ``describe`` writes it, and of programs that were compared."""
    return [
        _of_effect(effect, f"{effect.factor}={describe(effect.factor, effect.level)}")
        for response in analysis.responses
        for effect in response.effects
    ]


def _of_effect(effect: Effect, what: str) -> Change:
    interval = effect.simultaneous
    percent = effect.percent
    if effect.verdict is Verdict.IDENTICAL:
        percent, interval = 0.0, Interval(0.0, 0.0)
    failed = effect.verdict is Verdict.FAILED
    return Change(effect.response, what, percent, interval, effect.reason, failed)
