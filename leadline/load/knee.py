"""The highest load that keeps given limits: a staircase up, then bisection; pure decisions on measured steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from leadline.load.crossing import NEAR, Crossing, Probe, crossing
from leadline.load.series import ALL, SecondResponses
from leadline.load.within import QUANTILES, Bound
from leadline.model import distributions

_RESAMPLES = 500
_LEVEL = 0.95
_BEYOND = 1e6

LimitedBy = Literal["server", "driver", "range", "budget"]


@dataclass(frozen=True)
class LoadInterval:
    """An estimate with its 95 % interval; None where nothing was measured."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LoadLimits:
    """What a step must keep: response time of the 99th percentile in ms (None: no such limit), share of failed and
    dropped transactions, further limits of response times.
    """

    p99_ms: float | None
    errors: float
    bounds: tuple[Bound, ...] = ()

    @property
    def all(self) -> tuple[Bound, ...]:
        """The limits of response times."""
        return self.bounds if self.p99_ms is None else (Bound(ALL, "p99", self.p99_ms), *self.bounds)


@dataclass(frozen=True)
class LoadStep:
    """One load, measured. ``load`` is arrivals a second, or users of closed arrivals."""

    load: float
    seconds: int
    throughput: LoadInterval
    mean_ms: float | None
    p99_ms: LoadInterval
    errors: LoadInterval
    kept: bool
    sure: bool  # the intervals leave no doubt about ``kept``
    driver_limit: bool
    evidence: tuple[str, ...] = ()
    confirms: bool = False  # measured after the search, at the load it ended at
    broken: tuple[str, ...] = ()  # the limits that were, the worst one first
    at_least: tuple[str, ...] = ()  # limits whose figures hang on transactions without an answer: lower bounds
    ratio: float | None = None  # the worst figure over its limit
    runs: tuple[float | None, ...] = ()  # the same of each run


@dataclass(frozen=True)
class Found:
    """``highest`` is the highest load measured that kept the limits, ``lowest_failed`` the lowest above it that did
    not: the load wanted lies between. ``knee`` is where the mean response time turns up, between two neighbours.
    """

    highest: float | None
    lowest_failed: float | None
    limited_by: LimitedBy
    knee: LoadInterval
    steps: tuple[LoadStep, ...]
    reason: str
    confirmation: LoadStep | None = None  # ``highest`` measured once more, with a seed of its own
    limit: Crossing | None = None  # the load at which the worst figure is at its limit, with its interval
    gave_out: str | None = None  # the limit that was broken first
    repeats: tuple[LoadStep, ...] = ()  # measured beside the limit, for its interval


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


def steps_at_most(loads: Range, repeats: int) -> tuple[int, int]:
    """Of a search whose confirmation holds: steps, each of which may need two runs, and repeats of one run."""
    up = math.log(loads.top / loads.first) / math.log(loads.factor)
    down = math.log(loads.first / loads.lowest) / math.log(loads.factor)
    finest = 1 + (1 / loads.highest if loads.whole else loads.resolution)
    bisections = math.log2(max(1.0, math.log(loads.factor) / math.log(max(finest, 1 + loads.resolution))))
    return math.ceil(max(up, down, 0.0)) + 1 + math.ceil(bisections) + 1, repeats


@dataclass
class Staircase:
    """Says which load comes next, given what the ones before did."""

    range: Range
    steps: list[LoadStep] = field(default_factory=list)

    def record(self, step: LoadStep) -> None:
        """Takes in a measured step; a later one at the same load stands beside it."""
        self.steps.append(step)

    @property
    def _failed(self) -> float | None:
        return min((step.load for step in self.steps if not step.kept and not step.driver_limit), default=None)

    @property
    def _driver(self) -> float | None:
        """The lowest load that the driver itself could not make."""
        return min((step.load for step in self.steps if step.driver_limit), default=None)

    @property
    def _empty(self) -> float | None:
        """The lowest load at which no transaction ended, well or not."""
        return min((step.load for step in self.steps if step.errors.value is None), default=None)

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
            if self._empty is not None:  # lower loads show even less
                return None
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
            if self._empty is not None:
                reason = f"at {self._empty:g} no transaction ended in the steady phase: measure longer (--steady)"
        elif high is None:
            reason = "the highest load of the range kept the limits: raise --to"
        elif high == self._driver:
            reason = "the driver was the limit, not the server: what the server could do is at least this"
        else:
            reason = "the server went over the limits above it"
        by: LimitedBy = "range" if high is None else "driver" if high == self._driver else "server"
        steps = tuple(sorted(self.steps, key=lambda step: step.load))
        again = next((step for step in reversed(self.steps) if step.load == low and step.confirms), None)
        return Found(low, high, by, knee_of(steps), steps, reason, again)

    @property
    def unconfirmed(self) -> float | None:
        """The highest load kept, while no run of its own has confirmed it."""
        confirmed = {step.load for step in self.steps if step.confirms}
        return None if self._kept in confirmed else self._kept


def knee_of(steps: Sequence[LoadStep]) -> LoadInterval:
    """Where the mean response time turns up: the step farthest below the chord between the first and the last one,
    with its neighbours as interval (Satopaa, Albrecht, Irwin, Raghavan 2011, without their smoothing). None with
    fewer than four steps, or when the mean did not at least double.
    """
    usable = {step.load: step.mean_ms for step in steps if step.mean_ms is not None}
    loads = np.array(sorted(usable))
    if len(loads) < 4:
        return LoadInterval(None, None, None)
    means = np.array([usable[load] for load in loads])
    if means[-1] < 2 * means.min():
        return LoadInterval(None, None, None)
    x = (loads - loads[0]) / (loads[-1] - loads[0])
    y = (means - means.min()) / (means.max() - means.min())
    at = int(np.argmax(x - y))
    return LoadInterval(float(loads[at]), float(loads[max(at - 1, 0)]), float(loads[min(at + 1, len(loads) - 1)]))


def measure_step(
    load: float,
    seconds: Sequence[SecondResponses],
    limits: LoadLimits,
    driver_limit: bool = False,
    evidence: tuple[str, ...] = (),
    seed: int = 1,
    single: Mapping[str, Sequence[SecondResponses]] | None = None,
) -> LoadStep:
    """Judges a load by its whole seconds; ``single`` has the same seconds of single transactions that are limited.
    Intervals of percentiles come from a bootstrap with seconds as blocks, of the throughput from Student's t over
    seconds, of the share of errors the wider of bootstrap and Clopper-Pearson.
    """
    values, table = _table(seconds)
    failed = np.array([second.failed for second in seconds], dtype=float)
    draws = np.random.default_rng(seed).multinomial(
        len(seconds), np.full(len(seconds), 1 / max(len(seconds), 1)), size=_RESAMPLES
    )
    ok = np.array([second.ok for second in seconds], dtype=float)
    total = ok.sum()
    p99 = _quantile(values, table, draws, 0.99)
    errors = _share(failed, ok, draws)
    mean = float((values * table.sum(axis=0)).sum() / table.sum()) if table.any() else None
    times: list[tuple[str, LoadInterval, float]] = []
    unanswered: set[str] = set()  # limits whose figures are only known to be at least so long
    for bound in limits.all:
        seconds_of_bound = seconds if bound.transaction == ALL else (single or {}).get(bound.transaction, ())
        quantile = _quantile(*_table(seconds_of_bound), draws, QUANTILES[bound.measure])
        times.append((bound.name, quantile, bound.ms))
        if quantile.value is not None and quantile.value >= min(second.unanswered_from for second in seconds_of_bound):
            unanswered.add(bound.name)
    judged = [*times, ("errors", errors if errors.value is not None else LoadInterval(0.0, 0.0, 0.0), limits.errors)]
    ratios = {name: _ratio(estimate.value, limit) for name, estimate, limit in judged if estimate.value is not None}
    ratios |= {name: _BEYOND for name in unanswered if ratios[name] <= 1}
    broken = sorted((name for name, ratio in ratios.items() if ratio > 1), key=lambda name: -ratios[name])
    is_kept = bool(total) and not broken
    if is_kept:
        sure = all(_outside(estimate, limit, is_kept) for _, estimate, limit in judged)
    else:  # one limit surely broken is enough
        surely = (estimate.low is not None and estimate.low > limit for _, estimate, limit in judged)
        sure = not total or bool(unanswered.intersection(broken)) or any(surely)
    return LoadStep(
        load,
        len(seconds),
        _mean(ok),
        mean,
        p99,
        errors,
        is_kept,
        sure,
        driver_limit,
        evidence,
        broken=tuple(broken),
        at_least=tuple(sorted(unanswered)),
        ratio=max(ratios.values()) if total else None,
    )


def limit_of(found: Found, steps: Sequence[LoadStep]) -> Crossing | None:
    """The load at which the worst figure is at its limit, from all runs of ``steps`` (as measured); None unless the
    server was the limit.
    """
    if found.highest is None or found.lowest_failed is None or found.limited_by == "driver":
        return None
    probes = [Probe(step.load, ratio) for step in steps if not step.driver_limit for ratio in step.runs]
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


def _table(seconds: Sequence[SecondResponses]) -> tuple[np.ndarray, np.ndarray]:
    """Values that occur (ms, ascending), and how often each does in each second (seconds by values)."""
    values = np.array(sorted({value for second in seconds for value in second.values_ms}))
    table = np.zeros((len(seconds), len(values)))
    for row, second in zip(table, seconds, strict=True):
        np.add.at(row, np.searchsorted(values, second.values_ms), second.counts)
    return values, table


def _ratio(value: float, limit: float) -> float:
    """Any error is far beyond a limit of none."""
    return value / limit if limit else _BEYOND if value else 0.0


def _outside(interval: LoadInterval, limit: float, kept: bool) -> bool:
    return kept and interval.high is not None and interval.high <= limit


def _quantile(values: np.ndarray, table: np.ndarray, draws: np.ndarray, q: float) -> LoadInterval:
    if not table.sum():
        return LoadInterval(None, None, None)

    def of(weights: np.ndarray) -> np.ndarray:
        sums = np.cumsum(weights @ table, axis=1)
        sums = sums[sums[:, -1] > 0]
        return np.asarray(values[(sums < q * sums[:, -1:]).sum(axis=1)])

    tail = (1 - _LEVEL) / 2
    low, high = np.quantile(of(draws), [tail, 1 - tail])
    return LoadInterval(float(of(np.ones((1, len(table))))[0]), float(low), float(high))


def _share(failed: np.ndarray, ok: np.ndarray, draws: np.ndarray) -> LoadInterval:
    count, bad = float(failed.sum() + ok.sum()), float(failed.sum())
    if not count:
        return LoadInterval(None, None, None)
    tail = (1 - _LEVEL) / 2
    bads, counts = draws @ failed, draws @ (failed + ok)
    low, high = np.quantile(bads[counts > 0] / counts[counts > 0], [tail, 1 - tail])
    exact_low = 0.0 if bad == 0 else float(distributions.beta.ppf(tail, bad, count - bad + 1))
    exact_high = 1.0 if bad == count else float(distributions.beta.ppf(1 - tail, bad + 1, count - bad))
    return LoadInterval(bad / count, min(float(low), exact_low), max(float(high), exact_high))


def _mean(ok: np.ndarray) -> LoadInterval:
    if not len(ok):
        return LoadInterval(None, None, None)
    mean = float(ok.mean())
    if len(ok) < 2:
        return LoadInterval(mean, None, None)
    half = float(distributions.t.ppf((1 + _LEVEL) / 2, len(ok) - 1) * ok.std(ddof=1) / math.sqrt(len(ok)))
    return LoadInterval(mean, max(0.0, mean - half), mean + half)
