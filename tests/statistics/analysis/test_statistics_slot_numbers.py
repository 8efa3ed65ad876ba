"""Slots of one number meet the same arrivals in every instance of a block: that is taken out where it is there."""

from __future__ import annotations

import math

import pytest
from simulated_strata import SimulatedStrata, parallel_plan
from witnesses import matrix

from leadline.analysis import analyse
from leadline.model.result import ResponseAnalysis

LONGER = matrix("some hundred simulated studies more")

NUMBERS = "slots of one number"


def analysed(system: SimulatedStrata, seed: int, instances: int = 4) -> ResponseAnalysis:
    plan = parallel_plan(instances, seed=seed)
    return analyse(plan, system.run(plan, seed), ["throughput"], verdicts_only=True).responses[0]


def width(found: ResponseAnalysis) -> float:
    """Of the first interval, as a log ratio."""
    interval = found.effects[0].interval
    assert interval is not None
    return math.log((100 + interval.high) / (100 + interval.low))


@pytest.mark.parametrize(("arrivals", "instances"), [(0.03, 4), (0.0, 4), pytest.param(0.03, 2, marks=LONGER)])
def test_intervals_hold_with_common_arrivals_and_without(arrivals: float, instances: int) -> None:
    system = SimulatedStrata(slot_cv=0.01, correlation=0.3, life_cv=0.005, arrivals_cv=arrivals)
    found = [analysed(system, seed, instances) for seed in range(50)]
    entered = sum(NUMBERS in one.model for one in found) / len(found)
    assert entered >= 0.9 if arrivals else entered <= 0.45
    missed = [
        any(e.simultaneous is not None and not e.simultaneous.low <= 0 <= e.simultaneous.high for e in one.effects)
        for one in found
    ]
    assert sum(missed) / len(missed) <= 0.12  # 0.05 and two Monte Carlo errors


def test_common_arrivals_are_not_noise() -> None:
    same = SimulatedStrata(slot_cv=0.001, correlation=0.0, arrivals_cv=0.03)
    own = SimulatedStrata(slot_cv=0.03, correlation=0.0)
    assert width(analysed(same, 1)) < width(analysed(own, 1)) / 10
