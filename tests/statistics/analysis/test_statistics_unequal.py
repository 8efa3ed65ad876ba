"""Levels whose noise differs: intervals and family-wise error hold for ratios of one to five."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from simulated_strata import split_plot_plan
from simulated_study import SimulatedSystem, pseudo_factors
from witnesses import matrix

from leadline.analysis.columns import fitted_with_strata
from leadline.analysis.comparisons import Family
from leadline.analysis.table import Floats, StudyTable, sample_of
from leadline.design.make import make_plan
from leadline.layouts import rotation_plan
from leadline.model.design import Design, Rotation
from leadline.model.knob import ApplyCost, Level
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan
from leadline.model.workload import Workload

LONGER = matrix("some hundred simulated studies more")

STUDIES = 500  # Monte Carlo error of a rate of 5 %: 1.0 %
Noise = Callable[[Mapping[str, Level]], float]

THREE = make_plan(pseudo_factors(5), Design(replicates=3, sentinels=None))
TEN = make_plan(pseudo_factors(5), Design(replicates=10, sentinels=None))
PAIRS = make_plan(pseudo_factors(3), Design(replicates=6, blocks="incomplete", block_size=2, sentinels=None))
BETWEEN = rotation_plan(
    [
        *(Factor(name, ("a", "b"), "a") for name in ("pseudo1", "pseudo2")),
        Factor("host", ("a", "b"), "a", apply_cost=ApplyCost.LIVE),
    ],
    Design(replicates=12, sentinels=None, rotation=Rotation(host="between-rotations", slot=6)),
    Workload(users=20, ramp_up=5, steady=24),
    of_host={"host"},
)
SPLIT = split_plot_plan()
FACTORIAL = make_plan(pseudo_factors(2, 3), Design(kind="full-factorial", replicates=3))


def one_level(ratio: float) -> Noise:
    return lambda levels: ratio if levels["pseudo2"] == "b" else 1.0


def the_baseline(ratio: float) -> Noise:
    return lambda levels: ratio if set(levels.values()) == {"a"} else 1.0


def rates(plan: Plan, noise: Noise, equal: bool = False, studies: int = STUDIES) -> tuple[Floats, float, float]:
    """Coverage (k) of plain 95 % intervals, family-wise error, median half width of plain intervals."""
    table = replace(StudyTable.of(plan, SimulatedSystem().run(plan, 1), plain_level), equal_noise=equal)
    sample, _ = sample_of(table, "throughput")
    names = [factor.name for factor in table.factors]
    sizes = [
        noise({name: factor.levels[at] for name, factor, at in zip(names, table.factors, cell, strict=True)})
        for cell in table.cells
    ]
    spread = np.array(sizes)[sample.cells]
    rng = np.random.default_rng(5)
    covered, wrong, reaches = [], 0, []
    for _ in range(studies):
        model, fit, _ = fitted_with_strata(table, sample, rng.normal(size=sample.size) * spread, False)
        family = Family.of(fit, [model.effect(main) for main in model.mains], 0.95)
        reach = family.errors * stats.t.ppf(0.975, family.degrees)
        covered.append(np.abs(family.estimates) <= reach)
        wrong += bool(np.any(np.abs(family.estimates) > family.critical * family.errors))
        reaches.append(np.median(reach))
        told = [family.adjusted(place) < 0.05 for place in range(len(reach))]
        assert told == list(np.abs(family.estimates) > family.critical * family.errors)
    return np.mean(covered, axis=0), wrong / studies, float(np.median(reaches))


def test_one_noise_for_all_levels_fails_where_one_has_three_times_as_much() -> None:
    """The fault that was found: 72 to 81 % coverage, and more replicates do not help."""
    for plan in (THREE, TEN):
        covered, wrong, _ = rates(plan, one_level(3.0), equal=True)
        assert covered.min() < 0.85
        assert wrong > 0.07


@pytest.mark.parametrize(
    ("plan", "noise"),
    [
        (THREE, one_level(3.0)),
        (TEN, one_level(5.0)),
        (FACTORIAL, the_baseline(5.0)),
        *(
            pytest.param(plan, noise, marks=LONGER)
            for plan in (THREE, TEN, FACTORIAL)
            for noise in (one_level(1.0), one_level(3.0), one_level(5.0), the_baseline(5.0))
        ),
    ],
)
def test_error_rates_hold_whatever_the_ratio(plan: Plan, noise: Noise) -> None:
    """Bounds of 93 % and 6 %, less and more two Monte Carlo errors."""
    covered, wrong, _ = rates(plan, noise)
    assert covered.min() > 0.93 - 0.023
    assert wrong < 0.06 + 0.02


def test_error_rates_hold_in_incomplete_blocks() -> None:
    """What is known between blocks was recovered with one noise for all: coverage 0.76 and family-wise error 16 %."""
    covered, wrong, _ = rates(PAIRS, one_level(3.0), studies=300)
    assert covered.min() > 0.94 - 0.028
    assert wrong < 0.05 + 0.025


@pytest.mark.parametrize(("plan", "name"), [(BETWEEN, "pseudo2"), (BETWEEN, "host"), (SPLIT, "kernel")])
def test_error_rates_hold_where_some_factors_change_between_groups_only(plan: Plan, name: str) -> None:
    """With one noise for all levels the noisy one was covered in 0.87 to 0.89."""
    noisy = next(factor.levels[1] for factor in plan.factors if factor.name == name)
    covered, wrong, _ = rates(plan, lambda levels: 4.0 if levels[name] == noisy else 1.0, studies=150)
    assert covered.min() > 0.94 - 0.04
    assert wrong < 0.06 + 0.035


@LONGER
def test_the_price_where_all_noise_is_equal() -> None:
    for plan, most in ((THREE, 1.75), (TEN, 1.12)):
        _, _, pooled = rates(plan, one_level(1.0), equal=True)
        _, _, own = rates(plan, one_level(1.0))
        assert 1.0 < own / pooled < most
