"""Change points of a short series, one figure a run: where its distribution changed, and how sure the place is.

Found by hierarchical division with the energy distance and permutation tests (E-Divisive: Matteson and James 2014). The
place of each has a 95 % credible set: the posterior of one shift of the mean between its neighbours, normal noise, flat
priors (Smith 1975).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
SHORTEST = 3  # figures of a part
FEWEST = 8  # figures of a series in which a change can be told from luck
MOST = 400  # figures; of longer series the latest


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
            place, p_value = _split(series[begin:end], permutations, rng)
            if place and p_value <= alpha / len(level):
                changes[begin + place] = p_value
                waiting += [(begin, begin + place), (begin + place, end)]
    ends = [0, *sorted(changes), len(series)]
    return [
        _located(series[begin:end], at - begin, begin + skipped, changes[at])
        for begin, at, end in zip(ends, ends[1:], ends[2:], strict=False)
    ]


def _split(part: _Floats, permutations: int, rng: np.random.Generator) -> tuple[int, float]:
    """The best place to divide a part and its p value; 0 where it is too short."""
    if len(part) < 2 * SHORTEST:
        return 0, 1.0
    distances = np.abs(part[:, None] - part[None, :])
    scores = _scores(distances)
    best = int(np.argmax(scores))
    beaten = 1
    for _ in range(permutations):
        order = rng.permutation(len(part))
        beaten += bool(_scores(distances[np.ix_(order, order)]).max() >= scores[best])
    return best + SHORTEST, beaten / (permutations + 1)


def _scores(distances: _Floats) -> _Floats:
    """Scaled energy distance between the figures before and after each place that leaves SHORTEST on both sides."""
    n = len(distances)
    places = np.arange(SHORTEST, n - SHORTEST + 1)
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = distances.cumsum(0).cumsum(1)
    before, total = sums[places, places], sums[n, n]
    across = sums[places, n] - before
    right = total - before - 2 * across
    first, second = places, n - places
    energy = 2 * across / (first * second) - before / (first * (first - 1)) - right / (second * (second - 1))
    return np.asarray(first * second / n * energy)


def _located(part: _Floats, place: int, offset: int, p_value: float) -> Change:
    """A change at ``place`` of a part that has no other, with the credible set of its place."""
    n = len(part)
    places = np.arange(1, n)
    heads = part.cumsum()[:-1]
    means = heads / places, (part.sum() - heads) / (n - places)
    squares = float((part**2).sum()) - places * means[0] ** 2 - (n - places) * means[1] ** 2
    squares = np.maximum(squares, 1e-12 * float(((part - part.mean()) ** 2).sum()))
    log = -0.5 * np.log(places * (n - places)) - 0.5 * (n - 2) * np.log(squares)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    ranked = np.argsort(-weights, kind="stable")
    likely = places[ranked[: int(np.searchsorted(weights[ranked].cumsum(), 0.95)) + 1]]
    return Change(
        at=offset + place,
        from_=offset + min(int(likely.min()), place),
        until=offset + max(int(likely.max()), place),
        before=float(part[:place].mean()),
        after=float(part[place:].mean()),
        p_value=p_value,
    )
