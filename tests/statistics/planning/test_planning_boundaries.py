"""Boundaries against published tables, and families of comparisons against simulated studies."""

import math
from dataclasses import replace

import numpy as np
import pytest
from group_sequential import crossing, obrien_fleming, pocock, spending_bounds
from simulated_study import pseudo_factors

from leadline.analysis.within import Information, planned_sample
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.planning.boundary import Boundary, simulate


# Jennison and Turnbull, Group Sequential Methods (2000), tables 2.1 and 2.3, two-sided 0.05.
@pytest.mark.parametrize(
    ("looks", "classical", "constant"),
    [(1, 1.960, 1.960), (2, 1.977, 2.178), (3, 2.004, 2.289), (4, 2.024, 2.361), (5, 2.040, 2.413), (10, 2.087, 2.555)],
)
def test_classical_boundaries_are_those_of_the_tables(looks: int, classical: float, constant: float) -> None:
    assert obrien_fleming(looks)[-1] == pytest.approx(classical, abs=6e-4)
    assert obrien_fleming(looks)[0] == pytest.approx(classical * math.sqrt(looks), abs=2e-3)
    assert pocock(looks)[0] == pytest.approx(constant, abs=6e-4)


def test_spending_boundaries_are_those_of_lan_and_demets() -> None:
    """Five equal looks, two-sided 0.05: the values of the authors' program for the O'Brien-Fleming type function."""
    expected = (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)
    assert spending_bounds([0.2, 0.4, 0.6, 0.8, 1.0]) == pytest.approx(expected, abs=2e-4)


def test_all_of_alpha_is_spent_and_no_more() -> None:
    bounds = spending_bounds([0.1, 0.45, 0.7, 1.0], 0.05)
    assert crossing([0.1, 0.45, 0.7, 1.0], bounds).sum() == pytest.approx(0.05, abs=1e-7)


@pytest.mark.parametrize("fractions", [[], [0.0, 1.0], [0.5, 0.5], [0.6, 0.3]])
def test_looks_out_of_order_are_refused(fractions: list[float]) -> None:
    with pytest.raises(ValueError, match="grow from look to look"):
        spending_bounds(fractions)


def test_a_family_of_one_with_known_noise_has_the_integrated_boundary() -> None:
    part = Information(np.array([[1.0]]), 200_001)
    fractions = [0.25, 0.5, 0.75, 1.0]
    bounds = simulate([part] * 4).bounds(fractions, 0.05)
    exact = spending_bounds(fractions)
    assert bounds[0] == pytest.approx(exact[0], abs=1e-2)
    assert bounds[2:] == pytest.approx(exact[2:], abs=0.03)


def test_one_look_at_a_family_is_dunnetts_test() -> None:
    """Three treatments and a control, known noise, two-sided 0.05: 2.35 (Dunnett 1964)."""
    plan = make_plan(pseudo_factors(3), Design(replicates=5, sentinels=None))
    table, sample = planned_sample(plan)
    part = Information.of(table, replace(sample, blocks=np.zeros(20, dtype=np.int64)))
    assert simulate([part]).bounds([1.0], 0.05)[0] == pytest.approx(2.35, abs=0.006)


def test_later_looks_do_not_change_earlier_bounds() -> None:
    parts = [Information(np.eye(3), 7), Information(np.eye(3), 7)]
    ends = (Information(np.eye(3) * 4, 12), Information(np.zeros((3, 3)), 0))
    one, other = (simulate([*parts, end]).bounds([0.3, 0.6, 1.0], 0.05) for end in ends)
    assert one[:2] == other[:2]
    assert one[2] != other[2]


def test_a_family_keeps_its_error_over_all_looks_with_few_degrees_of_freedom() -> None:
    """4,000 null studies of three comparisons, two blocks a look, t on 4, 10 and 17 degrees of freedom, each look
    judged at the level of its bound for known noise.
    """
    plan = make_plan(pseudo_factors(3), Design(replicates=6, sentinels=6))
    table, sample = planned_sample(plan)
    looks = [sample.only((sample.blocks >= low) & (sample.blocks < low + 2)) for low in (0, 2, 4)]
    paths = simulate([Information.of(table, each) for each in looks])
    assert [known.fit.df for known in paths.known] == [4, 10, 17]
    boundary = Boundary(paths, (1 / 3, 2 / 3, 1.0))
    bounds = []
    for number, known in enumerate(paths.known, 1):
        strict = boundary.interim(number)
        assert strict is not None
        bounds.append(paths.law(number - 1).quantile(strict.level, known.fit.df))
    crossed = np.zeros(4000, dtype=bool)
    rng = np.random.default_rng(11)
    weighted, squares = np.zeros((4000, 3)), np.zeros(4000)
    for index, each in enumerate(looks):
        values = _inside(rng.normal(size=(each.size, 4000)), each.blocks).T
        squares += np.sum(values**2, axis=1)
        levels = np.asarray(each.cells[:, None] == 1 + np.arange(3), dtype=np.float64)
        weighted += values @ _inside(levels, each.blocks)
        known = paths.known[index]
        covariance = np.linalg.inv(known.matrix)
        estimates = weighted @ covariance
        sigma = np.sqrt((squares - np.sum(estimates * weighted, axis=1)) / known.fit.df)
        crossed |= np.max(np.abs(estimates) / np.sqrt(np.diag(covariance)), axis=1) / sigma > bounds[index]
    assert crossed.mean() == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 4000))


def _inside(columns: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Columns (n, any) less their groups' means."""
    found = columns.copy()
    for group in np.unique(groups):
        found[groups == group] -= found[groups == group].mean(axis=0)
    return found


def test_repeated_p_values_agree_with_the_boundary() -> None:
    parts = [Information(np.eye(2), 8)] * 3
    paths = simulate(parts)
    fractions = [1 / 3, 2 / 3, 1.0]
    bound = paths.bounds(fractions, 0.05)[2]
    assert paths.repeated_p(fractions, 2, bound * 1.001) <= 0.0501
    assert paths.repeated_p(fractions, 2, bound * 0.98) > 0.05
    assert paths.repeated_p(fractions, 2, 0.01) > 0.9
