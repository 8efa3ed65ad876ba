"""Mixed models: published split plots, other programs, and rates of error on simulated studies."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas
import pytest
import statsmodels.formula.api as smf
from numpy.typing import NDArray
from scipy import stats
from simulated_strata import SimulatedStrata, incomplete_plan, slots_plan, split_plot_plan
from simulated_study import SimulatedSystem, pseudo_factors

from leadline.analysis.carry import CarryOver
from leadline.analysis.columns import Model, fitted_with_strata
from leadline.analysis.comparisons import Family
from leadline.analysis.linear import Fit, Strata
from leadline.analysis.mixed import MixedFit, whiten
from leadline.analysis.study import analyse
from leadline.analysis.table import Sample, StudyTable, sample_of
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.knob import Level
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.result import Observation, Verdict

Floats = NDArray[np.float64]

# Yates (1935), Complex experiments: yields of oats, a block a line; varieties Victory, Golden rain, Marvellous are
# whole plots, nitrogen 0, 0.2, 0.4, 0.6 cwt their subplots
OATS = """
111 130 157 174 117 114 161 141 105 140 118 156
61 91 97 100 70 108 126 149 96 124 121 144
68 64 112 86 60 102 89 96 89 129 132 124
74 89 81 122 64 103 132 133 70 89 104 117
62 90 100 116 80 82 94 126 63 70 109 99
53 74 118 113 89 82 86 104 97 99 119 121
"""
# its analysis of variance as printed in Venables and Ripley, Modern Applied Statistics with S (2002), section 10.2
PLOT_SS, PLOT_DF, SUB_SS, SUB_DF = 6013.3, 10, 7968.8, 45


def oats() -> tuple[Plan, list[Observation]]:
    factors = (
        Factor("variety", ("Victory", "Golden.rain", "Marvellous"), "Victory"),
        Factor("nitrogen", (0.0, 0.2, 0.4, 0.6), 0.0),
    )
    trials: list[PlannedTrial] = []
    seen: list[Observation] = []
    for block, line in enumerate(OATS.split("\n")[1:-1]):
        for number, figure in enumerate(line.split()):
            variety, nitrogen = divmod(number, 4)
            levels = {"variety": factors[0].levels[variety], "nitrogen": factors[1].levels[nitrogen]}
            treatment, place, plot = Treatment.of(levels), len(trials), 3 * block + variety
            trials.append(PlannedTrial(place, block, block, Role.TREATMENT, treatment, 1, plot))
            value = {"throughput": math.exp(float(figure) / 10)}  # the log scale is the original one, in tens
            seen.append(Observation(place, place, block, block, Role.TREATMENT, treatment, 0.0, value, plot=plot))
    return Plan("full-factorial", 1, factors, tuple(trials)), seen


def solved(
    plan: Plan, seen: list[Observation], response: str = "throughput", *, between: bool = False, equal: bool = False
) -> tuple[Sample, Model, Fit, Strata]:
    """``between``: blocks are random whether or not a factor changes between them alone. ``equal``: one noise for all
    levels, as the published analyses and other programs have.
    """
    table = StudyTable.of(plan, seen, plain_level)
    table = replace(table, between_blocks=between or table.between_blocks, equal_noise=equal)
    sample, _ = sample_of(table, response)
    return sample, *fitted_with_strata(table, sample, np.log(sample.values), False)


def mains(model: Model) -> Floats:
    return np.array([model.effect(main) for main in model.mains])


def test_oats_agree_with_the_published_analysis() -> None:
    _, model, fit, strata = solved(*oats(), equal=True)
    assert isinstance(fit, MixedFit)
    assert [(stratum.name, stratum.df) for stratum in strata.random] == [("plot", PLOT_DF)]
    assert 100 * fit.sigma**2 == pytest.approx(SUB_SS / SUB_DF, rel=2e-5)
    assert 100 * fit.ratios[0] * fit.sigma**2 == pytest.approx((PLOT_SS / PLOT_DF - SUB_SS / SUB_DF) / 4, rel=5e-5)
    contrasts = mains(model)
    whole, sub = math.sqrt(2 * PLOT_SS / PLOT_DF / 24), math.sqrt(2 * SUB_SS / SUB_DF / 18)
    assert 10 * fit.errors(contrasts) == pytest.approx([whole, whole, sub, sub, sub], rel=2e-4)
    assert fit.degrees(contrasts) == pytest.approx([PLOT_DF, PLOT_DF, SUB_DF, SUB_DF, SUB_DF], rel=1e-3)
    assert 10 * fit.estimates(contrasts[2:]) == pytest.approx([19.5, 34.8333, 44.0], abs=1e-3)


def test_oats_agree_with_statsmodels() -> None:
    plan, seen = oats()
    _, model, fit, _ = solved(plan, seen)
    frame = pandas.DataFrame(
        {
            "y": [math.log(one.responses["throughput"]) for one in seen],
            "variety": [str(one.treatment["variety"]) for one in seen],
            "nitrogen": [str(one.treatment["nitrogen"]) for one in seen],
            "block": [str(one.block) for one in seen],
            "plot": [str(one.plot) for one in seen],
        }
    )
    formula = "y ~ C(block) + C(variety, Sum) * C(nitrogen, Sum)"
    theirs = smf.mixedlm(formula, frame, groups="plot").fit(reml=True)
    assert isinstance(fit, MixedFit)
    assert fit.sigma**2 == pytest.approx(float(theirs.scale), rel=1e-4)
    assert fit.ratios[0] * fit.sigma**2 == pytest.approx(float(theirs.cov_re.iloc[0, 0]), rel=1e-3)
    names = [name for name in theirs.params.index if name.startswith("C(nitrogen")]  # 0.0, 0.2, 0.4 around the mean
    first = theirs.params[names[0]]
    assert fit.estimates(mains(model))[2:4] == pytest.approx(
        [theirs.params[names[1]] - first, theirs.params[names[2]] - first], rel=1e-6
    )


def test_a_balanced_split_plot_is_its_analysis_of_variance_even_with_a_negative_component() -> None:
    """Standard errors and degrees of freedom from sums of squares, for seeds of both signs of the component."""
    plan = split_plot_plan(replicates=3)
    signs = set()
    for seed in range(12):
        sample, model, fit, strata = solved(plan, SimulatedStrata(plot_cv=0.01).run(plan, seed), equal=True)
        assert isinstance(fit, MixedFit)
        design = model.rows(sample)[strata.order]
        values = np.log(sample.values)[strata.order]
        plots = values.reshape(9, 4).mean(axis=1)
        columns = np.unique(design.reshape(9, 4, -1).mean(axis=1), axis=1)
        residual = plots - columns @ np.linalg.lstsq(columns, plots, rcond=None)[0]
        mean_square = 4 * float(residual @ residual) / 4  # 9 plots less 3 blocks and 2 varieties: 4 degrees
        signs.add(bool(mean_square > fit.sigma**2))
        contrasts = mains(model)[:2]
        assert fit.errors(contrasts) == pytest.approx([math.sqrt(2 * mean_square / 12)] * 2, rel=1e-3)
        assert fit.degrees(contrasts) == pytest.approx([4, 4], rel=0.01)
    assert signs == {True, False}


def test_whitening_is_the_inverse_root_of_the_covariance() -> None:
    """Slots in trials in plots, with gaps: against the covariance written out."""
    plan = slots_plan(trials=6, blocks_of_slots=3, levels=3, heaps=2)
    seen = [one for one in SimulatedStrata().run(plan, 1) if (one.trial, one.slot) not in {(1, 3), (2, 0), (4, 8)}]
    sample, model, _, strata = solved(plan, seen)
    parameters = np.array([0.9, math.atanh(0.6)])
    count = sample.size
    slots, trials = sample.slots[strata.order], sample.trials[strata.order]
    same = trials[:, None] == trials
    white = whiten(strata, np.eye(count), parameters)
    covariance = same * 0.6 ** np.abs(slots[:, None] - slots) + white.ratios[0] * same
    assert white.columns @ covariance @ white.columns.T == pytest.approx(np.eye(count), abs=1e-9)
    assert white.logdet == pytest.approx(float(np.linalg.slogdet(covariance)[1]), rel=1e-9)
    assert model.entry == "columns"


def test_random_intercepts_of_an_unbalanced_study_agree_with_statsmodels() -> None:
    plan = incomplete_plan()
    seen = [one for one in SimulatedStrata(block_cv=0.06).run(plan, 4) if one.position not in {3, 11, 30}]
    _, model, fit, strata = solved(plan, seen, between=True, equal=True)
    assert [stratum.name for stratum in strata.random] == ["block"]
    frame = pandas.DataFrame(
        {
            "y": [math.log(one.responses["throughput"]) for one in seen],
            "setting": [str(one.treatment["setting"]) for one in seen],
            "block": [one.block for one in seen],
        }
    )
    theirs = smf.mixedlm("y ~ C(setting)", frame, groups="block").fit(reml=True)
    assert isinstance(fit, MixedFit)
    assert fit.sigma**2 == pytest.approx(float(theirs.scale), rel=2e-3)
    assert fit.ratios[0] * fit.sigma**2 == pytest.approx(float(theirs.cov_re.iloc[0, 0]), rel=5e-3)
    assert fit.estimates(mains(model)) == pytest.approx(theirs.params.iloc[1:7].to_numpy(), abs=1e-4)
    assert fit.errors(mains(model)) == pytest.approx(theirs.bse.iloc[1:7].to_numpy(), rel=5e-3)


def test_plain_designs_have_one_source_of_noise() -> None:
    plan = make_plan(pseudo_factors(4), Design(replicates=3))
    result = analyse(plan, SimulatedSystem().run(plan, 1), ["throughput"]).responses[0]
    text = "Least squares: fixed blocks, levels; one source of noise, between trials, each level with its own."
    assert result.model == text
    assert result.components == ()


def test_many_blocks_are_swept_out_with_the_same_result() -> None:
    few = make_plan(pseudo_factors(3), Design(replicates=40, sentinels=None))
    many = make_plan(pseudo_factors(3), Design(replicates=41, sentinels=None))
    for plan, entry in ((few, "columns"), (many, "swept")):
        seen = SimulatedSystem().run(plan, 3)
        sample, model, fit, _ = solved(plan, seen)
        assert model.entry == entry
        blocks = np.asarray(sample.blocks[:, None] == np.unique(sample.blocks), dtype=np.float64)
        levels = np.asarray([[t.treatment[f"pseudo{k}"] == "b" for k in (1, 2, 3)] for t in plan.trials], dtype=float)
        expected = np.linalg.lstsq(np.column_stack([levels, blocks]), np.log(sample.values), rcond=None)
        assert fit.estimates(mains(model)) == pytest.approx(expected[0][:3], rel=1e-9)
        assert fit.df == sample.size - 3 - blocks.shape[1]
        assert fit.sigma**2 * fit.df == pytest.approx(float(expected[1][0]), rel=1e-9)


CASES: dict[str, tuple[Callable[[], Plan], SimulatedStrata, int]] = {
    "split plots": (split_plot_plan, SimulatedStrata(), 120),
    "slots, six trials": (lambda: slots_plan(blocks_of_slots=5), SimulatedStrata(), 100),
    "slots, one trial": (lambda: slots_plan(trials=1), SimulatedStrata(correlation=0.6), 150),
    "slots and a restart factor": (lambda: slots_plan(heaps=2, blocks_of_slots=4), SimulatedStrata(), 80),
    "incomplete blocks": (incomplete_plan, SimulatedStrata(), 120),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_intervals_cover_and_families_err_as_stated(name: str) -> None:
    """Bounds: four binomial standard errors, of as many independent studies as there are."""
    build, system, studies = CASES[name]
    plan = build()
    covered: list[bool] = []
    wrong = 0
    for seed in range(studies):
        _, model, fit, _ = solved(plan, system.run(plan, seed))
        contrasts = mains(model)
        degrees = fit.degrees(contrasts)
        ratios = np.abs(fit.estimates(contrasts)) / fit.errors(contrasts)
        covered += list(ratios <= stats.t.ppf(0.975, degrees))
        if np.max(ratios - stats.t.ppf(0.975, degrees)) > 0:  # only then can any comparison stand among all
            family = Family.of(fit, list(contrasts), 0.95)
            wrong += bool(np.any(ratios > family.critical))
    error = math.sqrt(0.05 * 0.95 / studies)
    assert abs(float(np.mean(covered)) - 0.95) < 4 * error
    assert wrong / studies < 0.05 + 4 * error


def test_ignoring_the_whole_plots_would_err() -> None:
    """The rates above are not for free: least squares on the same split plots finds kernels that are not there."""
    plan = split_plot_plan()
    bare = [trial.__class__(**{**vars(trial), "plot": None}) for trial in plan.trials]
    flat = Plan(plan.kind, plan.seed, plan.factors, tuple(bare))
    wrong = 0
    for seed in range(60):
        seen = [one.__class__(**{**vars(one), "plot": None}) for one in SimulatedStrata().run(plan, seed)]
        _, model, fit, _ = solved(flat, seen)
        contrasts = mains(model)[:2]
        ratios = np.abs(fit.estimates(contrasts)) / fit.errors(contrasts)
        wrong += bool(np.any(ratios > stats.t.ppf(0.975, fit.degrees(contrasts))))
    assert wrong > 15


def test_components_are_recovered() -> None:
    plan = slots_plan(trials=12, blocks_of_slots=10)
    system = SimulatedStrata(block_cv=0.0, trial_cv=0.05, slot_cv=0.02, correlation=0.5)
    found = [analyse(plan, system.run(plan, seed), ["throughput"]).responses[0] for seed in range(12)]
    slots = [part.percent for one in found for part in one.components if part.name == "slots"]
    assert np.mean([value for value in slots if value is not None]) == pytest.approx(2.0, abs=0.15)
    assert np.mean([one.correlation for one in found if one.correlation is not None]) == pytest.approx(0.5, abs=0.06)


def test_a_whole_plot_factor_without_repeated_plots_is_not_judged() -> None:
    plan = split_plot_plan(replicates=1)
    result = analyse(plan, SimulatedStrata().run(plan, 1), ["throughput"]).responses[0]
    kernels = [effect for effect in result.effects if effect.factor == "kernel"]
    assert all(effect.interval is None and "whole plots" in effect.reason for effect in kernels)
    assert all(effect.interval is not None for effect in result.effects if effect.factor != "kernel")


def test_slots_find_a_live_effect_and_name_the_model() -> None:
    plan = slots_plan(trials=3)
    system = SimulatedStrata(effects={("vm.dirty_ratio", 40): 1.06})
    result = analyse(plan, system.run(plan, 2), ["throughput"])
    first = result.responses[0]
    assert first.effects[0].level == 40
    assert first.effects[0].verdict is Verdict.BETTER
    assert first.model.startswith("Mixed model (REML, variances integrated out)")
    assert first.correlation is not None
    assert result.trials == 3
    assert any("carry-over" in note.lower() for note in first.notes)


def test_carry_over_is_found_and_taken_out() -> None:
    plan = slots_plan(trials=4, blocks_of_slots=10)
    system = SimulatedStrata(effects={("vm.dirty_ratio", 40): 1.2}, carried=0.4)
    result = analyse(plan, system.run(plan, 3), ["throughput"])
    assert any("longer wash-out" in warning for warning in result.warnings)
    best = result.responses[0].effects[0]
    assert best.level == 40
    assert best.interval is not None
    assert best.interval.low > 8


def test_over_many_responses_no_carry_over_is_made_up() -> None:
    """Six responses that carry nothing over: the weight that one of them may reach is divided among all."""
    plan, names = slots_plan(trials=2, blocks_of_slots=4), [f"response{number}" for number in range(6)]
    system = SimulatedStrata(effects={("vm.dirty_ratio", 40): 1.1})
    for study in range(4):
        runs = [system.run(plan, 1000 * study + number) for number in range(len(names))]
        seen = [
            replace(row[0], responses={name: own.responses["throughput"] for name, own in zip(names, row, strict=True)})
            for row in zip(*runs, strict=True)
        ]
        found = analyse(plan, seen, names, verdicts_only=True)
        assert not any("detects a carry-over" in warning for warning in found.warnings)
    fits = (0.3, 0.03, (), (), ())
    assert CarryOver(*fits).detected
    assert CarryOver(*fits).sentence.startswith("A test at 5 % detects a carry-over: ")
    assert not CarryOver(*fits, responses=6).detected
    assert CarryOver(*fits, responses=6).sentence.startswith("No carry-over")


def test_one_instance_of_the_server_is_said() -> None:
    plan = slots_plan(trials=1)
    notes = analyse(plan, SimulatedStrata().run(plan, 1), ["throughput"]).responses[0].notes
    assert any("one server instance" in note for note in notes)


def test_effects_that_differ_between_instances_are_found_and_their_intervals_are_for_a_new_instance() -> None:
    """Six instances, each level's effect off by 3 % in each; the level's own error alone would cover half as often."""
    plan = slots_plan(trials=6, blocks_of_slots=6, levels=3)
    truth: dict[tuple[str, Level], float] = {("vm.dirty_ratio", 20): 1.0, ("vm.dirty_ratio", 30): 1.1}
    system = SimulatedStrata(effects=truth, life_cv=0.03, slot_cv=0.02)
    covered: list[bool] = []
    found = 0
    for seed in range(30):
        result = analyse(plan, system.run(plan, seed), ["throughput"])
        first = result.responses[0]
        found += any("Effects differ between the 6 server instances" in warning for warning in result.warnings)
        for effect in first.effects:
            assert effect.interval is not None
            covered.append(effect.interval.contains(100 * truth["vm.dirty_ratio", effect.level] - 100))
    assert found >= 28
    assert np.mean(covered) > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 30)
    spread = [part for part in first.components if part.name.startswith("instances in the effect of ")]
    assert spread[0].percent == pytest.approx(3 * math.sqrt(2), rel=0.6)
    assert spread[0].df == pytest.approx(5, abs=0.1)


def test_effects_that_are_the_same_in_all_instances_are_seldom_told_to_differ() -> None:
    plan = slots_plan(trials=3, blocks_of_slots=5, levels=2)
    found = 0
    for seed in range(60):
        notes = analyse(plan, SimulatedStrata().run(plan, seed), ["throughput"]).responses[0].notes
        found += any("Effects differ between the 3 server instances" in note for note in notes)
    assert found <= 9  # three are expected


def test_one_instance_tests_nothing_between_instances() -> None:
    plan = slots_plan(trials=1)
    notes = analyse(plan, SimulatedStrata().run(plan, 1), ["throughput"]).responses[0].notes
    assert not any("server instances" in note and "differ" in note for note in notes)
