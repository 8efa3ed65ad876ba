"""Whatever a study asks for: a sound plan with finite properties, or one sentence that says what would do."""

import json
from dataclasses import asdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.design.kind import DesignError
from leadline.design.kinds import KINDS
from leadline.design.make import make_plan, plan_from_json, plan_to_json
from leadline.design.properties import describe_design, properties_text
from leadline.layouts.check import BLOCKS, check_plan
from leadline.model.design import Design
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, Role

LEVELS: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.integers(-5, 10**6), min_size=2, max_size=4, unique=True),
    st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=2, max_size=3, unique=True),
    st.lists(st.text(max_size=4), min_size=2, max_size=3, unique=True),
    st.just([True, False]),
)


@st.composite
def factor_lists(draw: st.DrawFn) -> list[Factor]:
    same = draw(st.sampled_from([None, 2, 3]))
    factors = []
    for number in range(draw(st.integers(1, 6 if same else 4))):
        levels: tuple[Level, ...] = tuple(range(same)) if same else tuple(draw(LEVELS))
        cost = draw(st.sampled_from([ApplyCost.RESTART] * 5 + [ApplyCost.LIVE, ApplyCost.REBOOT, ApplyCost.KERNEL]))
        factors.append(Factor(f"factor.{number}", levels, draw(st.sampled_from(levels)), apply_cost=cost))
    return factors


@st.composite
def designs(draw: st.DrawFn) -> Design:
    kind = draw(st.sampled_from(sorted(KINDS)))
    blocks = draw(st.sampled_from(BLOCKS))
    replicates = draw(st.sampled_from([4, 8, 12] if blocks in ("latin", "williams") else [1, 2, 3, 4]))
    keys: dict[str, Any] = {}
    for name, values in {
        "resolution": st.integers(3, 6),
        "foldover": st.booleans(),
        "runs": st.integers(4, 40),
        "each": st.just("factor.0"),
        "model": st.sampled_from(["main-effects", "interactions"]),
    }.items():
        if name in KINDS[kind].options and draw(st.booleans()):
            keys[name] = draw(values)
    if blocks == "incomplete":
        keys["block_size"] = draw(st.integers(2, 9))
    sentinels = draw(st.sampled_from([None, 1, 3, 6]))
    seed = draw(st.integers(0, 10**6))
    return Design(kind=kind, blocks=blocks, replicates=replicates, sentinels=sentinels, seed=seed, **keys)


def planned(factors: list[Factor], design: Design) -> tuple[Plan | None, DesignError | None]:
    try:
        return make_plan(factors, design), None
    except DesignError as refusal:
        return None, refusal


@settings(max_examples=60, deadline=None)
@given(factor_lists(), designs())
def test_a_sound_plan_or_a_sentence(factors: list[Factor], design: Design) -> None:
    plan, refusal = planned(factors, design)
    if plan is None:
        assert refusal is not None
        assert refusal.path[0] in ("design", "factors")
        assert str(refusal).startswith("design: ")
        assert any(mark in str(refusal)[8:] for mark in (";", ":", ","))  # what is wrong, then what would do
        return
    check_plan(plan)
    assert plan_from_json(plan_to_json(plan)) == plan
    if design.sentinels is not None:
        assert plan.trials[0].role is not Role.TREATMENT
        assert plan.trials[-1].role is not Role.TREATMENT
    found = describe_design(plan)
    if design.kind == "confirmation" and len(factors) > 1:  # all change together
        assert not any(effect.estimable for effect in found.mains)
        return
    assert all(effect.estimable for effect in found.mains)
    assert found.d_efficiency is not None
    assert 0 < found.d_efficiency < 100.001
    json.dumps(asdict(found), allow_nan=False)
    assert all(properties_text(found))


def test_large_plans_are_described_without_their_interactions() -> None:
    factors = [Factor(f"f{number}", tuple(range(8)), 0) for number in range(4)]
    plan = make_plan(factors, Design(replicates=200))
    found = describe_design(plan)
    assert found.trials == len(plan.trials) > 5800
    assert found.interactions == ()
    assert all(effect.estimable for effect in found.mains)
