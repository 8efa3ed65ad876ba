"""The wash-out by factor level, on slots in which it is planted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.analysis.washout_levels import LevelledSlot, LevelWashOut, by_level

EFFECTS = {"fast": (0.0, 0.15), "slow": (0.0, 0.2, -0.1)}


def planted(
    seed: int, up: float = 2.0, down: float = 2.0, count: int = 72, length: int = 12, scale: float = 1.0
) -> list[LevelledSlot]:
    """Slots whose levels are drawn at random. ``fast`` acts at once; ``slow`` with the time constant ``up`` in seconds
    towards its levels that raise the response, ``down`` towards the others; noise of 3 % follows AR(1).
    """
    rng = np.random.default_rng(seed)
    noise, slow, before, found = 0.0, 0.0, None, []
    for _ in range(count):
        after = {name: str(rng.integers(len(sizes))) for name, sizes in EFFECTS.items()}
        goal = scale * EFFECTS["slow"][int(after["slow"])]
        constant = up if goal > slow else down
        values = []
        for _ in range(length):
            slow = goal + (slow - goal) * (math.exp(-1 / constant) if constant else 0.0)
            noise = 0.3 * noise + 0.95 * 0.03 * float(rng.normal())
            values.append(1 + scale * EFFECTS["fast"][int(after["fast"])] + slow + noise)
        found.append(LevelledSlot(tuple(values), before, after))
        before = after
    return found


def named(found: tuple[LevelWashOut, ...]) -> set[tuple[str, str]]:
    return {(one.factor, one.level) for one in found}


def test_the_slow_factor_is_found_and_the_fast_one_is_not() -> None:
    runs = [by_level(planted(seed)) for seed in range(40)]
    found = [one for run in runs for one in run]
    slow = [one for one in found if one.factor == "slow"]
    assert len(slow) >= 0.85 * 40 * 3
    assert len(found) - len(slow) <= 5
    assert np.median([one.time_constant for one in slow]) == pytest.approx(2.0, rel=0.15)
    assert np.median([one.seconds for one in slow]) == pytest.approx(2.0 * math.log(10), abs=1.0)


def test_a_change_that_is_slow_in_one_direction_only_is_told_by_level() -> None:
    """Level 1 is the highest: whoever goes there goes up, slowly; level 2 is the lowest, reached at once."""
    runs = [named(by_level(planted(seed, up=3.0, down=0.0))) for seed in range(40)]
    assert sum(("slow", "1") in run for run in runs) >= 36
    assert sum(("slow", "2") in run for run in runs) <= 4


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_no_level_is_found_where_nothing_is_carried_over(scale: float) -> None:
    """With and without effects: at 5 % for all levels together, and four binomial standard errors of 200 studies."""
    wrong = sum(bool(by_level(planted(seed, 0.0, 0.0, 48, 10, scale))) for seed in range(200))
    assert wrong / 200 < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 200)


def test_few_slots_missing_seconds_and_constant_values_find_nothing() -> None:
    assert by_level([]) == ()
    assert by_level(planted(1, count=8)) == ()
    flat = [LevelledSlot((1.0,) * 8, slot.before, slot.after) for slot in planted(1)]
    assert by_level(flat) == ()
    gaps = [LevelledSlot((math.nan, *slot.values[1:]), slot.before, slot.after) for slot in planted(1)]
    assert by_level(gaps) == ()
