"""Least squares with what inference needs: estimable contrasts, their covariance, residual variance.

Source of the method: Searle, Linear Models (1971), chapter 5: estimable functions of a model not of full rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.table import Floats

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
