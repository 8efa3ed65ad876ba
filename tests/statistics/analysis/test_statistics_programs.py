"""Mixed models against what other programs have published on public data: R's lme4, nlme and lmerTest, statsmodels;
and a published switchback trial.

docs/evidence/reference-values.md says where each figure was found.
"""

import math
from importlib import resources
from itertools import pairwise, product

import numpy as np
import pandas
import pytest
import statsmodels.formula.api as smf
from numpy.typing import NDArray

from leadline.analysis.linear import Fit, Strata, Stratum, fit
from leadline.analysis.mixed import MixedFit, mixed_fit

Floats = NDArray[np.float64]

# Pinheiro and Bates, Mixed-Effects Models in S and S-PLUS (2000), data Machines: three scores a worker (rows of six
# workers) on machines A, B and C
MACHINES = {
    "A": "52 52.8 53.1  51.8 52.8 53.1  60 60.2 58.4  51.1 52.3 50.3  50.9 51.8 51.4  46.4 44.8 49.2",
    "B": "62.1 62.6 64  59.7 60 59  68.6 65.8 69.7  63.2 62.8 62.2  64.8 65 65.4  43.7 44.2 43",
    "C": "67.5 67.2 66.9  61.5 61.7 62.3  70.8 70.6 71  64.1 66.2 64  72.1 72 71.1  62 61.4 60.5",
}
# Box, Hunter and Hunter, Statistics for Experimenters (2005), table 9.1: resistance to corrosion of bars with coatings
# 1 to 4; six heats of a furnace
HEATS = [
    (360, (67, 73, 83, 89)),
    (370, (65, 91, 87, 86)),
    (380, (155, 127, 147, 212)),
    (380, (108, 100, 90, 153)),
    (370, (140, 142, 121, 150)),
    (360, (33, 8, 46, 54)),
]
# Patterson and Lucas (1962), Change-over designs: milk of twelve cows in three periods; each cow had the first
# treatment, the second, and the first again
COWS = """
1 2 70.8 65.5 60.1;1 4 96.2 85.1 82.3;1 3 74.7 72.3 65.8;2 4 75.5 68.5 66.3;2 3 69.1 62.6 57.7;2 1 76.7 70.5 69.0
3 1 78.4 71.9 62.0;3 2 58.5 63.8 50.4;3 4 64.4 66.1 60.4;4 3 77.7 79.1 73.3;4 1 61.9 53.3 36.5;4 2 60.1 56.5 44.9
"""


def nested(*labels: list[object]) -> Strata:
    """Random groups of rows, innermost first; each given by its labels, and inside the next."""
    order = np.lexsort([np.unique([str(one) for one in label], return_inverse=True)[1] for label in labels])
    random = []
    for label in labels:
        sorted_labels = np.array([str(one) for one in label])[order]
        starts = np.flatnonzero(np.r_[True, sorted_labels[1:] != sorted_labels[:-1]])
        random.append(Stratum("", starts.astype(np.int64), len(starts)))
    return Strata(order.astype(np.int64), tuple(random))


def plug_in(fit: MixedFit, contrasts: Floats) -> tuple[Floats, Floats]:
    """Standard errors (k) at the REML variances and Satterthwaite's degrees of freedom (k), in the general form of Fai
    and Cornelius (1996): what other programs print.
    """
    assert fit.mixture is not None
    assert fit.curvature is not None
    assert fit.solution is not None
    asked = contrasts @ fit.mixture.basis
    gradient = np.empty((len(asked), len(fit.parameters)))
    for index, row in enumerate(np.eye(len(fit.parameters)) * fit.curvature.step):
        ends = []
        for sign in (-1, 1):
            found = fit.solution(fit.parameters + sign * row)
            assert found is not None
            ends.append(2 * np.log(found[3] * np.linalg.norm(asked @ found[2].T, axis=1)))
        gradient[:, index] = (ends[1] - ends[0]) / (2 * fit.curvature.step)
    spread = 2 / fit.df + np.einsum("ki,ij,kj->k", gradient, fit.curvature.inverse, gradient)
    return plain_errors(fit, contrasts), np.clip(2 / spread, 1.0, float(fit.df))


def plain_errors(fit: Fit, contrasts: Floats) -> Floats:
    """Without the allowance for estimated variances, as lme4 and statsmodels print them."""
    return np.asarray(fit.sigma * np.linalg.norm(fit.scatter(contrasts), axis=1), dtype=np.float64)


def solved(design: Floats, values: Floats, *labels: list[object]) -> MixedFit:
    found = mixed_fit(design, values, nested(*labels))
    assert isinstance(found, MixedFit)
    return found


def deviations(fit: MixedFit) -> list[float]:
    """Standard deviations of the random groups, innermost first, then of the rows."""
    return [*(fit.sigma * math.sqrt(ratio) for ratio in fit.ratios), fit.sigma]


def machines() -> tuple[pandas.DataFrame, Floats]:
    rows = [
        {"machine": machine, "worker": str(place // 3), "pair": f"{place // 3}{machine}", "score": float(score)}
        for machine, scores in MACHINES.items()
        for place, score in enumerate(scores.split())
    ]
    frame = pandas.DataFrame(rows)
    return frame, np.column_stack([np.ones(54), frame.machine == "B", frame.machine == "C"]).astype(np.float64)


def test_machines_agree_with_nlme() -> None:
    """score ~ Machine, random = ~ 1 | Worker / Machine: estimates and intervals as printed."""
    frame, design = machines()
    found = solved(design, frame.score.to_numpy(), list(frame.pair), list(frame.worker))
    unit = np.eye(3)
    assert found.estimates(unit) == pytest.approx([52.355556, 7.966667, 13.916667], abs=1e-6)
    assert deviations(found) == pytest.approx([3.729532, 4.78105, 0.9615771], rel=2e-5)
    half = (12.81726 - 3.116071) / 2 / 2.2281389  # nlme's interval has t with 10 degrees of freedom
    assert plain_errors(found, unit[1:]) == pytest.approx([half, half], rel=1e-5)
    assert plug_in(found, unit[1:])[0] == pytest.approx([half, half], rel=1e-5)
    assert plug_in(found, unit[1:])[1] == pytest.approx([10, 10], rel=1e-3)


def test_machines_of_which_some_scores_are_lost_agree_with_statsmodels() -> None:
    frame, _ = machines()
    frame = frame.drop(index=[0, 1, 7, 20, 21, 22, 35, 50]).reset_index(drop=True)
    design = np.column_stack([np.ones(len(frame)), frame.machine == "B", frame.machine == "C"]).astype(np.float64)
    ours = solved(design, frame.score.to_numpy(), list(frame.pair), list(frame.worker))
    theirs = smf.mixedlm(
        "score ~ machine", frame, groups="worker", re_formula="1", vc_formula={"pair": "0 + C(pair)"}
    ).fit(reml=True)
    assert ours.estimates(np.eye(3)) == pytest.approx(list(theirs.fe_params), rel=1e-4)
    assert plain_errors(ours, np.eye(3)) == pytest.approx(list(theirs.bse_fe), rel=2e-3)
    pair, worker = (ratio * ours.sigma**2 for ratio in ours.ratios)
    assert [pair, worker, ours.sigma**2] == pytest.approx(
        [float(theirs.vcomp[0]), float(theirs.cov_re.iloc[0, 0]), float(theirs.scale)], rel=5e-3
    )


def test_the_corrosion_split_plot_agrees_with_the_book_lme4_and_pbkrtest() -> None:
    rows = [(heat, run, coating) for run, (heat, _) in enumerate(HEATS) for coating in range(4)]
    values = np.array([value for _, bars in HEATS for value in bars], dtype=np.float64)
    design = np.array(
        [[float((heat, coating) == cell) for cell in product((360, 370, 380), range(4))] for heat, _, coating in rows]
    )
    found = solved(design, values, [run for _, run, _ in rows])
    within, heats = found.sigma**2, found.sigma**2 * (1 + 4 * found.ratios[0])
    assert 9 * within == pytest.approx(1121, abs=0.5)
    assert 3 * heats == pytest.approx(782 + 13658, abs=1)
    assert deviations(found) == pytest.approx([34.2, 11.2], abs=0.05)

    def cell(heat: int, coating: int) -> Floats:
        return np.array([float(one == (heat, coating)) for one in product((360, 370, 380), range(4))])

    contrasts = np.array([cell(360, 0), cell(370, 0) - cell(360, 0), cell(360, 1) - cell(360, 0)])
    assert found.estimates(contrasts) == pytest.approx([50.0, 52.5, -9.5], abs=1e-6)
    assert plug_in(found, contrasts)[0] == pytest.approx([25.463, 36.010, 11.160], abs=6e-4)
    assert plug_in(found, contrasts)[1] == pytest.approx([3.48, 3.48, 9], abs=0.006)
    coatings = np.array([sum(cell(heat, k) - cell(heat, 0) for heat in (360, 370, 380)) for k in (1, 2, 3)])
    estimates, scatter = found.estimates(coatings), found.scatter(coatings)
    statistic = estimates @ np.linalg.solve(within * scatter @ scatter.T, estimates) / 3
    assert statistic == pytest.approx(11.48, abs=5e-3)


def test_satterthwaite_degrees_of_a_plant_trial_are_those_of_lmertest() -> None:
    """biomass ~ CO2 * nutrients + (1 | chamber): four chambers, two CO2 levels, six nutrients. Of the data only the
    printed variances matter to errors and degrees; values with exactly these are made here.
    """
    rows = [(chamber // 2, chamber, nutrient) for chamber in range(4) for nutrient in range(6)]
    design = np.array([[float((co2, n) == cell) for cell in product(range(2), range(6))] for co2, _, n in rows])
    chambers = np.array([chamber for _, chamber, _ in rows])
    values = np.random.default_rng(12).normal(size=24)
    rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    between = np.array([rest[chambers == chamber].mean() for chamber in chambers])
    inside = rest - between
    made = between * math.sqrt((1.5797 + 6 * 0.2437) * 2 / np.sum(between**2))
    made = made + inside * math.sqrt(1.5797 * 10 / np.sum(inside**2))
    found = solved(design, made, [chamber for _, chamber, _ in rows])
    assert found.ratios[0] * found.sigma**2 == pytest.approx(0.2437, rel=1e-4)
    unit = np.eye(12)
    contrasts = np.array([unit[0], unit[6] - unit[0], unit[1] - unit[0]])
    assert plug_in(found, contrasts)[0] == pytest.approx([0.9548, 1.3503, 1.2568], abs=1e-4)
    assert plug_in(found, contrasts)[1] == pytest.approx([11.0163, 11.0163, 10.0], rel=2e-3)


def test_a_switchback_trial_of_milk_agrees_with_the_published_analysis() -> None:
    """Each cow with a straight line of its own, periods, treatments: the sums of squares that R prints for the data."""
    rows = [row.split() for line in COWS.strip().splitlines() for row in line.split(";")]
    values = np.array([float(value) for row in rows for value in row[2:]])
    cow, period = np.divmod(np.arange(36), 3)
    given = np.array([int(one) for row in rows for one in (row[0], row[1], row[0])])
    cows = (cow[:, None] == np.arange(12)).astype(np.float64)
    lines = np.column_stack([cows, cows * period[:, None]])
    periods = np.column_stack([lines, period == 1])
    treatments = np.column_stack([periods, given[:, None] == np.arange(1, 5)])
    fits = [fit(design, values) for design in (np.ones((36, 1)), cows, lines, periods, treatments)]
    left = [one.sigma**2 * one.df for one in fits]
    assert [round(a - b, 1) for a, b in pairwise(left)] == [3466.0, 953.5, 19.7, 58.3]
    assert [a.df - b.df for a, b in pairwise(fits)] == [11, 12, 1, 3]
    assert (left[3] - left[4]) / 3 / fits[4].sigma ** 2 == pytest.approx(3.5237, abs=6e-5)


def their_data(name: str) -> pandas.DataFrame:
    """A data set that statsmodels installs with its tests."""
    path = resources.files("statsmodels.regression") / "tests" / "results" / name
    with path.open() as file:
        return pandas.read_csv(file)


def test_pigs_agree_with_lme4() -> None:
    """Weight ~ Time + (1 | Pig), data dietox of the R package geepack: 72 pigs, some of which have lost weeks."""
    frame = their_data("dietox.csv")
    design = np.column_stack([np.ones(len(frame)), frame.Time]).astype(np.float64)
    found = solved(design, frame.Weight.to_numpy(), list(frame.Pig))
    unit = np.eye(2)
    assert found.estimates(unit) == pytest.approx([15.723523, 6.942505], rel=1e-6)
    assert plain_errors(found, unit) == pytest.approx([0.78805374, 0.03338727], rel=1e-5)
    assert plug_in(found, unit)[0] == pytest.approx([0.78805374, 0.03338727], rel=1e-3)
    assert found.sigma**2 == pytest.approx(11.36692, rel=1e-5)
    assert found.ratios[0] * found.sigma**2 == pytest.approx(40.39395, rel=1e-5)


def test_pastes_agree_with_lme4() -> None:
    """strength ~ 1 + (1 | batch) + (1 | batch:cask)."""
    frame = their_data("pastes.csv")
    found = solved(np.ones((len(frame), 1)), frame.strength.to_numpy(), list(frame["sample"]), list(frame.batch))
    assert found.estimates(np.eye(1)) == pytest.approx([60.0533], abs=6e-5)
    assert plug_in(found, np.eye(1))[0] == pytest.approx([0.6769], abs=6e-5)
    assert [found.ratios[1] * found.sigma**2, found.sigma**2] == pytest.approx([1.657, 0.678], abs=6e-4)
