"""The arithmetic of the bench of layouts on a real stack."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.layouts.summary import (
    CPU,
    STATEMENTS,
    TWIN,
    WAIT,
    Case,
    judged,
    log_width,
    planted,
    scaled,
    widths,
    within_share,
)
from leadline.model.knob import Level
from leadline.model.result import Drift, Effect, Interval, ResponseAnalysis, Verdict


def effect(factor: str, response: str, level: Level, low: float, high: float) -> Effect:
    interval = Interval(low, high)
    return Effect(factor, level, 0, response, Verdict.UNDETERMINED, 4, 0, (low + high) / 2, interval)


def case(layout: str, minutes: float, *effects: Effect) -> Case:
    means = {"throughput": 500.0, "cpu_per_transaction": 1.25}
    none = Drift(None, None, None, None, False, "")
    responses = {
        name: ResponseAnalysis(
            name, mean, None, 4, tuple(e for e in effects if e.response == name), None, none, (), None, None
        )
        for name, mean in means.items()
    }
    return Case(layout, "quiet", 1, minutes, 12, 40, None, None, responses)


def test_widths_are_of_logarithms_and_shrink_with_the_root_of_the_time() -> None:
    assert log_width(Interval(-50.0, 100.0)) == pytest.approx(math.log(4))
    assert scaled(0.4, 2.5) == pytest.approx(0.2)
    half = case("plain", 2.5, effect(TWIN, "throughput", "other", -50.0, 100.0))
    assert widths([half, half]) == {("quiet", TWIN, "throughput", "plain"): [pytest.approx(math.log(4) / 2)] * 2}


def test_what_is_planted_is_known_where_it_adds_up() -> None:
    burnt = effect(CPU, "cpu_per_transaction", 25, 1.0, 3.0)
    waited = effect(WAIT, "throughput", 2000, -4.0, -2.0)
    costs = case("rotation", 7.0, burnt, waited)
    assert planted(costs, burnt) == pytest.approx(2.0)
    assert planted(costs, waited) == pytest.approx(100 * (80 / 82 - 1))
    assert planted(costs, effect(TWIN, "throughput", "other", -1.0, 1.0)) == 0
    assert planted(costs, effect(STATEMENTS, "throughput", 1, -1.0, 1.0)) is None


@pytest.mark.parametrize(
    ("low", "high", "truth", "said"),
    [
        (1.0, 3.0, 2.0, "found"),
        (-3.0, -1.0, -2.0, "found"),
        (-1.0, 3.0, 2.0, "not found"),
        (-3.0, -1.0, 2.0, "wrong sign"),
        (-1.0, 1.0, 0.0, "nothing, right"),
        (1.0, 2.0, 0.0, "something"),
        (1.0, 2.0, None, ""),
    ],
)
def test_what_an_interval_says(low: float, high: float, truth: float | None, said: str) -> None:
    assert judged(effect(TWIN, "throughput", "other", low, high), truth) == said


def test_the_share_from_inside_an_instance() -> None:
    assert within_share(1.0, 100.0, 0.0, 6.0, 600.0) == pytest.approx(0.5)
    assert within_share(1.0, 100.0, 0.5, 6.0, 600.0) == pytest.approx(0.75)
    assert within_share(1.0, 100.0, -0.5, 6.0, 600.0) == pytest.approx(0.5)
    assert within_share(-0.1, 100.0, 0.0, 6.0) == 1.0
    assert within_share(math.inf, 100.0, 0.0, 6.0) == 0.0


def test_the_neighbour_ends_when_whoever_started_it_does() -> None:
    command = [sys.executable, "-m", "bench.layouts.neighbour", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        assert process.stdin is not None
        process.stdin.close()  # as the kernel does for a process that is killed
        assert process.wait(60) == 0
