"""Noisy bisection: which of the changes between two ends makes the difference, from blocks of noisy trials.

``n`` changes lead from the end A to the end B. A treatment is the set of changes that it holds (numbers 0 to n - 1):
of ordered levels the first so many, of settings any. One trial's figure (a logarithm, where it can be) is that of its
block, plus the effects of the changes at work, plus normal noise of unknown variance. The hypotheses: no change does
anything; one does; two do; many do a little each (of ordered levels: gradually). Under each the marginal likelihood of
normal-inverse-gamma conjugates is exact (e.g. Bishop 2006, 3.3 and 2.3.6), block means and the variance are integrated
out under flat priors, the size of the effects over scales of 2 to 32 standard deviations of a trial.

``next_block``: which block of trials a bisection needs next; and what one is expected to take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leadline.model import distributions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Changes = frozenset[int]  # what a treatment holds

SURE = 0.95
PRIOR = {"none": 0.40, "one": 0.50, "two": 0.07, "many": 0.03}
_SCALES = np.array([4.0, 16.0, 64.0, 256.0, 1024.0])  # variances of an effect over the variance of a trial
_FEWEST = 4  # contrasts before anything is concluded: the noise must be seen, too
_ODDS = 9.0  # of one change against several before one is concluded
_TWO_ODDS = 3.0  # of two changes against many, which may be these two and next to nothing else
_ROUNDING = 1e-12  # of a difference of two equal figures
_KNOWN = 1e6  # degrees of freedom of a noise that is known
_EXACT = 0.05  # of an exact difference of the ends: a probe further away from both is at neither


class Found(StrEnum):
    """What a bisection has found so far."""

    ONE = "one"
    TWO = "two"
    NONE = "none"  # the ends do not differ, or by less than matters
    MANY = "many"  # of ordered levels: gradual
    OPEN = "open"


@dataclass(frozen=True)
class Block:
    """Trials made close together: what each held, and its figure."""

    treatments: tuple[Changes, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Effect:
    """Of the changes together, on the scale of the figures, with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Bisection:
    """Everything that was measured. ``usable``: the treatments that can be run; changes that none of them separates
    are concluded on together. ``exact``: there is no noise, so that a probe is at the end it is nearer to.
    ``margin``: a difference of the ends, on the scale of the figures, that makes no difference.
    """

    changes: int
    blocks: tuple[Block, ...]
    usable: tuple[Changes, ...]
    exact: bool = False
    margin: float = 0.0

    @property
    def trials(self) -> int:
        return sum(len(block.values) for block in self.blocks)

    @cached_property
    def _treatments(self) -> list[Changes]:
        return list(dict.fromkeys(treatment for block in self.blocks for treatment in block.treatments))

    @cached_property
    def _sums(self) -> tuple[Floats, Floats, float, int]:
        """Information (t, t) and sums (t) of the treatments inside blocks, sum of squares, contrasts."""
        index = {treatment: at for at, treatment in enumerate(self._treatments)}
        information, sums = np.zeros((len(index), len(index))), np.zeros(len(index))
        squares, contrasts = 0.0, 0
        for block in self.blocks:
            at = np.array([index[treatment] for treatment in block.treatments])
            values = np.array(block.values)
            centred = values - values.mean()
            np.add.at(sums, at, centred)
            np.add.at(information, (at, at), 1.0)
            np.add.at(information, np.ix_(at, at), -1.0 / len(at))
            squares += float(centred @ centred)
            contrasts += len(at) - 1
        return information, sums, squares, contrasts

    @cached_property
    def _regressors(self) -> tuple[Floats, Floats]:
        """Information (n, n) and sums (n) of the changes."""
        information, sums, _, _ = self._sums
        held_rows = rows(self._treatments, self.changes)
        return held_rows.T @ information @ held_rows, held_rows.T @ sums

    @property
    def _pairs(self) -> tuple[Ints, Ints]:
        return np.triu_indices(self.changes, 1)

    @cached_property
    def _known(self) -> float | None:
        """Variance of a trial where it is known: an exact probe says at which end it is, nothing finer."""
        if not self.exact:
            return None
        difference = self.difference
        return None if difference is None else max(1e-12, (_EXACT * difference.value) ** 2)

    def _likelihood(self, log_determinant: Floats | float, fit: Floats | float) -> Floats:
        _, _, squares, contrasts = self._sums
        known_variance = self._known
        degrees, variance = (0.0, 0.0) if known_variance is None else (_KNOWN, known_variance)
        residual = np.maximum(squares - np.asarray(fit) + degrees * variance, 1e-300)
        return np.asarray(-0.5 * np.asarray(log_determinant) - 0.5 * (contrasts + degrees) * np.log(residual))

    def _two(self, scale: float) -> tuple[Floats, Floats, Floats]:
        """Determinant of all pairs, and what each of the two does, the prior ``scale`` in it."""
        information, sums = self._regressors
        first, second = self._pairs
        ridge, diagonal = 2.0 / scale, np.diag(information)
        a, b, c = diagonal[first] + ridge, diagonal[second] + ridge, information[first, second]
        determinant = a * b - c * c
        first_share = (sums[first] * b - sums[second] * c) / determinant
        other = (sums[second] * a - sums[first] * c) / determinant
        return np.log(determinant / ridge**2), first_share, other

    @cached_property
    def _weights(self) -> Floats:
        """Posterior probabilities: none, each one (n), each pair (n (n - 1) / 2), many."""
        information, sums = self._regressors
        first, second = self._pairs
        diagonal, n = np.diag(information), self.changes
        singles, two, many = [], [], []
        for scale in _SCALES:
            singles.append(self._likelihood(np.log1p(scale * diagonal), sums**2 / (diagonal + 1 / scale)))
            determinant, low, high = self._two(scale)
            two.append(self._likelihood(determinant, low * sums[first] + high * sums[second]))
            matrix = np.eye(n) + scale / n * information
            fit = scale / n * float(sums @ np.linalg.solve(matrix, sums))
            many.append(self._likelihood(float(np.linalg.slogdet(matrix)[1]), fit))
        pairs = max(1, len(first))
        logs = np.concatenate(
            [
                np.atleast_1d(self._likelihood(0.0, 0.0)) + math.log(PRIOR["none"]),
                _mean(singles) + math.log(PRIOR["one"] / n),
                _mean(two) + math.log(PRIOR["two"] / pairs),
                np.atleast_1d(_mean(many)) + math.log(PRIOR["many"] if n > 2 else 1e-12),
            ]
        )
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    @property
    def none(self) -> float:
        """The probability that no change does anything."""
        return float(self._weights[0])

    @property
    def many(self) -> float:
        return float(self._weights[-1])

    @property
    def two(self) -> float:
        """That exactly two do, whichever."""
        return float(self._weights[1 + self.changes : -1].sum())

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Changes that no treatment in use separates, in their order."""
        held_rows = rows(self.usable, self.changes)
        groups: dict[bytes, list[int]] = {}
        for change in range(self.changes):
            groups.setdefault(held_rows[:, change].tobytes(), []).append(change)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def probabilities(self) -> Floats:
        """That a change of each group is at work, alone or as one of two (g)."""
        at = np.zeros(self.changes, dtype=np.int64)
        for number, group in enumerate(self.groups):
            at[list(group)] = number
        shares = np.bincount(at, self._weights[1 : 1 + self.changes], len(self.groups))
        pairs = self._weights[1 + self.changes : -1]
        first, second = (at[pair] for pair in self._pairs)
        shares += np.bincount(first, pairs, len(shares))
        shares += np.bincount(second, np.where(first == second, 0.0, pairs), len(shares))
        return np.minimum(shares, 1.0)

    @cached_property
    def difference(self) -> Effect | None:
        """Of the ends, free of any hypothesis; None before both have been run in one block."""
        information, sums, squares, contrasts = self._sums
        treatments = self._treatments
        ends = (frozenset[int](), frozenset(range(self.changes)))
        if any(end not in treatments for end in ends):
            return None
        inverse = np.linalg.pinv(information)
        contrast = np.zeros(len(treatments))
        contrast[treatments.index(ends[1])], contrast[treatments.index(ends[0])] = 1.0, -1.0
        value = float(contrast @ inverse @ sums)
        df = contrasts - int(np.linalg.matrix_rank(information))
        if df < 1:
            return Effect(value, -math.inf, math.inf)
        rest = max(0.0, squares - float(sums @ inverse @ sums))
        return _interval(value, rest / df * float(contrast @ inverse @ contrast), df)

    @property
    def found(self) -> Found:
        """What can be concluded now."""
        _, _, _, contrasts = self._sums
        difference = self.difference
        if difference is None or (contrasts < _FEWEST and not self.exact):
            return Found.OPEN
        small = max(abs(difference.low), abs(difference.high)) < self.margin
        if self.exact:
            small = abs(difference.value) < _ROUNDING
        if small or (self.none >= SURE and not self.exact):
            return Found.NONE
        sure, several = len(self.places), self.two + self.many
        single = float(self._weights[1 : 1 + self.changes].sum())
        if sure == 1 and self.probabilities.max() >= SURE and single >= _ODDS * several:
            return Found.ONE
        if sure == 2 and several >= SURE and self.two >= _TWO_ODDS * self.many:
            return Found.TWO
        return Found.MANY if self.many >= SURE else Found.OPEN

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Groups of changes one of which is surely at work, unless many are."""
        bound = SURE * (1 - self.many)
        return tuple(group for group, share in zip(self.groups, self.probabilities, strict=True) if share >= bound > 0)

    @property
    def effect(self) -> Effect | None:
        """Of the most probable single change; None before it has been told from none."""
        information, sums = self._regressors
        _, _, squares, contrasts = self._sums
        best = int(np.argmax(self._weights[1 : 1 + self.changes]))
        information_of_best = float(information[best, best])
        if information_of_best <= 0 or contrasts < 2:
            return None
        value = float(sums[best]) / information_of_best
        rest = max(0.0, squares - information_of_best * value**2) / (contrasts - 1)
        return _interval(value, rest / information_of_best, contrasts - 1)

    def means(self) -> dict[Changes, float]:
        """Of every treatment that was run, against the end A, free of any hypothesis."""
        information, sums, _, _ = self._sums
        fitted = np.linalg.pinv(information) @ sums
        treatments = self._treatments
        base = float(fitted[treatments.index(frozenset())]) if frozenset() in treatments else 0.0
        return {treatment: float(value) - base for treatment, value in zip(treatments, fitted, strict=True)}

    def predicted(self, treatments: Sequence[Changes]) -> Floats:
        """Covariance (t, t) of what the hypotheses predict of treatments: what a trial of them would tell."""
        information, sums = self._regressors
        first, second = self._pairs
        scale, held_rows = float(_SCALES[-2]), rows(treatments, self.changes)
        single = sums / (np.diag(information) + 1 / scale)
        _, singles, other = self._two(scale)
        many = np.linalg.solve(information + np.eye(self.changes) * self.changes / scale, sums)
        predicted = np.vstack(
            [
                np.zeros((1, len(held_rows))),
                single[:, None] * held_rows.T,
                singles[:, None] * held_rows.T[first] + other[:, None] * held_rows.T[second],
                (held_rows @ many)[None],
            ]
        )
        deviations = predicted - self._weights @ predicted
        return np.asarray((deviations * self._weights[:, None]).T @ deviations)


def rows(treatments: Collection[Changes], changes: int) -> Floats:
    """One row for each treatment, one column for each change: 1.0 where it holds it."""
    matrix = np.zeros((len(treatments), changes))
    for row, treatment in zip(matrix, treatments, strict=True):
        row[list(treatment)] = 1.0
    return matrix


def _mean(logs: Sequence[Floats]) -> Floats:
    """Logarithm of the mean of likelihoods whose logarithms these are."""
    return np.asarray(np.logaddexp.reduce(np.stack(logs), axis=0) - math.log(len(logs)))


def _interval(value: float, variance: float, degrees: int) -> Effect:
    reach = float(distributions.t.ppf(0.975, degrees)) * math.sqrt(variance)
    return Effect(value, value - reach, value + reach)


CANDIDATES = 3  # treatments between two trials of an end
MOST = 120  # trials of a bisection
_DRAWS = 64  # random halves of unordered changes that are weighed


def prefixes(changes: int) -> tuple[Changes, ...]:
    """Every ordered level, from the end A to the end B."""
    return tuple(frozenset(range(count)) for count in range(changes + 1))


def halves(changes: int, seed: int) -> tuple[Changes, ...]:
    """Sets of settings worth trying: both ends, each alone, all but one, and random halves."""
    whole = frozenset(range(changes))
    rng = np.random.default_rng(seed)
    drawn = [frozenset(np.flatnonzero(row).tolist()) for row in rng.random((_DRAWS, changes)) < 0.5]
    singles = [frozenset({change}) for change in range(changes)]
    return tuple(dict.fromkeys([frozenset(), whole, *singles, *(whole - single for single in singles), *drawn]))


def next_block(state: Bisection) -> tuple[Changes, ...]:
    """The trials of the next block: an end first and last, candidates between them.

    The ends alone to begin with. Then, by and by, those whose figures the hypotheses disagree on most, measured inside
    the block and for each trial (the trace of their covariance, which to the first order is the information of trials
    in more noise than effect).
    """
    ends = (frozenset[int](), frozenset(range(state.changes)))
    if not state.blocks or not any(set(ends) <= set(block.treatments) for block in state.blocks):
        return (ends[0], ends[1], ends[0])
    covariance = state.predicted(state.usable)
    chosen: list[int] = []
    most = -1.0
    for end in ends:
        at = state.usable.index(end)
        picked: list[int] = []
        for _ in range(1 if state.exact else min(CANDIDATES, len(state.usable) - 1)):
            scored = [
                (_inside(covariance, [at, *picked, candidate, at]), candidate)
                for candidate in _others(state, at, picked)
            ]
            picked = [*picked, max(scored, key=lambda pair: pair[0])[1]]
            worth = _inside(covariance, [at, *picked, at]) / (len(picked) + 2)
            if worth > most:
                chosen, most = [at, *picked, at], worth
    return tuple(state.usable[index] for index in chosen)


def _others(state: Bisection, end: int, picked: Sequence[int]) -> list[int]:
    return [index for index in range(len(state.usable)) if index != end and index not in picked]


def _inside(covariance: Floats, members: Sequence[int]) -> float:
    """Nine digits, so that equals are equal on every processor: the first of them is taken."""
    part = covariance[np.ix_(members, members)]
    return float(f"{np.trace(part) - part.sum() / len(members):.9g}")


def over(state: Bisection, most: int = MOST) -> bool:
    """Whether nothing more is to be measured."""
    return bool(state.blocks) and (state.found is not Found.OPEN or state.trials >= most)


def play(state: Bisection, measure: Callable[[Changes], float], most: int = MOST) -> Bisection:
    """A whole bisection; ``measure`` gives the figure of one trial."""
    while not over(state, most):
        block = next_block(state)
        state = replace(state, blocks=(*state.blocks, Block(block, tuple(measure(treatment) for treatment in block))))
    return state


@dataclass(frozen=True)
class Expected:
    """Of bisections in which one change has this ``effect``: means of probes and trials, share that ends in time."""

    effect: float
    probes: float
    trials: float
    ends: float


def expected(
    changes: int, usable: Sequence[Changes], effect: float, noise: float, *, exact: bool = False, plays: int = 12
) -> Expected:
    """What a bisection takes, played out so many times; ``effect`` and ``noise`` (standard deviation of a trial) on one
    scale.
    """
    rng = np.random.default_rng(1)
    ended = []
    for _ in range(plays):
        change = int(rng.integers(changes))

        def measure(held: Changes, change: int = change) -> float:
            return effect * (change in held) + (0.0 if exact else float(rng.normal(0.0, noise)))

        ended.append(play(Bisection(changes, (), tuple(usable), exact), measure))
    return Expected(
        effect,
        sum(len(play.blocks) for play in ended) / plays,
        sum(play.trials for play in ended) / plays,
        sum(play.found is not Found.OPEN for play in ended) / plays,
    )
