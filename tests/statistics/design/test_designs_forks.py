"""Forks: worlds as blocks, treatments that share a past together."""

import itertools

import pytest

from leadline.design.forks import booted, warmed, work
from leadline.design.kind import DesignError
from leadline.design.kinds import KINDS
from leadline.design.make import make_plan, plan_from_json, plan_to_json
from leadline.layouts.check import plan_problems
from leadline.model.design import Design
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, Role

KERNEL = Factor("kernel", ("a", "b", "c"), "b", apply_cost=ApplyCost.KERNEL)
BOOT = Factor("boot", ("on", "off"), "on", apply_cost=ApplyCost.REBOOT)
HEAP = Factor("heap", (1, 2), 1, apply_cost=ApplyCost.RESTART)
LIVE = Factor("live", (10, 20, 30), 10, apply_cost=ApplyCost.LIVE)
EVERY = (LIVE, HEAP, BOOT, KERNEL)


def forks(*factors: Factor, worlds: int = 4, **keys: object) -> Plan:
    return make_plan(factors, Design.model_validate({"kind": "forks", "worlds": worlds, **keys}))


@pytest.mark.parametrize("of", ["one-at-a-time", "full-factorial", "d-optimal"])
def test_every_treatment_once_in_every_world(of: str) -> None:
    plan = forks(*EVERY, of=of)
    assert plan.kind == of
    assert plan.layout == "forks"
    assert plan_problems(plan) == ()
    wanted = set(KINDS[of].treatments(plan.factors, Design(kind=of)))
    for world in range(4):
        trials = [trial for trial in plan.trials if trial.block == world]
        assert [trial.treatment for trial in trials] == list(dict.fromkeys(trial.treatment for trial in trials))
        assert {trial.treatment for trial in trials} == wanted
        assert len({trial.seed for trial in trials}) == 1  # common random numbers
    assert len({trial.seed for trial in plan.trials}) == 4
    assert not any(trial.role is Role.SENTINEL for trial in plan.trials)
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize("of", ["one-at-a-time", "full-factorial"])
def test_what_shares_a_boot_and_a_start_stands_together(of: str) -> None:
    plan = forks(*EVERY, of=of, worlds=2)
    for state in (booted, warmed):
        for world in range(2):
            seen = [state(EVERY, trial.treatment) for trial in plan.trials if trial.block == world]
            assert sum(a != b for a, b in itertools.pairwise(seen)) == len(set(seen)) - 1
    assert plan.trials[0].role is Role.BASELINE


def test_the_plan_says_its_boots_starts_and_forks() -> None:
    plan = forks(*EVERY, of="full-factorial", worlds=2)
    assert work(plan) == (2 * 6, 2 * 12, 2 * 36)
    assert "Forks in 2 worlds: 12 boots, 24 starts with warm-up, 72 forks" in plan.notes[0]
    alone = forks(LIVE, worlds=3)
    assert work(alone) == (3, 3, 9)
    assert work(forks(*EVERY)) == (4 * 4, 4 * 5, 4 * 7)


def test_one_world_is_a_plan_that_says_what_it_lacks() -> None:
    plan = forks(LIVE, worlds=1)
    assert plan_problems(plan) == ()
    assert "One world gives differences without intervals: set worlds to 3 or more." in plan.notes[0]


def test_options_of_the_treatments_and_too_many_forks() -> None:
    assert len(forks(LIVE, HEAP, of="d-optimal", runs=6, worlds=1).trials) <= 6
    with pytest.raises(DesignError, match="one-at-a-time has no runs"):
        forks(LIVE, runs=6)
    with pytest.raises(DesignError, match="set worlds to 277 or less"):
        forks(*EVERY, of="full-factorial", worlds=300)


def test_a_broken_plan_of_forks_is_seen() -> None:
    from dataclasses import replace

    plan = forks(HEAP, LIVE, of="full-factorial", worlds=2)
    fewer = replace(plan, trials=plan.trials[:-1])
    assert "block 1 does not hold every treatment exactly once" in plan_problems(fewer)
