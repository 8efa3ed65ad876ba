"""A drift from the first run to the last, told from noise."""

import numpy as np
import pytest

from leadline.analysis.drift import last_against_first


def times(rise: float, rng: np.random.Generator, count: int = 40) -> tuple[np.ndarray, list[int]]:
    commands = rng.integers(0, 2, count)
    noise = 0.05 * rng.standard_normal(count) + (rng.random(count) < 0.05) * 0.7
    return np.exp(noise + 0.3 * commands + np.log1p(rise) * np.arange(count) / (count - 1)), commands.tolist()


def test_a_drift_is_found_with_its_size_whatever_the_commands_and_outliers() -> None:
    rng = np.random.default_rng(7)
    trends = [last_against_first(*times(4.0, rng)) for _ in range(50)]
    assert all(trend is not None and trend.found for trend in trends)
    assert np.median([trend.percent for trend in trends if trend is not None]) == pytest.approx(400, rel=0.1)


def test_without_a_drift_few_are_found() -> None:
    rng = np.random.default_rng(8)
    found = [trend.found for _ in range(400) if (trend := last_against_first(*times(0.0, rng))) is not None]
    assert len(found) == 400
    assert sum(found) <= 10
    assert last_against_first([1.0, 2.0], [0, 1]) is None
