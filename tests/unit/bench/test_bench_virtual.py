"""The arithmetic of the comparisons of virtual with real time."""

from __future__ import annotations

import pytest

from bench.virtual.planted import rows
from bench.virtual.service import read
from bench.virtual.text import change, table


def test_a_change_is_found_where_its_interval_leaves_out_zero() -> None:
    assert change([100, 200], [101, 202.02]).found
    assert change([100], [101]).low is None
    assert not change([100, 100], [101, 99]).found
    with pytest.raises(ValueError, match="1 values of the baseline and 2 treated"):
        change([1], [1, 2])


def test_a_planted_change_is_judged_by_sign_and_size() -> None:
    exact = {"none": [100.0, 200], "loop": [100.5, 201.001], "twice": [200.0, 400]}
    noisy = {"none": [100.0, 200], "loop": [120.0, 190]}
    other = {"none": [100.0, 200], "loop": [110.0, 220.02]}
    (row,) = rows(exact, {"noisy": noisy, "other": other})
    assert row[1] == "+0.500 %"
    assert [cell.rpartition(": ")[2] for cell in row[2:]] == ["found", "not found", "found, another size"]


def test_the_median_is_a_trials_figure_and_tables_are_markdown() -> None:
    assert read("60\n10\n20\n30\n", 1.0).typical == 20
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
