"""Mixed-effects models by restricted maximum likelihood (REML), with the variances' uncertainty integrated out.

REML: Patterson and Thompson (1971). Variance components may be negative as long as the covariance is one: so balanced
split plots give exactly the analysis of variance, with its error rates (Stroup and Littell 2002).

The law of a contrast is the mixture of its t laws over the parameters of the covariance, weighted by the restricted
likelihood with the innermost variance integrated out, under a flat prior on the logarithms of the ratios of successive
error variances (``White.log_prior``) and on atanh of the correlation. Where a contrast belongs to one stratum of a
balanced design this is exactly Student's t of the analysis of variance (Stone and Springer 1965; Box and Tiao, Bayesian
Inference in Statistical Analysis, 1973, chapters 5 and 6); in between it is the Behrens-Fisher law, which errs on the
safe side (Robinson 1976). A plug-in of the REML variances with Satterthwaite's degrees does neither: a variance that
was estimated small comes with degrees estimated large, and both make intervals short in the same studies.

``whiten`` turns figures with nested random effects and autocorrelated slots into independent ones, in O(n p). A
covariance A A' + theta 1 1' inside a group is A (I + theta z z') A' with z the group's ones after A^-1. The square root
of the middle factor's inverse changes z's direction only, so each nested stratum costs one pass over the rows, and the
innermost, AR(1) in time, is a difference of neighbours. No matrix of n x n is ever built.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
import scipy  # loads scipy.optimize at its first use
from scipy import linalg, special

from leadline.analysis.linear import Fit, Strata, centred, fit
from leadline.analysis.table import Floats
from leadline.model import distributions


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
    _laws: dict[bytes, tuple[Floats, Floats]] = field(default_factory=dict, compare=False, repr=False)

    def fitted_t(self, contrasts: Floats) -> tuple[Floats, Floats]:
        """Standard errors (k) and degrees of freedom (k) of the t laws around the REML estimates that have the
        mixture's tails at 5 % and at 0.5 %; those of the same contrasts are remembered.
        """
        key = contrasts.tobytes()
        if key not in self._laws:
            self._laws[key] = self._fitted_t(contrasts @ self.basis)
        return self._laws[key]

    def _fitted_t(self, coordinates: Floats) -> tuple[Floats, Floats]:
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


_STEP = 2e-3
_BOUND = 9.0  # of log ratios of variances
_BOUND_TIME = 2.3  # of atanh of the correlation, 0.98
_BOUND_WIDE = 16.0  # of log ratios of variances, when they are integrated out


Solution = Callable[[Floats], tuple[float, Floats, Floats, float] | None]


@dataclass(frozen=True)
class Curvature:
    """At the REML solution: ``inverse`` (d, d) is the covariance of the parameters; ``rss`` (d) the derivatives of the
    log residual sum of squares, from differences of ``step``.
    """

    inverse: Floats
    rss: Floats
    step: float


@dataclass(frozen=True)
class MixedFit(Fit):
    """A generalised least squares fit at the REML variances. ``sigma`` is that of the innermost error.

    ``ratios`` are the components of the random strata over sigma squared, ``correlation`` that of neighbouring slots.
    """

    parameters: Floats = field(default_factory=lambda: np.zeros(0))
    ratios: tuple[float, ...] = ()
    correlation: float | None = None
    curvature: Curvature | None = None
    deviance: float = 0.0
    solution: Solution | None = field(default=None, compare=False, repr=False)
    integrate: Callable[[], Mixture] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def mixture(self) -> Mixture | None:
        """The fits around the REML solution, found when first asked for."""
        return None if self.integrate is None else self.integrate()

    def errors(self, contrasts: Floats) -> Floats:
        """Standard errors (k) that go with :meth:`degrees`: those of the integrated law of each contrast."""
        if self.mixture is None or not len(contrasts):
            return super().errors(contrasts)
        return self.mixture.fitted_t(contrasts)[0]

    def degrees(self, contrasts: Floats) -> Floats:
        """Degrees of freedom (k) of the integrated laws, between 1 and the residual's."""
        if self.mixture is None or not len(contrasts):
            return super().degrees(contrasts)
        return self.mixture.fitted_t(contrasts)[1]


class _Problem:
    """The profiled restricted likelihood of one response."""

    def __init__(self, design: Floats, values: Floats, strata: Strata, df: int) -> None:
        if strata.swept is not None:
            design, values = centred(design, strata.swept.starts), centred(values[:, None], strata.swept.starts)[:, 0]
        left_vectors, singular, right = np.linalg.svd(design, full_matrices=False)
        used = singular > 1e-9 * max(1.0, float(singular.max(initial=0.0)))
        basis = left_vectors[:, used]
        self.basis = right[used].T / singular[used]
        rest = values - basis @ (basis.T @ values)
        self.scale = float(np.linalg.norm(rest)) or 1.0
        self.columns = np.column_stack([basis, rest / self.scale])
        self.strata, self.df = strata, df
        self.count = len(strata.random) + (strata.lags is not None)

    def solution(self, parameters: Floats) -> tuple[float, Floats, Floats, float] | None:
        """Deviance less twice the log prior, coefficients (r) in the basis less those of least squares, the inverse of
        the information's Cholesky factor (r, r), and sigma; None where the parameters give no covariance.
        """
        white = whiten(self.strata, self.columns, parameters)
        gram = white.columns.T @ white.columns
        try:
            factor = linalg.cholesky(gram[:-1, :-1], lower=True, check_finite=False)
        except linalg.LinAlgError:
            return None
        root = linalg.solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
        cross = root @ gram[:-1, -1]
        rss = max(float(gram[-1, -1] - cross @ cross), 1e-300)
        deviance = white.logdet + 2 * float(np.sum(np.log(np.diag(factor)))) + self.df * float(np.log(rss))
        deviance -= 2 * white.log_prior
        if not np.isfinite(deviance):
            return None
        return deviance, self.scale * (root.T @ cross), root, self.scale * float(np.sqrt(rss / self.df))

    def mixture(self, best: Floats, inverse: Floats) -> Mixture:
        """The fits around the REML solution."""
        wide = np.full(self.count, _BOUND_WIDE)
        if self.strata.lags is not None:
            wide[-1] = max(_BOUND_TIME, abs(float(best[-1])))
        return mixture(self.solution, best, inverse, (-wide, wide), self.basis, self.df, self.columns.size)

    def evaluate(self, parameters: Floats) -> tuple[float, float]:
        """Deviance (-2 log restricted likelihood, up to a constant) and log residual sum of squares."""
        white = whiten(self.strata, self.columns, parameters)
        gram = white.columns.T @ white.columns
        try:
            factor = linalg.cholesky(gram[:-1, :-1], lower=True, check_finite=False)
        except linalg.LinAlgError:
            return 1e12, 0.0
        cross = linalg.solve_triangular(factor, gram[:-1, -1], lower=True, check_finite=False)
        rss = max(float(gram[-1, -1] - cross @ cross), 1e-300)
        information = 2 * float(np.sum(np.log(np.diag(factor))))
        return white.logdet + information + self.df * float(np.log(rss)), float(np.log(rss))

    def deviance(self, parameters: Floats) -> float:
        return self.evaluate(parameters)[0]

    def solve(self) -> Floats:
        bounds = [(-_BOUND, _BOUND)] * len(self.strata.random)
        bounds += [(-_BOUND_TIME, _BOUND_TIME)] if self.strata.lags is not None else []
        low, high = np.array(bounds).T
        found = self._newton(np.full(self.count, 0.2), low, high)
        if found is None:
            start = np.full(self.count, 0.2)
            solution = scipy.optimize.minimize(
                self.deviance, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-13}
            )
            best = np.asarray(solution.x, dtype=np.float64)
            found = self._newton(best, low, high)
            return best if found is None else found
        return found

    def _newton(self, at: Floats, low: Floats, high: Floats) -> Floats | None:
        """Newton's method from ``at``; None where it leaves the bounds or does not come to rest."""
        value = self.deviance(at)
        for _ in range(12):
            slope, bend = self.slopes(at)
            values, vectors = np.linalg.eigh(bend)
            step = vectors @ ((vectors.T @ slope) / np.maximum(np.abs(values), 0.05))
            step *= min(1.0, 1.5 / max(float(np.max(np.abs(step))), 1e-300))
            for _ in range(4):
                next_value = self.deviance(at - step)
                if next_value <= value + 1e-10:
                    break
                step = step / 4
            else:
                return None
            at, value = at - step, next_value
            if np.any(at <= low + _STEP) or np.any(at >= high - _STEP):
                return None
            if np.max(np.abs(step)) < 1e-5:
                return at if np.all(values > 1e-6) else None
        return None

    def slopes(self, at: Floats) -> tuple[Floats, Floats]:
        """Gradient and Hessian of half the deviance by central differences."""
        unit = np.eye(self.count) * _STEP
        middle = self.deviance(at)
        ends = np.array([[self.deviance(at - row), self.deviance(at + row)] for row in unit])
        slope = (ends[:, 1] - ends[:, 0]) / (4 * _STEP)
        bend = np.diag((ends.sum(axis=1) - 2 * middle) / (2 * _STEP**2))
        for i in range(self.count):
            for j in range(i):
                both = self.deviance(at + unit[i] + unit[j]) + self.deviance(at - unit[i] - unit[j])
                bend[i, j] = bend[j, i] = (both - ends[i].sum() - ends[j].sum() + 2 * middle) / (4 * _STEP**2)
        return slope, bend


def mixed_fit(design: Floats, values: Floats, strata: Strata) -> Fit:
    """Fit ``values`` (n) on ``design`` (n, p) with the errors that ``strata`` describe; plain least squares where
    there is one source of noise only.
    """
    design, values = design[strata.order], values[strata.order]
    lost = strata.swept.groups if strata.swept else 0
    size = float(np.linalg.norm(values - np.mean(values)))
    start = np.zeros(len(strata.random) + (strata.lags is not None))
    plain = whiten(strata, np.column_stack([design, values]), start).columns
    flat = fit(plain[:, :-1], plain[:, -1], lost, size)
    if not strata.mixed or flat.df <= 0 or flat.sigma == 0:
        return flat
    problem = _Problem(design, values, strata, flat.df)
    best = problem.solve()
    white = whiten(strata, np.column_stack([design, values]), best)
    solved = fit(white.columns[:, :-1], white.columns[:, -1], lost, size)
    if solved.sigma == 0:
        return flat
    curvature = _curvature(problem, best)
    return MixedFit(
        solved.beta,
        solved.half,
        solved.rows,
        solved.df,
        solved.sigma,
        parameters=best,
        ratios=white.ratios,
        correlation=float(np.tanh(best[-1])) if strata.lags is not None else None,
        curvature=curvature,
        deviance=problem.deviance(best),
        solution=problem.solution,
        integrate=lambda: problem.mixture(best, curvature.inverse),
    )


def _curvature(problem: _Problem, best: Floats) -> Curvature:
    _, bend = problem.slopes(best)
    values, vectors = np.linalg.eigh(bend)
    inverse = (vectors / np.maximum(values, 0.05)) @ vectors.T  # flat or downward only at a bound: little is known
    rss = np.empty(problem.count)
    for index, row in enumerate(np.eye(problem.count) * _STEP):
        low, high = (problem.evaluate(best + sign * row)[1] for sign in (-1, 1))
        rss[index] = (high - low) / (2 * _STEP)
    return Curvature(inverse, rss, _STEP)
