"""Which slots, or trials without slots, have a profile taken: half of them, of every treatment alike.

What profiling costs then is the same in both sides of a comparison, and is seen by comparing the two halves.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from leadline.design.seeds import derived
from leadline.model.plan import Plan, Treatment

Place = tuple[int, int | None]  # position of a trial, index of its slot
_TRIES = 400  # random halves of treatments, of which the first that is balanced is taken


def profiled(plan: Plan) -> frozenset[Place]:
    """The places of ``plan`` with a profile.

    Of a treatment that stands in a group (a trial's slots, or a block's trials) several times, half of the times. Of
    those that stand there once more, half of the treatments where that half holds the levels of each factor, and of
    each pair of factors, equally often, and in the next group the other half; else all, and in the next group none.
    """
    chosen: set[Place] = set()
    for number, group in enumerate(_groups(plan)):
        chosen.update(_half(group, derived(plan.seed, "profiles", number // 2).hex(), number % 2 == 1))
    return frozenset(chosen)


def _groups(plan: Plan) -> list[dict[Place, Treatment]]:
    groups: dict[tuple[bool, int], dict[Place, Treatment]] = {}
    for trial in plan.trials:
        group = groups.setdefault((True, trial.position) if trial.slots else (False, trial.block), {})
        places: dict[Place, Treatment] = {(trial.position, slot.index): slot.treatment for slot in trial.slots}
        group.update(places or {(trial.position, None): trial.treatment})
    return list(groups.values())


def _half(group: dict[Place, Treatment], seed: str, second: bool) -> list[Place]:
    by_treatment: dict[Treatment, list[Place]] = {}
    for place, treatment in group.items():
        by_treatment.setdefault(treatment, []).append(place)
    treatments = sorted(by_treatment, key=lambda treatment: treatment.key)
    chosen, once = list[Place](), dict[Treatment, Place]()
    for treatment in treatments:
        places = sorted(by_treatment[treatment], key=lambda place: derived(0, seed, *place))
        chosen += places[: len(places) // 2]
        if len(places) % 2:
            once[treatment] = places[-1]
    half = _balanced(list(once), seed)
    if half is None:
        return chosen if second else [*chosen, *once.values()]
    return [*chosen, *(place for treatment, place in once.items() if (treatment in half) != second)]


def _balanced(treatments: Sequence[Treatment], seed: str) -> set[Treatment] | None:
    """Half of them in which all levels, and pairs of levels, are half as frequent; None where none is met with."""
    whole = _counts(treatments)
    if len(treatments) % 2 or any(count % 2 for (name, _, other, _), count in whole.items() if name == other):
        return None
    for number in range(_TRIES):
        order = sorted(treatments, key=lambda treatment: derived(number, seed, treatment.key))
        half = order[: len(order) // 2]
        counts = _counts(half)
        if all(abs(2 * counts[pair] - count) <= count % 2 for pair, count in whole.items()):
            return set(half)
    return None


def _counts(treatments: Sequence[Treatment]) -> Counter[tuple[str, object, str, object]]:
    """Of pairs of levels; of a level with itself alone."""
    return Counter(
        (*first, *second)
        for treatment in treatments
        for first, second in itertools.combinations_with_replacement(treatment.levels, 2)
    )
