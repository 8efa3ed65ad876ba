"""Change points of histories: false alarms where nothing changes, changes where they are planted."""

import numpy as np
import pytest
from scipy import stats

from bench.soak.series import autoregression
from leadline.analysis.changepoints import FEWEST, SHORTEST, changes, scores

PERMUTATIONS = 199


def alarms(draw: np.random.Generator, series: int, runs: int, tail: bool) -> int:
    return sum(
        bool(changes(draw.standard_t(3, runs) if tail else draw.normal(size=runs), permutations=PERMUTATIONS))
        for _ in range(series)
    )


@pytest.mark.parametrize("tail", [False, True], ids=["normal", "heavy tails"])
def test_where_nothing_changes_few_series_have_one(tail: bool) -> None:
    found = alarms(np.random.default_rng(5), 200, 16, tail)
    assert stats.binom.sf(found - 1, 200, 0.05) > 0.01, found


def test_a_planted_change_is_found_and_its_set_holds_the_place() -> None:
    rng = np.random.default_rng(6)
    found = held = 0
    for _ in range(60):
        at = int(rng.integers(6, 15))
        series = rng.normal(size=20) + 2.5 * (np.arange(20) >= at)
        one = changes(series, permutations=PERMUTATIONS)
        found += bool(one)
        held += any(each.from_ <= at <= each.until for each in one)
    assert found >= 40
    assert held >= 0.9 * found


def test_two_changes_are_told_apart() -> None:
    rng = np.random.default_rng(7)
    series = np.concatenate([rng.normal(0, 1, 12), rng.normal(8, 1, 12), rng.normal(0, 1, 12)])
    assert [each.at for each in changes(series)] == [12, 24]


def test_runs_that_are_like_those_before_them_are_no_change() -> None:
    rng = np.random.default_rng(8)
    alarms = sum(bool(changes(autoregression(rng, 0.3, 30), permutations=PERMUTATIONS)) for _ in range(60))
    assert alarms <= 6  # 16 of them until one change after another was held against noise that persists


def test_the_statistic_is_that_of_the_paper() -> None:
    """Matteson and James 2014, equations 5, 6 and 8, written out."""
    rng = np.random.default_rng(9)
    figures, orders = rng.normal(size=13), np.array([np.arange(13), rng.permutation(13)])

    def mean(first: np.ndarray, second: np.ndarray) -> float:
        return float(np.mean(np.abs(first[:, None] - second)))

    def within(part: np.ndarray) -> float:
        return mean(part, part) * len(part) / (len(part) - 1)

    def largest(series: np.ndarray) -> float:
        divisions = [
            (series[:at], series[at:until])
            for until in range(2 * SHORTEST, len(series) + 1)
            for at in range(SHORTEST, until - SHORTEST + 1)
        ]
        return max(len(x) * len(y) / (len(x) + len(y)) * (2 * mean(x, y) - within(x) - within(y)) for x, y in divisions)

    assert scores(figures, orders) == pytest.approx([largest(figures[order]) for order in orders])


def test_too_few_or_equal_figures_have_none() -> None:
    assert changes([1.0] * (FEWEST - 2) + [9.0]) == []
    assert changes([1.0] * 30) == []
