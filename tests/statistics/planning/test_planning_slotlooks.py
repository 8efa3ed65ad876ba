"""Looks at simulated switchback studies: the error rate over all looks, instances saved, and the lab's run."""

import math

import numpy as np
import pytest
from group_sequential import spending_bounds
from scipy import stats

from leadline.analysis import analyse
from leadline.design.switchback import switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.workload import Workload
from leadline.planning.looks import Look, State, look, schedule
from leadline.planning.power import precision_of
from leadline.simulate import Model, Truth, simulate_observations

LOAD = Workload(users=20, ramp_up=5, steady=90)
NOISE = {"trials": 0.05, "seconds": 0.05, "autocorrelation": 0.5}
LIVE = [Factor(f"vm.k{number}", (0, 1), 0, apply_cost=ApplyCost.LIVE) for number in (1, 2)]
STUDIES = 24
FOUND = (State.BETTER, State.WORSE)


def plan_of(factors: list[Factor], replicates: int = 6) -> Plan:
    design = Design(replicates=replicates, sentinels=None, switchback=Switchback(slot=6, wash_out=1))
    return switchback_plan(factors, design, LOAD)


def played(plan: Plan, truth: Truth, model: Model, seed: int) -> tuple[dict[str, State], int]:
    """A study with three looks as the lab runs it: what is called of each factor, and instances that were run."""
    observations = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
    blocks = schedule(plan, 3)
    for number, end in enumerate(blocks, 1):
        found = look(plan, [each for each in observations if each.block < end], "throughput", blocks, number)
        if found.stop:
            break
    return {each.comparison.factor: each.state for each in found.settlings}, end


@pytest.fixture(scope="module")
def null_looks() -> list[list[Look]]:
    """All three looks at studies without effects, whether or not an earlier one would have ended the study."""
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": NOISE})
    model, blocks = Model(truth, LOAD), schedule(plan, 3)
    found = []
    for seed in range(STUDIES):
        every = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
        found.append([look(plan, every, "throughput", blocks, number) for number in (1, 2, 3)])
    return found


def test_null_studies_keep_the_error_rate_and_end_early(null_looks: list[list[Look]]) -> None:
    """Shares of 5 % of studies over all looks, none of the first (the spending leaves it 1 in 5,000)."""
    called = np.array([[any(each.state in FOUND for each in one.settlings) for one in looks] for looks in null_looks])
    assert called.any(axis=1).mean() <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / STUDIES)
    assert not called[:, 0].any()
    ended = [next(number for number, one in enumerate(looks, 1) if one.stop) for looks in null_looks]
    assert np.mean(ended) < 2.8
    assert min(ended) < 3


def test_intervals_at_every_look_are_as_wide_as_their_estimates_err(null_looks: list[list[Look]]) -> None:
    """Null estimates in units of their repeated intervals, times the textbook bound of the look, have a spread of 1 at
    most. Less where few instances say how much effects differ between them: each look judges with the degrees of
    freedom of its instances, two at the first, so that its intervals say nothing yet. A look that forgot its wider
    bound would give 1.9 and 1.3 times as much at the first two.
    """
    for number, bound in enumerate(spending_bounds([1 / 3, 2 / 3, 1.0], 1 - math.sqrt(0.95))):
        sizes = []
        for each in (settling for looks in null_looks for settling in looks[number].settlings):
            assert each.interval is not None
            assert each.percent is not None
            half = math.log((100 + each.interval.high) / (100 + each.interval.low)) / 2
            sizes.append(bound * math.log1p(each.percent / 100) / half)
        assert math.sqrt(np.mean(np.square(sizes))) < 1.1
    assert math.sqrt(np.mean(np.square(sizes))) > 0.2, "at the end they say something"


def test_large_effects_are_found_with_fewer_instances() -> None:
    effects = [
        {"when": {"vm.k1": 1}, "percent": {"throughput": 0.12}},
        {"when": {"vm.k2": 1}, "percent": {"throughput": -0.1}},
    ]
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": NOISE, "effects": effects})
    model = Model(truth, LOAD)
    found = [played(plan, truth, model, seed) for seed in range(3)]
    assert all(states == {"vm.k1": State.BETTER, "vm.k2": State.WORSE} for states, _ in found)
    assert sum(instances for _, instances in found) <= 0.7 * 6 * 3


def test_factors_between_trials_and_whole_plots_are_refused_with_what_would_do() -> None:
    with pytest.raises(
        UsageError, match=r"server.pool changes between trials; set looks to 1, or leave switchback out"
    ):
        schedule(plan_of([*LIVE, Factor("server.pool", (1, 2), 1)]), 2)
    assert schedule(plan_of(LIVE, replicates=4), 2) == (2, 4)


def test_forecasts_have_the_standard_errors_that_slots_turn_out_to_have() -> None:
    """The carry-over that is not known costs 1.4 times the standard error: the forecast has it within 15 %."""
    noise = NOISE | {"autocorrelation": 0.0}
    plan, truth = plan_of(LIVE), Truth.model_validate({"noise": noise})
    model, sizes = Model(truth, LOAD), []
    for seed in range(8):
        seen = simulate_observations(plan, truth, LOAD, seed, model=model, wash_out=1)
        for effect in analyse(plan, seen, ["throughput"], verdicts_only=True).responses[0].effects:
            assert effect.interval is not None
            assert effect.df is not None
            half = math.log((100 + effect.interval.high) / (100 + effect.interval.low)) / 2
            sizes.append(half / float(stats.t.ppf(0.975, effect.df)))
    found = precision_of(plan)
    assert not isinstance(found, str)
    assert np.mean(sizes) == pytest.approx(0.05 / math.sqrt(5) * found.error, rel=0.15)
