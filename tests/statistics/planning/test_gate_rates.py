"""A gate on changes that change nothing, and on a planted harm, by the study's own analysis after every block."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_gate import observed, plan_of

from leadline.model.conditions import State, parse
from leadline.planning.boundary import judged
from leadline.planning.gating import differences, gate_rates

pytestmark = pytest.mark.slow

PULLS, BLOCKS = 100, 8
RESPONSES = ("throughput", "cpu_per_transaction")


def ends(seed: int, texts: list[str], harm: float) -> list[State]:
    """The states with which one gate ends."""
    plan, conditions = plan_of(BLOCKS), parse(texts, RESPONSES)
    rows = observed(plan, seed, blocks=0.1, trials=0.01, drift=0.2, harm=harm)
    states: list[State] = []
    for blocks in range(3, BLOCKS + 1):
        states = [row.state for row in judged(plan, [row for row in rows if row.block < blocks], conditions)]
        if State.UNDECIDED not in states or State.BROKEN in states:
            break
    return states


def test_at_most_one_in_twenty_changes_of_nothing_fails() -> None:
    """Margins of 0: with any other fewer fail."""
    failed = sum(State.BROKEN in ends(seed, ["cpu>0%", "throughput<0%"], 0.0) for seed in range(PULLS))
    assert failed / PULLS <= 0.05, failed


def test_the_simulation_tells_how_often_a_harm_is_found() -> None:
    (condition,) = parse(["cpu>3%"], RESPONSES)
    found = np.mean([ends(seed, ["cpu>3%"], np.log(1.05)) == [State.BROKEN] for seed in range(PULLS // 2)])
    plan = plan_of(400)
    rows = observed(plan, 1, blocks=0.1, trials=0.01)
    rates = gate_rates(BLOCKS, differences(plan, rows, [condition]), [condition])
    assert rates is not None
    assert abs(rates.found[0][2] - found) < 0.2, (rates.found, found)
