"""Which block of trials a bisection needs next, and what one is expected to take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.planning.bisection import Bisection, Block, Changes, Floats, Found

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
