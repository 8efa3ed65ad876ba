"""Looks at simulated switchback studies: the error rate over all looks, lives saved, and the run through the lab."""

import math

import pytest

from leadline.design.switchback import switchback_plan
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.study import Design, Switchback, Workload
from leadline.planning.looks import State, schedule
from leadline.planning.slotlooks import look_at_slots
from leadline.simulate import Model, Truth, simulate_observations

LOAD = Workload(users=20, ramp_up=5, steady=90)
NOISE = {"trials": 0.05, "seconds": 0.05, "autocorrelation": 0.5}
LIVE = [Factor(f"vm.k{number}", (0, 1), 0, apply_cost=ApplyCost.LIVE) for number in (1, 2)]
STUDIES = 5


def plan_of(factors: list[Factor], replicates: int = 6) -> Plan:
    design = Design(replicates=replicates, sentinels=None, switchback=Switchback(slot=6, wash_out=1))
    return switchback_plan(factors, design, LOAD)


def played(plan: Plan, truth: Truth, model: Model, seed: int) -> tuple[dict[str, State], int]:
    """A study with three looks as the lab runs it: what is called of each factor, and lives that were run."""
    observations = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
    blocks = schedule(plan, 3)
    for number, end in enumerate(blocks, 1):
        found = look_at_slots(plan, [each for each in observations if each.block < end], "throughput", blocks, number)
        if found.stop:
            break
    return {each.comparison.factor: each.state for each in found.settlings}, end


def test_null_studies_keep_the_error_rate_and_end_early() -> None:
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": NOISE})
    model = Model(truth, LOAD)
    found = [played(plan, truth, model, seed) for seed in range(STUDIES)]
    wrong = sum(any(state in (State.BETTER, State.WORSE) for state in states.values()) for states, _ in found)
    assert wrong / STUDIES <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert sum(lives for _, lives in found) < 6 * STUDIES


def test_large_effects_are_found_with_fewer_lives() -> None:
    effects = [
        {"when": {"vm.k1": 1}, "percent": {"throughput": 0.12}},
        {"when": {"vm.k2": 1}, "percent": {"throughput": -0.1}},
    ]
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": NOISE, "effects": effects})
    model = Model(truth, LOAD)
    found = [played(plan, truth, model, seed) for seed in range(3)]
    assert all(states == {"vm.k1": State.BETTER, "vm.k2": State.WORSE} for states, _ in found)
    assert sum(lives for _, lives in found) <= 0.7 * 6 * 3


def test_factors_between_trials_and_whole_plots_are_refused_with_what_would_do() -> None:
    with pytest.raises(
        UsageError, match=r"server.pool changes between trials; set looks to 1, or leave switchback out"
    ):
        schedule(plan_of([*LIVE, Factor("server.pool", (1, 2), 1)]), 2)
    assert schedule(plan_of(LIVE, replicates=4), 2) == (2, 4)
