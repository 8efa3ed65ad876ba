"""When a profile is taken: in half of the slots of every treatment alike, or in half of the time of every trial.

What profiling costs then is the same in both sides of a comparison, and is seen by comparing the two halves.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from leadline.design.seeds import derived
from leadline.model.plan import Plan, Treatment
from leadline.model.workload import Workload

Place = tuple[int, int | None]  # position of a trial, index of its slot
_SHORTEST = 8.0  # seconds of a steady phase whose middle half is long enough
_TRIES = 20  # halves of treatments, of which the most balanced is taken
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def profiled(plan: Plan) -> frozenset[Place]:
    """The places of ``plan`` with a profile: every trial, and instance of a rotation, without slots, in half of its
    time. Of the slots of a trial half.

    Of a treatment that stands in a trial several times, half of the times. Of those that stand there once more, half of
    the treatments where that half holds the levels of each factor equally often, and those of each pair of factors as
    nearly as can be, and in the next trial the other half; else all, and in the next trial none.
    """
    chosen: set[Place] = {(trial.position, None) for trial in plan.trials if not trial.slots}
    for number, trial in enumerate(trial for trial in plan.trials if trial.slots):
        places: dict[Place, Treatment] = {(trial.position, slot.index): slot.treatment for slot in trial.slots}
        chosen.update(_half(places, derived(plan.seed, "profiles", number // 2).hex(), number % 2 == 1))
    return frozenset(chosen)


def middle_half(workload: Workload) -> tuple[float, float] | None:
    """When a profile is taken of a trial that runs alone, seconds from the start of its steady phase: drift that is
    even does not come into the comparison with the rest. None where that is all of it: the phase is too short, or a
    load generator drives that does not tell of its seconds.
    """
    if workload.generator is not None or workload.steady < _SHORTEST:
        return None
    return workload.steady / 4, 3 * workload.steady / 4


def in_turn(position: int, number: int) -> bool:
    """Whether a profile is taken in a turn of an instance without slots: in every second one, beginning with the first
    or with the second.
    """
    return (position + number) % 2 == 0


def _half(places: Mapping[Place, Treatment], seed: str, second: bool) -> list[Place]:
    by_treatment: dict[Treatment, list[Place]] = {}
    for place, treatment in places.items():
        by_treatment.setdefault(treatment, []).append(place)
    treatments = sorted(by_treatment, key=lambda treatment: treatment.key)
    chosen, once = list[Place](), dict[Treatment, Place]()
    for treatment in treatments:
        every = sorted(by_treatment[treatment], key=lambda place: derived(0, seed, *place))
        chosen += every[: len(every) // 2]
        if len(every) % 2:
            once[treatment] = every[-1]
    half = _balanced(list(once), seed)
    if half is None:
        return chosen if second else [*chosen, *once.values()]
    return [*chosen, *(place for treatment, place in once.items() if (treatment in half) != second)]


def _balanced(treatments: Sequence[Treatment], seed: str) -> set[Treatment] | None:
    """Half of them in which all levels, and pairs of levels as nearly as can be, are half as frequent; None where no
    half has that of the levels.
    """
    names = dict.fromkeys(pair for treatment in treatments for pair in _pairs(treatment))
    held = np.array([[pair in _pairs(treatment) for pair in names] for treatment in treatments], dtype=np.int64)
    alone = np.array([first == second for first, second in names], dtype=bool)
    if len(treatments) % 2 or not len(treatments) or (held.sum(axis=0)[alone] % 2).any():
        return None
    common = (held * np.where(alone, len(names), 1)) @ held.T  # weighted pairs that two treatments have in common
    best = min(
        (_signs(common, derived(number, seed, "half")) for number in range(_TRIES)),
        key=lambda signs: int(signs @ common @ signs),
    )
    if (best @ held[:, alone]).any():
        return None
    return {treatment for treatment, sign in zip(treatments, best, strict=True) if sign > 0}


def _signs(common: Ints, seed: bytes) -> Ints:
    """1 of one half, -1 of the other: a random half, then the best swap while the squared excess of pairs falls."""
    order = sorted(range(len(common)), key=lambda at: derived(at, seed.hex()))
    signs = np.ones(len(common), dtype=np.int64)
    signs[order[len(order) // 2 :]] = -1
    while True:
        pull = common @ signs
        inside, outside = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        leaving, entering = (common.diagonal() - pull)[inside], (common.diagonal() + pull)[outside]
        change = leaving[:, None] + entering - 2 * common[np.ix_(inside, outside)]
        out, into = np.unravel_index(int(change.argmin()), change.shape)
        if change[out, into] >= 0:
            return signs
        signs[[inside[out], outside[into]]] = -1, 1


def _pairs(treatment: Treatment) -> list[tuple[tuple[str, object], tuple[str, object]]]:
    """Pairs of levels; of a level with itself alone."""
    return list(itertools.combinations_with_replacement(treatment.levels, 2))
