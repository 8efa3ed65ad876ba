"""Change points of histories: false alarms where nothing changes, changes where they are planted."""

import numpy as np
import pytest
from scipy import stats

from leadline.analysis.changepoints import FEWEST, changes

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
    assert found >= 55
    assert held >= 0.9 * found


def test_two_changes_are_told_apart() -> None:
    rng = np.random.default_rng(7)
    series = np.concatenate([rng.normal(0, 1, 12), rng.normal(8, 1, 12), rng.normal(0, 1, 12)])
    assert [each.at for each in changes(series)] == [12, 24]


def test_too_few_or_equal_figures_have_none() -> None:
    assert changes([1.0] * (FEWEST - 2) + [9.0]) == []
    assert changes([1.0] * 30) == []
