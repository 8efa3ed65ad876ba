"""What the report's words say of the figures beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.model.result import Drift, Interval, ResponseAnalysis
from leadline.report import words

ONE = ResponseAnalysis(
    response="throughput",
    baseline_mean=100.0,
    baseline_interval=Interval(10.0, 190.0, 0.95),
    baseline_trials=6,
    effects=(),
    luck=None,
    drift=Drift(None, None, None, None, False, ""),
    groups=(),
    residual_cv=None,
    detectable=None,
)


@pytest.mark.parametrize(
    ("blocks", "text"),
    [(0, "6 trials"), (1, "6 trials"), (2, "6 trials; two blocks: wide by 1 degree of freedom"), (3, "6 trials")],
)
def test_an_interval_of_two_blocks_says_why_it_is_wide(blocks: int, text: str) -> None:
    assert words.baseline_trials(replace(ONE, baseline_blocks=blocks)) == text
