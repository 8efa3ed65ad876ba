"""The error rates of a gate: its fast simulation decides as the study does, and each part of the noise counts once."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from simulated_gate import observed, plan_of

from leadline.model.conditions import State, parse
from leadline.model.errors import FailureClass
from leadline.planning.boundary import judged
from leadline.planning.gating import GateRates, differences, ends_of, gate_rates, harm_to_find, log_harm

RESPONSES = ("throughput", "p99", "cpu_per_transaction")
CONDITIONS = parse(["cpu>3%", "throughput<-5%"], RESPONSES)


def rates_of(**noise: float) -> GateRates:
    plan = plan_of(20)
    rates = gate_rates(20, differences(plan, observed(plan, 1, **noise), CONDITIONS), CONDITIONS)
    assert rates is not None
    return rates


@pytest.mark.parametrize("seed", range(8))
def test_the_simulation_decides_as_the_study_itself(seed: int) -> None:
    plan = plan_of(12)
    rows = observed(plan, seed, trials=0.03, harm=0.02 * (seed % 4))
    broken, undecided = ends_of(differences(plan, rows, CONDITIONS)[None], CONDITIONS)
    states: list[State] = []
    for blocks in range(3, 13):
        states = [row.state for row in judged(plan, [row for row in rows if row.block < blocks], CONDITIONS)]
        if State.UNDECIDED not in states or State.BROKEN in states:
            break
    assert [state is State.BROKEN for state in states] == broken[0].tolist()
    assert [state is State.UNDECIDED for state in states] == undecided[0].tolist()


def test_what_both_sides_of_a_block_have_alike_is_no_noise() -> None:
    rates = rates_of(blocks=0.5)
    assert max(rates.noise) < 1e-9
    assert (rates.fail, rates.undecided) == (0.0, 0.0)
    assert [share for _, _, share in rates.found] == [1.0, 1.0]


def test_a_drift_counts_as_far_as_it_reaches_inside_a_block() -> None:
    assert max(rates_of(drift=0.2).noise) < 1.0, "percent: half of the drift from trial to trial"


def test_the_noise_of_trials_is_that_of_their_differences() -> None:
    for size in rates_of(trials=0.03).noise:
        assert size == pytest.approx(3 * math.sqrt(2), rel=0.4)
    found = [rates_of(trials=noise).found[0][2] for noise in (0.002, 0.03, 0.3)]
    assert all(more > less for more, less in pairwise(found)), found


def test_conditions_that_vary_together_are_simulated_together() -> None:
    rows = np.random.default_rng(2).normal(0, 0.04, (50, 1))
    conditions = parse(["cpu>0%", "p99>0%"], RESPONSES)
    alike = gate_rates(20, np.hstack([rows, rows]), conditions, 4000)
    alone = gate_rates(20, rows, conditions[:1], 4000)
    assert alike is not None
    assert alone is not None
    assert alike.fail == pytest.approx(alone.fail, abs=0.002)


def test_blocks_without_both_sides_count_for_nothing() -> None:
    plan = plan_of(6)
    rows = observed(plan, 1, trials=0.01)
    rows[3] = replace(rows[3], failure=FailureClass.WORKLOAD, responses={})
    assert len(differences(plan, rows, CONDITIONS)) == 5
    assert gate_rates(6, differences(plan, rows[:4], CONDITIONS), CONDITIONS) is None, "too few to tell the noise"


@pytest.mark.parametrize(
    ("text", "effect"),
    [("cpu>3%", 5.0), ("cpu>5%", 10.0), ("p99>80%", 120.0), ("throughput<-5%", 10.0), ("throughput<-90%", 95.0)],
)
def test_a_harm_is_told_that_is_well_beyond_the_margin(text: str, effect: float) -> None:
    (condition,) = parse([text], RESPONSES)
    assert harm_to_find(condition) == effect
    assert log_harm(condition, effect) > log_harm(condition, condition.margin or 0.0)
