"""How much one second says when seconds resemble their neighbours: the integrated autocorrelation time.

tau = 1 + 2 sum of the autocorrelations: the mean of n seconds is as good as that of n / tau independent ones. Automatic
window and error formula: Sokal, Monte Carlo Methods in Statistical Mechanics (1989), section 3; bias of the mean's
removal: Wolff, Monte Carlo errors with less errors (2004). Several series (trials) share one estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.table import Floats
from leadline.model import distributions
from leadline.model.result import Interval

WINDOW = 5.0  # the sum ends at the first lag that is this many autocorrelation times
SHORTEST = 8  # samples of a series that can be used


@dataclass(frozen=True)
class Autocorrelation:
    """``time`` in samples with its interval, ``window`` the last lag used, ``samples`` in all series together.

    ``variance`` is that of one sample about its series' mean, so that ``variance * time / n`` is the variance of the
    mean of n samples.
    """

    time: float
    interval: Interval
    window: int
    samples: int
    variance: float


def integrated_time(series: Sequence[Floats], level: float = 0.95) -> Autocorrelation | None:
    """The integrated autocorrelation time of equally spaced samples, pooled over series of any lengths.

    None where no series has ``SHORTEST`` finite samples or none varies.
    """
    usable = [np.asarray(series_, dtype=np.float64) for series_ in series]
    usable = [values for values in usable if len(values) >= SHORTEST and bool(np.all(np.isfinite(values)))]
    if not usable or all(float(np.ptp(values)) == 0 for values in usable):
        return None
    longest = max(len(values) for values in usable)
    sums, counts = np.zeros(longest), np.zeros(longest)
    for values in usable:
        sums[: len(values)] += _products(values - values.mean())
        counts[: len(values)] += len(values) - np.arange(len(values))
    covariance = sums / np.maximum(counts, 1)
    total = sum(len(values) for values in usable)
    mean_length = total / len(usable)
    running = covariance[0]
    window = 0
    for lag in range(1, max(2, int(mean_length) // 3)):
        running += 2 * covariance[lag]
        window = lag
        if lag >= WINDOW * max(running / covariance[0], 0.0):
            break
    # Every covariance is low by the variance of its series' mean.
    share = min(0.5, (2 * window + 1) / mean_length)
    long_run = max(running, 1e-3 * covariance[0]) / (1 - share)
    variance = float(covariance[0] + long_run / mean_length)
    time = float(long_run / variance)
    spread = math.sqrt(2 * (2 * window + 1) / total)
    reach = math.exp(float(distributions.norm.ppf((1 + level) / 2)) * spread)
    return Autocorrelation(time, Interval(time / reach, time * reach, level), window, total, variance)


def _products(centred: Floats) -> Floats:
    """Sums of products at every lag, by FFT."""
    size = 1 << (2 * len(centred) - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    return np.asarray(np.fft.irfft(power, size)[: len(centred)], dtype=np.float64)
