"""Equivalence, false discovery, shrinkage, ranks, confirmation, failures, wash-out, screening: on known truth."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from simulated_strata import SimulatedStrata
from simulated_study import SimulatedSystem, pseudo_factors
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_ind

from leadline.analysis.carry import SlotSeries, estimate
from leadline.analysis.comparisons import pseudo_error
from leadline.analysis.failures import clopper_pearson
from leadline.analysis.robust import _mann_whitney, shift
from leadline.analysis.selection import q_values, shrunken, spread_of_truth
from leadline.analysis.steady import steady_verdict
from leadline.analysis.study import analyse
from leadline.analysis.table import Scale, equivalence_p
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.errors import FailureClass
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.result import Verdict

Floats = NDArray[np.float64]
PLAN = make_plan(pseudo_factors(5), Design(replicates=6))


def test_a_level_without_effect_is_told_to_make_no_difference() -> None:
    system = SimulatedSystem(cv=0.004, effects={("pseudo1", "b"): 1.01, ("pseudo2", "b"): 1.2})
    result = analyse(PLAN, system.run(PLAN, 1), ["throughput"])
    effects = {effect.factor: effect for effect in result.responses[0].effects}
    assert effects["pseudo3"].verdict is Verdict.EQUIVALENT
    assert effects["pseudo3"].reason == "within 2 %"
    assert effects["pseudo3"].equivalence_p is not None
    assert effects["pseudo3"].equivalence_p < 0.025
    assert effects["pseudo1"].verdict is Verdict.BETTER
    assert effects["pseudo1"].reason == "but less than 2 %"
    assert effects["pseudo2"].verdict is Verdict.BETTER
    none = analyse(PLAN, system.run(PLAN, 1), ["throughput"], equivalence_margin=None).responses[0]
    assert {effect.verdict for effect in none.effects} == {Verdict.BETTER, Verdict.UNDETERMINED}


def test_an_effect_of_the_margins_size_is_seldom_called_equivalent() -> None:
    system = SimulatedSystem(cv=0.01, effects={("pseudo1", "b"): 1.02})
    called = 0
    for seed in range(60):
        effects = analyse(PLAN, system.run(PLAN, seed), ["throughput"]).responses[0].effects
        called += next(effect for effect in effects if effect.factor == "pseudo1").verdict is Verdict.EQUIVALENT
    assert called <= 4  # 1.5 are expected, the two-sided level being halved


def test_two_one_sided_tests_agree_with_statsmodels() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(101, 2, 9), rng.normal(100, 2, 9)
    theirs, _, _ = ttost_ind(one, other, -3.0, 3.0)
    error = math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 9)
    ours = equivalence_p(Scale(False, 100.0), float(one.mean() - other.mean()), error, 16, 3.0)
    assert ours == pytest.approx(float(theirs), rel=1e-9)
    assert equivalence_p(Scale(False, 0.0), 1.0, 1.0, 5, 2.0) is None


@pytest.mark.parametrize("margin", [0.0, -1.0, 100.0])
def test_a_margin_must_be_a_percentage(margin: float) -> None:
    with pytest.raises(ValueError, match="equivalence margin"):
        analyse(PLAN, [], ["throughput"], equivalence_margin=margin)


def test_q_values_agree_with_statsmodels() -> None:
    p_values = np.random.default_rng(5).uniform(0, 1, 40) ** 3
    theirs = multipletests(p_values, method="fdr_bh")[1]
    assert q_values(p_values) == pytest.approx(theirs, rel=1e-12)


def test_false_discoveries_are_five_percent_of_discoveries() -> None:
    plan = make_plan(pseudo_factors(20), Design(replicates=3))
    real = {f"pseudo{number}" for number in range(1, 11)}
    system = SimulatedSystem(effects={(name, "b"): 1.15 for name in real})
    shares, counts = [], []
    for seed in range(25):
        effects = analyse(plan, system.run(plan, seed), ["throughput"]).responses[0].effects
        found = [effect.factor for effect in effects if effect.q_value is not None and effect.q_value < 0.05]
        shares.append(sum(name not in real for name in found) / max(1, len(found)))
        counts.append(len(found))
    assert np.mean(counts) >= 3
    assert float(np.mean(shares)) < 0.05


def test_shrunken_estimates_are_nearer_to_the_truth_and_unbiased_by_selection() -> None:
    """True effects N(0, 2), errors N(0, 3) with a shared baseline: best of 30."""
    rng = np.random.default_rng(6)
    covariance = 9 * (0.5 * np.eye(30) + 0.5)
    raw, ours, bias = [], [], []
    for _ in range(300):
        truth = rng.normal(0, 2, 30)
        seen = rng.multivariate_normal(truth, covariance)
        drawn = shrunken(seen, covariance)
        raw.append(float(np.mean((seen - truth) ** 2)))
        ours.append(float(np.mean((drawn - truth) ** 2)))
        best = int(np.argmax(drawn))
        bias.append((seen[best] - truth[best], drawn[best] - truth[best]))
    assert np.mean(ours) < 0.5 * np.mean(raw)
    winner, honest = np.mean(bias, axis=0)
    assert winner > 1.5
    assert abs(honest) < 0.3


def test_no_spread_means_no_effect_is_left() -> None:
    assert spread_of_truth(np.array([0.1, -0.2, 0.1]), np.eye(3)) == 0.0
    assert shrunken(np.array([0.1, -0.2, 0.1]), np.eye(3)) == pytest.approx([0, 0, 0])


@pytest.mark.parametrize(("one", "other"), [(1, 1), (2, 3), (3, 3), (4, 6)])
def test_the_law_of_ranks_is_that_of_all_arrangements(one: int, other: int) -> None:
    counts = np.zeros(one * other + 1)
    for chosen in itertools.combinations(range(one + other), one):
        counts[sum(place - index for index, place in enumerate(chosen))] += 1
    assert _mann_whitney(one, other) == pytest.approx(counts / counts.sum(), abs=1e-12)


def test_rank_interval_of_one_stratum_is_the_published_one() -> None:
    """Two samples: order statistics of the differences at the Mann-Whitney quantile, SciPy's exact p value agrees."""
    rng = np.random.default_rng(8)
    one, other = rng.standard_t(2, 8) + 1, rng.standard_t(2, 9)
    values, treated = np.concatenate([one, other]), np.repeat([1, 0], [8, 9])
    moved = shift(values, treated, np.zeros(17, dtype=np.int64), (0.95,))
    assert moved is not None
    assert moved.estimate == pytest.approx(float(np.median(np.subtract.outer(one, other))))
    assert moved.intervals[0] is not None
    for end, beyond in zip(moved.intervals[0], (-1e-9, 1e-9), strict=True):
        outside = stats.mannwhitneyu(one - end - beyond, other, method="exact").pvalue
        inside = stats.mannwhitneyu(one - end + beyond, other, method="exact").pvalue
        assert outside <= 0.05 < inside


def test_rank_intervals_cover_with_heavy_tails_and_too_few_trials_have_none() -> None:
    rng = np.random.default_rng(9)
    strata = np.repeat(np.arange(4), 6)
    treated = np.tile([1, 1, 1, 0, 0, 0], 4)
    inside = 0
    for _ in range(400):
        moved = shift(rng.standard_t(1.5, 24) + 0.7 * treated + strata, treated, strata, (0.95,))
        assert moved is not None
        assert moved.intervals[0] is not None
        inside += moved.intervals[0][0] <= 0.7 <= moved.intervals[0][1]
    assert 0.93 < inside / 400 < 0.985
    few = shift(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 0, 1, 0]), np.array([0, 0, 1, 1]), (0.95,))
    assert few is not None
    assert few.intervals == (None,)
    assert shift(np.array([1.0]), np.array([1]), np.array([0]), (0.95,)) is None


def test_a_single_wild_trial_makes_ranks_and_model_disagree() -> None:
    plan = make_plan(pseudo_factors(1), Design(replicates=12, sentinels=2))
    seen = SimulatedSystem(effects={("pseudo1", "b"): 1.2}, cv=0.03).run(plan, 3, "p99")
    wild = next(index for index, one in enumerate(seen) if one.treatment["pseudo1"] == "a")
    seen[wild] = dataclasses.replace(seen[wild], responses={"p99": seen[wild].responses["p99"] * 30})
    result = analyse(plan, seen, ["p99"])
    effect = result.responses[0].effects[0]
    assert effect.robust is not None
    assert effect.robust.percent == pytest.approx(20, abs=6)
    assert effect.robust.simultaneous is not None
    assert effect.robust.simultaneous.low > 0
    assert effect.verdict is Verdict.UNDETERMINED
    assert any("ranks and model disagree about pseudo1=b" in warning for warning in result.warnings)


@pytest.mark.parametrize("kind", ["one-at-a-time", "full-factorial"])
def test_ranks_are_exact_or_not_given(kind: str) -> None:
    """Beside other factors: a level's own trials and the baseline's; none in crossed designs (80 to 93 % before)."""
    plan = make_plan(pseudo_factors(3), Design(kind=kind, replicates=8, sentinels=None))
    covered = []
    for seed in range(60):
        system = SimulatedSystem(effects={("pseudo2", "b"): 1.4}, cv=0.3, block_cv=0.5)
        for effect in analyse(plan, system.run(plan, seed, "p99"), ["p99"]).responses[0].effects:
            assert (effect.robust is None) == (kind == "full-factorial")
            if effect.robust is not None and effect.robust.interval is not None:
                covered.append(effect.robust.interval.contains(40.0 if effect.factor == "pseudo2" else 0.0))
    assert not covered or np.mean(covered) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 60)
    assert bool(covered) == (kind == "one-at-a-time")


@pytest.mark.parametrize(("failed", "trials", "low", "high"), [(0, 10, 0.0, 0.3085), (1, 10, 0.0025, 0.4450)])
def test_exact_intervals_are_the_published_ones(failed: int, trials: int, low: float, high: float) -> None:
    interval = clopper_pearson(failed, trials)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)


def test_a_failing_setting_is_a_result() -> None:
    plan = make_plan(pseudo_factors(3), Design(replicates=10))
    seen = SimulatedSystem(failing={("pseudo2", "b"): 0.9}).run(plan, 1)
    seen = [
        dataclasses.replace(one, responses={}, failure=FailureClass.INFRASTRUCTURE)
        if one.treatment["pseudo1"] == "b"
        else one
        for one in seen
    ]
    result = analyse(plan, seen, ["throughput"])
    assert [rate.factor for rate in result.failing] == ["pseudo2"]  # a lost network is not the setting's fault
    rate = result.failing[0]
    assert rate.worse
    assert rate.interval.contains(0.9)
    assert rate.classes == {"configuration": rate.failed}
    assert rate.p_adjusted is not None


def slot_series(seed: int, constant: float, effect: float, count: int = 24, length: int = 12) -> list[SlotSeries]:
    rng = np.random.default_rng(seed)
    sizes = {"a": 0.0, "b": effect, "c": -effect / 2}
    order = [str(name) for _ in range(count // 3) for name in rng.permutation(list(sizes))]
    found, noise, level, before = [], 0.0, sizes[order[0]], None
    for name in order:
        values = []
        for _ in range(length):
            level = sizes[name] + (level - sizes[name]) * (math.exp(-1 / constant) if constant else 0.0)
            noise = 0.3 * noise + 0.95 * 0.03 * float(rng.normal())
            values.append(500 * math.exp(level + noise))
        found.append(SlotSeries(tuple(values), before, name))
        before = name
    return found


@pytest.mark.parametrize("constant", [1.0, 2.0, 3.0])
def test_the_wash_out_is_recovered(constant: float) -> None:
    found = [estimate(slot_series(seed, constant, 0.2, 36)) for seed in range(20)]
    assert all(one.detected for one in found)
    assert np.median([one.time_constant or 0.0 for one in found]) == pytest.approx(constant, rel=0.12)
    assert np.median([one.seconds or 0.0 for one in found]) == pytest.approx(constant * math.log(10), abs=1.0)


@pytest.mark.parametrize("effect", [0.0, 0.1])
def test_no_wash_out_is_seen_where_there_is_none(effect: float) -> None:
    found = [estimate(slot_series(seed, 0.0, effect)) for seed in range(150)]
    assert np.mean([one.detected for one in found]) < 0.05 + 4 * 0.0178
    assert all(one.seconds == 0.0 for one in found if not one.detected)


def test_a_wash_out_needs_slots() -> None:
    assert estimate([]).seconds is None
    few = estimate(slot_series(1, 1.0, 0.2, 3))
    assert few.seconds is None
    assert "cannot be estimated" in few.sentence
    assert estimate([SlotSeries((5.0,) * 8, "a", "b"), SlotSeries((5.0,) * 8, "b", "a")] * 5).seconds is None


def test_lenths_pseudo_error_by_hand() -> None:
    """Five small contrasts and two active ones: 1.5 times their median is 0.6, contrasts of 1.5 and more are left out,
    and 1.5 times the median of the others is the pseudo standard error.
    """
    contrasts = np.array([[0.1, -0.2, 0.3, -0.4, 0.5, 8.0, -9.0]])
    assert pseudo_error(contrasts)[0] == pytest.approx(0.45)


def screening(columns: Floats, replicates: int, kind: str) -> tuple[Plan, list[Factor]]:
    factors = pseudo_factors(columns.shape[1])
    trials: list[PlannedTrial] = []
    for block in range(replicates):
        for row in columns:
            levels = {factor.name: "ab"[int(code > 0)] for factor, code in zip(factors, row, strict=True)}
            trials.append(PlannedTrial(len(trials), block, block, Role.TREATMENT, Treatment.of(levels), 1))
    return Plan(kind, 1, tuple(factors), tuple(trials)), factors


def full(count: int) -> Floats:
    return np.array(list(itertools.product([-1.0, 1.0], repeat=count)))


def half_fraction() -> Floats:
    """2^(4-1) of resolution IV: D = ABC."""
    base = full(3)
    return np.column_stack([base, base.prod(axis=1)])


def test_unreplicated_screening_finds_the_active_factors_and_errs_as_stated() -> None:
    """2^(7-4): saturated, so that the noise comes from the effects (Lenth)."""
    base = full(3)
    a, b, c = base.T
    plan, _ = screening(np.column_stack([a, b, c, a * b, a * c, b * c, a * b * c]), 1, "fractional-factorial")
    wrong = 0
    for seed in range(120):
        result = analyse(plan, SimulatedSystem(block_cv=0.0).run(plan, seed), ["throughput"]).responses[0]
        wrong += any(effect.verdict in (Verdict.BETTER, Verdict.WORSE) for effect in result.effects)
    assert 0.005 < wrong / 120 < 0.05 + 4 * 0.02
    system = SimulatedSystem(block_cv=0.0, cv=0.02, effects={("pseudo3", "b"): 1.5})
    result = analyse(plan, system.run(plan, 1), ["throughput"]).responses[0]
    assert result.effects[0].factor == "pseudo3"
    assert result.effects[0].verdict is Verdict.BETTER
    assert any("Lenth" in note for note in result.notes)


def test_aliases_of_resolution_four_and_three_are_named() -> None:
    plan, _ = screening(half_fraction(), 2, "fractional-factorial")
    notes = " ".join(analyse(plan, SimulatedSystem().run(plan, 1), ["throughput"]).responses[0].notes)
    for chain in ("pseudo1 x pseudo2 = pseudo3 x pseudo4", "pseudo1 x pseudo4 = pseudo2 x pseudo3"):
        assert chain in notes
    assert "Aliased" not in notes
    base = full(2)
    three, _ = screening(np.column_stack([base, base.prod(axis=1)]), 3, "fractional-factorial")
    notes = " ".join(analyse(three, SimulatedSystem().run(three, 1), ["throughput"]).responses[0].notes)
    assert "pseudo3 = pseudo1 x pseudo2" in notes


def test_screening_effects_are_averages_over_the_other_factors() -> None:
    plan, _ = screening(half_fraction(), 4, "fractional-factorial")
    system = SimulatedSystem(effects={("pseudo1", "b"): 1.2, ("pseudo4", "b"): 0.9}, cv=0.01)
    result = analyse(plan, system.run(plan, 1), ["throughput"]).responses[0]
    found = {effect.factor: effect for effect in result.effects}
    assert found["pseudo1"].percent == pytest.approx(20, abs=1.5)
    assert found["pseudo4"].percent == pytest.approx(-10, abs=1.5)
    assert found["pseudo2"].verdict in (Verdict.UNDETERMINED, Verdict.EQUIVALENT)


def test_estimable_interactions_of_resolution_five_are_in_the_model() -> None:
    base = full(4)
    plan, _ = screening(np.column_stack([base, base.prod(axis=1)]), 2, "fractional-factorial")
    together = frozenset({("pseudo1", "b"), ("pseudo2", "b")})
    system = SimulatedSystem(crossed={together: 1.3}, cv=0.02)
    result = analyse(plan, system.run(plan, 1), ["throughput"]).responses[0]
    found = {effect.factor: effect for effect in result.interactions}
    assert found["pseudo1 x pseudo2"].verdict is Verdict.BETTER
    assert found["pseudo1 x pseudo2"].percent == pytest.approx(30, abs=5)
    assert "10 of 10" in " ".join(result.notes)


def test_a_screening_study_without_a_baseline_trial_is_still_analysed() -> None:
    plan, _ = screening(half_fraction(), 3, "fractional-factorial")
    seen = [one for one in SimulatedSystem().run(plan, 1) if one.treatment != plan.baseline]
    result = analyse(plan, seen, ["throughput"]).responses[0]
    assert result.reason == ""
    assert result.baseline_mean is None
    assert all(effect.interval is not None for effect in result.effects)


def test_a_trial_is_steady_only_if_its_tail_is() -> None:
    rng = np.random.default_rng(2)
    flat = 500 + 5 * rng.normal(size=300)
    rising = np.linspace(20, 60, 300) * np.exp(0.05 * rng.normal(size=300))
    late = np.where(np.arange(300) < 90, 40.0, 20.0) * np.exp(0.03 * rng.normal(size=300))
    assert steady_verdict(list(flat), list(20 + rng.normal(size=300))).verdict == "steady"
    worse = steady_verdict(list(flat), list(rising))
    assert (worse.verdict, worse.cut) == ("slowing-down", None)
    assert worse.sentence.startswith("Tail latency: Slowing down")
    cut = steady_verdict(list(flat), list(late))
    assert cut.verdict == "steady"
    assert cut.cut == pytest.approx(90, abs=5)
    wild = steady_verdict(list(flat), list(np.exp(2 * rng.normal(size=300))))
    assert wild.verdict == "steady"
    assert steady_verdict([1.0] * 3, [1.0] * 3).verdict == "too-short"


@pytest.mark.parametrize("blocks", ["latin", "williams"])
def test_a_place_effect_that_a_square_balances_neither_biases_nor_widens(blocks: str) -> None:
    """The first trial of each block loses 30 %, the second 10 %: estimates and intervals stay what they were."""
    plan = make_plan(pseudo_factors(1, 4), Design.model_validate({"blocks": blocks, "replicates": 4}))
    plain = SimulatedStrata(block_cv=0.02, trial_cv=0.03)
    planted = dataclasses.replace(plain, places=(-0.36, -0.1, 0.0, 0.0))
    for seed in range(3):
        one, other = (analyse(plan, system.run(plan, seed), ["throughput"]).responses[0] for system in (plain, planted))
        assert "places in a block" in one.model
        for before, after in zip(one.effects, other.effects, strict=True):
            assert before.level == after.level
            assert before.interval is not None
            assert after.interval is not None
            assert after.percent == pytest.approx(before.percent, abs=1e-6)
            assert after.interval.low == pytest.approx(before.interval.low, abs=1e-6)
