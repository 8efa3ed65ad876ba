"""Variance components of earlier trials, each with an interval: seconds, trials, blocks.

Blocks and trials by Henderson's method III (1953): the reduction of the sum of squares by blocks beyond the treatments,
and the residual. Interval of the block component: the modified large sample method, Burdick and Graybill, Confidence
Intervals on Variance Components (1992), section 3.3. All variances are of logarithms, that is, relative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from leadline.model.plan import Plan
from leadline.model.result import Interval, Observation
from leadline.planning.data import Readings, readings_of
from leadline.planning.shape import Floats, evidence


@dataclass(frozen=True)
class Component:
    """A variance with its interval, both never negative, and the degrees of freedom behind it."""

    variance: float
    interval: Interval
    df: int

    @property
    def cv(self) -> float:
        """Coefficient of variation in percent, of a lognormal figure with this variance of its logarithm."""
        return cv_of(self.variance)

    @property
    def cv_interval(self) -> Interval:
        return Interval(cv_of(self.interval.low), cv_of(self.interval.high), self.interval.level)


def cv_of(variance: float) -> float:
    """Percent, from a variance of logarithms."""
    return 100.0 * math.sqrt(math.expm1(min(max(variance, 0.0), 50.0)))


def variance_of(cv: float) -> float:
    """The variance of logarithms that a coefficient of variation in percent means."""
    return math.log1p((cv / 100.0) ** 2)


@dataclass(frozen=True)
class Strata:
    """Sums of squares of one study: within blocks, and between blocks beyond the treatments.

    ``size``: what the between mean square holds of the block variance (the mean number of trials in a block, where
    blocks are alike).
    """

    within: float
    within_df: int
    between: float
    between_df: int
    size: float


def strata_of(plan: Plan, observations: Sequence[Observation], response: str) -> Strata | None:
    """The sums of squares of a study, None where its trials leave nothing to estimate noise from.

    Of observations of slots: within trials, and between them.
    """
    readings = readings_of(plan, observations, response)
    if len(readings.values) < 2:
        return None
    blocks = readings.rows.groups
    names = np.unique(blocks)
    inside = evidence(readings.rows, readings.values)
    if inside.information.df <= 0:
        return None
    design = np.column_stack([np.ones(len(blocks)), readings.rows.columns])
    basis = _basis(design)
    residual = readings.values - basis @ (basis.T @ readings.values)
    indicator = np.asarray(blocks[:, None] == names[None, :], dtype=np.float64)
    free = indicator - basis @ (basis.T @ indicator)
    df = len(readings.values) - basis.shape[1] - inside.information.df
    between = max(0.0, float(residual @ residual) - inside.rss)
    size = float(np.sum(free * indicator)) / df if df > 0 else 0.0
    scale = 1.0 if readings.scale.log else _relative(readings)
    return Strata(inside.rss * scale, inside.information.df, between * scale, max(df, 0), size)


def _relative(readings: Readings) -> float:
    return 1.0 / readings.scale.base**2 if readings.scale.base > 0 else 0.0


def _basis(design: Floats) -> Floats:
    left, singular, _ = np.linalg.svd(design, full_matrices=False)
    return np.asarray(left[:, singular > 1e-9 * max(1.0, float(singular.max()))], dtype=np.float64)


def pooled(strata: Sequence[Strata]) -> Strata:
    """Several studies taken together, as if they were blocks of one."""
    between_df = sum(each.between_df for each in strata)
    weighted = sum(each.size * each.between_df for each in strata)
    return Strata(
        sum(each.within for each in strata),
        sum(each.within_df for each in strata),
        sum(each.between for each in strata),
        between_df,
        weighted / between_df if between_df else 0.0,
    )


def within_component(strata: Strata, level: float = 0.95) -> Component:
    """Between trials of one block: residual mean square with its chi-square interval."""
    df = strata.within_df
    low, high = (
        float(strata.within / stats.chi2.ppf((1 + level) / 2, df)),
        float(strata.within / stats.chi2.ppf((1 - level) / 2, df)),
    )
    return Component(strata.within / df, Interval(low, high, level), df)


def between_component(strata: Strata, level: float = 0.95) -> Component | None:
    """Between blocks; None with fewer than two blocks."""
    if strata.between_df <= 0 or strata.size <= 0:
        return None
    one, two = strata.between / strata.between_df, strata.within / strata.within_df
    value = (one - two) / strata.size
    low, high = difference_interval(one, strata.between_df, two, strata.within_df, level)
    bounds = Interval(max(0.0, low / strata.size), max(0.0, high / strata.size), level)
    return Component(max(0.0, value), bounds, strata.between_df)


def difference_interval(one: float, n1: int, two: float, n2: int, level: float) -> tuple[float, float]:
    """Interval of the difference of two expected mean squares (modified large sample; may be negative)."""
    alpha = (1 - level) / 2
    value = one - two
    f = float(stats.f.isf(alpha, n1, n2))
    g1, h2 = 1 - n1 / float(stats.chi2.isf(alpha, n1)), n2 / float(stats.chi2.isf(1 - alpha, n2)) - 1
    g12 = ((f - 1) ** 2 - (g1 * f) ** 2 - h2**2) / f
    below = (g1 * one) ** 2 + (h2 * two) ** 2 + g12 * one * two
    f = float(stats.f.isf(1 - alpha, n1, n2))
    h1, g2 = n1 / float(stats.chi2.isf(1 - alpha, n1)) - 1, 1 - n2 / float(stats.chi2.isf(alpha, n2))
    h12 = ((1 - f) ** 2 - (h1 * f) ** 2 - g2**2) / f
    above = (h1 * one) ** 2 + (g2 * two) ** 2 + h12 * one * two
    return value - math.sqrt(max(0.0, below)), value + math.sqrt(max(0.0, above))
