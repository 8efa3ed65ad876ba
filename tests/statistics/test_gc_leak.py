"""The leak test on series of known truth: autocorrelated noise in whole MiB, at the uneven times of collections."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from leadline.gcanalysis.leak import leak
from leadline.gcanalysis.live import LivePoint
from leadline.gcanalysis.trend import drift, thinned, trend

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
        held += found.low <= 3.0 <= found.high
    assert held >= 0.90 * runs


def walk(rng: np.random.Generator, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """A Wiener process at these times."""
    return np.cumsum(rng.normal(size=len(at)) * np.sqrt(np.diff(at, prepend=0.0)))


@pytest.mark.parametrize("count", [8, 15, 40])
def test_the_interval_of_a_drift_holds_it(count: int) -> None:
    rng = np.random.default_rng(13)
    held, runs = 0, 1000
    for _ in range(runs):
        at = np.cumsum(rng.exponential(1, count))
        low, high = drift(at, 3.0 * at + 5 * walk(rng, at), 0.95)
        held += low <= 3.0 <= high
    assert 0.93 * runs <= held <= 0.97 * runs


def walks(count: int, runs: int) -> tuple[Counter[str], Counter[str]]:
    """Verdicts on random walks without a drift: of those that the ranks bound, and of the others."""
    rng = np.random.default_rng(17)
    by_ranks: Counter[str] = Counter()
    by_drift: Counter[str] = Counter()
    for _ in range(runs):
        at = np.cumsum(rng.exponential(10, count))
        sizes = BASE + NOISE * walk(rng, at) / np.sqrt(10)
        points = [LivePoint(0, t, None, round(size) * MIB) for t, size in zip(at.tolist(), sizes, strict=True)]
        found = leak(points, "after full collections", 512 * MIB)
        (by_drift if "random walk" in found.sentence else by_ranks)[found.verdict] += 1
    return by_ranks, by_drift


@pytest.mark.parametrize("count", [15, 20, 40])
def test_a_random_walk_is_seldom_called_a_leak(count: int) -> None:
    by_ranks, by_drift = walks(count, 400)
    assert by_drift.total() >= 40
    assert by_drift["none"] >= 0.98 * by_drift.total()
    assert by_ranks["leak"] <= 24


@pytest.mark.parametrize(("count", "still"), [(20, 0.0), (20, 1.0), (30, 2.0), (40, 2.0)])
def test_a_leak_is_plain_although_the_load_stood_still_once(count: int, still: float) -> None:
    """64 KiB at 60 requests/s, a collection each half second, whole MiB in the log: what hangs together is little."""
    rng = np.random.default_rng(19)
    found: Counter[str] = Counter()
    for _ in range(60):
        gaps = rng.uniform(0.45, 0.55, count)
        asked = 60 * np.cumsum(gaps)
        gaps[rng.integers(1, count)] += still
        sizes = 25 + asked * 65536 / MIB
        points = [
            LivePoint(0, t, None, int(size) * MIB) for t, size in zip(np.cumsum(gaps).tolist(), sizes, strict=True)
        ]
        found[leak(points, "after full collections", 256 * MIB).verdict] += 1
    assert found["leak"] >= 58


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
