"""Noise of a series as a level that moves with independent noise upon it: one model for soaks and histories.

The level is an autoregression of first order or, where its coefficient is 1, a random walk (the local level model:
Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989). Nothing is picked: what is said is the
mixture over a grid of coefficients and shares of independent noise, weighted by the restricted likelihood and a prior
that is fixed beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from leadline.analysis.mixed import Mixture
from leadline.analysis.table import Floats

_COEFFICIENTS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 1.0)
_UPON = (0.0, 0.5, 2.0, 8.0)  # variance of the independent noise over that of the level
_UPON_WALK = (0.0, 1.0, 10.0, 100.0)  # over that of a step of the walk
_GRID = np.array(
    [
        (coefficient, upon)
        for coefficient in _COEFFICIENTS
        for upon in ((0.0,) if not coefficient else _UPON if coefficient < 1 else _UPON_WALK)
    ]
)
_DIFFUSE = 1e4  # variance of a walk's first level, over that of its step
_EXACT = 1e-18  # of the squares: what is left by rounding
_LIGHTEST = 1e-4  # of all weights


@dataclass(frozen=True)
class Whitened:
    """Columns (g, n, m) as they are independent under each of g noises; the log determinants (g) of the noises'
    covariances; the log of the prior (g).
    """

    rows: Floats
    logdet: Floats
    log_prior: Floats

    def weights(self, log_likelihood: Floats) -> Floats:
        """Posterior weights (g) of the noises."""
        log = log_likelihood + self.log_prior
        return np.asarray(special.softmax(log), dtype=np.float64)


def whitened(times: Floats, columns: Floats, lean: float) -> Whitened:
    """``columns`` (n, m) at ascending ``times`` (n), by the innovations of a Kalman filter, all noises at once.

    ``lean``: the prior of a coefficient r goes with (1.02 - r) ** lean. Above 0 it leans to independent figures, as of
    runs that each begin anew; below 0 to a walk, as of a process that keeps what it has.
    """
    coefficient, upon = _GRID.T
    walk = coefficient == 1
    steps = np.diff(times) / np.median(np.diff(times))
    variance = np.where(walk, _DIFFUSE, 1.0)
    level = np.zeros((len(_GRID), columns.shape[1]))
    rows, logdet = np.empty((len(times), *level.shape)), np.zeros(len(_GRID))
    for at, column in enumerate(columns):
        spread = variance + upon
        away = column - level
        rows[at] = away / np.sqrt(spread)[:, None]
        logdet += np.log(spread)
        if at < len(steps):
            gain, kept = variance / spread, coefficient ** steps[at]
            level = kept[:, None] * (level + gain[:, None] * away)
            variance = kept**2 * variance * (1 - gain) + np.where(walk, steps[at], 1 - kept**2)
    shares = np.array([np.sum(coefficient == one) for one in coefficient])
    return Whitened(rows.transpose(1, 0, 2), logdet, lean * np.log(1.02 - coefficient) - np.log(shares))


def contrast(
    times: Floats, design: Floats, values: Floats, weights: Floats, lean: float, bends: Floats
) -> tuple[float, float, float]:
    """The sum of the coefficients of ``design`` (n, p) with ``weights`` (p), its standard error and degrees of freedom:
    the t law with the mixture's tails. An error of zero for values that the design explains. ``bends`` (n, any): what
    else ``values`` may do without being noise.
    """
    terms = design.shape[1]
    white = whitened(times, np.column_stack([design, bends, values]), lean)
    share = white.weights(_restricted(white.rows, white.logdet)[0])
    heavy = share > _LIGHTEST
    share = share[heavy] / share[heavy].sum()
    rows = white.rows[heavy][:, :, [*range(terms), -1]]
    _, information, coefficients, squares = _restricted(rows, white.logdet[heavy])
    centre = share @ coefficients
    if squares.max() <= _EXACT * float(values @ values):
        return float(weights @ centre), 0.0, float(len(values) - terms)
    roots = np.linalg.inv(np.linalg.cholesky(information))
    df = len(values) - terms
    mixture = Mixture(share, roots, coefficients - centre, np.sqrt(squares / df), np.eye(terms), df)
    (error,), (freedom,) = mixture.fitted_t(weights[None])
    return float(weights @ centre), float(error), float(freedom)


def _restricted(rows: Floats, logdet: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Of whitened columns (g, n, p + 1), the last of which is explained by the others: restricted log likelihoods (g)
    with the variance integrated out, information (g, p, p), coefficients (g, p), sums of squares (g) that are left.
    """
    columns, figures = rows[:, :, :-1], rows[:, :, -1:]
    transposed = columns.transpose(0, 2, 1)
    information = transposed @ columns
    coefficients = np.linalg.solve(information, transposed @ figures)
    squares = ((figures - columns @ coefficients) ** 2).sum(axis=(1, 2))
    least = _EXACT * (figures**2).sum(axis=(1, 2)) + 1e-300
    df = rows.shape[1] - columns.shape[2]
    _, information_log = np.linalg.slogdet(information)
    log: Floats = -0.5 * (logdet + information_log + df * np.log(np.maximum(squares, least)))
    return log, information, np.asarray(coefficients[:, :, 0], dtype=np.float64), squares
