"""Trend of a series with autocorrelated noise: Theil-Sen slope and Mann-Kendall test, or a random walk's drift."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 400  # points; the number of slopes grows with its square
_LEVEL_OF_LAGS = 0.95
_NORMAL = NormalDist()  # scipy.stats would cost a second at the start of every command


@dataclass(frozen=True)
class Trend:
    """``slope`` per unit of time with its interval; ``inflation`` is how much wider autocorrelation made its variance.

    ``by_drift``: the ranks cannot bound the slope at this level, and ``low`` and ``high`` are of a random walk's drift.
    """

    slope: float
    low: float
    high: float
    level: float
    p_value: float  # two-sided, of no trend, by the ranks
    points: int
    inflation: float
    by_drift: bool = False


def trend(times: NDArray[Any], values: NDArray[Any], level: float = 0.99) -> Trend:
    """Median of the slopes between all pairs of points (Theil 1950, Sen 1968) and Kendall's test of them.

    The variance of Kendall's statistic is corrected for ties, and for autocorrelation by the ranks of what is left
    without the trend (Hamed and Rao 1998, J. Hydrology 204; Yue and Wang 2004, Water Resources Management 18). Where
    that leaves no end to the interval (few points that hang together), it is the one of the worst such noise, a random
    walk: ``drift``. Raises ValueError for fewer than 4 points or times that do not grow.
    """
    times, values = np.asarray(times, float), np.asarray(values, float)
    count = len(times)
    if count < 4 or np.any(np.diff(times) <= 0):
        raise ValueError("a trend needs at least 4 points at growing times")
    upper = np.triu_indices(count, 1)
    rises = values[upper[1]] - values[upper[0]]
    slopes = np.sort(rises / (times[upper[1]] - times[upper[0]]))
    slope = float(np.median(slopes))
    kendall = float(np.sign(rises).sum())
    ties = np.unique(values, return_counts=True)[1]
    variance = (count * (count - 1) * (2 * count + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    inflation = _inflation(values - values[0] - slope * (times - times[0]), float(np.abs(values).max()))
    spread = float(np.sqrt(max(variance, 0.0) * inflation))
    if spread == 0:
        return Trend(slope, slope, slope, level, 1.0, count, inflation)
    score = max(0.0, abs(kendall) - 1) / spread
    half = _NORMAL.inv_cdf((1 + level) / 2) * spread
    first, last = int(np.floor((len(slopes) - half) / 2)) - 1, int(np.ceil((len(slopes) + half) / 2))
    by_drift = first < 0 or last >= len(slopes)
    low, high = drift(times, values, level) if by_drift else (float(slopes[first]), float(slopes[last]))
    p_value = 2 * _NORMAL.cdf(-score)
    return Trend(slope, min(low, slope), max(high, slope), level, p_value, count, inflation, by_drift)


def drift(times: NDArray[Any], values: NDArray[Any], level: float) -> tuple[float, float]:
    """Interval of the drift of a random walk seen at uneven times: Student's t of its independent steps.

    Steps vary with the time they take, so the drift is the whole rise over the whole time, and its variance the mean of
    the squared steps without it, each over its time, divided by the whole time (a Wiener process's maximum likelihood).
    """
    from scipy.special import stdtrit  # a third of a second, that few logs need

    took, rise = np.diff(times), np.diff(values)
    whole = float(times[-1] - times[0])
    rate = float(values[-1] - values[0]) / whole
    variance = float(((rise - rate * took) ** 2 / took).sum()) / (len(took) - 1) / whole
    half = float(stdtrit(len(took) - 1, (1 + level) / 2)) * float(np.sqrt(variance))
    return rate - half, rate + half


def _inflation(residuals: NDArray[Any], size: float) -> float:
    """Of the variance of Kendall's statistic: the larger of two estimates, never below 1.

    One takes every lag whose autocorrelation is more than chance; the other the first one alone, as of an
    autoregressive process, freed of the bias that the removed line gives it (short series show too little).
    """
    count = len(residuals)
    ranks = _ranks(np.round(residuals / (size or 1.0), 9))  # no ranks of rounding errors
    ranks = ranks - ranks.mean()
    total = float((ranks**2).sum())
    if total == 0:
        return 1.0
    lags = np.arange(1, max(2, count // 4))
    shares = np.array([float((ranks[:-lag] * ranks[lag:]).sum()) / total for lag in lags])
    bound = _NORMAL.inv_cdf((1 + _LEVEL_OF_LAGS) / 2) / np.sqrt(count)
    sure = np.where(np.abs(shares) > bound, shares, 0.0)
    every = np.arange(1, count - 2)
    first = min(0.95, max(0.0, (count * shares[0] + 2) / max(1, count - 4)))
    return max(1.0, _widened(count, lags, sure), _widened(count, every, first**every))


def _ranks(values: NDArray[Any]) -> NDArray[Any]:
    """From 1; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: NDArray[Any] = (last - (counts - 1) / 2)[places]
    return shared


def _widened(count: int, lags: NDArray[Any], shares: NDArray[Any]) -> float:
    weights = (count - lags) * (count - lags - 1) * (count - lags - 2)
    return 1 + 2 * float((weights * shares).sum()) / (count * (count - 1) * (count - 2))


def thinned(times: NDArray[Any], values: NDArray[Any], most: int = MOST) -> tuple[NDArray[Any], NDArray[Any]]:
    """At most ``most`` points: medians of neighbours, equally many each."""
    if len(times) <= most:
        return times, values
    parts = np.array_split(np.arange(len(times)), most)
    return (
        np.array([float(np.median(times[part])) for part in parts]),
        np.array([float(np.median(values[part])) for part in parts]),
    )
