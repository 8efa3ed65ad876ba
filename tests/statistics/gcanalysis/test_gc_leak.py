"""The leak test on series of known truth: autocorrelated noise in whole MiB, at the uneven times of collections."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from leadline.gcanalysis.live import LivePoint, leak
from leadline.gcanalysis.trend import quantile, thinned, trend

_SPEC = importlib.util.spec_from_file_location("leaks", Path(__file__).parents[3] / "bench" / "gc" / "leaks.py")
assert _SPEC is not None
assert _SPEC.loader is not None
_TABLE = importlib.util.module_from_spec(_SPEC)
sys.modules["leaks"] = _TABLE
_SPEC.loader.exec_module(_TABLE)

MIB = 1 << 20


def noise(rng: np.random.Generator, count: int, phi: float) -> NDArray[np.float64]:
    """AR(1) with standard deviation 1."""
    made = rng.normal(size=count + 50)
    for i in range(1, len(made)):
        made[i] = phi * made[i - 1] + made[i] * np.sqrt(1 - phi**2)
    return made[50:]


@pytest.mark.parametrize("name", list(_TABLE.NONE))
def test_what_is_no_leak_is_none_of_them(name: str) -> None:
    """A short form of docs/evidence/gc.md (bench/gc/leaks.py): at most 5 % in a row."""
    found: Counter[str] = Counter()
    for noise in (*_TABLE.NOISES, *_TABLE.HARDER):
        for count in (20, 60):
            found += _TABLE.verdicts(_TABLE.NONE[name], count, noise, 8, 5)
    assert found["leak"] <= 0.05 * found.total(), found


@pytest.mark.parametrize(
    ("name", "count", "least"),
    [
        ("from the start, + 100 %", 20, 0.65),
        ("from the start, + 100 %", 50, 0.9),
        ("from the start, + 100 %", 200, 0.9),
        ("from the middle, + 30 %", 100, 0.7),
        ("from the middle, + 100 %", 50, 0.9),
        ("doubling under a rhythm", 60, 0.8),
        ("doubling under a rhythm of 80 %", 60, 0.8),
        ("doubling under office hours", 100, 0.6),
        ("doubling after a warm-up", 50, 0.5),
    ],
)
def test_leaks_are_found(name: str, count: int, least: float) -> None:
    found = sum((_TABLE.verdicts(_TABLE.LEAKS[name], count, noise, 10, 5) for noise in _TABLE.NOISES), Counter())
    assert found["leak"] >= least * found.total(), found


@pytest.mark.parametrize(("phi", "count"), [(0.0, 40), (0.5, 60)])
def test_the_interval_holds_the_slope(phi: float, count: int) -> None:
    rng = np.random.default_rng(11)
    held, runs = 0, 200
    for _ in range(runs):
        at = np.cumsum(rng.exponential(1, count))
        found = trend(at, 3.0 * at + 5 * noise(rng, count, phi)).rise
        span = at[-1] - at[0]
        held += found.bound(0.025) <= 3.0 * span <= found.bound(0.975)
    assert held >= 0.90 * runs


@pytest.mark.parametrize(("cycles", "count"), [(2.3, 60), (7.7, 100), (5.0, 40)])
def test_a_rhythm_is_found_and_noise_has_none(cycles: float, count: int) -> None:
    rng = np.random.default_rng(23)
    at = np.linspace(0, 1, count)
    found = trend(at, 50 * at + 10 * np.sin(2 * np.pi * cycles * at) + noise(rng, count, 0.0))
    assert found.period == pytest.approx(1 / cycles, rel=0.05)
    assert sum(trend(at, noise(rng, count, 0.0)).period is not None for _ in range(50)) <= 3


def test_quantiles_of_student() -> None:
    from scipy import stats

    for freedom in (5, 10, 40):
        for level in (0.95, 0.995):
            assert quantile(level, freedom) == pytest.approx(stats.t.ppf(level, freedom), rel=0.01)


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
    # A stop of two of the seconds in one half is no proof that the other half's pace holds: some are "growing".
    assert found["leak"] + found["growing"] >= 58
    assert found["leak"] >= (30 if still else 58)


def test_a_line_is_its_own_trend() -> None:
    at = np.arange(12.0)
    found = trend(at, 3.0 * at)
    assert found.rise.value == pytest.approx(33)
    assert found.rise.error == pytest.approx(0, abs=1e-9)
    flat = trend(at, np.full(12, 3.0))
    assert flat.rise.value == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="at least 8"):
        trend(at[:7], at[:7])


def test_a_long_series_keeps_its_trend_when_it_is_thinned() -> None:
    at = np.arange(10_000.0)
    times, values = thinned(at, 2 * at)
    assert len(times) <= 400
    assert trend(times, values).rise.value == pytest.approx(2 * (times[-1] - times[0]))


def test_too_little_to_say_anything() -> None:
    few = [LivePoint(0, float(n), None, n * MIB) for n in range(5)]
    found = leak(few, "after full collections")
    assert found.verdict == "undetermined"
    assert "too short to tell" in found.sentence
    assert leak([], "after full collections").verdict == "undetermined"
    many = [LivePoint(0, float(n), None, (100 + n) * MIB) for n in range(30)]
    sure = leak(many, "after full collections", 229 * MIB)
    assert sure.verdict == "leak"
    assert sure.slope == pytest.approx(MIB)
    assert sure.full_in_s == pytest.approx(100)
    assert "3,600 MiB/h" in sure.sentence
