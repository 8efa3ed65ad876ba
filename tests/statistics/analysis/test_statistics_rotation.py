"""Rotations of known truth: error rates and coverage with instance effects and a disturbed machine, planted effects."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from witnesses import matrix

from leadline.design import make_plan
from leadline.design.rotation import rotation_plan
from leadline.model.design import Design, Rotation
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation, ResponseAnalysis
from leadline.model.workload import Workload
from leadline.simulate import parse_truth
from leadline.simulate.rates import judge, rates

LONGER = matrix("some hundred simulated studies more")

NOISE = "noise: { trials: 3%, seconds: 15%, autocorrelation: 0.9, cpu_trials: 2%, latency_trials: 3% }"
WORKLOAD = Workload(users=40, ramp_up=10.0, steady=24.0, ramp_down=1.0)
FACTORS = [Factor("server.a", (10, 20, 40), 10), Factor("server.b", (10, 20), 10)]


def plan(replicates: int, instances: int = 1) -> Plan:
    design = Design(replicates=replicates, seed=5, rotation=Rotation(slot=4.0, instances=instances))
    return rotation_plan(FACTORS, design, WORKLOAD)


@pytest.mark.parametrize(
    ("instances", "response"),
    [
        (2, "throughput"),
        *(pytest.param(1, name, marks=LONGER) for name in ("throughput", "p50", "cpu_per_transaction")),
    ],
)
def test_where_nothing_differs_little_is_found_and_the_intervals_hold(instances: int, response: str) -> None:
    truth = parse_truth(f"truth: {{ {NOISE} }}", "truth")
    found = rates(plan(4, instances), truth, WORKLOAD, 500, response=response, seed=100)
    assert found.family_error <= 0.06
    assert found.coverage is not None
    assert found.coverage >= 0.94
    assert found.simultaneous is not None
    assert found.simultaneous >= 0.94


def test_planted_effects_are_found_on_a_disturbed_machine_where_plain_trials_miss_them() -> None:
    effects = "effects: [{ when: { server.a: 20 }, percent: { throughput: -15%, cpu_per_transaction: 12% } }]"
    truth = parse_truth(f"truth: {{ {NOISE}, {effects} }}", "truth")
    for response in ("throughput", "cpu_per_transaction"):
        found = rates(plan(6), truth, WORKLOAD, 150, response=response, seed=7)
        assert found.found["server.a", 20] >= 0.9
        assert found.family_error <= 0.08
    plain = make_plan(FACTORS, Design(replicates=6, seed=5, sentinels=None))
    assert rates(plain, truth, WORKLOAD, 150, seed=7).found["server.a", 20] <= 0.6


HOST = [Factor("server.a", (10, 20), 10), Factor("vm.swappiness", (60, 10), 60)]


def without_the_first_rotation(plan: Plan, observations: list[Observation], response: str) -> ResponseAnalysis:
    return judge(plan, [one for one in observations if one.block != observations[0].block], response)


@pytest.mark.parametrize("judged", [judge, without_the_first_rotation])
def test_a_factor_of_the_host_is_judged_by_the_noise_between_rotations(judged: Callable[..., ResponseAnalysis]) -> None:
    layout = Rotation(slot=4.0, host="between-rotations")
    between = rotation_plan(HOST, Design(replicates=6, seed=5, rotation=layout), WORKLOAD, {"vm.swappiness"})
    truth = parse_truth("truth: { noise: { trials: 3%, blocks: 4%, seconds: 15%, autocorrelation: 0.9 } }", "truth")
    found = rates(between, truth, WORKLOAD, 200, seed=100, judge=judged)
    assert found.intervals == 400
    assert found.family_error <= 0.09  # 5 % and 2.5 standard errors
    assert found.coverage is not None
    assert found.coverage >= 0.92
