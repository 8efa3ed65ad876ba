"""Plans are complete, balanced, reproducible and safe against drift."""

import dataclasses
import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.design.make import make_plan, plan_from_json, plan_to_json
from leadline.layouts.check import check_plan, plan_problems
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Plan, Role

GOLDEN = [
    (3, 186187206285188),
    (2, 186187206285188),
    (1, 186187206285188),
    (1, 3475327638094),
    (2, 3475327638094),
    (3, 3475327638094),
]
LEVELS = st.one_of(
    st.lists(st.integers(-5, 10**6), min_size=2, max_size=4, unique=True),
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=2, max_size=4, unique=True),
    st.lists(st.text(max_size=5), min_size=2, max_size=4, unique=True),
    st.just([True, False]),
)


@st.composite
def factor_lists(draw: st.DrawFn, most: int = 4) -> list[Factor]:
    count = draw(st.integers(1, most))
    factors = []
    for number in range(count):
        levels = tuple(draw(LEVELS))
        factors.append(Factor(f"factor.{number}", levels, draw(st.sampled_from(levels))))
    return factors


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    replicates = draw(st.integers(1, 4))
    sentinels = draw(st.integers(1, 7) if replicates == 1 else st.one_of(st.none(), st.integers(1, 7)))
    kind = draw(st.sampled_from(["full-factorial", "one-at-a-time"]))
    design = Design(kind=kind, replicates=replicates, sentinels=sentinels, seed=draw(st.integers(0, 2**40)))
    return make_plan(draw(factor_lists(3)), design)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_every_plan_is_sound_and_survives_json(plan: Plan) -> None:
    check_plan(plan)
    again = plan_from_json(plan_to_json(plan))
    assert again == plan
    assert [t.treatment.key for t in again.trials] == [t.treatment.key for t in plan.trials]


@settings(max_examples=40, deadline=None)
@given(factor_lists(), st.integers(2, 4), st.integers(1, 5), st.integers(0, 1000))
def test_one_at_a_time_blocks_are_complete_and_sentinels_close(
    factors: list[Factor], replicates: int, every: int, seed: int
) -> None:
    plan = make_plan(factors, Design(replicates=replicates, sentinels=every, seed=seed))
    assert plan == make_plan(factors, Design(replicates=replicates, sentinels=every, seed=seed))
    levels = 1 + sum(len(factor.levels) - 1 for factor in factors)
    for block in range(replicates):
        members = [t for t in plan.trials if t.block == block and t.role is not Role.SENTINEL]
        assert len({t.treatment for t in members}) == len(members) == levels
    assert plan.trials[0].role is not Role.TREATMENT
    assert plan.trials[-1].role is not Role.TREATMENT
    gap = 0
    for trial in plan.trials:
        gap = gap + 1 if trial.role is Role.TREATMENT else 0
        assert gap <= every
        changed = sum(trial.treatment[f.name] != f.baseline for f in factors)
        assert changed == (1 if trial.role is Role.TREATMENT else 0)


def three_factors() -> list[Factor]:
    return [Factor("a", (1, 2, 3), 2), Factor("b", ("x", "y"), "x"), Factor("c", (True, False), True)]


def test_full_factorial_holds_every_combination_in_every_block() -> None:
    plan = make_plan(three_factors(), Design(kind="full-factorial", replicates=2, sentinels=None))
    assert len(plan.trials) == 24
    for block in (0, 1):
        assert len({t.treatment for t in plan.trials if t.block == block}) == 12


def test_another_seed_gives_another_order_and_other_trial_seeds() -> None:
    one, other = (make_plan(three_factors(), Design(seed=seed)) for seed in (1, 2))
    assert [t.treatment for t in one.trials] != [t.treatment for t in other.trials]
    assert {t.seed for t in one.trials}.isdisjoint({t.seed for t in other.trials})


def test_a_block_shares_one_seed_and_blocks_differ() -> None:
    plan = make_plan(three_factors(), Design(replicates=4))
    seeds = [{t.seed for t in plan.trials if t.block == block} for block in range(4)]
    assert [len(found) for found in seeds] == [1, 1, 1, 1]
    assert len(set.union(*seeds)) == 4


def test_the_order_of_a_seed_never_changes() -> None:
    """A stored seed must give the same plan in later versions, too."""
    plan = make_plan([Factor("a", (1, 2, 3), 1)], Design(replicates=2, sentinels=None, seed=7))
    assert [(t.treatment["a"], t.seed) for t in plan.trials] == GOLDEN


def test_carry_over_is_spread_over_predecessors() -> None:
    """No treatment follows the same one again and again: far fewer repeats than orders drawn blindly would give."""
    factors = [Factor(f"f{number}", (0, 1), 0) for number in range(7)]
    repeats = []
    for seed in range(20):
        order = [t.treatment.key for t in make_plan(factors, Design(replicates=5, sentinels=None, seed=seed)).trials]
        pairs = Counter(itertools.pairwise(order))
        repeats.append(sum(count - 1 for count in pairs.values()))
    # 39 pairs among 56 possible ones: blind shuffling repeats 9 of them on average
    assert sum(repeats) / len(repeats) < 5


def test_first_places_are_random() -> None:
    """Over many seeds every treatment opens a block about equally often (chi-squared, 4 degrees, 0.1 %)."""
    factors = [Factor("f", tuple(range(5)), 0)]
    first = Counter(
        make_plan(factors, Design(replicates=2, sentinels=None, seed=seed)).trials[0].treatment["f"]
        for seed in range(500)
    )
    assert sum((first[level] - 100) ** 2 / 100 for level in range(5)) < 18.5


@pytest.mark.parametrize(
    ("factors", "design", "words"),
    [
        ([Factor("a", (1, 2), 1)], Design(replicates=1, sentinels=None), ["drift", "replicates", "sentinels"]),
        ([], Design(), ["nothing to compare"]),
        ([Factor("a", (1,), 1)], Design(), ["one level", "a"]),
        ([Factor("a", (1, 2), 1), Factor("a", (3, 4), 3)], Design(), ["named twice"]),
        ([Factor("a", (1, 2, 1), 1)], Design(), ["level 1", "twice"]),
        ([Factor(f"f{n}", (1, 2), 1) for n in range(20)], Design(kind="full-factorial"), ["one-at-a-time"]),
    ],
)
def test_a_design_that_cannot_answer_is_refused(factors: list[Factor], design: Design, words: list[str]) -> None:
    with pytest.raises(UsageError) as refusal:
        make_plan(factors, design)
    assert all(word in str(refusal.value) for word in words)


def test_one_replicate_with_sentinels_is_allowed_with_a_note() -> None:
    plan = make_plan(three_factors(), Design(replicates=1, sentinels=3))
    assert "One replicate" in plan.notes[0]


def test_a_broken_plan_is_named() -> None:
    plan = make_plan(three_factors(), Design(replicates=2))
    lost = dataclasses.replace(plan, trials=plan.trials[:-2])
    assert any("every treatment" in problem for problem in plan_problems(lost))
    swapped = dataclasses.replace(plan, trials=plan.trials[::-1])
    assert any("positions" in problem for problem in plan_problems(swapped))
    reseeded = dataclasses.replace(plan, trials=(dataclasses.replace(plan.trials[0], seed=1), *plan.trials[1:]))
    assert any("share one seed" in problem for problem in plan_problems(reseeded))
    with pytest.raises(UsageError):
        check_plan(lost)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "kind": "x"}', "null"])
def test_a_text_that_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="plan:"):
        plan_from_json(text)
