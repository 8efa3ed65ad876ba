"""Simulated studies: the planted truth is recovered at the stated rate, and each trouble shows where it should."""

import numpy as np
import pytest
from scipy import stats

from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.layouts import switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.errors import FailureClass
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.workload import Workload
from leadline.places.simulated import Model, Truth, rates, simulate_observations

WORKLOAD = Workload(users=40, ramp_up=2, steady=12, ramp_down=1)
TWO = [Factor("server.a", (0, 1), 0), Factor("server.b", (0, 1, 2), 0)]
LIVE = [Factor("vm.a", (0, 1), 0, apply_cost=ApplyCost.LIVE)]


def truth(**keys: object) -> Truth:
    return Truth.model_validate(keys)


def within(successes: float, studies: int, share: float) -> bool:
    """Whether a rate may be ``share``: inside the central 99.9 % of its binomial law."""
    low, high = stats.binom.interval(0.999, studies, share)
    return bool(low <= round(successes * studies) <= high)


def throughputs(plan: Plan, known: Truth, seed: int, workload: Workload = WORKLOAD) -> np.ndarray:
    return np.array([one.responses["throughput"] for one in simulate_observations(plan, known, workload, seed)])


PLANTED = [
    {"when": {"server.a": 1}, "percent": {"throughput": "8%", "p99": "-20%"}},
    {"when": {"server.b": 2}, "percent": {"throughput": "-12%"}},
]


def test_intervals_hold_the_planted_effects_at_the_stated_rate() -> None:
    plan = make_plan(TWO, Design(replicates=3))
    found = rates(plan, truth(effects=PLANTED, noise={"trials": "4%", "blocks": "3%"}), WORKLOAD, 250)
    assert found.truth[("server.a", 1)] == pytest.approx(8)
    assert found.truth[("server.b", 1)] == pytest.approx(0, abs=1e-9)
    assert found.coverage is not None
    assert found.simultaneous is not None
    # Intervals of one study are correlated: the bound is that of one interval a study.
    assert within(found.coverage, 250, 0.95)
    assert within(found.simultaneous, 250, 0.95)
    assert found.family_error <= stats.binom.ppf(0.999, 250, 0.05) / 250
    assert found.found[("server.b", 2)] > found.found[("server.a", 1)] > 0.1 > found.found[("server.b", 1)]


def test_each_response_has_its_own_truth() -> None:
    plan = make_plan(TWO, Design(replicates=4))
    found = rates(plan, truth(effects=PLANTED, noise={"trials": "1%"}), WORKLOAD, 40, response="p99")
    assert found.found[("server.a", 1)] == 1.0
    assert found.truth[("server.b", 2)] == pytest.approx(0, abs=1e-9)
    assert found.coverage is not None
    assert found.coverage > 0.85


def test_a_planted_interaction_is_found_as_one() -> None:
    both = {"when": {"server.a": 1, "server.b": 1}, "percent": {"throughput": "10%"}}
    plan = make_plan(TWO, Design(kind="full-factorial", replicates=3))
    known = truth(effects=[both], noise={"trials": "1%", "seconds": "2%"})
    result = analyse(plan, simulate_observations(plan, known, WORKLOAD, 3), ["throughput"]).responses[0]
    sizes = {str(one.level): one.percent for one in result.interactions}
    assert sizes["1 x 1"] == pytest.approx(10, abs=2.5)
    assert sizes["1 x 2"] == pytest.approx(0, abs=2.5)
    expected = Model(known, WORKLOAD).effect(TWO, "server.a", 1, "throughput", crossed=True)
    main = next(one for one in result.effects if one.factor == "server.a")
    assert main.percent == pytest.approx(expected, abs=1.5)


def test_drift_is_found_where_there_is_one() -> None:
    plan = make_plan(TWO, Design(replicates=4))
    noise = {"trials": "2%"}
    assert rates(plan, truth(noise=noise, drift="400%"), WORKLOAD, 40).drift_found > 0.9
    assert rates(plan, truth(noise=noise), WORKLOAD, 40).drift_found < 0.25


def test_failures_are_counted_by_class_and_level() -> None:
    plan = make_plan(TWO, Design(replicates=8))
    failures = [
        {"class": "configuration", "probability": "80%", "when": {"server.b": 1}},
        {"class": "infrastructure", "probability": "20%"},
    ]
    observations = simulate_observations(plan, truth(failures=failures), WORKLOAD, 5)
    counted = analyse(plan, observations, ["throughput"])
    broken = [one for one in observations if one.failure is FailureClass.CONFIGURATION]
    assert {one.treatment["server.b"] for one in broken} == {1}
    assert counted.failures["configuration"] == len(broken) >= 3
    assert counted.failures["infrastructure"] >= 1
    assert any("server.b" in warning and "fails more often" in warning for warning in counted.warnings)


def test_noise_has_the_stated_sizes() -> None:
    """Trials, blocks and the mean of autocorrelated seconds, each alone."""
    plan = make_plan([Factor("server.a", (0, 1), 0)], Design(replicates=300, sentinels=None))
    off = {"trials": 0, "seconds": 0, "latency_trials": 0, "latency_seconds": 0}

    def spread(**noise: float) -> float:
        return float(np.log(throughputs(plan, truth(noise={**off, **noise}), 2)).std(ddof=1))

    assert spread() == pytest.approx(0, abs=1e-12)
    assert spread(trials=0.05) == pytest.approx(0.05, rel=0.1)
    assert spread(blocks=0.05) == pytest.approx(0.05, rel=0.15)
    r, count = 0.7, 12
    inside = 1 + 2 * sum((1 - k / count) * r**k for k in range(1, count))
    assert spread(seconds=0.1, autocorrelation=r) == pytest.approx(0.1 * (inside / count) ** 0.5, rel=0.1)


def test_trials_of_a_block_and_of_a_plot_share_their_noise() -> None:
    kernel = Factor("kernel", ("old", "new"), "old", apply_cost=ApplyCost.KERNEL)
    plan = make_plan([kernel, Factor("server.a", (0, 1), 0)], Design(kind="full-factorial", replicates=3))
    off = {"trials": 0, "seconds": 0}
    for noise, key in (({"blocks": 0.1}, lambda t: t.block), ({"plots": 0.1}, lambda t: t.plot)):
        values = throughputs(plan, truth(noise={**off, **noise}), 1).round(6)
        groups = {key(trial): value for trial, value in zip(plan.trials, values, strict=True)}
        assert len(set(groups.values())) == len(groups) > 2
        assert all(groups[key(trial)] == value for trial, value in zip(plan.trials, values, strict=True))


def test_outlying_trials_and_seconds_take_throughput_away() -> None:
    plan = make_plan(TWO, Design(replicates=20))
    clean = throughputs(plan, truth(), 4)
    trials = throughputs(plan, truth(outliers={"trials": "30%", "trial_depth": "50%"}), 4)
    share = np.mean(np.isclose(trials / clean, 0.5))
    assert 0.15 < share < 0.45
    assert np.isclose(trials / clean, 1.0).mean() == pytest.approx(1 - share)
    seconds = throughputs(plan, truth(outliers={"seconds": "10%", "second_depth": "50%"}), 4)
    assert (seconds / clean).mean() == pytest.approx(0.95, abs=0.01)


def test_carry_over_biases_slots_until_it_is_washed_out() -> None:
    design = Design(replicates=2, switchback=Switchback(slot=12, wash_out=0))
    workload = Workload(users=40, ramp_up=2, steady=288, ramp_down=1)
    plan = switchback_plan(LIVE, design, workload)
    off = {"trials": 0, "seconds": 0, "latency_trials": 0, "latency_seconds": 0}
    effect = {"when": {"vm.a": 1}, "percent": {"throughput": "20%"}}
    known = truth(effects=[effect], carry_over="3s", noise=off)

    def estimate(wash_out: float) -> float:
        observations = simulate_observations(plan, known, workload, wash_out=wash_out)
        high = [one.responses["throughput"] for one in observations if one.treatment["vm.a"] == 1]
        low = [one.responses["throughput"] for one in observations if one.treatment["vm.a"] == 0]
        return 100 * (float(np.mean(high)) / float(np.mean(low)) - 1)

    assert estimate(0.0) < 17
    assert estimate(0.0) < estimate(3.0) < estimate(9.0)
    assert estimate(11.0) == pytest.approx(20, abs=0.7)


def test_slots_recover_the_truth_with_autocorrelated_seconds() -> None:
    design = Design(replicates=4, switchback=Switchback(slot=5, wash_out=1))
    workload = Workload(users=40, ramp_up=2, steady=80, ramp_down=1)
    plan = switchback_plan(LIVE, design, workload)
    effect = {"when": {"vm.a": 1}, "percent": {"throughput": "6%"}}
    noise = {"trials": "6%", "seconds": "6%", "autocorrelation": 0.6}
    found = rates(plan, truth(effects=[effect], noise=noise), workload, 40)
    assert found.truth[("vm.a", 1)] == pytest.approx(6)
    assert found.coverage is not None
    assert within(found.coverage, 40, 0.95)
    assert found.found[("vm.a", 1)] > 0.5  # whole trials, with their 6 % of noise, could never
    assert found.family_error == 0.0


def test_a_study_is_repeated_exactly_by_its_seed() -> None:
    plan = make_plan(TWO, Design(replicates=2))
    known = truth(noise={"trials": "5%"}, failures=[{"class": "workload", "probability": "30%"}])
    once, again, other = (simulate_observations(plan, known, WORKLOAD, seed) for seed in (9, 9, 10))
    assert once == again
    assert once != other


def test_a_study_without_noise_has_exact_effects() -> None:
    plan = make_plan(TWO, Design(replicates=2))
    off = {"trials": 0, "seconds": 0, "latency_trials": 0, "latency_seconds": 0, "cpu_trials": 0}
    result = analyse(plan, simulate_observations(plan, truth(effects=PLANTED, noise=off), WORKLOAD), ["throughput"])
    found = {(one.factor, one.level): one.percent for one in result.responses[0].effects}
    assert found == {
        ("server.a", 1): pytest.approx(8),
        ("server.b", 1): pytest.approx(0, abs=1e-9),
        ("server.b", 2): pytest.approx(-12),
    }
