"""What a sum of standard deviations says about the truth when noise inflates it.

A standard deviation of level means grows with the noise of the means even if no level differs. The truth is sought
along one line: the deviations found, times c. For each c the sum is simulated with the design's own noise (its variance
drawn too, sigma^2 df / chi^2(df)), and c is chosen so that the sum that was found is the simulated mean (estimate), or
an upper or lower percentile of it (interval): a parametric bootstrap by test inversion, Carpenter, Test inversion
bootstrap confidence intervals (1999). The upper end is made safe where the sum is smaller than noise alone would give,
by Read's ratio (Presentation of search results: the CL_s technique, 2002), so that an interval is never empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from leadline.analysis.table import Floats
from leadline.model.result import Interval

SEED = 20_062
DRAWS = 4000


@dataclass(frozen=True)
class Part:
    """One system's level means (L), with L at least 2.

    ``scatter`` (L, r) times its transpose times ``sigma`` squared is their covariance, ``df`` what sigma rests on.
    """

    means: Floats
    scatter: Floats
    sigma: float
    df: int

    @property
    def sd(self) -> float:
        return float(np.std(self.means, ddof=1))


@dataclass(frozen=True)
class Corrected:
    """The sum without what noise adds, its interval, and how often noise alone gives as much (p)."""

    value: float
    interval: Interval
    p_value: float


def corrected_sum(parts: Sequence[Part], level: float = 0.95, seed: int = SEED) -> Corrected | None:
    """The sum of the parts' standard deviations, corrected. None where some part's noise is not known (df 0).

    The same input gives the same result.
    """
    if not parts or any(part.df < 1 for part in parts):
        return None
    found = sum(part.sd for part in parts)
    squares, cross, noise = _draws(parts, np.random.default_rng(seed))

    def simulated(c: float) -> Floats:
        inside = np.maximum(c * c * squares + 2 * c * cross + noise, 0.0)
        return np.asarray(np.sqrt(inside).sum(axis=1), dtype=np.float64)

    tail = (1 - level) / 2
    tolerance = 1e-9 * found
    null = simulated(0.0)
    null_below = float(np.mean(null <= found + tolerance))
    low = _solve(lambda c: float(np.quantile(simulated(c), 1 - tail)) - found)
    high = _solve(lambda c: float(np.quantile(simulated(c), tail * max(null_below, 1 / DRAWS))) - found)
    middle = _solve(lambda c: float(np.mean(simulated(c))) - found)
    p_value = (1 + float(np.sum(null >= found - tolerance))) / (1 + DRAWS)
    return Corrected(middle * found, Interval(low * found, max(high, middle) * found, level), p_value)


def _draws(parts: Sequence[Part], rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Of each part the deviations' variance (parts), and per draw their covariance with the noise and its variance."""
    squares = np.empty(len(parts))
    cross, noise = np.empty((DRAWS, len(parts))), np.empty((DRAWS, len(parts)))
    for number, part in enumerate(parts):
        count = len(part.means)
        centred = part.means - part.means.mean()
        scatter = part.scatter - part.scatter.mean(axis=0)
        values, vectors = np.linalg.eigh(scatter @ scatter.T)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        sigma = part.sigma * np.sqrt(part.df / rng.chisquare(part.df, DRAWS))
        errors = (rng.standard_normal((DRAWS, count)) @ root.T) * sigma[:, None]
        squares[number] = float(centred @ centred) / (count - 1)
        cross[:, number] = errors @ centred / (count - 1)
        noise[:, number] = np.sum(errors**2, axis=1) / (count - 1)
    return squares, cross, noise


def _solve(excess: Callable[[float], float]) -> float:
    """The c >= 0 at which the increasing function crosses zero; 0 where it is never below."""
    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > 1e6 or not math.isfinite(high):
            return high
    return float(optimize.brentq(excess, 0.0, high, xtol=1e-6, rtol=1e-6))
