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

from leadline.analysis.columns import fitted_with_strata
from leadline.analysis.linear import fit
from leadline.analysis.scale import response_kind, scale_of
from leadline.analysis.strata import innermost
from leadline.analysis.table import StudyTable, as_one_factor, sample_of
from leadline.analysis.within import within
from leadline.model import distributions
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Interval, Observation


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
    plan, observations = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations, plain_level)
    sample, _ = sample_of(table, response)
    if sample.size < 2:
        return None
    scale = scale_of(response_kind(response), sample)
    values = scale.into(sample.values)
    model, _, _ = fitted_with_strata(table, sample, np.zeros(sample.size), False)
    inside = within(model, sample, values)
    if inside.df <= 0:
        return None
    order, starts = innermost(sample)
    design = np.column_stack([np.ones(sample.size), model.rows(sample)[:, model.leading :]])[order]
    whole = fit(design, values[order])
    df = whole.df - inside.df
    # what the groups' indicators have beyond the treatments: their squared lengths less those of their shadows
    shadows = np.add.reduceat(design @ whole.half, starts, axis=0)
    size = (sample.size - float(np.sum(shadows**2))) / df if df > 0 else 0.0
    squares = whole.sigma**2 * whole.df, inside.sigma**2 * inside.df
    relative = 1.0 if scale.log else 1.0 / scale.base**2 if scale.base > 0 else 0.0
    return Strata(squares[1] * relative, inside.df, max(0.0, squares[0] - squares[1]) * relative, max(df, 0), size)


def pooled(strata: Sequence[Strata]) -> Strata:
    """Several studies taken together, as if they were blocks of one."""
    between_df = sum(stratum.between_df for stratum in strata)
    weighted = sum(stratum.size * stratum.between_df for stratum in strata)
    return Strata(
        sum(stratum.within for stratum in strata),
        sum(stratum.within_df for stratum in strata),
        sum(stratum.between for stratum in strata),
        between_df,
        weighted / between_df if between_df else 0.0,
    )


def within_component(strata: Strata, level: float = 0.95) -> Component:
    """Between trials of one block: residual mean square with its chi-square interval."""
    df = strata.within_df
    low, high = (
        float(strata.within / distributions.chi2.ppf((1 + level) / 2, df)),
        float(strata.within / distributions.chi2.ppf((1 - level) / 2, df)),
    )
    return Component(strata.within / df, Interval(low, high, level), df)


def between_component(strata: Strata, level: float = 0.95) -> Component | None:
    """Between blocks; None with fewer than two blocks."""
    if strata.between_df <= 0 or strata.size <= 0:
        return None
    between, two = strata.between / strata.between_df, strata.within / strata.within_df
    value = (between - two) / strata.size
    low, high = difference_interval(between, strata.between_df, two, strata.within_df, level)
    bounds = Interval(max(0.0, low / strata.size), max(0.0, high / strata.size), level)
    return Component(max(0.0, value), bounds, strata.between_df)


def difference_interval(one: float, n1: int, two: float, n2: int, level: float) -> tuple[float, float]:
    """Interval of the difference of two expected mean squares (modified large sample; may be negative)."""
    alpha = (1 - level) / 2
    value = one - two
    f = float(distributions.f.isf(alpha, n1, n2))
    g1, h2 = 1 - n1 / float(distributions.chi2.isf(alpha, n1)), n2 / float(distributions.chi2.isf(1 - alpha, n2)) - 1
    g12 = ((f - 1) ** 2 - (g1 * f) ** 2 - h2**2) / f
    below = (g1 * one) ** 2 + (h2 * two) ** 2 + g12 * one * two
    f = float(distributions.f.isf(1 - alpha, n1, n2))
    h1, g2 = n1 / float(distributions.chi2.isf(1 - alpha, n1)) - 1, 1 - n2 / float(distributions.chi2.isf(alpha, n2))
    h12 = ((1 - f) ** 2 - (h1 * f) ** 2 - g2**2) / f
    above = (h1 * one) ** 2 + (g2 * two) ** 2 + h12 * one * two
    return value - math.sqrt(max(0.0, below)), value + math.sqrt(max(0.0, above))
