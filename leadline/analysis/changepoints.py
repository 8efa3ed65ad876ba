"""Change points of a short series, one figure a run: where its distribution changed, and how sure the place is.

Found by hierarchical division with the energy distance and permutation tests (E-Divisive: Matteson and James 2014, J.
American Statistical Association 109). Two things are not theirs. Each part is tested by itself, and the tests of one
level share alpha. And runs near each other may be alike: the statistic is of what each noise of
:mod:`leadline.analysis.local_level` leaves independent, the p value the mean over them. The place of each change has a
95 % credible set: the posterior of one shift of the mean under these noises (Smith 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.local_level import whitened

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
