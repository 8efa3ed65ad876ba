"""Change points of a short series, one figure a run: where its distribution changed, and how sure the place is.

Found by hierarchical division with the energy distance and permutation tests (E-Divisive: Matteson and James 2014, J.
American Statistical Association 109). Two things are not theirs. Each part is tested by itself, and the tests of one
level share alpha. And runs near each other may be alike: the statistic is of what each noise of the local level leaves
independent, the p value the mean over them. The place of each change has a 95 % credible set: the posterior of one
shift of the mean under these noises (Smith 1975).

The noise of a series, of soaks as of histories, is a level that moves with independent noise upon it. The level is an
autoregression of first order or, where its coefficient is 1, a random walk (the local level model: Harvey, Forecasting,
Structural Time Series Models and the Kalman Filter, 1989). Nothing is picked: what is said is the mixture over a grid
of coefficients and shares of independent noise, weighted by the restricted likelihood and a prior that is fixed
beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
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


_Floats = NDArray[np.float64]
_Places = NDArray[np.intp]
SHORTEST = 3  # figures of a part
FEWEST = 8  # figures of a series in which a change can be told from luck
MOST = 200  # figures; of longer series the latest
_LEAN = 2.0  # of the prior: each run begins anew
_TESTED = 0.95  # of the weights of all noises
_SHIFTED = 0.25  # of parts have a shift, of these as many a second, and so on
_MOST_SHIFTS = 4
_FEWEST, _WORK = 199, 2_500_000  # permutations; their number times the figures squared
_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Change:
    """``at``: index of the first figure after the change; ``from_``, ``until``: the 95 % credible set's first and last
    such index. ``before`` and ``after``: means of the parts beside it. ``p_value``: of the permutation test.
    """

    at: int
    from_: int
    until: int
    before: float
    after: float
    p_value: float


def changes(
    values: Sequence[float] | _Floats, alpha: float = 0.05, permutations: int = 999, seed: int = 1
) -> list[Change]:
    """The changes of a series (n,), in its order. None where it is shorter than :data:`FEWEST`."""
    series = np.asarray(values, dtype=np.float64)
    skipped = max(0, len(series) - MOST)
    series = series[skipped:]
    if len(series) < FEWEST or np.ptp(series) == 0:
        return []
    rng = np.random.default_rng(seed)
    changes: dict[int, float] = {}
    waiting = [(0, len(series))]
    while waiting:  # each part is tested on its own, so the tests of one level of the tree share alpha
        level, waiting = waiting, []
        for begin, end in level:
            place, p_value = _split(series[begin:end], alpha / len(level), permutations, rng)
            if place and p_value <= alpha / len(level):
                changes[begin + place] = p_value
                waiting += [(begin, begin + place), (begin + place, end)]
    ends = [0, *sorted(changes), len(series)]
    return [
        _located(series[begin:end], at - begin, begin + skipped, changes[at])
        for begin, at, end in zip(ends, ends[1:], ends[2:], strict=False)
    ]


def _split(part: _Floats, alpha: float, permutations: int, rng: np.random.Generator) -> tuple[int, float]:
    """The likeliest place to divide a part and its p value, or a bound above ``alpha``; 0 where it is too short."""
    if len(part) < 2 * SHORTEST or np.ptp(part) == 0:
        return 0, 1.0
    shift = _Shift.of(part)
    places = np.tile(np.arange(len(part)), (min(permutations, max(_FEWEST, _WORK // len(part) ** 2)) + 1, 1))
    orders = np.vstack([places[:1], rng.permuted(places[1:], axis=1)])
    p_value = rest = 0.0
    for noise in np.argsort(-shift.weights, kind="stable"):
        weight = float(shift.weights[noise])
        largest = scores(shift.rows[noise], orders)
        p_value += weight * float(np.mean(largest >= largest[0] * (1 - 1e-9)))
        rest += weight
        if rest > _TESTED or p_value > alpha:
            break
    return SHORTEST + int(np.argmax(shift.places[SHORTEST - 1 : len(part) - SHORTEST])), min(1.0, p_value / rest)


def scores(figures: _Floats, orders: _Places) -> _Floats:
    """Of each order the largest scaled energy distance between figures [0, at) and [at, until) over all pairs of at and
    until that leave SHORTEST on both sides.
    """
    n = len(figures)
    at, until = _pairs(n)
    first, second = at, until - at
    parts, many = [], max(1, _AT_ONCE // n**2)
    for begin in range(0, len(orders), many):
        ordered = figures[orders[begin : begin + many]]
        sums = np.zeros((len(ordered), n + 1, n + 1))
        sums[:, 1:, 1:] = np.abs(ordered[:, :, None] - ordered[:, None, :]).cumsum(1).cumsum(2)
        before, total = sums[:, at, at], sums[:, until, until]
        across = sums[:, at, until] - before
        within = before / (first * (first - 1)) + (total - before - 2 * across) / (second * (second - 1))
        parts.append((first * second / until * (2 * across / (first * second) - within)).max(axis=1))
    return np.concatenate(parts)


@cache
def _pairs(n: int) -> tuple[_Places, _Places]:
    """All divisions of n figures and ends of the second part."""
    at, until = np.triu_indices(n + 1, SHORTEST)
    wanted = at >= SHORTEST
    return at[wanted], until[wanted]


@dataclass(frozen=True)
class _Shift:
    """One shift of the mean, or none. ``rows`` (g, n): what each noise leaves independent where the mean is constant;
    ``weights`` (g) of the noises; ``places`` (n - 1): posterior of the last figure before the shift.
    """

    rows: _Floats
    weights: _Floats
    places: _Floats

    @classmethod
    def of(cls, part: _Floats) -> _Shift:
        n = len(part)
        steps = (np.arange(n)[:, None] >= np.arange(1, n)).astype(float)
        white = whitened(np.arange(n, dtype=float), np.column_stack([np.ones(n), steps, part - part.mean()]), _LEAN)
        ones = white.rows[:, :, :1]
        length = (ones**2).sum(axis=1, keepdims=True)
        rest = white.rows[:, :, 1:] - ones * (ones * white.rows[:, :, 1:]).sum(axis=1, keepdims=True) / length
        steps, rows = rest[:, :, :-1], rest[:, :, -1]
        squares = (rows**2).sum(axis=1)
        scale = (steps**2).sum(axis=1)
        shifted = squares[:, None] - (steps * rows[:, :, None]).sum(axis=1) ** 2 / scale
        shifted = np.maximum(shifted, 1e-12 * squares[:, None])
        level = -0.5 * (white.logdet + np.log(length[:, 0, 0]))
        several = [level - 0.5 * (n - 1) * np.log(squares)]
        directions, remaining = steps / np.sqrt(scale)[:, None], rows
        for _ in range(_MOST_SHIFTS):  # the one that explains most beside those before, with the prior of a figure
            explained = (directions * remaining[:, :, None]).sum(axis=1)
            best = np.take_along_axis(directions, np.abs(explained).argmax(axis=1)[:, None, None], axis=2)
            remaining = remaining - best[:, :, 0] * (best[:, :, 0] * remaining).sum(axis=1, keepdims=True)
            directions = directions - best * (best * directions).sum(axis=1, keepdims=True)
            length = np.linalg.norm(directions, axis=1, keepdims=True)
            directions = np.where(length > 1e-6, directions / np.maximum(length, 1e-6), 0.0)
            rest_squares = np.maximum((remaining**2).sum(axis=1), 1e-12 * squares)
            prior = len(several) * (0.5 * np.log(n) + np.log(n - 1) - np.log(_SHIFTED))
            several.append(level - 0.5 * (n - 1) * np.log(rest_squares) - prior)
        weights = white.weights(np.logaddexp.reduce(several, axis=0))
        log = (level + white.log_prior)[:, None] - 0.5 * np.log(scale) - 0.5 * (n - 2) * np.log(shifted)
        return cls(rows, weights, np.exp(log - log.max()).sum(axis=0))


def _located(part: _Floats, place: int, offset: int, p_value: float) -> Change:
    """A change at ``place`` of a part that has no other, with the credible set of its place."""
    weights = _Shift.of(part).places
    weights /= weights.sum()
    ranked = np.argsort(-weights, kind="stable")
    likely = 1 + ranked[: int(np.searchsorted(weights[ranked].cumsum(), 0.95)) + 1]
    return Change(
        at=offset + place,
        from_=offset + min(int(likely.min()), place),
        until=offset + max(int(likely.max()), place),
        before=float(part[:place].mean()),
        after=float(part[place:].mean()),
        p_value=p_value,
    )
