"""Rotations of known truth: error rates and coverage with instance effects and a disturbed machine, planted effects."""

from __future__ import annotations

import pytest

from leadline.design.rotation import rotation_plan
from leadline.model.plan import Factor, Plan
from leadline.model.study import Design, Rotation, Workload
from leadline.simulate import parse_truth
from leadline.simulate.rates import rates

NOISE = "noise: { trials: 3%, seconds: 15%, autocorrelation: 0.9, cpu_trials: 2%, latency_trials: 3% }"
WORKLOAD = Workload(users=40, ramp_up=10.0, steady=24.0, ramp_down=1.0)
FACTORS = [Factor("server.a", (10, 20, 40), 10), Factor("server.b", (10, 20), 10)]


def plan(replicates: int, instances: int = 1) -> Plan:
    design = Design(replicates=replicates, seed=5, rotation=Rotation(slot=4.0, instances=instances))
    return rotation_plan(FACTORS, design, WORKLOAD)


@pytest.mark.parametrize(("replicates", "instances"), [(4, 1), (4, 2)])
@pytest.mark.parametrize("response", ["throughput", "p50", "cpu_per_transaction"])
def test_where_nothing_differs_little_is_found_and_the_intervals_hold(
    replicates: int, instances: int, response: str
) -> None:
    truth = parse_truth(f"truth: {{ {NOISE} }}", "truth")
    found = rates(plan(replicates, instances), truth, WORKLOAD, 1000, response=response, seed=100)
    assert found.family_error <= 0.06
    assert found.coverage is not None
    assert found.coverage >= 0.94
    assert found.simultaneous is not None
    assert found.simultaneous >= 0.94


def test_planted_effects_are_found_on_a_disturbed_machine_as_no_plain_trial_would() -> None:
    effects = "effects: [{ when: { server.a: 20 }, percent: { throughput: -12%, cpu_per_transaction: 12% } }]"
    truth = parse_truth(f"truth: {{ {NOISE}, {effects} }}", "truth")
    for response in ("throughput", "cpu_per_transaction"):
        found = rates(plan(6), truth, WORKLOAD, 200, response=response, seed=7)
        assert found.found["server.a", 20] >= 0.9
        assert found.family_error <= 0.08
