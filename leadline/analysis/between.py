"""Figures of two runs against each other: the ratio of two estimates that know nothing of each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leadline.model import distributions
from leadline.model.result import Interval

_FEW = 1.0  # degrees of freedom where an analysis tells none


@dataclass(frozen=True)
class Estimate:
    """A positive figure with its 95 % interval and the degrees of freedom behind it."""

    value: float
    interval: Interval
    df: float

    def __post_init__(self) -> None:
        if min(self.value, self.interval.low) <= 0 or not math.isfinite(self.interval.high):
            raise ValueError(f"an estimate is positive with its interval, got {self.value} {self.interval}")

    @property
    def error(self) -> float:
        """Standard error on the log scale; of an interval that is not symmetric there, by its longer side."""
        sides = (math.log(self.interval.high / self.value), math.log(self.value / self.interval.low))
        return max(*sides, 0.0) / float(distributions.t.ppf((1 + self.interval.level) / 2, max(self.df, _FEW)))


@dataclass(frozen=True)
class Ratio:
    """Percent by which the second figure is larger. ``simultaneous`` holds for all comparisons of the table."""

    percent: float
    interval: Interval
    simultaneous: Interval


def ratio(first: Estimate, second: Estimate, comparisons: int = 1, level: float = 0.95) -> Ratio:
    """Welch's interval on the log scale with Satterthwaite's degrees of freedom; Bonferroni over ``comparisons``."""
    change = math.log(second.value / first.value)
    errors = np.array([first.error, second.error])
    total = float(np.hypot(*errors))
    degrees = np.maximum([first.df, second.df], _FEW)
    df = total**4 / float(np.sum(errors**4 / degrees)) if total > 0 else float(degrees.sum())

    def interval(at: float) -> Interval:
        reach = total * float(distributions.t.isf((1 - at) / 2, df))
        return Interval(100 * math.expm1(change - reach), 100 * math.expm1(change + reach), level)

    return Ratio(100 * math.expm1(change), interval(level), interval(1 - (1 - level) / max(comparisons, 1)))
