"""When a profile is taken: in half of the slots, of every treatment alike, or in half of each trial's time."""

import itertools
from collections import Counter

import pytest

from leadline.design.profiling import in_turn, middle_half, profiled
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Slot, Treatment
from leadline.model.workload import Workload


def _plan(treatments: list[dict[str, int]], trials: int, repeats: int = 0, seed: int = 3) -> Plan:
    """``repeats``: of each treatment in the slots of every trial; without, a trial has one and a block all."""
    made = [Treatment.of(levels) for levels in treatments]  # type: ignore[arg-type]
    factors = tuple(Factor(name, tuple(sorted({at[name] for at in treatments})), 0) for name in treatments[0])
    rows = []
    for block in range(trials):
        if repeats:
            slots = tuple(Slot(at, 6.0 * at, 6.0, treatment) for at, treatment in enumerate(made * repeats))
            rows.append(PlannedTrial(block, block, block, Role.TREATMENT, made[0], 1, slots=slots))
        else:
            rows += [PlannedTrial(0, block, block, Role.TREATMENT, treatment, 1) for treatment in made]
    rows = [PlannedTrial(at, *list(vars(row).values())[1:]) for at, row in enumerate(rows)]
    return Plan("any", seed, factors, tuple(rows))


CUBE = [dict(zip("abc", levels, strict=True)) for levels in itertools.product((0, 1), repeat=3)]
ONE = [{"a": level} for level in range(5)]


def _counts(plan: Plan) -> tuple[Counter[str], Counter[str]]:
    """Of treatments: places with a profile, all places."""
    places = {
        (trial.position, slot.index if slot else None): (slot or trial).treatment.key
        for trial in plan.trials
        for slot in (trial.slots or (None,))
    }
    return Counter(places[place] for place in profiled(plan)), Counter(places.values())


@pytest.mark.parametrize(
    "plan",
    [_plan(CUBE, 8, 1), _plan(ONE, 8, 2), _plan(ONE, 6, 1), _plan(ONE[:2], 4, 3)],
    ids=["cube", "one", "one, once", "two, thrice"],
)
def test_half_of_each_treatment(plan: Plan) -> None:
    chosen, whole = _counts(plan)
    assert all(2 * chosen[key] == count for key, count in whole.items())
    assert profiled(plan) == profiled(plan)


def test_every_trial_without_slots_has_a_profile_in_half_of_its_time() -> None:
    plan = _plan(ONE, 3)
    assert profiled(plan) == {(trial.position, None) for trial in plan.trials}
    assert middle_half(Workload(steady=30.0)) == (7.5, 22.5)
    assert middle_half(Workload(steady=6.0)) is None
    assert [in_turn(0, number) for number in range(4)] == [True, False] * 2
    assert [in_turn(1, number) for number in range(4)] == [False, True] * 2


def test_half_of_a_factorial_in_an_instance_is_balanced() -> None:
    plan = _plan(CUBE, 2, 1)
    for trial in plan.trials:
        half = [slot.treatment for slot in trial.slots if (trial.position, slot.index) in profiled(plan)]
        for first, second in itertools.combinations("abc", 2):
            assert set(Counter((at[first], at[second]) for at in half).values()) == {1}


def test_half_of_a_fraction_holds_each_level_equally_often() -> None:
    """Six factors in sixteen runs: no half met by luck is balanced."""
    cube = itertools.product((0, 1), repeat=4)
    fraction = [(*a, (a[0] + a[1] + a[2]) % 2, (a[1] + a[2] + a[3]) % 2) for a in cube]
    plan = _plan([dict(zip("abcdef", levels, strict=True)) for levels in fraction], 4, 1)
    for trial in plan.trials:
        half = [slot.treatment for slot in trial.slots if (trial.position, slot.index) in profiled(plan)]
        assert {sum(int(str(at[name])) for at in half) for name in "abcdef"} == {4}
