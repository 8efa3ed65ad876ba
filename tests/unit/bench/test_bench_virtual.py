"""The arithmetic of the comparisons of virtual with real time."""

from __future__ import annotations

import pytest

from bench.virtual import agree, cost
from bench.virtual.determinism import Repeats, verdict
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


def repeats(seed: int, *texts: str, way: str = "fork") -> Repeats:
    return Repeats(seed, way, [read(text, 1.0, {"guest.ended": "7.01"}) for text in texts])


def test_one_other_digit_fails_and_so_does_a_seed_without_effect() -> None:
    same = [repeats(seed, *[f"{seed}00 50 60"] * 5) for seed in (1, 2, 3)]
    assert verdict(same) == (True, "15 trials: every repeat identical to the last digit, every seed another")
    other = [*same[:2], repeats(3, *["300 50 60"] * 4, "301 50 60")]
    assert verdict(other) == (False, "not identical: seed 3, fork")
    assert other[2].row()[-1] == "DIFFERENT"
    late = Repeats(1, "fork", [read("1 1", 1.0, {"guest.ended": ended}) for ended in ("7.01", "7.02")])
    assert not late.identical
    assert verdict([repeats(1, "9 9"), repeats(2, "9 9")])[1].startswith("two seeds gave the same figures")
    assert verdict([repeats(1, "9 9"), repeats(1, "9 9", way="from boot to end")])[0]


def test_agreement_is_of_ranks_and_directions() -> None:
    """Half of the effects doubled: ranks are the same. One turned round: of 10 pairs of 5 effects 4 disagree."""
    effects = [-1.0, 0.1, 0.2, 0.3, 0.4]
    same = agree.agreement(effects, [2 * effect for effect in effects])
    assert same.tau == pytest.approx(1.0)
    assert (same.same, same.of) == (5, 5)
    turned = agree.agreement(effects, [*effects[:-1], -2.0])
    assert turned.tau == pytest.approx((6 - 4) / 10)
    assert turned.same == 4
    assert turned.low < turned.tau < turned.high
    with pytest.raises(ValueError, match="2 and 2 effects"):
        agree.agreement([1.0, 2.0], [1.0, 2.0])


def test_an_effect_is_large_where_all_trials_say_so() -> None:
    virtual = agree.read("slow_or_fast 10 5\nsame_or_not 10 10.1\nnoisy 10 20\nother 8 4\nmore 1 3")
    assert virtual["slow_or_fast"] == pytest.approx(-0.693, abs=1e-3)
    real = {name: [value, value + (-2.0 if name == "noisy" else 0.01)] for name, value in virtual.items()}
    text = agree.report({name: [value] for name, value in virtual.items()}, real, "microbenchmark")
    large = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if " | yes | " in line]
    assert large == ["slow or fast", "other", "more"]
    assert "All 5: tau " in text
    assert "The 3 large ones: tau +" in text


def test_trials_per_minute_alone_and_side_by_side() -> None:
    assert cost.row("fork", [4.0, 6.0], 5.0, 2, 30.0) == ["fork", "30", "5.0", "12.0", "24.0", "2"]
    assert cost.row("here", [4.0, 6.0], 0.0, 1, 0.0)[4] == "disturb each other"
