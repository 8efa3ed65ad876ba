"""Intervals of the scalability law hold the truth, also at the bound of 0 and with noise that differs by size."""

from __future__ import annotations

import numpy as np
import pytest
from witnesses import matrix

from leadline.capacity.scaling import scaling

LONGER = matrix("some hundred simulated studies more")

STUDIES = 60


# growth: of the noise, from the smallest size to the largest
@pytest.mark.parametrize(
    ("contention", "coherency", "growth"),
    [
        (0.03, 0.0005, 1.0),
        *(pytest.param(*law, marks=LONGER) for law in ((0.0, 0.0, 1.0), (0.1, 0.0, 3.0))),
        pytest.param(0.02, 0.01, 3.0, marks=LONGER),
    ],
)
def test_intervals_hold_the_truth(contention: float, coherency: float, growth: float) -> None:
    rng = np.random.default_rng(7)
    n = np.repeat([1.0, 2, 4, 8, 16], 3)
    spread = 0.03 * growth ** (np.log2(n) / 4 - 0.5)
    held = np.zeros(3)
    for _ in range(STUDIES):
        x = 100 * n / (1 + contention * (n - 1) + coherency * n * (n - 1)) * np.exp(rng.normal(0, spread))
        found = scaling("cpus", n, x)
        held += [
            found.rate_interval.contains(100),
            found.contention_interval.contains(contention),
            found.coherency_interval.contains(coherency),
        ]
    assert (held >= 0.87 * STUDIES).all(), held / STUDIES  # 95 % less three standard errors
