"""The leak test on series of known truth: autocorrelated noise in whole MiB, at the uneven times of collections."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from leadline.gcanalysis.leak import leak
from leadline.gcanalysis.live import LivePoint
from leadline.gcanalysis.trend import thinned, trend

MIB = 1 << 20
BASE, NOISE = 100.0, 2.0  # MiB


def noise(rng: np.random.Generator, count: int, phi: float) -> NDArray[np.float64]:
    """AR(1) with standard deviation 1."""
    made = rng.normal(size=count + 50)
    for i in range(1, len(made)):
        made[i] = phi * made[i - 1] + made[i] * np.sqrt(1 - phi**2)
    return made[50:]


def verdicts(shape: str, rise: float, count: int, phi: float, runs: int) -> Counter[str]:
    rng = np.random.default_rng(7)
    found: Counter[str] = Counter()
    for _ in range(runs):
        at = np.cumsum(rng.exponential(10, count))
        part = at / at[-1]
        grown = part if shape == "line" else 1 - np.exp(-part / 0.2)
        sizes = BASE * (1 + rise * grown) + NOISE * noise(rng, count, phi)
        points = [LivePoint(0, t, None, round(size) * MIB) for t, size in zip(at.tolist(), sizes, strict=True)]
        found[leak(points, "after full collections", 512 * MIB).verdict] += 1
    return found


@pytest.mark.parametrize(("count", "phi"), [(20, 0.0), (40, 0.5), (40, 0.8), (100, 0.5)])
def test_a_live_set_without_growth_is_no_leak(count: int, phi: float) -> None:
    found = verdicts("line", 0.0, count, phi, 150)
    assert found["leak"] + found["growing"] + found["levels off"] <= 5
    assert found["none"] >= 125


@pytest.mark.parametrize(("count", "phi"), [(40, 0.0), (40, 0.5), (100, 0.8)])
def test_a_live_set_that_grows_by_a_third_is_a_leak(count: int, phi: float) -> None:
    found = verdicts("line", 0.3, count, phi, 60)
    assert found["leak"] >= 48
    assert found["leak"] + found["growing"] >= 56


def test_a_cache_that_fills_is_no_leak() -> None:
    found = verdicts("fills", 0.5, 150, 0.3, 60)
    assert found["leak"] <= 3
    assert found["levels off"] + found["none"] >= 30


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_the_interval_holds_the_slope(phi: float) -> None:
    rng = np.random.default_rng(11)
    held, runs = 0, 200
    for _ in range(runs):
        at = np.cumsum(rng.exponential(1, 40))
        found = trend(at, 3.0 * at + 5 * noise(rng, 40, phi), 0.95)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 3.0 <= found.high
    assert held >= 0.90 * runs


def test_a_trend_by_hand_and_beside_scipy() -> None:
    from scipy import stats

    at = np.arange(12.0)
    values = np.array([5, 6, 5, 7, 8, 7, 9, 9.5, 9, 11, 10, 12])
    found = trend(at, values, 0.95)
    theirs = stats.theilslopes(values, at, 0.95)
    assert found.slope == pytest.approx(theirs.slope)
    assert (found.low, found.high) == (
        pytest.approx(theirs.low_slope, rel=0.1),
        pytest.approx(theirs.high_slope, rel=0.1),
    )
    flat = trend(at, np.full(12, 3.0))
    assert (flat.slope, flat.low, flat.high, flat.p_value) == (0, 0, 0, 1)
    with pytest.raises(ValueError, match="at least 4"):
        trend(at[:3], values[:3])


def test_a_long_series_keeps_its_trend_when_it_is_thinned() -> None:
    at = np.arange(10_000.0)
    times, values = thinned(at, 2 * at)
    assert len(times) <= 400
    assert trend(times, values).slope == pytest.approx(2)


def test_too_little_to_say_anything() -> None:
    few = [LivePoint(0, float(n), None, n * MIB) for n in range(5)]
    found = leak(few, "after full collections")
    assert found.verdict == "undetermined"
    assert "8 are needed" in found.sentence
    assert leak([], "after full collections").verdict == "undetermined"
    many = [LivePoint(0, float(n), None, (100 + n) * MIB) for n in range(30)]
    sure = leak(many, "after full collections", 229 * MIB)
    assert sure.verdict == "leak"
    assert sure.slope == pytest.approx(MIB)
    assert sure.full_in_s == pytest.approx(100)
    assert "3.6e+03 MiB/h" in sure.sentence
