"""Contrasts of a mixed model with the variances' uncertainty integrated out.

The law of a contrast is the mixture of its t laws over the parameters of the covariance, weighted by the restricted
likelihood with the innermost variance integrated out, under a flat prior on the logarithms of the ratios of successive
error variances (``White.log_prior``) and on atanh of the correlation. Where a contrast belongs to one stratum of a
balanced design this is exactly Student's t of the analysis of variance (Stone and Springer 1965; Box and Tiao,
Bayesian Inference in Statistical Analysis, 1973, chapters 5 and 6); in between it is the Behrens-Fisher law, which errs
on the safe side (Robinson 1976). A plug-in of the REML variances with Satterthwaite's degrees does neither: a variance
that was estimated small comes with degrees estimated large, and both make intervals short in the same studies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import special

from leadline.analysis.table import Floats
from leadline.model import distributions

_DROP = 14.0  # of the log density, at which the tails are cut
_POINTS = {1: 41, 2: 15, 3: 9}  # along each of so many parameters
_POINTS_LARGE = 7  # with many figures, whose likelihood is close to normal
_LARGE = 400_000  # figures times columns
_TAILS = 0.05, 0.005  # two-sided, at which a t law is fitted
_LIGHTEST = 1e-9  # of the largest weight
_AT_ONCE = 4_000_000

Evaluate = Callable[[Floats], tuple[float, Floats, Floats, float] | None]


@dataclass(frozen=True)
class Mixture:
    """Fits at several values of the covariance's parameters.

    ``weights`` (j) sum to one; ``roots`` (j, r, r) are inverse Cholesky factors of the information about the r
    coefficients in an orthonormal basis, ``moved`` (j, r) these coefficients less those at the REML solution, and
    ``sigmas`` (j) the innermost standard deviations; ``basis`` (p, r) takes contrasts there. ``df`` is the residual's.
    """

    weights: Floats
    roots: Floats
    moved: Floats
    sigmas: Floats
    basis: Floats
    df: int

    def fitted_t(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Standard errors (k) and degrees of freedom (k) of the t laws around the REML estimates that have the
        mixture's tails at 5 % and at 0.5 %.
        """
        coordinates = contrasts @ self.basis
        errors, degrees = np.empty(len(coordinates)), np.empty(len(coordinates))
        step = max(1, _AT_ONCE // len(self.weights))
        for start in range(0, len(coordinates), step):
            part = slice(start, start + step)
            spread = (
                np.linalg.norm(np.einsum("jab,kb->jka", self.roots, coordinates[part]), axis=2) * self.sigmas[:, None]
            )
            far, farther = (self._tail(np.abs(self.moved @ coordinates[part].T), spread, tail) for tail in _TAILS)
            degrees[part] = _degrees(farther / far, float(self.df))
            errors[part] = far / distributions.t.isf(_TAILS[0] / 2, degrees[part])
        return errors, degrees

    def _tail(self, away: Floats, spread: Floats, tail: float) -> Floats:
        """Distances (k) from the estimates beyond which the mixture has ``tail``: Newton's method on logarithms."""
        log_distances = np.log(
            np.sqrt(self.weights @ (spread**2 + away**2)) * distributions.t.isf(tail / 2, max(self.df, 3))
        )
        for _ in range(30):
            size = np.exp(log_distances)
            ends = (size - away) / spread, (size + away) / spread
            beyond = self.weights @ (special.stdtr(self.df, -ends[0]) + special.stdtr(self.df, -ends[1]))
            density = self.weights @ ((_density(self.df, ends[0]) + _density(self.df, ends[1])) / spread)
            change = np.log(beyond / tail) * beyond / np.maximum(density * size, 1e-300)
            log_distances += np.clip(change, -1.0, 1.0)
            if np.max(np.abs(change)) < 1e-7:
                break
        return np.asarray(np.exp(log_distances), dtype=np.float64)


def _density(df: int, at: Floats) -> Floats:
    scale = special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * np.log(df * np.pi)
    return np.asarray(np.exp(scale - (df + 1) / 2 * np.log1p(at**2 / df)), dtype=np.float64)


_GRID = np.geomspace(1.0, 1e7, 4000)
_RATIOS = distributions.t.isf(_TAILS[1] / 2, _GRID) / distributions.t.isf(_TAILS[0] / 2, _GRID)


def _degrees(ratios: Floats, most: float) -> Floats:
    """Degrees of freedom of the t laws whose two tails have these ratios, between 1 and ``most``."""
    log_degrees = np.exp(np.interp(-ratios, -_RATIOS, np.log(_GRID)))
    return np.asarray(np.clip(log_degrees, 1.0, most), dtype=np.float64)


def mixture(
    evaluate: Evaluate, best: Floats, inverse: Floats, bounds: tuple[Floats, Floats], basis: Floats, df: int, work: int
) -> Mixture:
    """The mixture on a grid around the REML solution ``best`` (d) along the axes of ``inverse`` (d, d), the parameters'
    covariance, as far as the density is worth it. ``evaluate`` gives deviance, coefficients, inverse root and sigma;
    None where there is no covariance. ``work`` is figures times columns.
    """
    low, high = bounds
    values, vectors = np.linalg.eigh(inverse)
    steps = vectors * np.sqrt(np.maximum(values, 1e-6))
    centre = evaluate(best)
    assert centre is not None

    def drop(at: Floats) -> float:
        evaluation = evaluate(at) if np.all((at >= low) & (at <= high)) else None
        return np.inf if evaluation is None else (evaluation[0] - centre[0]) / 2

    points = _POINTS_LARGE if work > _LARGE else _POINTS.get(len(best), 7)
    axes = []
    for step in steps.T:
        below, above = (_reach(drop, best, sign * step) for sign in (-1, 1))
        axes.append(np.linspace(-below, above, points))
    draws = []
    for shift in product(*axes):
        at = np.clip(best + steps @ np.array(shift), low, high)
        evaluation = evaluate(at)
        if evaluation is not None and (evaluation[0] - centre[0]) / 2 < -np.log(_LIGHTEST):
            draws.append(evaluation)
    deviances = np.array([point[0] for point in draws])
    weights = np.exp(-(deviances - deviances.min()) / 2)
    return Mixture(
        weights / weights.sum(),
        np.array([point[2] for point in draws]),
        np.array([point[1] - centre[1] for point in draws]),
        np.array([point[3] for point in draws]),
        basis,
        df,
    )


def _reach(drop: Callable[[Floats], float], best: Floats, step: Floats) -> float:
    """How many steps from ``best`` the log density has dropped far enough, or the parameters end."""
    inside, outside = 0.0, 4.0
    while outside < 64 and drop(best + outside * step) < _DROP:
        inside, outside = outside, 1.5 * outside
    for _ in range(5):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if drop(best + middle * step) < _DROP else (inside, middle)
    return outside if np.isfinite(drop(best + outside * step)) else inside
