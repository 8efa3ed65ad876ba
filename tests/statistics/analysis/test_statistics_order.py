"""Effects of the order: error rate where there is none, planted ones found."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.order import order_effects


def orders(rng: np.random.Generator, later: float, other: float, runs: int = 20) -> tuple[list[float], ...]:
    treatments = [int(one) for _ in range(runs) for one in rng.permutation(2)]
    blocks = [at // 2 for at in range(2 * runs)]
    logs = 0.05 * rng.standard_normal(2 * runs) + 0.2 * np.array(treatments)
    logs += later * (np.arange(2 * runs) % 2) + np.repeat(0.05 * rng.standard_normal(runs), 2)
    logs += other * np.append(0, np.diff(treatments) != 0)
    return list(np.exp(logs)), treatments, blocks


def test_where_the_order_does_nothing_it_is_found_seldom() -> None:
    rng = np.random.default_rng(7)
    wrong = sum(any(one.found for one in order_effects(*orders(rng, 0, 0))) for _ in range(400))
    assert wrong / 400 <= 0.08  # 5 % and 2.75 standard errors


@pytest.mark.parametrize(("later", "other", "name"), [(0.1, 0, "later"), (0, 0.2, "after another")])
def test_planted_effects_are_found_with_their_size(later: float, other: float, name: str) -> None:
    rng = np.random.default_rng(8)
    sizes = []
    for _ in range(60):
        found = {one.name: one for one in order_effects(*orders(rng, later, other))}
        sizes.append((found[name].percent, found[name].found))
    assert np.mean([seen for _, seen in sizes]) > 0.9
    assert np.mean([size for size, _ in sizes]) == pytest.approx(100 * np.expm1(later + other), rel=0.15)


def test_what_the_order_cannot_tell_is_left_out() -> None:
    assert order_effects([1.0, 1.1, 1.2, 1.1], [0, 1, 0, 1], [0, 0, 1, 1]) == ()
