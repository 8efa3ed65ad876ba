"""Trends of long runs on series of 14 days whose truth is known.

A drift from the first run to the last, told from noise.
"""

import numpy as np
import pytest

from bench.soak.series import HOURS, LEVELS, autoregression, family, noise, series
from leadline.analysis.drift import last_against_first
from leadline.analysis.soak import DAY, Series, judge


def test_stationary_runs_are_stable() -> None:
    """At most 5 % of runs."""
    rng = np.random.default_rng(7)
    alarms = sum(judge(series(family(rng, phi))).verdict != "stable" for phi in (0.0, 0.5, 0.8, 0.95) for _ in range(5))
    assert alarms <= 2


@pytest.mark.parametrize("name", ["heap", "native", "handles", "threads", "connections", "disk"])
def test_a_leak_of_each_kind_is_found_and_named(name: str) -> None:
    rng = np.random.default_rng(11)
    figures = family(rng, 0.6)
    figures[name] = figures[name] * (1 + 0.6 * HOURS / HOURS[-1])
    found = judge(series(figures))
    assert found.verdict == "degrading"
    assert [drift.series.name for drift in found.degrading] == [name]
    assert found.suspect is not None
    assert found.suspect.series.name == name
    planted = 0.6 * LEVELS[name] / HOURS[-1] * DAY
    assert found.suspect.low - 0.01 < planted < found.suspect.high + 0.01
    assert found.since == 0
    assert f"suspect: {name}" in found.sentence


def test_a_leak_that_begins_late_slows_the_users_later() -> None:
    rng = np.random.default_rng(13)
    figures = family(rng, 0.5)
    figures["handles"] += 40 * np.maximum(HOURS / DAY - 6, 0)
    figures["throughput"] -= 12 * np.maximum(HOURS / DAY - 8, 0)
    found = judge(series(figures))
    assert {drift.series.name for drift in found.degrading} == {"handles", "throughput"}
    assert found.suspect is not None
    assert found.suspect.series.name == "handles"
    assert found.suspect.since == pytest.approx(6 * DAY, abs=DAY)
    assert found.since == found.suspect.since
    slower = next(drift for drift in found.degrading if drift.series.name == "throughput")
    assert slower.per_day < 0
    assert slower.low <= slower.per_day <= slower.high


def test_what_fills_up_levels_off() -> None:
    rng = np.random.default_rng(17)
    figures = family(rng, 0.3)
    figures["heap"] = 400 + np.minimum(40 * HOURS / DAY, 300) + 5 * noise(rng, 0.3)
    figures["native"] = 900 + 300 * (1 - np.exp(-HOURS / (2 * DAY))) + 5 * noise(rng, 0.3)
    found = judge(series(figures))
    assert found.verdict == "stable"
    verdicts = {drift.series.name: drift.verdict for drift in found.drifts}
    assert "levels off" in (verdicts["heap"], verdicts["native"])


def test_a_gap_is_no_trend_and_too_few_points_are_no_verdict() -> None:
    rng = np.random.default_rng(19)
    figures = family(rng, 0.5)
    kept = (HOURS < 5 * DAY) | (HOURS > 8 * DAY)
    gap = [Series(one.name, "", HOURS[kept].tolist(), np.asarray(one.values)[kept].tolist()) for one in series(figures)]
    assert judge(gap).verdict == "stable"
    short = judge([Series("heap", "MiB", [0.0, 1.0, 2.0], [1.0, 2.0, 3.0])])
    assert short.verdict == "undetermined"
    assert short.sentence.startswith("Not known: ")


def test_a_walk_under_noise_is_no_degradation() -> None:
    """Of 0.2 % a minute under 5 %: 171 of 200 runs were called degrading."""
    rng, minutes = np.random.default_rng(23), np.arange(1440)
    runs = 100 * (1 + np.cumsum(rng.normal(0, 0.002, (30, 1440)), axis=1) + rng.normal(0, 0.05, (30, 1440)))
    verdicts = [judge([Series("heap", "MiB", (60.0 * minutes).tolist(), one.tolist())]).verdict for one in runs]
    assert verdicts.count("degrading") <= 6


def test_a_leak_is_found_in_noise_that_persists() -> None:
    """40 % over four hours, autocorrelation 0.95: 14 of 60 runs were."""
    rng, minutes = np.random.default_rng(29), np.arange(240)
    runs = [100 * (1 + 0.4 * minutes / 240 + 0.05 * autoregression(rng, 0.95, 240)) for _ in range(30)]
    verdicts = [judge([Series("heap", "MiB", (60.0 * minutes).tolist(), one.tolist())]).verdict for one in runs]
    assert verdicts.count("degrading") >= 20


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
