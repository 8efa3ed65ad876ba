"""Least squares with what inference needs: estimable contrasts, covariance, noise, the smallest effect found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.table import Floats
from leadline.model import distributions

_RANK = 1e-9


@dataclass(frozen=True)
class Fit:
    """A fitted model with n rows, p columns and rank r.

    ``beta`` (p) is the solution of smallest norm; ``half`` (p, r) times its transpose is the generalised inverse of
    X'X; ``rows`` (p, r) spans the row space; ``sigma`` is the residual standard deviation, 0 where ``df`` is 0.
    """

    beta: Floats
    half: Floats
    rows: Floats
    df: int
    sigma: float

    @property
    def separate(self) -> bool:
        """Whether each contrast has a noise of its own, with which no other has anything in common."""
        return False

    def degrees(self, contrasts: Floats) -> Floats:
        """Degrees of freedom (k) of the contrasts' standard errors."""
        return np.full(len(contrasts), float(self.df))

    def estimable(self, contrasts: Floats) -> list[bool]:
        """For each row of ``contrasts`` (k, p): whether the data determine it."""
        rest = contrasts - (contrasts @ self.rows) @ self.rows.T
        return [bool(size <= 1e-6) for size in np.max(np.abs(rest), axis=1, initial=0.0)]

    def estimates(self, contrasts: Floats) -> Floats:
        """Values of the contrasts (k)."""
        return np.asarray(contrasts @ self.beta, dtype=np.float64)

    def scatter(self, contrasts: Floats) -> Floats:
        """(k, r): times its transpose, times sigma squared, is the covariance of the contrasts."""
        return np.asarray(contrasts @ self.half, dtype=np.float64)

    def errors(self, contrasts: Floats) -> Floats:
        """Standard errors of the contrasts (k)."""
        return np.asarray(self.sigma * np.linalg.norm(self.scatter(contrasts), axis=1), dtype=np.float64)


def fit(design: Floats, values: Floats, lost: int = 0, size: float | None = None) -> Fit:
    """Ordinary least squares of ``values`` (n) on ``design`` (n, p), whatever its rank.

    ``lost`` degrees of freedom were spent on what both are already free of; ``size`` is the norm of the values before
    (around their mean): residuals much smaller than it are rounding.
    """
    left_vectors, singular, right = np.linalg.svd(design, full_matrices=False)
    rank = int(np.sum(singular > _RANK * max(1.0, float(singular.max(initial=0.0)))))
    left_vectors, singular, right = left_vectors[:, :rank], singular[:rank], right[:rank]
    half = right.T / singular
    beta = half @ (left_vectors.T @ values)
    residuals = values - design @ beta
    df = len(values) - rank - lost
    left_over = float(np.linalg.norm(residuals))
    size = size or float(np.linalg.norm(values - np.mean(values)) or np.linalg.norm(values))
    exact = left_over <= 1e-10 * max(1e-300, size)
    sigma = 0.0 if df <= 0 or exact else left_over / float(np.sqrt(df))
    return Fit(beta, half, right.T, df, sigma)


ALIKE = 0.5  # level of the test by which the noise of others is not used


@dataclass(frozen=True)
class Residual:
    """``variance`` of the logarithms of one trial's figures, with its degrees of freedom."""

    df: int
    variance: float


def pooled(fit: Fit, others: Sequence[Residual]) -> Fit:
    """``fit`` with its noise and that of ``others`` as one, as a plain fit; ``fit`` itself where its own is larger.

    A comparison of two blocks has few degrees of freedom of its own. Those of others are added where its own noise is
    not the larger one by an F test before pooling (Bozivich, Bancroft and Hartley 1956). The test is one-sided, and at
    ``ALIKE``: at the usual 0.25 a step with 1.5 to 2 times the noise of the others errs three times too often at the
    levels by which a tuning decides; at 0.5 it is 1.7 times, and steps of equal noise err half as often as they may.
    """
    df = sum(other.df for other in others)
    if df <= 0 or fit.df <= 0 or fit.sigma <= 0:
        return fit
    variance = sum(other.df * other.variance for other in others) / df
    if variance <= 0 or distributions.f.sf(fit.sigma**2 / variance, fit.df, df) < ALIKE:
        return fit
    every = fit.df + df
    sigma = float((fit.df * fit.sigma**2 + df * variance) / every) ** 0.5
    return Fit(fit.beta, fit.half, fit.rows, every, sigma)


POWER = 0.8


def detectable(critical: float, error: float, df: float, power: float = POWER) -> float:
    """Smallest contrast found with probability ``power`` when |t| > ``critical`` counts as found.

    From the noncentral t distribution; where that cannot be evaluated, (critical + t(power, df)) standard errors,
    which is a little larger.
    """
    plain = critical + float(distributions.t.ppf(power, df))
    if df > 10_000:
        return plain * error

    def shortfall(shift: float) -> float:
        return float(distributions.nct.sf(critical, df, shift)) - power

    ends = shortfall(0.0), shortfall(2 * plain)
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < 0 < ends[1]):
        return plain * error
    shift = float(scipy.optimize.brentq(shortfall, 0.0, 2 * plain, xtol=1e-6))
    return shift * error if math.isfinite(shift) else plain * error
