"""Noise recovered from planted components: seconds, trials, blocks; and where to repeat."""

import math

import numpy as np
import pytest
from simulated_study import SimulatedSystem, pseudo_factors

from leadline.design.make import make_plan
from leadline.layouts import switchback_plan
from leadline.model.design import Design, Switchback
from leadline.model.result import Observation
from leadline.model.workload import Workload
from leadline.planning.layouts import advise, optimal_counts
from leadline.planning.noise import (
    Past,
    between_component,
    cv_of,
    difference_interval,
    integrated_time,
    measured,
    pooled,
    strata_of,
    variance_of,
    within_component,
)
from leadline.planning.wording import noise_lines


def autoregressive(rng: np.random.Generator, phi: float, length: int) -> np.ndarray:
    """A stationary series with unit innovations; its autocorrelation time is (1 + phi) / (1 - phi)."""
    values = np.empty(length)
    values[0] = rng.normal() / math.sqrt(1 - phi**2)
    for index, noise in enumerate(rng.normal(size=length - 1), 1):
        values[index] = phi * values[index - 1] + noise
    return values


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.75])
def test_autocorrelation_time_of_autoregressive_series(phi: float) -> None:
    rng = np.random.default_rng(3)
    truth, long_run = (1 + phi) / (1 - phi), 1 / (1 - phi) ** 2
    found = [integrated_time([autoregressive(rng, phi, 90) for _ in range(10)]) for _ in range(100)]
    times = [each.time for each in found if each is not None]
    assert len(times) == 100
    assert np.mean(times) == pytest.approx(truth, rel=0.08)
    assert np.mean([each.variance * each.time / 30 for each in found if each]) == pytest.approx(long_run / 30, rel=0.1)
    assert np.mean([each.interval.contains(truth) for each in found if each]) >= 0.85


def test_series_too_short_or_without_change_have_no_autocorrelation() -> None:
    assert integrated_time([np.ones(50)]) is None
    assert integrated_time([np.arange(5.0)]) is None
    assert integrated_time([]) is None


def test_components_of_simulated_studies_and_their_intervals() -> None:
    plan = make_plan(pseudo_factors(3), Design(replicates=4, sentinels=6))
    hits, blocks = np.zeros(2), []
    for seed in range(400):
        observations = SimulatedSystem(effects={("pseudo1", "b"): 1.3}, cv=0.04, block_cv=0.05).run(plan, seed)
        strata = strata_of(plan, observations, "throughput")
        assert strata is not None
        trial, block = within_component(strata), between_component(strata)
        assert block is not None
        hits += [trial.interval.contains(0.04**2), block.interval.contains(0.05**2)]
        blocks.append(block.variance)
    # three Monte Carlo errors of 95 % in 400 studies are 3.3 %
    assert hits / 400 == pytest.approx(0.95, abs=0.035)
    assert np.mean(blocks) == pytest.approx(0.05**2, rel=0.15)


def test_a_balanced_study_gives_the_analysis_of_variances_components() -> None:
    """Four blocks of three treatments: mean squares by hand."""
    plan = make_plan(pseudo_factors(2), Design(replicates=4, sentinels=None))
    observations = SimulatedSystem(cv=0.04, block_cv=0.1).run(plan, 7)
    strata = strata_of(plan, observations, "throughput")
    assert strata is not None
    values = np.zeros((4, 3))
    keys = sorted({each.treatment.key for each in observations})
    for each in observations:
        values[each.block, keys.index(each.treatment.key)] = math.log(each.responses["throughput"])
    centred = values - values.mean()
    blocks = 3 * np.sum(centred.mean(axis=1) ** 2)
    rest = np.sum(centred**2) - blocks - 4 * np.sum(centred.mean(axis=0) ** 2)
    assert strata.size == pytest.approx(3.0)
    assert (strata.between_df, strata.within_df) == (3, 6)
    assert (strata.between, strata.within) == pytest.approx((blocks, rest))


def test_interval_of_a_difference_of_mean_squares_covers() -> None:
    rng = np.random.default_rng(5)
    one, two = 3.0 * rng.chisquare(5, 1500) / 5, 1.0 * rng.chisquare(20, 1500) / 20
    covered = [
        low <= 2.0 <= high
        for low, high in (difference_interval(a, 5, b, 20, 0.95) for a, b in zip(one, two, strict=True))
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_coefficients_of_variation_and_variances_of_logarithms_are_inverse() -> None:
    assert cv_of(variance_of(4.3)) == pytest.approx(4.3)
    values = np.exp(np.random.default_rng(1).normal(0, math.sqrt(variance_of(20.0)), 400_000))
    assert 100 * values.std() / values.mean() == pytest.approx(20.0, rel=0.01)


def test_studies_taken_together_know_more() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=3, sentinels=None))
    runs = [SimulatedSystem(cv=0.04).run(plan, seed) for seed in (1, 2, 3)]
    strata = [found for each in runs if (found := strata_of(plan, each, "throughput"))]
    assert pooled(strata).within_df == 3 * strata[0].within_df
    past = [Past(f"s@{number}", plan, run, {}) for number, run in enumerate(runs)]
    noise = measured("throughput", past)
    assert noise is not None
    assert noise.trial is not None
    assert noise.trials == 27
    assert noise.trial.cv_interval.contains(4.0)
    assert noise.beyond is None
    assert noise.slot(5, 1) is None


def test_failed_and_single_trials_give_no_noise() -> None:
    plan = make_plan(pseudo_factors(2), Design(replicates=2, sentinels=None))
    assert measured("throughput", [Past("none", plan, (), {})]) is None
    assert measured("throughput", [Past("one", plan, SimulatedSystem().run(plan, 1)[:1], {})]) is None
    assert measured("p99", [Past("no figure", plan, SimulatedSystem().run(plan, 1), {})]) is None


def test_optimal_counts_are_the_cheapest_for_a_given_precision() -> None:
    variances, costs = (9.0, 1.0, 0.25), (1.0, 30.0, 200.0)
    counts = optimal_counts(variances, costs)
    assert counts == (math.ceil(math.sqrt(30 * 9)), math.ceil(math.sqrt(200 / 30 * 4)))

    def price(inner: int, middle: int) -> float:
        variance = variances[2] + variances[1] / middle + variances[0] / (middle * inner)
        return (costs[2] + middle * (costs[1] + inner * costs[0])) * variance

    # the formula leaves the inner level's cost out of the middle count, so the best product may be a little cheaper
    best = min(price(i, m) for i in range(1, 60) for m in range(1, 20))
    assert price(counts[0] or 0, counts[1] or 0) <= 1.1 * best
    assert optimal_counts((1.0, 0.0), (1.0, 10.0)) == (None,)
    assert optimal_counts((0.0, 1.0), (1.0, 10.0)) == (1,)


@pytest.mark.parametrize(
    ("second", "trial", "words"),
    [
        (0.01, 0.0016, "Longer trials would not help"),
        (1.0, 0.0001, "Longer trials help"),
        (0.02, 0.0, "worth as much as more of them"),
        (0.045, 0.0015, "about right"),
    ],
)
def test_advice_in_a_sentence(second: float, trial: float, words: str) -> None:
    advice = advise(second, trial, steady=30.0, overhead=30.0, shortest=5.0)
    assert words in advice.sentence
    assert 0 <= advice.share <= 1
    assert advice.best <= 1 + 1e-9


def test_noise_of_earlier_slots() -> None:
    """Trials that differ by 5 %, slots by 2 %: a plan in slots of twice the measured length has half the variance."""
    design = Design(replicates=4, switchback=Switchback(slot=10.0, wash_out=2.0), sentinels=None)
    plan = switchback_plan(pseudo_factors(2), design, Workload(users=5, ramp_up=10.0, steady=300.0))
    rng = np.random.default_rng(9)
    slots = [
        Observation(
            trial.position,
            trial.position,
            trial.block,
            trial.replicate,
            trial.role,
            slot.treatment,
            0.0,
            {"throughput": 100 * math.exp(between + rng.normal(0, 0.02))},
            slot=slot.index,
            seconds=8.0,
        )
        for trial in plan.trials
        for between in [rng.normal(0, 0.05)]
        for slot in trial.slots
    ]
    noise = measured("throughput", [Past("s@1", plan, (), {}, slots=slots)])
    assert noise is not None
    assert noise.trials == 4
    assert noise.slot_seconds == pytest.approx(8.0)
    assert noise.between_slots == pytest.approx(0.02**2, rel=0.25)
    assert noise.slot(18, 2) == pytest.approx(0.02**2 / 2, rel=0.25)
    assert noise.block is not None
    assert noise.block.cv_interval.contains(5.0)
    text = noise_lines(noise)[0]
    assert "from 4 trials with slots of s@1" in text
    assert "between slots of a trial, each measured for 8 s" in text
