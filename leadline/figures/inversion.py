"""What a sum of standard deviations says about the truth when noise inflates it.

A standard deviation of level means grows with the noise of the means even if no level differs. The truth is sought
along one line: a pattern of deviations times c. For each c the sum is simulated with the design's own noise (its
variance drawn too, sigma^2 df / chi^2(df)), and c is chosen so that the sum that was found is the simulated median
(estimate: below the truth as often as above) or an upper or lower percentile (interval). This is a parametric bootstrap
by test inversion, Carpenter, Test inversion bootstrap confidence intervals (1999). The pattern is the one found, the
variances of three systems or more drawn together as far as noise explains their differences (method of moments, as in
Efron and Morris, Stein's estimation rule and its competitors, 1973). The upper end is made safe where the sum is
smaller than noise alone would give, by Read's ratio (Presentation of search results: the CL_s technique, 2002), so that
an interval is never empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

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


def corrected_sum(parts: Sequence[Part], level: float = 0.95) -> Corrected | None:
    """The sum of the parts' standard deviations, corrected. None where some part's noise is not known (df 0).

    The same input gives the same result.
    """
    if not parts or any(part.df < 1 for part in parts):
        return None
    total = sum(part.sd for part in parts)
    shape = _pattern(parts)
    size = sum(part.sd for part in shape)
    squares, cross, noise = _draws(shape, np.random.default_rng(SEED))

    def simulated(c: float) -> Floats:
        inside = np.maximum(c * c * squares + 2 * c * cross + noise, 0.0)
        return np.asarray(np.sqrt(inside).sum(axis=1), dtype=np.float64)

    tail = (1 - level) / 2
    tolerance = 1e-9 * total
    null = simulated(0.0)
    null_below = float(np.mean(null <= total + tolerance))
    low = _solve(lambda c: float(np.quantile(simulated(c), 1 - tail)) - total)
    high = _solve(lambda c: float(np.quantile(simulated(c), tail * max(null_below, 1 / DRAWS))) - total)
    middle = _solve(lambda c: float(np.median(simulated(c))) - total)
    p_value = (1 + float(np.sum(null >= total - tolerance))) / (1 + DRAWS)
    return Corrected(middle * size, Interval(low * size, max(high, middle) * size, level), p_value)


def _pattern(parts: Sequence[Part]) -> list[Part]:
    """The parts with their deviations scaled to variances without noise, drawn together where noise explains them."""
    variances = np.array([part.sd**2 for part in parts])
    if len(parts) < 3 or not variances.any():
        return list(parts)
    bases = np.array([abs(float(part.means.mean())) or 1.0 for part in parts])
    noise = np.array([_noise_variance(part) for part in parts])
    ratios, noise = variances / bases**2, noise / bases**2
    extra = np.array([len(part.means) - 1 for part in parts])
    mean = float(np.mean(ratios - noise))
    expected = float(np.mean((2 * noise**2 + 4 * noise * max(0.0, mean)) / extra))
    spread = float(np.var(ratios, ddof=1))
    weight = max(0.0, 1 - expected / spread) if spread > 0 else 0.0
    wanted = np.maximum(0.0, mean + weight * (ratios - noise - mean))
    if not wanted.any():
        wanted = np.full(len(parts), float(ratios.mean()))
    return [
        replace(part, means=_scaled(part.means, math.sqrt(one) * base / part.sd if part.sd > 0 else 0.0))
        for part, one, base in zip(parts, wanted, bases, strict=True)
    ]


def _noise_variance(part: Part) -> float:
    """What noise adds to the variance of the level means, on average."""
    scatter = part.scatter - part.scatter.mean(axis=0)
    return float(part.sigma**2 * np.sum(scatter**2) / (len(part.means) - 1))


def _scaled(means: Floats, factor: float) -> Floats:
    return np.asarray(means.mean() + factor * (means - means.mean()), dtype=np.float64)


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
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-6, rtol=1e-6))
