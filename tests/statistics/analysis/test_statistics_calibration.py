"""The analysis is right as often as it says: coverage, family-wise error, power, luck, on simulated studies."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from simulated_study import SimulatedSystem, pseudo_factors

from leadline.analysis.columns import Model, fitted_with_strata
from leadline.analysis.linear import Fit
from leadline.analysis.maxt import max_t
from leadline.analysis.study import analyse
from leadline.analysis.table import Sample, StudyTable, sample_of
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Verdict

Floats = NDArray[np.float64]
STUDIES = 20_000  # Monte Carlo error of a rate of 5 %: 0.15 %

PLANS = {
    "five pseudo-factors": make_plan(pseudo_factors(5), Design(replicates=3)),
    "one replicate": make_plan(pseudo_factors(4, 3), Design(replicates=1, sentinels=3)),
    "33 settings": make_plan(pseudo_factors(11, 4), Design(replicates=3)),
    "full factorial": make_plan(pseudo_factors(3), Design(kind="full-factorial", replicates=2)),
}


def prepared(plan: Plan) -> tuple[StudyTable, Sample, Model, Fit]:
    """With one noise for all levels, as under interim analyses; unequal ones: test_statistics_unequal.py."""
    table = replace(StudyTable.of(plan, SimulatedSystem().run(plan, 1), plain_level), equal_noise=True)
    sample, _ = sample_of(table, "throughput")
    return table, sample, *fitted_with_strata(table, sample, np.log(sample.values), timed=False)[:2]


def many_studies(plan: Plan, truth: Floats | None = None) -> tuple[Floats, Floats, Fit, Floats]:
    """(t statistics (k, STUDIES), errors in standard errors, fit, contrasts) of studies with block changes of 5 % and
    noise of 4 % and, in ``truth`` (k), effects on the log scale.
    """
    _, sample, model, fit = prepared(plan)
    design = model.rows(sample)
    contrasts = np.array([model.effect(main) for main in model.mains])
    rng = np.random.default_rng(11)
    blocks = rng.normal(0, 0.05, (max(sample.blocks) + 1, STUDIES))
    values = blocks[sample.blocks] + rng.normal(0, 0.04, (len(design), STUDIES))
    offset = len(model.blocks)
    effects = np.zeros(len(contrasts)) if truth is None else truth
    values += (design[:, offset : offset + len(effects)] @ effects)[:, None]
    beta = fit.half @ (fit.half.T @ (design.T @ values))
    residuals = values - design @ beta
    sigma = np.sqrt((residuals**2).sum(axis=0) / fit.df)
    error = np.linalg.norm(fit.scatter(contrasts), axis=1)[:, None] * sigma
    return (contrasts @ beta) / error, (contrasts @ beta - effects[:, None]) / error, fit, contrasts


@pytest.mark.parametrize("name", sorted(PLANS))
def test_plain_intervals_cover_95_percent(name: str) -> None:
    _, off, fit, _ = many_studies(PLANS[name], np.full(len(prepared(PLANS[name])[2].mains), 0.03))
    covered = float(np.mean(np.abs(off) <= stats.t.ppf(0.975, fit.df)))
    assert 0.945 < covered < 0.955


@pytest.mark.parametrize("name", sorted(PLANS))
def test_family_wise_error_is_five_percent(name: str) -> None:
    ratios, _, fit, contrasts = many_studies(PLANS[name])
    critical = max_t(fit.scatter(contrasts)).quantile(0.95, fit.df)
    found = float(np.mean(np.max(np.abs(ratios), axis=0) > critical))
    assert 0.045 < found < 0.055


@pytest.mark.parametrize("name", ["five pseudo-factors", "33 settings"])
def test_the_best_by_luck_stays_below_its_95th_percentile(name: str) -> None:
    ratios, _, fit, contrasts = many_studies(PLANS[name])
    best = max_t(fit.scatter(contrasts), two_sided=False)
    assert 0.045 < float(np.mean(np.max(ratios, axis=0) > best.quantile(0.95, fit.df))) < 0.055


@pytest.mark.parametrize("name", ["five pseudo-factors", "full factorial"])
def test_groups_split_equal_treatments_in_five_percent_of_studies(name: str) -> None:
    """Tukey-Kramer over all treatments, the baseline among them."""
    table, sample, model, fit = prepared(PLANS[name])
    rows = np.array([model.treatment(cell) for cell in table.cells])
    pairs = np.array([rows[i] - rows[j] for i in range(len(rows)) for j in range(i)])
    design = model.rows(sample)
    noise = np.random.default_rng(12).normal(size=(len(design), STUDIES))
    beta = fit.half @ (fit.half.T @ (design.T @ noise))
    sigma = np.sqrt(((noise - design @ beta) ** 2).sum(axis=0) / fit.df)
    ratios = np.abs(pairs @ beta) / np.linalg.norm(fit.scatter(pairs), axis=1)[:, None] / sigma
    critical = max_t(fit.scatter(pairs)).quantile(0.95, fit.df)
    assert 0.044 < float(np.mean(ratios.max(axis=0) > critical)) < 0.056


@pytest.mark.parametrize(
    ("drift", "block_cv"),
    [(0.0, 0.0), (0.0, 0.05), (0.5, 0.0)],
    ids=["plain", "blocks differ", "drift of 50 % an hour"],
)
def test_whole_analysis_of_null_studies_errs_as_seldom_as_it_says(drift: float, block_cv: float) -> None:
    """All steps together, the look at drift before the model is chosen included.

    Bounds: five binomial standard errors around 5 % of 300 studies.
    """
    plan = PLANS["five pseudo-factors"]
    system = SimulatedSystem(drift=drift, block_cv=block_cv)
    covered: list[bool] = []
    wrong = 0
    for seed in range(300):
        result = analyse(plan, system.run(plan, seed), ["throughput"]).responses[0]
        covered += [effect.interval.contains(0.0) for effect in result.effects if effect.interval]
        wrong += any(effect.verdict is not Verdict.UNDETERMINED for effect in result.effects)
    assert len(covered) == 5 * 300
    assert 0.95 <= np.mean(covered) <= 0.99  # 0.977: three replicates of levels with a noise of their own
    assert wrong / 300 < 0.05 + 5 * 0.0126


def test_planted_effects_are_found_with_sign_and_size() -> None:
    plan = PLANS["five pseudo-factors"]
    system = SimulatedSystem(effects={("pseudo1", "b"): 0.62, ("pseudo2", "b"): 1.25})
    inside = told = 0
    for seed in range(50):
        result = analyse(plan, system.run(plan, seed), ["throughput"]).responses[0]
        found = {effect.factor: effect for effect in result.effects}
        assert found["pseudo1"].verdict is not Verdict.BETTER
        assert found["pseudo2"].verdict is not Verdict.WORSE
        told += (found["pseudo1"].verdict is Verdict.WORSE) + (found["pseudo2"].verdict is Verdict.BETTER)
        assert result.effects[0].factor == "pseudo2"
        assert result.effects[-1].factor == "pseudo1"
        for name, truth in (("pseudo1", -38.0), ("pseudo2", 25.0)):
            assert found[name].percent == pytest.approx(truth, abs=15)
            interval = found[name].simultaneous
            assert interval is not None
            inside += interval.contains(truth)
    assert inside >= 90  # of 100, each at more than 95 %
    assert told >= 85


def test_drift_is_found_seldom_without_and_mostly_with_one() -> None:
    plan = PLANS["33 settings"]

    def rate(system: SimulatedSystem) -> float:
        return float(
            np.mean([analyse(plan, system.run(plan, s), ["throughput"]).responses[0].drift.detected for s in range(40)])
        )

    assert rate(SimulatedSystem(block_cv=0.05)) < 0.2
    assert rate(SimulatedSystem(drift=0.3)) > 0.9
