"""The universal scalability law: what throughput gains from more CPUs, threads or users, and where it stops gaining.

X(n) = rate n / (1 + contention (n - 1) + coherency n (n - 1)), both coefficients 0 or more (N. J. Gunther, Guerrilla
Capacity Planning, 2007, chapter 4). Contention is the share of the work that only one may do at a time; coherency what
each pays to agree with each other. The fit is one of least squares of log throughput over all trials, as their noise is
relative. Intervals are those of the profile likelihood: every value that an F test at 5 % does not reject while the
others take their best, so that one at the bound of 0 has an interval too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.optimize at its first use
from numpy.typing import NDArray

from leadline.capacity.cells import cpu_count, held_levels
from leadline.model import distributions
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.knob import Level
from leadline.model.naming import Describe, plain_level
from leadline.model.record import StudyRecord
from leadline.model.result import Interval

Floats = NDArray[np.float64]

LEAST = 4  # sizes: the law has three parameters, and something must be left to test it by
DISTURBED = 0.25  # of all CPUs used by others, from which the curve is not the system's own
_LEVEL = 0.95
_ROUNDING = 1e-9  # added to the sum of squares: exact data have an interval, too
_REJECTED = 0.01  # p value of the lack of fit below which the law does not hold
_SLACK = 0.02  # of log throughput: a lack of fit that is smaller is none, however little the noise is
_MOST = 1e9  # a size beyond which no peak is told


@dataclass(frozen=True)
class Size:
    """The trials of one size: how many ``n``, mean throughput a second (geometric), and what the law says of it."""

    n: float
    trials: int
    throughput: float
    fitted: float
    efficiency: float  # throughput against n times that of one, by the fitted rate


@dataclass(frozen=True)
class Scaling:
    """``rate``: throughput of one, a second; ``peak``: the size of most throughput, None where coherency may be
    0; ``lack_of_fit``: p value, None without replicates; ``doubts`` say why the law does not hold here.
    """

    factor: str
    sizes: tuple[Size, ...]
    rate: float
    rate_interval: Interval
    contention: float
    contention_interval: Interval
    coherency: float
    coherency_interval: Interval
    peak: float | None
    peak_interval: Interval | None
    lack_of_fit: float | None
    doubts: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.doubts

    def at(self, n: float) -> float:
        """Throughput a second that the law says of ``n``."""
        return float(_law(np.array([n]), self.rate, self.contention, self.coherency)[0])

    @property
    def ceiling(self) -> float | None:
        """Throughput a second that no size goes beyond; None where both coefficients may be 0."""
        if self.peak is not None:
            return self.at(self.peak)
        return self.rate / self.contention if self.contention_interval.low > 0 else None


def scaling_of(
    record: StudyRecord, factor: str, at: Mapping[str, str] | None = None, describe: Describe = plain_level
) -> Scaling:
    """Of a study's factor, at the levels ``at`` of its others as texts; the baseline's where it names none. Raises
    UsageError for a factor the study does not have or whose levels are no numbers, and as ``scaling``.
    """
    factors = {factor.name: factor for factor in record.plan.factors}
    name = record.study.study
    if factor not in factors:
        near = nearest(factor, list(factors))
        hint = f"; did you mean {near}?" if near else f"; its factors: {', '.join(factors)}"
        raise UsageError(f"--scaling {factor}: no factor of {name}{hint}")
    wanted = held_levels(name, factors, {factor}, at or {}, describe)
    counts: list[float] = []
    rates: list[float] = []
    taken_cpus: list[float] = []
    for trial in record.trials:
        levels = trial.planned.treatment.as_dict()
        if trial.failure is None and "throughput" in trial.responses and wanted.items() <= levels.items():
            counts.append(_count(factor, levels[factor]))
            rates.append(trial.responses["throughput"])
            taken_cpus.append((trial.machine.taken or 0.0) if trial.machine else 0.0)
    return scaling(factor, counts, rates, float(np.mean(taken_cpus)) if taken_cpus else 0.0)


def _count(factor: str, level: Level) -> float:
    """Of a number, or of a list of CPUs."""
    if isinstance(level, (int, float)) and not isinstance(level, bool):
        return float(level)
    try:
        return float(cpu_count(str(level)))
    except ValueError:
        raise UsageError(f"--scaling {factor}: {quoted(level)} is no number and no list of CPUs") from None


def scaling(factor: str, counts: Sequence[float], rates: Sequence[float], taken: float = 0.0) -> Scaling:
    """Fit the law to trials: how many there were of ``factor`` and their throughput; ``taken``: mean share of the CPUs
    that others used. Raises UsageError for fewer than four sizes.
    """
    n, x = np.array(counts, dtype=float), np.array(rates, dtype=float)
    sizes = np.unique(n)
    if len(sizes) < LEAST:
        sizes_text = ", ".join(f"{size:g}" for size in sizes)
        raise UsageError(
            f"{factor}: good trials at {len(sizes)} size{'' if len(sizes) == 1 else 's'}, {sizes_text}; the "
            "scalability law "
            f"has three parameters and needs {LEAST} or more"
        )
    if not (n > 0).all() or not (x > 0).all():
        raise UsageError(f"{factor}: a size or a throughput is not above 0, which the scalability law cannot tell of")
    fit = _Fit(n, x)
    coherency = fit.interval(fit.coherency, fit.rss_of_coherency)
    peak = _peak(fit.contention, fit.coherency) if coherency.low > 0 else None
    lack, doubts = fit.lack_of_fit(), []
    if lack is not None and lack[0] < _REJECTED and lack[1] > _SLACK:
        doubts.append(f"the sizes lie {lack[1]:.0%} from the curve, more than their trials differ (p = {lack[0]:.2g})")
    if taken > DISTURBED:
        doubts.append(f"other programs used {taken:.0%} of all CPUs: the curve is that of what they left")
    return Scaling(
        factor,
        tuple(_size(fit, float(size)) for size in sizes),
        fit.rate,
        fit.interval(fit.rate, fit.rss_of_rate),
        fit.contention,
        fit.interval(fit.contention, fit.rss_of_contention),
        fit.coherency,
        coherency,
        peak,
        fit.interval(peak, fit.rss_of_peak, least=1.0) if peak is not None else None,
        None if lack is None else lack[0],
        tuple(doubts),
    )


def _law(n: Floats, rate: float, contention: float, coherency: float) -> Floats:
    return rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def _peak(contention: float, coherency: float) -> float:
    return max(1.0, math.sqrt(max(0.0, 1 - contention) / coherency))


class _Fit:
    """Least squares of log throughput. ``rss``: of any parameters, the best others taken for those that are None."""

    def __init__(self, n: Floats, x: Floats) -> None:
        self.n, self.seen = n, np.log(x)
        y = n / x  # linear in 1/rate and in both coefficients over the rate: a first guess without iteration
        columns = np.column_stack([np.ones_like(n), n - 1, n * (n - 1)]) / y[:, None]
        unit, contention, coherency = scipy.optimize.nnls(columns, np.ones_like(y))[0]
        start = (contention / unit, coherency / unit) if unit > 0 else (0.1, 0.0)
        self.contention, self.coherency, self.rss = self._least_of_both(start)
        self.rate = self._rate(self.contention, self.coherency)
        self.bound = (self.rss + _ROUNDING) * (1 + float(distributions.f.ppf(_LEVEL, 1, len(n) - 3)) / (len(n) - 3))

    def _errors(self, contention: float, coherency: float, rate: float | None = None) -> Floats:
        """Log throughput seen less that of the law, at the best rate where none is given."""
        rate = self._rate(contention, coherency) if rate is None else rate
        return self.seen - np.log(_law(self.n, rate, contention, coherency))

    def _rate(self, contention: float, coherency: float) -> float:
        return math.exp(float(np.mean(self.seen - np.log(_law(self.n, 1.0, contention, coherency)))))

    def _least_of_both(self, start: Sequence[float], rate: float | None = None) -> tuple[float, float, float]:
        """Both coefficients and the least sum of squares."""

        def errors(two: Floats, /) -> Floats:
            return self._errors(float(two[0]), float(two[1]), rate)

        done = scipy.optimize.least_squares(errors, np.array(start), bounds=(0.0, np.inf), x_scale=0.01)
        return float(done.x[0]), float(done.x[1]), float(np.sum(done.fun**2))

    def _least_of_one(self, both: Callable[[float], tuple[float, float]]) -> float:
        """The least sum of squares where both coefficients are made of one number of 0 or more."""

        def rss(share: float, /) -> float:
            return float(np.sum(self._errors(*both(share / (1 - share))) ** 2))

        minimum = scipy.optimize.minimize_scalar(rss, bounds=(0.0, 0.999), method="bounded", options={"xatol": 1e-8})
        return min(rss(0.0), float(minimum.fun))

    def rss_of_rate(self, rate: float) -> float:
        return self._least_of_both((self.contention, self.coherency), rate)[2]

    def rss_of_contention(self, contention: float) -> float:
        return self._least_of_one(lambda coherency: (contention, coherency))

    def rss_of_coherency(self, coherency: float) -> float:
        return self._least_of_one(lambda contention: (contention, coherency))

    def rss_of_peak(self, peak: float) -> float:
        """Contention is below 1 where the peak is above 1; coherency follows from both."""
        return self._least_of_one(lambda free: (min(1.0, free), max(0.0, 1 - free) / peak**2))

    def interval(self, best: float, rss: Callable[[float], float], least: float = 0.0) -> Interval:
        """Where ``rss`` stays below the bound around ``best``; down to ``least``, up to infinity."""

        def over(value: float) -> float:
            return rss(value) - self.bound

        low = (
            least
            if over(least + 1e-12) <= 0
            else float(scipy.optimize.brentq(over, least + 1e-12, best, xtol=1e-9, rtol=1e-4))
        )
        step = max(best, 1e-3)
        high = best + step
        while over(high) <= 0:
            step *= 2
            high = best + step
            if high > _MOST:
                return Interval(low, math.inf)
        return Interval(low, float(scipy.optimize.brentq(over, best, high, xtol=1e-9, rtol=1e-4)))

    def lack_of_fit(self) -> tuple[float, float] | None:
        """P value of the test of the sizes' means around the curve against the noise of their trials, and the root mean
        square of what the means lie from it; None without replicates.
        """
        groups = [(float(size), self.seen[self.n == size]) for size in np.unique(self.n)]
        pure = sum(float(np.sum((values - values.mean()) ** 2)) for _, values in groups)
        free, within = len(groups) - 3, len(self.n) - len(groups)
        if within < 1 or free < 1:
            return None
        between = max(0.0, self.rss - pure)
        typical = math.sqrt(between / len(self.n))
        if pure <= 1e-15:
            return (0.0 if between > 1e-12 else 1.0), typical
        return float(distributions.f.sf((between / free) / (pure / within), free, within)), typical


def _size(fitted: _Fit, n: float) -> Size:
    values = fitted.seen[fitted.n == n]
    mean = math.exp(float(values.mean()))
    says = float(_law(np.array([n]), fitted.rate, fitted.contention, fitted.coherency)[0])
    return Size(n, len(values), mean, says, mean / (n * fitted.rate))
