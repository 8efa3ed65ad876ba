"""Confidence sequences: a study that is looked at after every trial keeps its error rate over all of them."""

import math

import numpy as np
import pytest
from witnesses import matrix

from leadline.analysis import analyse
from leadline.design import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation
from leadline.planning.looks import State, final_level, look, schedule
from leadline.planning.watched import NOTHING, Watched, watched

LONGER = matrix("some hundred simulated studies more")

FACTORS = [Factor(f"k{number}", (0, 1), 0) for number in range(3)]
STUDIES = 40


def observed(plan: Plan, seed: int, ratio: float = 1.0, drift: float = 0.0, gain: float = 0.0) -> list[Observation]:
    """Trials with blocks that differ by 5 %; k0=1 has the true effect ``gain`` (of logarithms) and ``ratio`` times the
    noise of 3 %; ``drift``: growth over the whole plan.
    """
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0.0, 0.05, 1 + plan.trials[-1].block)
    found = []
    for trial in plan.trials:
        treated = trial.treatment["k0"] == 1
        value = blocks[trial.block] + rng.normal(0.0, 0.03 * (ratio if treated else 1.0)) + gain * treated
        value += drift * trial.position / len(plan.trials)
        found.append(
            Observation(
                *(trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, trial.treatment),
                *(60.0 * trial.position, {"throughput": math.exp(value)}),
            )
        )
    return found


def misses(plan: Plan, seen: list[Observation], gain: float) -> bool:
    """Whether a simultaneous interval misses its truth at this moment."""
    found = watched(plan, seen, "throughput")
    strict = NOTHING if found is None else found.interim()
    effects = analyse(plan, seen, ["throughput"], verdicts_only=True, interim=lambda _: strict).responses[0].effects
    truth = {"k0": 100 * math.expm1(gain)}
    ranges = [(each.simultaneous, truth.get(each.factor, 0.0)) for each in effects]
    return any(interval is not None and not interval.contains(value) for interval, value in ranges)


def ever_missed(plan: Plan, seed: int, step: int, ratio: float, drift: float, gain: float = 0.0) -> bool:
    """Whether any interval misses its truth at any moment; looked at after every ``step`` trials."""
    every = observed(plan, seed, ratio, drift, gain)
    return any(misses(plan, every[:number], gain) for number in range(9, len(every) + 1, step))


@pytest.mark.parametrize(("ratio", "drift"), [pytest.param(1.0, 0.0, marks=LONGER), (5.0, 0.3)])
def test_all_intervals_hold_at_all_moments(ratio: float, drift: float) -> None:
    """Looked at after every third trial: at most 5 % of studies ever have an interval that misses the truth."""
    plan = make_plan(FACTORS, Design(replicates=8, sentinels=None))
    missed = np.mean([ever_missed(plan, seed, 3, ratio, drift, 0.04) for seed in range(STUDIES)])
    assert missed <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / STUDIES)


def test_the_boundary_is_robbins_mixture_and_crossed_in_5_percent() -> None:
    """A random walk of 2,000 steps, watched at every one, stays inside in 95 %; the bound is the mixture's."""
    plan = make_plan(FACTORS[:1], Design(replicates=4, sentinels=None))
    some = watched(plan, observed(plan, 1), "throughput")
    assert some is not None
    one = Watched(np.ones(1), some.law)
    steps = np.random.default_rng(5).normal(size=(4_000, 2_000)).cumsum(axis=1) / math.sqrt(2_000)
    shares = np.arange(1, 2_001) / 2_000
    bounds = np.array([one.bound(share) * math.sqrt(share) for share in shares])
    crossed = (np.abs(steps) > bounds).any(axis=1).mean()
    assert 0.02 < crossed <= 0.05
    rho = one._ratio(1.0)
    assert one.bound(0.3) == pytest.approx(math.sqrt((0.3 + rho) * math.log((0.3 + rho) / (rho * 0.05**2)) / 0.3))
    assert one.interim().repeated(1 - one.interim().level) == pytest.approx(0.05, rel=1e-3)


def test_a_large_effect_ends_a_watched_study_early_and_nothing_is_dropped() -> None:
    plan = make_plan(FACTORS[:1], Design(replicates=12, sentinels=None))
    blocks = schedule(plan, "watched")
    assert blocks == tuple(range(3, 13))
    every = observed(plan, 3, gain=0.3)
    for number, end in enumerate(blocks, 1):
        found = look(plan, [each for each in every if each.block < end], "throughput", blocks, number, watch=True)
        assert not found.drop
        if found.stop:
            break
    assert number < len(blocks)
    assert [each.state for each in found.settlings] == [State.BETTER]


def test_watching_costs_less_than_twice_the_width_and_more_than_looks() -> None:
    plan = make_plan(FACTORS, Design(replicates=10, sentinels=None))
    levels = [final_level(plan, looks) for looks in (1, 3, "watched")]  # type: ignore[arg-type]
    assert 0.95 == levels[0] < levels[1] < levels[2] < 0.9999


def test_nothing_is_said_of_fewer_than_three_blocks() -> None:
    plan = make_plan(FACTORS, Design(replicates=6, sentinels=None))
    every = observed(plan, 1)
    assert watched(plan, [each for each in every if each.block < 2], "throughput") is None
    assert watched(plan, [each for each in every if each.block < 3], "throughput") is not None


if __name__ == "__main__":
    import sys

    for ratio in (1.0, 3.0, 5.0):
        for drift in (0.0, 0.3):
            plan = make_plan(FACTORS, Design(replicates=8, sentinels=None))
            number = int(sys.argv[1])
            print(ratio, drift, np.mean([ever_missed(plan, seed, 1, ratio, drift) for seed in range(number)]))
