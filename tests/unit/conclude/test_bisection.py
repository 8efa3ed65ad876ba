"""What a bisection says before it is over."""

from __future__ import annotations

import math

from leadline.conclude.bisection import sentence
from leadline.planning.bisection import Bisection, Block


def test_a_difference_that_was_measured_exactly_is_told_with_its_size() -> None:
    """The fault: -12 % between two kernels, probed exactly, was called an unknown amount that no change makes."""
    ends = Block((frozenset(), frozenset({0, 1})), (0.0, math.log(0.88)))
    usable = (frozenset[int](), frozenset({0}), frozenset({0, 1}))
    said = sentence(Bisection(2, (ends,), usable, exact=True), "p50", log=True, ordered=True, change=str)
    assert said.startswith("Not yet told which change")
    assert "the ends differ by -12 %, after 2 trials in 1 probes" in said
