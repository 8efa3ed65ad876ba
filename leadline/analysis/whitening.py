"""Figures with nested random effects and autocorrelated slots turned into independent ones, in O(n p).

A covariance A A' + theta 1 1' inside a group is A (I + theta z z') A' with z the group's ones after A^-1. The square
root of the middle factor's inverse changes z's direction only, so each nested stratum costs one pass over the rows,
and the innermost, AR(1) in time, is a difference of neighbours. No matrix of n x n is ever built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leadline.analysis.strata import Strata
from leadline.analysis.table import Floats


@dataclass(frozen=True)
class White:
    """Whitened columns, the log determinant of the covariance (in units of the innermost variance), and for each
    random stratum the ratio of its variance component to the innermost variance.

    ``log_prior`` is the log density, in these parameters, of a prior that is flat in the log of each stratum's error
    variance for a group of the harmonic mean of all weights: 0 where groups have equal weight.
    """

    columns: Floats
    logdet: float
    ratios: tuple[float, ...]
    log_prior: float = 0.0


def whiten(strata: Strata, columns: Floats, parameters: Floats) -> White:
    """``columns`` (n, m) in the sorted order, whitened.

    ``parameters``: for each random stratum the log of its error variance over that of the stratum below it (for the
    group with most weight), which any real number can be: negative components are allowed as long as the covariance
    is one; then atanh of the correlation of neighbouring slots, if there are slots.
    """
    rows = np.column_stack([columns, np.ones(len(columns))])
    logdet = 0.0
    if strata.lags is not None:
        rows, logdet = _in_time(rows, strata, math.tanh(float(parameters[-1])))
    ratios, log_prior = [], 0.0
    for stratum, parameter in zip(strata.random, parameters, strict=False):
        ones = rows[:, -1]
        weight = np.add.reduceat(ones * ones, stratum.starts)
        theta = math.expm1(float(parameter)) / float(weight.max())
        sizes = np.diff(np.append(stratum.starts, len(rows)))
        shrink = (1 - 1 / np.sqrt(1 + theta * weight)) / weight
        sums = np.add.reduceat(ones[:, None] * rows, stratum.starts, axis=0) * shrink[:, None]
        rows = rows - ones[:, None] * np.repeat(sums, sizes, axis=0)
        logdet += float(np.sum(np.log1p(theta * weight)))
        ratios.append(theta)
        largest, usual = float(weight.max()), len(weight) / float(np.sum(1 / weight))
        log_prior += math.log(usual / (1 + theta * usual)) - math.log(largest / (1 + theta * largest))
    if strata.swept is not None:
        starts, ones = strata.swept.starts, rows[:, -1]
        weight = np.add.reduceat(ones * ones, starts)
        sizes = np.diff(np.append(starts, len(rows)))
        sums = np.add.reduceat(ones[:, None] * rows, starts, axis=0) / weight[:, None]
        rows = rows - ones[:, None] * np.repeat(sums, sizes, axis=0)
        logdet += float(np.sum(np.log(weight)))  # of the swept columns' information, as REML counts it
    return White(np.asarray(rows[:, :-1], dtype=np.float64), logdet, tuple(ratios), log_prior)


def _in_time(rows: Floats, strata: Strata, correlation: float) -> tuple[Floats, float]:
    lags = strata.lags
    assert lags is not None
    follows = lags > 0
    link = np.where(follows, np.sign(correlation) ** lags * abs(correlation) ** lags, 0.0)
    rest = 1 - link * link
    before = np.vstack([np.zeros((1, rows.shape[1])), rows[:-1]])
    return (rows - link[:, None] * before) / np.sqrt(rest)[:, None], float(np.sum(np.log(rest)))
