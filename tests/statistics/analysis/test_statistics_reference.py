"""Agreement with published tables, certified data sets and other programs."""

import math
from dataclasses import asdict

import numpy as np
import pandas
import pytest
import statsmodels.formula.api as smf
from nist_anova import SETS, anova, digits, reference
from numpy.typing import NDArray
from scipy import stats

from leadline.analysis.linear import detectable
from leadline.analysis.maxt import max_t
from leadline.analysis.selection import gain_of_luck, luck
from leadline.analysis.study import analyse
from leadline.analysis.table import Scale
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Role, Treatment
from leadline.model.result import Observation

Floats = NDArray[np.float64]

# Dunnett (1964), two-sided 5 % points, equal groups: degrees of freedom, treatments, critical value
DUNNETT = [
    (10, 2, 2.57),
    (10, 3, 2.76),
    (20, 1, 2.09),
    (20, 3, 2.54),
    (20, 5, 2.73),
    (20, 9, 2.95),
    (60, 3, 2.41),
    (60, 5, 2.58),
    (60, 9, 2.77),
]
# Dunnett (1955): blood counts of animals under no drug, drug A and drug B
BLOOD = {
    "none": [7.40, 8.50, 7.20, 8.24, 9.84, 8.32],
    "A": [9.76, 8.80, 7.68, 9.36],
    "B": [12.80, 9.68, 12.16, 9.20, 10.55],
}


def against_one(treatments: int, correlation: float = 0.5) -> Floats:
    matrix = np.full((treatments, treatments), correlation)
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(np.linalg.cholesky(matrix))


@pytest.mark.parametrize(("df", "treatments", "value"), DUNNETT)
def test_critical_values_are_dunnetts(df: int, treatments: int, value: float) -> None:
    assert max_t(against_one(treatments)).quantile(0.95, df) == pytest.approx(value, abs=0.0085)


@pytest.mark.parametrize(("groups", "df"), [(3, 8), (5, 20), (10, 30), (34, 60)])
def test_all_pairs_give_the_studentized_range(groups: int, df: int) -> None:
    unit = np.eye(groups)
    pairs = np.array([unit[i] - unit[j] for i in range(groups) for j in range(i)])
    ours = max_t(pairs).quantile(0.95, df) * math.sqrt(2)
    assert ours == pytest.approx(float(stats.studentized_range.ppf(0.95, groups, df)), rel=0.003)


def test_one_comparison_is_students_t() -> None:
    law = max_t(np.array([[2.0, 1.0]]))
    assert law.quantile(0.95, 7) == pytest.approx(float(stats.t.ppf(0.975, 7)), rel=1e-6)
    assert law.sf(1.5, 7) == pytest.approx(float(2 * stats.t.sf(1.5, 7)), rel=1e-6)


@pytest.mark.parametrize(("df", "value"), [(5, 2.2), (20, 2.6), (60, 3.1)])
def test_tails_agree_with_the_multivariate_t(df: int, value: float) -> None:
    """Unequal correlations, against SciPy's numerical multivariate t."""
    factor = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [-0.2, 0.5, 0.84261498]])
    inside = stats.multivariate_t(shape=factor @ factor.T, df=df, allow_singular=True, seed=1)
    box = float(inside.cdf([value] * 3, lower_limit=[-value] * 3, maxpts=400_000))
    assert max_t(factor).sf(value, df) == pytest.approx(1 - box, abs=0.001)


def test_the_best_of_33_by_luck() -> None:
    """Study A's reference: 33 settings of three replicates at a CV of 4.32 % gain 5.19 % by luck alone."""
    assert max_t(np.eye(33), two_sided=False).mean_normal() == pytest.approx(2.083, abs=0.004)
    assert gain_of_luck(33, 4.32, 3)[0] == pytest.approx(5.19, abs=0.01)
    assert gain_of_luck(33, 3.18, 3)[0] == pytest.approx(3.825, abs=0.01)
    exact = float(stats.norm.ppf(0.95 ** (1 / 33))) * 4.32 / math.sqrt(3)
    assert gain_of_luck(33, 4.32, 3)[1] == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize("higher", [True, False])
def test_luck_is_in_the_direction_that_is_better(higher: bool) -> None:
    """20,000 null studies of four levels at a noise of 40 %: one in twenty has a best gain above the 95th percentile.
    Where less is better that is a fall, which is never one of 100 %.
    """
    root = np.column_stack([np.eye(4), -np.ones(4)]) / math.sqrt(3)
    found = luck(Scale(True, 1.0), root, 0.4, 10**7, higher)
    assert found is not None
    contrasts = 0.4 * np.random.default_rng(5).standard_normal((20_000, 5)) @ root.T
    gains = 100 * np.expm1(contrasts if higher else -contrasts) * (1 if higher else -1)
    assert float(np.mean(gains.max(axis=1) > found.gain_95)) == pytest.approx(0.05, abs=0.006)
    assert 0 < found.expected_gain < found.gain_95
    assert higher == (found.gain_95 > 60)


@pytest.mark.parametrize("name", SETS)
def test_nist_certified_values_of_anova(name: str) -> None:
    """Right digits: nearly all; where leading digits are constant, as many less, and at least two of thirteen."""
    known = reference(name)
    found, certified = asdict(anova(known.groups, known.values)), asdict(known.certified)
    least = {1: 12.0, 3: 12.0, 7: 9.0, 13: 2.0}[SETS[name]]
    assert {key for key in certified if digits(found[key], certified[key]) < least} == set()


def test_blood_counts_agree_with_scipy_and_the_published_conclusion() -> None:
    """One block, unequal group sizes. Values go in as exponentials, so the log scale is the original one."""
    factor = Factor("drug", ("none", "A", "B"), "none")
    plan = make_plan([factor], Design(replicates=6, sentinels=None))
    observations = []
    for drug, counts in BLOOD.items():
        for count in counts:
            number = len(observations)
            role = Role.BASELINE if drug == "none" else Role.TREATMENT
            treatment = Treatment.of({"drug": drug})
            value = {"throughput": math.exp(count)}
            observations.append(Observation(number, number, 0, 0, role, treatment, 0.0, value))
    effects = {
        effect.level: effect
        for effect in analyse(plan, observations, ["throughput"], equal_noise=True).responses[0].effects
    }
    theirs = stats.dunnett(
        np.array(BLOOD["A"]), np.array(BLOOD["B"]), control=np.array(BLOOD["none"]), rng=np.random.default_rng(1)
    )
    limits = theirs.confidence_interval(0.95)
    for number, drug in enumerate(("A", "B")):
        effect = effects[drug]
        assert effect.p_adjusted == pytest.approx(float(theirs.pvalue[number]), abs=0.002)
        assert effect.simultaneous is not None
        assert math.log1p(effect.simultaneous.low / 100) == pytest.approx(float(limits.low[number]), abs=0.03)
        assert math.log1p(effect.simultaneous.high / 100) == pytest.approx(float(limits.high[number]), abs=0.03)
    assert (effects["A"].verdict.value, effects["B"].verdict.value) == ("undetermined", "better")


def test_blocked_study_with_a_lost_trial_agrees_with_statsmodels() -> None:
    factors = [Factor("a", (1, 2, 3), 1), Factor("b", ("x", "y"), "x")]
    plan = make_plan(factors, Design(replicates=4, sentinels=3))
    rng = np.random.default_rng(4)
    rows = [t for t in plan.trials if t.position != 7]
    values = np.exp(rng.normal(5, 0.1, len(rows)) + 0.05 * np.array([t.block for t in rows]))
    observations = [
        Observation(t.position, t.position, t.block, t.replicate, t.role, t.treatment, 0.0, {"p99": float(value)})
        for t, value in zip(rows, values, strict=True)
    ]
    frame = pandas.DataFrame(
        {
            "y": np.log(values),
            "a": [str(t.treatment["a"]) for t in rows],
            "b": [str(t.treatment["b"]) for t in rows],
            "block": [str(t.block) for t in rows],
        }
    )
    theirs = smf.ols("y ~ C(a) + C(b) + C(block)", frame).fit()
    ours = {(e.factor, e.level): e for e in analyse(plan, observations, ["p99"], equal_noise=True).responses[0].effects}
    for key, name in {("a", 2): "C(a)[T.2]", ("a", 3): "C(a)[T.3]", ("b", "y"): "C(b)[T.y]"}.items():
        effect = ours[key]
        low, high = theirs.conf_int().loc[name]
        assert effect.percent is not None
        assert effect.interval is not None
        assert math.log1p(effect.percent / 100) == pytest.approx(theirs.params[name], rel=1e-9)
        assert effect.p_value == pytest.approx(theirs.pvalues[name], rel=1e-8)
        assert math.log1p(effect.interval.low / 100) == pytest.approx(low, rel=1e-8)
        assert math.log1p(effect.interval.high / 100) == pytest.approx(high, rel=1e-8)


def test_detectable_effect_has_the_power_it_says() -> None:
    shift = detectable(2.9, 1.0, 12)
    rng = np.random.default_rng(2)
    statistics = (rng.normal(shift, 1, 200_000)) / np.sqrt(rng.chisquare(12, 200_000) / 12)
    assert float(np.mean(statistics > 2.9)) == pytest.approx(0.8, abs=0.004)
