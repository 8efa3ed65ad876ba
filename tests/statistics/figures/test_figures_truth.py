"""Study A's figures on tables with known truth: exact small cases, planted effects, nothing planted."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats
from simulated_table import simulated_table

from leadline.figures.everything import figures_of
from leadline.figures.extremes import extremes
from leadline.figures.grouping import permute_groups
from leadline.figures.ranking import Standing, ranking
from leadline.figures.sensitivity import ParameterSensitivity, Part, Sensitivities, corrected_sum, sensitivities
from leadline.figures.table import Parameter, ResultTable, Run, fit_systems
from leadline.model.errors import UsageError
from leadline.model.result import RESPONSES

THROUGHPUT = RESPONSES["throughput"]


def exact_table(means: dict[str, list[list[float]]], baseline: float | None = 100.0) -> ResultTable:
    """``means``: system -> parameter -> level means, one run each without noise."""
    systems = tuple(means)
    shape = [len(levels) for levels in next(iter(means.values()))]
    runs = []
    for number, parameters in enumerate(means.values()):
        if baseline is not None:
            runs.append(Run(number, (-1,) * len(shape), baseline))
        for p, levels in enumerate(parameters):
            for level, value in enumerate(levels):
                runs.append(Run(number, tuple(level if q == p else -1 for q in range(len(shape))), value))
    names = tuple(Parameter(f"p{p}", tuple("abcd"[:count])) for p, count in enumerate(shape))
    return ResultTable(THROUGHPUT, systems, names, tuple(runs))


def test_the_plain_formula_is_the_sum_of_standard_deviations() -> None:
    table = exact_table({"one": [[10.0, 20.0, 30.0], [5.0, 5.0, 8.0]], "two": [[1.0, 2.0, 6.0], [7.0, 7.0, 7.0]]})
    found = sensitivities(table, fit_systems(table))
    by_name = {row.parameter: row for row in found.rows}
    assert by_name["p0"].plain == pytest.approx(10.0 + np.std([1, 2, 6], ddof=1))
    assert by_name["p1"].plain == pytest.approx(np.std([5, 5, 8], ddof=1))
    assert sum(row.share or 0 for row in found.rows) == pytest.approx(1.0)
    assert all(row.corrected is None and "repeated" in row.reason for row in found.rows)
    cells = {(cell.parameter, cell.system): cell for cell in found.cells}
    assert cells["p0", "one"].plain == pytest.approx(10.0)
    assert cells["p0", "one"].percent == pytest.approx(10.0)  # of a baseline of 100


def test_ranks_friedman_and_kendall_agree_with_a_reference() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(100, 5, (6, 4)) + np.array([0, 2, 4, 9])
    table = exact_table({f"k{row}": [[float(v) for v in line]] for row, line in enumerate(values)})
    found = ranking(table, fit_systems(table))
    assert found is not None
    reference = stats.friedmanchisquare(*values.T)
    assert found.friedman == pytest.approx(reference.statistic)
    assert found.p_chi_squared == pytest.approx(reference.pvalue)
    assert found.kendall_w == pytest.approx(reference.statistic / (6 * 3))
    assert abs((found.p_value or 0) - reference.pvalue) < 0.03
    means = dict(zip("abcd", stats.rankdata(values, axis=1).mean(axis=0), strict=True))
    assert {row.setting: row.mean_rank for row in found.rows} == {f"p0={k}": pytest.approx(v) for k, v in means.items()}
    assert [row.mean_rank for row in found.rows] == sorted((row.mean_rank for row in found.rows), reverse=True)


def test_ties_share_their_rank() -> None:
    values = [[1.0, 1.0, 3.0], [2.0, 2.0, 5.0], [1.0, 4.0, 4.0]]
    table = exact_table({f"k{row}": [line] for row, line in enumerate(values)})
    found = ranking(table, fit_systems(table))
    assert found is not None
    assert found.friedman == pytest.approx(stats.friedmanchisquare(*np.array(values).T).statistic)
    assert sorted(found.ranks[0]) == [1.5, 1.5, 3.0]


def test_the_model_is_the_two_way_analysis_of_variance() -> None:
    """Contrasts against the middle half have the interaction mean square as their error."""
    rng = np.random.default_rng(8)
    values = np.exp(rng.normal(5, 0.05, (5, 4)))
    table = exact_table({f"k{row}": [[float(v) for v in line]] for row, line in enumerate(values)}, baseline=None)
    found = ranking(table, fit_systems(table))
    assert found is not None
    logs = np.log(values)
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    variance = np.sum(residuals**2) / (4 * 3) / 5
    weights = np.zeros(4)
    weights[np.argsort(logs.mean(axis=0))[1:3]] = 0.5
    for row in found.rows:
        contrast = np.eye(4)["abcd".index(row.setting[-1])] - weights
        effect, error = contrast @ logs.mean(axis=0), math.sqrt(variance * contrast @ contrast)
        assert row.model is not None
        assert row.model.interval is not None
        assert row.model.percent == pytest.approx(100 * math.expm1(effect))
        reach = math.log1p(row.model.interval.high / 100) - effect
        assert stats.t.ppf(0.975, 12) < reach / error < stats.t.ppf(1 - 0.025 / 4, 12) * 1.005  # up to Bonferroni's
        assert row.baseline is None


def test_planted_effects_are_found_by_every_figure() -> None:
    table = simulated_table(5, systems=8, replicates=3, effects={(1, 2): -0.25, (3, 0): 0.2})
    found = figures_of(table, {"red": ["p1", "p3"], "blue": ["p0", "p2", "p4"]})
    assert found.ranking is not None
    assert found.sensitivity is not None
    assert found.extremes is not None
    assert found.grouping is not None
    best, worst = found.ranking.rows[0], found.ranking.rows[-1]
    assert (best.setting, best.by_rank, best.by_model) == ("p3=a", Standing.POSITIVE, Standing.POSITIVE)
    assert (worst.setting, worst.by_rank, worst.by_model) == ("p1=c", Standing.NEGATIVE, Standing.NEGATIVE)
    assert best.baseline is not None
    assert best.baseline.interval is not None
    assert best.baseline.interval.contains(20.0)
    assert {row.parameter for row in found.sensitivity.rows if row.told} == {"p1", "p3"}
    assert found.sensitivity.rows[0].parameter == "p1"
    true = sum((1000 + 100 * k) * np.std([0, 0, -0.25], ddof=1) for k in range(8))
    assert found.sensitivity.rows[0].interval is not None
    assert found.sensitivity.rows[0].interval.contains(true)
    assert sum(row.best_setting == "p3=a" for row in found.extremes.rows) >= 7
    assert all(row.worst_told and row.worst_setting == "p1=c" for row in found.extremes.rows)
    assert found.grouping.exact
    assert found.grouping.p_value == pytest.approx(1 / math.comb(5, 2))
    assert found.missing == {}


def test_less_is_better_turns_gains_and_ranks_round() -> None:
    table = simulated_table(6, response="p90", effects={(0, 0): -0.3, (2, 1): 0.3})
    found = figures_of(table)
    assert found.extremes is not None
    assert found.ranking is not None
    assert all(row.best > 20 and row.best_setting == "p0=a" for row in found.extremes.rows)
    assert found.ranking.rows[0].setting == "p0=a"
    assert found.ranking.rows[0].by_model is Standing.POSITIVE
    assert found.ranking.rows[-1].setting == "p2=b"


def test_a_setting_that_always_fails_ranks_last_and_has_no_estimate() -> None:
    failing = {(k, 4, 2): "configuration" for k in range(6)}
    found = figures_of(simulated_table(7, failing=failing))
    assert found.ranking is not None
    assert found.failures is not None
    last = found.ranking.rows[-1]
    assert (last.setting, last.mean_rank, last.failed_on) == ("p4=c", 1.0, 6)
    assert last.by_rank is Standing.NEGATIVE
    assert last.model is None
    assert found.failures.classes == {"configuration": 12}
    assert found.failures.settings == {"p4=c": 12}
    assert all(row.failed == 2 and row.worst_settings == ("p4=c",) for row in found.failures.systems)
    assert all(row.interval.low < 2 / row.runs < row.interval.high for row in found.failures.systems)


def test_without_effects_verdicts_are_as_rare_as_promised() -> None:
    tables = [simulated_table(seed, systems=4, parameters=4) for seed in range(70)]
    by_rank = by_model = gains = above = rows = 0
    for table in tables:
        fits = fit_systems(table)
        ranked, found = ranking(table, fits), extremes(table, fits)
        assert ranked is not None
        assert found is not None
        by_rank += any(row.by_rank is not Standing.UNDETERMINED for row in ranked.rows)
        by_model += any(row.by_model is not Standing.UNDETERMINED for row in ranked.rows)
        gains += sum(row.best_told or row.worst_told for row in found.rows)
        above += sum(row.luck is not None and row.best > row.luck.gain_95 for row in found.rows)
        rows += len(found.rows)
    assert by_rank <= stats.binom.ppf(0.999, len(tables), 0.05)
    assert by_model <= stats.binom.ppf(0.999, len(tables), 0.05)
    assert stats.binom.ppf(0.001, rows, 0.05) <= gains <= stats.binom.ppf(0.999, rows, 0.06)
    assert stats.binom.ppf(0.001, rows, 0.05) <= above <= stats.binom.ppf(0.999, rows, 0.06)


@pytest.mark.parametrize(("scale", "systems"), [(0.0, 1), (0.0, 5), (0.02, 5), (0.05, 5), (0.1, 1)])
def test_corrected_sensitivity_covers_the_truth_and_loses_the_noise(scale: float, systems: int) -> None:
    """Level means at 1 - scale, 1, 1 + scale with noise of 4 %, two runs each, six degrees of freedom."""
    rng = np.random.default_rng(int(1000 * scale) + systems)
    studies, covered, corrected, plain, told = 80, 0, 0.0, 0.0, 0
    true = systems * scale
    for _ in range(studies):
        parts = []
        for _ in range(systems):
            means = np.array([1 - scale, 1.0, 1 + scale]) + 0.04 / math.sqrt(2) * rng.standard_normal(3)
            sigma = 0.04 * math.sqrt(rng.chisquare(6) / 6)
            parts.append(Part(means, np.eye(3) / math.sqrt(2), sigma, 6))
        found = corrected_sum(parts)
        assert found is not None
        covered += found.interval.contains(true)
        corrected += found.value / studies
        plain += sum(part.sd for part in parts) / studies
        told += found.p_value < 0.05
    assert covered >= stats.binom.ppf(0.001, studies, 0.95)
    of_nothing = systems * 0.04 / math.sqrt(2) * math.sqrt(math.pi) / 2  # the plain formula's mean without any effect
    assert abs(corrected - true) < 0.65 * of_nothing
    if scale == 0:
        assert told <= stats.binom.ppf(0.999, studies, 0.05)
        assert plain == pytest.approx(of_nothing, rel=0.2)
    if scale >= 0.05:
        assert told >= 0.75 * studies


def test_equal_repeats_leave_the_formula_as_it_is() -> None:
    found = corrected_sum([Part(np.array([1.0, 2.0, 3.0]), np.eye(3), 0.0, 4)])
    assert found is not None
    assert found.value == pytest.approx(1.0, rel=1e-4)
    assert (found.interval.low, found.interval.high) == pytest.approx((1.0, 1.0), rel=1e-4)


def given(values: dict[str, float]) -> Sensitivities:
    rows = tuple(ParameterSensitivity(name, 1, value, None, corrected=value) for name, value in values.items())
    return Sensitivities("throughput", "", rows, (), None, "")


def test_permutation_p_values_are_uniform_when_groups_mean_nothing() -> None:
    rng = np.random.default_rng(21)
    names = [f"p{i}" for i in range(8)]
    groups = {"red": names[:4], "blue": names[4:]}
    p_values = []
    for _ in range(300):
        found = permute_groups(given(dict(zip(names, rng.exponential(1.0, 8), strict=True))), groups)
        assert found.ways == math.comb(8, 4)
        p_values.append(found.p_value)
    steps = np.arange(1, 71) / 70
    worst = max(abs(np.mean(np.array(p_values) <= step + 1e-12) - step) for step in steps)
    assert worst < stats.kstwo.ppf(0.999, 300)


def test_permutation_by_hand() -> None:
    found = permute_groups(given({"a": 5.0, "b": 4.0, "c": 1.0, "d": 2.0}), {"red": ["a", "b"], "blue": ["c", "d"]})
    assert found.statistic == pytest.approx(3.0)
    assert (found.ways, found.exact, found.p_value, found.p_two_sided) == (6, True, 1 / 6, 2 / 6)
    turned = permute_groups(given({"a": 5.0, "b": 4.0, "c": 1.0, "d": 2.0}), {"blue": ["c", "d"], "red": ["a", "b"]})
    assert turned.p_value == pytest.approx(1.0)  # expected the other way round
    three = permute_groups(
        given({"a": 9.0, "b": 8.0, "c": 1.0, "d": 2.0, "e": 5.0, "f": 5.5}),
        {"x": ["a", "b"], "y": ["c", "d"], "z": ["e", "f"]},
    )
    assert three.ways == 90
    assert three.p_value == pytest.approx(6 / 90)  # the six namings of the best partition
    assert three.p_two_sided is None


def test_many_parameters_are_permuted_by_drawing() -> None:
    names = [f"p{i}" for i in range(24)]
    values = {name: 10.0 + (5.0 if index < 12 else 0.0) + 0.1 * index for index, name in enumerate(names)}
    found = permute_groups(given(values), {"red": names[:12], "blue": names[12:]})
    assert not found.exact
    assert 0 < found.p_value < 0.001


def test_one_system_is_judged_by_its_own_repeats() -> None:
    found = figures_of(simulated_table(9, systems=1, replicates=4, effects={(0, 1): 0.3}))
    assert found.ranking is not None
    first = found.ranking.rows[0]
    assert (first.setting, first.by_model, first.by_rank) == ("p0=b", Standing.POSITIVE, Standing.UNDETERMINED)
    assert found.ranking.friedman is None
    assert "one system" in found.ranking.sentence
    assert any("one system" in note for note in found.notes)


def test_a_noise_that_is_given_stands_in_for_repeats() -> None:
    table = simulated_table(10, replicates=1, baselines=1, effects={(0, 1): 0.3})
    without, with_noise = figures_of(table), figures_of(table, cv=4.0)
    assert without.sensitivity is not None
    assert with_noise.sensitivity is not None
    assert all(row.corrected is None for row in without.sensitivity.rows)
    first = with_noise.sensitivity.rows[0]
    assert (first.parameter, first.told) == ("p0", True)
    assert first.interval is not None
    assert first.interval.contains(sum((1000 + 100 * k) * np.std([0, 0.3, 0], ddof=1) for k in range(6)))


def test_what_cannot_be_said_is_a_sentence() -> None:
    table = exact_table({"one": [[1.0]]}, baseline=None)
    found = figures_of(table)
    assert found.extremes is None
    assert "baseline" in found.missing["extremes"]
    assert found.ranking is None
    assert "fewer than two" in found.missing["ranking"]
    assert found.sensitivity is not None
    assert "two levels" in found.sensitivity.sentence
    with pytest.raises(UsageError, match="two levels are needed"):
        ResultTable(THROUGHPUT, ("one",), (Parameter("x", ("1",), 0),), (Run(0, (0,), 1.0),))
    with pytest.raises(UsageError, match="all 1 runs failed"):
        ResultTable(THROUGHPUT, ("one",), (Parameter("x", ("1",)),), (Run(0, (0,), None, "workload"),))
    with pytest.raises(UsageError, match="no finished run"):
        replace(table, runs=())


def test_no_figure_is_ever_nan() -> None:
    """Random failures, ties, zeros and missing settings."""
    rng = np.random.default_rng(13)
    for _ in range(8):
        systems, levels = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        runs = []
        for _ in range(int(rng.integers(2, 30))):
            at = [-1, -1]
            if rng.random() < 0.8:
                at[int(rng.integers(2))] = int(rng.integers(levels))
            failed = rng.random() < 0.3
            value = float(rng.choice([0.0, 1.0, 1.0, 50.0, 1e-9, -3.0]))
            runs.append(
                Run(int(rng.integers(systems)), tuple(at), None if failed else value, "workload" if failed else "")
            )
        runs.append(Run(0, (-1, -1), 1.0))
        names = tuple(f"k{i}" for i in range(systems))
        parameters = (Parameter("x", tuple("abc"[:levels])), Parameter("y", tuple("abc"[:levels]), 0))
        found = figures_of(ResultTable(THROUGHPUT, names, parameters, tuple(runs)))
        stack: list[object] = [asdict(found)]
        while stack:
            one = stack.pop()
            if isinstance(one, dict):
                stack += one.values()
            elif isinstance(one, (list, tuple)):
                stack += one
            elif isinstance(one, float):
                assert math.isfinite(one)
