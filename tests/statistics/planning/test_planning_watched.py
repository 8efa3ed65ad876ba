"""A study that is looked at after every block keeps its error rate over all of them, and finds nearly as much."""

import math

import numpy as np
import pytest
from witnesses import matrix

from leadline.analysis.sequential import FEWEST, bounds
from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.model import distributions
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation
from leadline.planning.boundary import interim_of, shares_of
from leadline.planning.looks import State, final_level, look, schedule

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
    strict = interim_of(plan, seen, "throughput")
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


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("blocks", [4, 10, 40])
def test_of_20_000_studies_without_an_effect_5_in_100_are_ever_called(blocks: int, heavy: bool) -> None:
    """Paired differences, normal or with the tails of t3, looked at after every block."""
    random = np.random.default_rng(5)
    passed = ever_passed(random.standard_t(3, (20_000, blocks)) if heavy else random.normal(size=(20_000, blocks)))
    assert (0.02 if heavy else 0.045) < passed.mean() < 0.055


def test_a_fixed_plan_of_80_in_100_is_matched_by_1_25_times_its_blocks_at_most() -> None:
    """16 differences at 0.75 standard deviations: found by 20 at most, and by fewer than 16 on average."""
    random = np.random.default_rng(6)
    fixed, effect = 16, 0.75
    values = effect + random.normal(size=(20_000, fixed * 5 // 4))
    share_fixed = ratios(values[:, :fixed])[:, -1] > distributions.t.isf(0.025, fixed - 1)
    assert share_fixed.mean() == pytest.approx(0.8, abs=0.02)
    passed = passes(values)
    ends = np.where(passed.any(axis=1), passed.argmax(axis=1) + 1, values.shape[1])
    assert passed.any(axis=1).mean() > share_fixed.mean()
    assert ends.mean() < fixed


def ratios(values: np.ndarray) -> np.ndarray:
    """|t| of each study (rows) after each block but the first, which knows no noise and is 0."""
    numbers = np.arange(1, values.shape[1] + 1)
    total, squares = values.cumsum(axis=1), (values**2).cumsum(axis=1)
    rest = np.maximum(numbers * squares - total**2, 1e-12) / np.maximum(numbers - 1, 1)
    return np.where(numbers > 1, np.abs(total) / np.sqrt(rest), 0.0)


def passes(values: np.ndarray) -> np.ndarray:
    """Whether each study passes after each block."""
    blocks, law = values.shape[1], bounds(values.shape[1])
    nominal = np.array([law.nominal(number / blocks, 0.05) for number in range(1, blocks + 1)])
    limits = np.array([distributions.t.isf(p / 2, max(at, 1)) for at, p in enumerate(nominal)])
    return (ratios(values) > limits) & (np.arange(1, blocks + 1) >= FEWEST)


def ever_passed(values: np.ndarray) -> np.ndarray:
    return passes(values).any(axis=1)


@pytest.mark.parametrize("alpha", [0.2, 0.05, 0.004, 1e-5])
def test_a_p_value_over_all_looks_is_the_level_at_which_its_look_passes(alpha: float) -> None:
    law = bounds(12)
    for share in (0.25, 0.6, 1.0):
        assert law.overall(law.nominal(share, alpha), share) == pytest.approx(alpha, rel=2e-3)
    assert law.nominal(0.5, alpha) < law.nominal(1.0, alpha) < alpha


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


def test_watching_costs_little_and_more_than_looks() -> None:
    plan = make_plan(FACTORS, Design(replicates=10, sentinels=None))
    levels = [final_level(plan, looks) for looks in (1, 3, "watched")]  # type: ignore[arg-type]
    assert 0.95 == levels[0] < levels[1] < levels[2] < 0.98


def test_nothing_is_said_of_fewer_than_three_blocks() -> None:
    plan = make_plan(FACTORS, Design(replicates=6, sentinels=None))
    every = observed(plan, 1)
    assert shares_of(plan, [each for each in every if each.block < 2], "throughput") is None
    assert shares_of(plan, [each for each in every if each.block < 3], "throughput") == pytest.approx(0.5)


if __name__ == "__main__":
    import sys

    for ratio in (1.0, 3.0, 5.0):
        for drift in (0.0, 0.3):
            plan = make_plan(FACTORS, Design(replicates=8, sentinels=None))
            number = int(sys.argv[1])
            print(ratio, drift, np.mean([ever_missed(plan, seed, 1, ratio, drift) for seed in range(number)]))
