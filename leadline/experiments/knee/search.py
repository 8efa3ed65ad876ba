"""Which load a search measures next, and what its trials say: pure decisions on what was measured so far.

A staircase up, then bisection, then trials beside the limit. Several limits share one set of trials: what was measured
for one of them is known to all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from leadline.analysis.crossing import BESIDE, NEAR, Crossing, Probe, crossing, next_load

CRITICAL_MS = (10.0, 25.0, 50.0, 100.0, 200.0)  # limits of p99 over which critical throughput is a geometric mean
BESIDES = 4  # trials near the limit that steps and bisection have made already
FAILED = "errors or audits"  # in place of a limit: the trial has no figures
_THIRDS = 3  # a middle, and both thirds in place of it
_ENDS = 2  # trials at the highest load kept and at the lowest one broken, judged together

LimitedBy = Literal["server", "driver", "range"]


@dataclass(frozen=True)
class LoadInterval:
    """An estimate with its 95 % interval; None where nothing was measured."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class KneeTrial:
    """One trial. ``uses``: figures over their limits, by name; ``failed``: why it has no figures, which breaks every
    limit; ``driver_limit``: the driver could not make this load.
    """

    load: float
    uses: Mapping[str, float]
    throughput: float | None = None
    mean_ms: float | None = None
    p99_ms: float | None = None
    failed: str = ""
    driver_limit: bool = False


@dataclass(frozen=True)
class Target:
    """What a search looks for: the limits of the study (``p99_ms`` None), or one limit of the 99th percentile."""

    name: str
    p99_ms: float | None = None

    def uses(self, trial: KneeTrial) -> Mapping[str, float]:
        if self.p99_ms is None:
            return trial.uses
        return {} if trial.p99_ms is None else {"p99": trial.p99_ms / self.p99_ms}


@dataclass(frozen=True)
class Range:
    """Loads to be tried: the first, the lowest and the highest; ``factor`` between stairs, ``resolution`` the ratio at
    which bisection ends, minus one.
    """

    first: float
    highest: float
    factor: float = 1.5
    resolution: float = 0.05
    whole: bool = False  # only whole numbers (users)

    @property
    def lowest(self) -> float:
        return max(1.0, self.first / 100) if self.whole else self.first / 100

    @property
    def top(self) -> float:
        return float(math.floor(self.highest)) if self.whole else self.highest


def steps_at_most(loads: Range) -> int:
    """Of a search whose confirmation holds."""
    up = math.log(loads.top / loads.first) / math.log(loads.factor)
    down = math.log(loads.first / loads.lowest) / math.log(loads.factor)
    finest = 1 + (1 / loads.highest if loads.whole else loads.resolution)
    bisections = math.log2(max(1.0, math.log(loads.factor) / math.log(max(finest, 1 + loads.resolution))))
    return math.ceil(max(up, down, 0.0)) + 1 + math.ceil(bisections) + 1


@dataclass(frozen=True)
class LoadStep:
    """A trial, or all trials at one load, against one target. ``ratio``: the worst figure over its limit, None where
    the trial has no figures; ``broken``: the limits that were, the worst one first.
    """

    load: float
    ratio: float | None
    kept: bool
    broken: tuple[str, ...] = ()
    driver_limit: bool = False


@dataclass(frozen=True)
class Found:
    """``highest`` is the highest load measured that kept the limits, ``lowest_failed`` the lowest above it that did
    not: the load wanted lies between.
    """

    highest: float | None
    lowest_failed: float | None
    limited_by: LimitedBy
    reason: str
    limit: Crossing | None = None  # the load at which the worst figure is at its limit, with its interval
    gave_out: str | None = None  # the limit that was broken first


@dataclass(frozen=True)
class KneeLimit:
    """The load at which a target is met. ``load`` with its interval; ends that trials do not bound are those of the
    bracket. ``throughput``: transactions a second there. All None where no load kept the limits.
    """

    target: Target
    found: Found
    load: LoadInterval
    throughput: LoadInterval


@dataclass(frozen=True)
class Staircase:
    """Says which load comes next, given what the ones before did; one step for each load."""

    range: Range
    steps: Sequence[LoadStep]

    @property
    def _failed(self) -> float | None:
        return min((step.load for step in self.steps if not step.kept and not step.driver_limit), default=None)

    @property
    def _driver(self) -> float | None:
        """The lowest load that the driver itself could not make."""
        return min((step.load for step in self.steps if step.driver_limit), default=None)

    @property
    def _ceiling(self) -> float | None:
        loads = [load for load in (self._failed, self._driver) if load is not None]
        return min(loads) if loads else None

    @property
    def _kept(self) -> float | None:
        ceiling = math.inf if self._ceiling is None else self._ceiling
        good = [step.load for step in self.steps if step.kept and not step.driver_limit and step.load < ceiling]
        return max(good, default=None)

    def next(self) -> float | None:
        """The load to measure now, or None when the search is over."""
        low, high = self._kept, self._ceiling
        if not self.steps:
            return self._round(self.range.first)
        if high is None:
            assert low is not None
            return None if low >= self.range.top else self._round(min(low * self.range.factor, self.range.top))
        if low is None:
            return None if high <= self.range.lowest else self._round(max(high / self.range.factor, self.range.lowest))
        middle = math.sqrt(low * high)
        if (self.range.whole and high - low <= 1) or high / low <= 1 + self.range.resolution:
            return None
        return self._round(middle) if low < middle < high else None  # else neighbours among floating-point numbers

    def _round(self, load: float) -> float:
        if not self.range.whole:
            return load
        low, high = self._kept, self._ceiling
        whole = math.floor(load)
        if high is None and low is not None:
            return min(float(max(whole, low + 1)), self.range.top)
        if low is not None and high is not None:
            return float(min(max(whole, low + 1), high - 1))
        return float(max(1, whole if high is None else min(whole, high - 1)))

    def result(self) -> Found:
        """What is known now."""
        low, high = self._kept, self._ceiling
        if low is None:
            reason = "no load in the range kept the limits"
        elif high is None:
            reason = "the highest load of the range kept the limits: raise --to"
        elif high == self._driver:
            reason = "the driver was the limit, not the server: what the server could do is at least this"
        else:
            reason = "the server went over the limits above it"
        by: LimitedBy = "range" if high is None else "driver" if high == self._driver else "server"
        return Found(low, high, by, reason)


def limit_of(found: Found, steps: Sequence[LoadStep]) -> Crossing | None:
    """The load at which the worst figure is at its limit, from all ``steps`` as measured; None unless the
    server was the limit.
    """
    if found.highest is None or found.lowest_failed is None or found.limited_by == "driver":
        return None
    probes = [Probe(step.load, step.ratio) for step in steps if not step.driver_limit]
    around, limit, near = math.sqrt(found.highest * found.lowest_failed), None, NEAR
    for _ in range(4):  # the probes that are near depend on the estimate
        now = crossing(probes, around, near=near)
        if now is None:
            break
        around, limit, near = now.load, now, now.near
    return limit


def gave_out(steps: Sequence[LoadStep], limit: float) -> str | None:
    """The limit that was the worst one most often in steps that broke limits less than 15 % from ``limit``; that of
    the lowest such step where there is none.
    """
    broken = sorted((step for step in steps if step.broken and not step.driver_limit), key=lambda step: step.load)
    near = [step.broken[0] for step in broken if abs(math.log(step.load / limit)) <= math.log(1.15)]
    return max(near, key=near.count) if near else broken[0].broken[0] if broken else None


def limits(critical: bool) -> list[Target]:
    """What is searched for, from the heaviest load to the lightest as far as that is known."""
    more = [Target(f"p99 {ms:g} ms", ms) for ms in sorted(CRITICAL_MS, reverse=True)]
    return [Target("limits"), *(more if critical else ())]


def next_of(
    targets: Sequence[Target], measured: Sequence[KneeTrial], loads: Range, repeats: int
) -> tuple[float, float] | None:
    """Two loads to measure now, one beside the other in a probe; None when nothing is left."""
    for target in targets:
        if (wanted := _wanted(target, measured, loads, repeats)) is not None:
            return wanted
    return None


def _wanted(target: Target, measured: Sequence[KneeTrial], loads: Range, repeats: int) -> tuple[float, float] | None:
    steps = _steps(target, measured)
    stairs = Staircase(loads, _judged(steps))
    result, load = stairs.result(), stairs.next()
    low, high = result.highest, result.lowest_failed
    ends = [end for end in (low, high) if end is not None]
    if load is not None and target.p99_ms is not None and load < loads.first:
        return None  # whoever asks for all of them has no use for a server that is hardly loaded
    if load is not None:
        return _distinct([load, *_beyond(load, low, high, loads)], ends)
    if new := [end for end in ends if sum(step.load == end for step in steps) < _ENDS]:
        return _distinct(new, ends)
    if low is None or high is None or result.limited_by != "server":
        return None
    limit = limit_of(result, steps)
    around, window, beside = math.sqrt(low * high), NEAR, BESIDE
    if limit is not None:
        around, window, beside = limit.load, limit.near, limit.beside
    near = sum(_is_near(step.load, around, window, loads.whole) for step in steps)
    if near >= repeats + BESIDES or repeats == 0:
        return None
    return _distinct([_within(next_load(around, near + at, beside), around, loads) for at in (0, 1)], ends)


def _is_near(load: float, around: float, window: float, whole: bool) -> bool:
    """Beside the crossing, as far as whole numbers of users can be."""
    return abs(math.log(load / around)) <= window or (whole and abs(load - around) <= 1)


def _beyond(load: float, low: float | None, high: float | None, loads: Range) -> list[float]:
    """What is measured beside the next step: the stair after it, or the other third of the bracket."""
    if low is not None and high is not None:
        thirds = [low ** (1 - share) * high**share for share in (1 / 3, 2 / 3)]
        inside = sorted({round(third) for third in thirds} if loads.whole else thirds)
        return [float(third) for third in inside if low < third < high and third != load]
    further = load * loads.factor if high is None else load / loads.factor
    return [min(max(float(math.ceil(further)) if loads.whole else further, loads.lowest), loads.top)]


def _within(load: float, around: float, loads: Range) -> float:
    if loads.whole:
        load = float(max(1, math.floor(load) if load < around else math.ceil(load)))
    return min(max(load, loads.lowest), loads.top)


def _distinct(wanted: Sequence[float], ends: Sequence[float]) -> tuple[float, float] | None:
    """Two different loads: a bracket's thirds in place of its middle; an end of it where one is not enough."""
    loads = list(dict.fromkeys([*(wanted[1:] if len(wanted) == _THIRDS else wanted), *ends]))
    return (loads[0], loads[1]) if len(loads) > 1 else None


def result_of(target: Target, measured: Sequence[KneeTrial], loads: Range) -> KneeLimit:
    """What the trials say of one target."""
    steps = _steps(target, measured)
    result = Staircase(loads, _judged(steps)).result()
    limit = limit_of(result, steps)
    load_ = limit.load if limit is not None else result.lowest_failed
    result = replace(result, limit=limit, gave_out=None if load_ is None else gave_out(steps, load_))
    if result.highest is None:
        return KneeLimit(target, result, LoadInterval(None, None, None), LoadInterval(None, None, None))
    low, high = result.highest, result.lowest_failed
    load = LoadInterval(low, low, high)
    if limit is not None:
        at_least = min(low, limit.load) if limit.low is None else limit.low
        at_most = max(high or limit.load, limit.load) if limit.high is None else limit.high
        load = LoadInterval(limit.load, at_least, at_most)
    if target.p99_ms is not None and high is not None:  # of many limits none is looked at closely: the bracket, too
        load = LoadInterval(load.value, min(low, load.low or low), max(high, load.high or high))
    unit = _per_load(measured, load.value or low)
    scaled = (None if value is None or unit is None else unit * value for value in (load.value, load.low, load.high))
    return KneeLimit(target, result, load, LoadInterval(*scaled))


def critical(found: Sequence[KneeLimit]) -> LoadInterval:
    """The geometric mean of the throughputs at the limits of the 99th percentile. Its interval is that of limits
    that err together, as their trials are shared; each holds the loads between which its limit was kept and broken.
    None where a limit is kept at no load, or an end is not known.
    """
    at = [limit.throughput for limit in found if limit.target.p99_ms is not None]

    def mean(values: Sequence[float | None]) -> float | None:
        values_ = [value for value in values if value]
        return float(np.exp(np.mean(np.log(values_)))) if values_ and len(values_) == len(values) else None

    return LoadInterval(mean([x.value for x in at]), mean([x.low for x in at]), mean([x.high for x in at]))


def _per_load(measured: Sequence[KneeTrial], around: float) -> float | None:
    """Transactions a second of one unit of load, of the trials nearest to ``around``."""
    known = [trial for trial in measured if trial.throughput]
    near = [trial for trial in known if abs(math.log(trial.load / around)) <= NEAR]
    return float(np.median([(trial.throughput or 0.0) / trial.load for trial in near or known])) if known else None


def _steps(target: Target, measured: Sequence[KneeTrial]) -> list[LoadStep]:
    """One for each trial, in their order."""
    return [_step(target, trial) for trial in measured]


def _step(target: Target, trial: KneeTrial) -> LoadStep:
    if trial.failed:
        return LoadStep(trial.load, None, False, (FAILED,), trial.driver_limit)
    uses = target.uses(trial)
    broken = tuple(sorted((name for name, use in uses.items() if use > 1), key=lambda name: -uses[name]))
    return LoadStep(trial.load, max(uses.values(), default=0.0), not broken, broken, trial.driver_limit)


def _judged(steps: Sequence[LoadStep]) -> list[LoadStep]:
    """One for each load: that of several trials is the geometric mean of what they used of the limits."""
    by_load: dict[float, list[LoadStep]] = {}
    for step in steps:
        by_load.setdefault(step.load, []).append(step)
    judged = []
    for measured in by_load.values():
        logs = [math.inf if step.ratio is None else math.log(max(step.ratio, 1e-9)) for step in measured]
        keeps = float(np.median(logs)) <= 0 if math.inf in logs else float(np.mean(logs)) <= 0
        worst = max(measured, key=lambda step: math.inf if step.ratio is None else step.ratio)
        judged.append(replace(worst, kept=keeps, driver_limit=any(step.driver_limit for step in measured)))
    return judged
