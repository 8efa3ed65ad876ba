"""What the best of many comparisons gains when nothing has an effect."""

from __future__ import annotations

import math

import numpy as np

from leadline.analysis.maxt import max_t
from leadline.analysis.scale import Scale
from leadline.analysis.table import Floats
from leadline.model.result import Luck


def best_of_null(scatter: Floats, sigma: float, df: float) -> tuple[float, float]:
    """Mean and 95th percentile of the largest of k contrasts that are all zero in truth.

    ``scatter`` (k, r) times its transpose times ``sigma`` squared is their covariance; standard errors may differ. The
    mean takes ``sigma`` as it is; the percentile allows for having
    estimated it on ``df`` degrees of freedom, so that 5 % of null studies have a best contrast above it.
    """
    best = max_t(scatter, two_sided=False, standard=False)
    error = sigma * float(np.max(np.linalg.norm(scatter, axis=1)))
    return error * best.mean_normal(), error * best.quantile(0.95, df)


def gain_of_luck(settings: int, cv: float, replicates: int) -> tuple[float, float]:
    """Mean and 95th percentile (percent) of the best of ``settings`` against a baseline known without error.

    ``cv`` is the coefficient of variation of one trial in percent, each setting has ``replicates`` trials: what a
    published table of best gains must be held against.
    """
    scatter = np.eye(settings) / math.sqrt(replicates)
    return best_of_null(scatter, cv, 10**7)


def luck(scale: Scale, scatter: Floats, sigma: float, df: float, higher_is_better: bool) -> Luck | None:
    """Luck in percent, in the direction that is better: less is never a gain of 100 % where figures are positive. None
    where percent or noise do not exist.
    """
    sign = 1.0 if higher_is_better else -1.0
    mean, high = best_of_null(scatter, sigma, df)
    expected, percentile = scale.percent(sign * mean), scale.percent(sign * high)
    if expected is None or percentile is None:
        return None
    return Luck(len(scatter), sign * expected, sign * percentile)
