"""The search for the highest load, on servers whose capacity is known."""

from __future__ import annotations

import math
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from leadline.host import here
from leadline.load import knee_run
from leadline.load.knee import Found, Interval, Limits, Range, Staircase, Step, knee_of, measure_step
from leadline.load.series import SecondResponses

LIMITS = Limits(p99_ms=100, errors=0.01)


def queue(load: float, capacity: float, seconds: int = 10, seed: int = 1) -> list[SecondResponses]:
    """Seconds of an M/M/1 queue in its steady state: response times are exponential with mean 1/(capacity - load)."""
    draw = random.Random(f"{load} {seed}")
    mean = 1000 / (capacity - load) if load < capacity else 5000
    found = []
    for _ in range(seconds):
        values = sorted(draw.expovariate(1 / mean) for _ in range(max(1, round(min(load, capacity)))))
        found.append(SecondResponses(tuple(values), (1,) * len(values), 0))
    return found


def search(capacity: float, loads: Range, driver_at: float = math.inf) -> Found:
    stairs = Staircase(loads)
    while (load := stairs.next()) is not None:
        assert len(stairs.steps) < 80, "the search does not end"
        stairs.record(measure_step(load, queue(load, capacity), LIMITS, driver_limit=load > driver_at))
    return stairs.result()


def test_a_load_that_its_own_confirmation_breaks_is_not_the_highest() -> None:
    """The server gets slower while the search is under way, from 500 a second to 400."""
    stairs = Staircase(Range(first=10, highest=10_000))
    while (load := stairs.next()) is not None:
        stairs.record(measure_step(load, queue(load, 500), LIMITS))
    first = stairs.unconfirmed
    assert first is not None
    rounds = 0
    while (load := stairs.unconfirmed) is not None:
        rounds += 1
        assert rounds < 20, "the confirmation does not end"
        stairs.record(replace(measure_step(load, queue(load, 400), LIMITS), confirms=True))
        while (load := stairs.next()) is not None:
            stairs.record(measure_step(load, queue(load, 400), LIMITS))
    found = stairs.result()
    assert rounds > 1
    assert found.highest is not None
    assert 300 < found.highest < 400 < first
    assert found.confirmation is not None
    assert (found.confirmation.load, found.confirmation.kept) == (found.highest, True)
    assert found.lowest_failed is not None
    assert found.highest < found.lowest_failed <= first


def test_the_capacity_of_a_queue_is_found() -> None:
    # p99 is ln(100) / (capacity - load) seconds: 100 ms at capacity - 46.05.
    found = search(500, Range(first=10, highest=10_000, resolution=0.02))
    assert found.limited_by == "server"
    assert found.highest is not None
    assert found.lowest_failed is not None
    assert found.highest == pytest.approx(500 - 10 * math.log(100), rel=0.03)
    assert found.highest < found.lowest_failed <= found.highest * 1.02
    assert found.knee.low is not None
    assert found.knee.high is not None
    assert 100 < found.knee.low < found.knee.high < 600


def test_a_first_load_beyond_the_capacity_goes_down() -> None:
    found = search(100, Range(first=800, highest=1000))
    assert found.highest is not None
    assert 40 < found.highest < 60


def test_whole_users_end_one_apart() -> None:
    found = search(70.5, Range(first=3, highest=1000, resolution=0.001, whole=True))
    assert found.lowest_failed == (found.highest or 0) + 1
    assert all(step.load == int(step.load) for step in found.steps)


def test_a_highest_load_between_two_users_is_the_lower_one() -> None:
    found = search(500, Range(first=3, highest=10.5, whole=True))
    assert (found.highest, found.limited_by) == (10.0, "range")
    assert all(step.load == int(step.load) for step in found.steps)


def test_a_resolution_of_nothing_ends() -> None:
    found = search(100, Range(first=49, highest=60, resolution=0.0, factor=1.05))
    assert found.highest is not None
    assert found.lowest_failed is not None
    assert found.lowest_failed == pytest.approx(found.highest, rel=1e-12)


def test_the_driver_as_the_limit_is_said() -> None:
    found = search(500, Range(first=10, highest=10_000), driver_at=200)
    assert found.limited_by == "driver"
    assert found.highest is not None
    assert 180 < found.highest <= 200
    assert "at least" in found.reason


def test_the_ends_of_the_range() -> None:
    assert search(500, Range(first=10, highest=50)).limited_by == "range"
    nothing = search(0.01, Range(first=10, highest=50))
    assert nothing.highest is None
    assert "no load" in nothing.reason


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth = math.log(100) * 10
    covered = 0
    for seed in range(200):
        p99 = measure_step(100, queue(100, 200, seconds=20, seed=seed), LIMITS, seed=seed).p99_ms
        assert p99.low is not None
        assert p99.high is not None
        covered += p99.low <= truth <= p99.high
    assert covered >= 174, covered  # 190 expected; a bootstrap of 20 blocks may lose a little


def test_errors_and_drops_break_the_limit() -> None:
    seconds = [SecondResponses((1.0,), (100,), failed=3)] * 10
    step = measure_step(100, seconds, LIMITS)
    assert not step.kept
    assert step.sure
    assert step.errors.value == pytest.approx(3 / 103)
    dropped = measure_step(100, [SecondResponses((1.0,), (100,), 0)] * 10, LIMITS, dropped=100)
    assert not dropped.kept
    clean = measure_step(100, [SecondResponses((1.0,), (100,), 0)] * 10, LIMITS)
    assert clean.kept
    assert clean.sure
    assert clean.errors.high is not None
    assert 0 < clean.errors.high < 0.01  # never sure of none at all


def test_nothing_measured_is_no_number() -> None:
    step = measure_step(5, [SecondResponses((), (), 0)] * 3, LIMITS)
    assert step.p99_ms == Interval(None, None, None)
    assert not step.kept
    assert step.sure
    stairs = Staircase(Range(first=5, highest=50))
    stairs.record(step)
    assert stairs.next() is None  # lower loads would show even less
    assert stairs.result().reason == "at 5 no transaction ended in the steady phase: measure longer (--steady)"
    one = measure_step(5, [SecondResponses((1.0,), (count,), 0) for count in (1, 40)], LIMITS)
    assert one.throughput.low == 0.0
    flat = [Step(load, 9, step.throughput, 1.0, step.p99_ms, step.errors, True, True, False) for load in range(1, 9)]
    assert knee_of(flat).value is None


def test_no_two_runs_of_a_search_have_the_same_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in doubt are measured twice; what a seed created at the server is there already."""
    seeds: list[str] = []

    def fake_run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        seeds.extend(argv[at + 1] for at, word in enumerate(argv) if word == "--seed")
        return subprocess.CompletedProcess(argv, 0)

    driver = SimpleNamespace(limit=False, evidence=[])
    summary = SimpleNamespace(phases=SimpleNamespace(steady=(0, 10)), dropped=0, driver=driver, limits=())
    monkeypatch.setattr(knee_run, "find_binary", lambda: Path("leadline-load"))
    monkeypatch.setattr(here, "run", fake_run)
    monkeypatch.setattr(knee_run, "read_summary", lambda _: summary)
    monkeypatch.setattr(knee_run, "seconds_between", lambda *_: queue(5, 200))
    knee_run.find_knee(
        "brokerage-classic", ["--seed=7", "--out", str(tmp_path)], Limits(1e6, 0.0), Range(4, 5), lambda _: None
    )
    assert len(seeds) > 3  # no error in few transactions is no proof of none: in doubt
    assert seeds == [str(7 + number) for number in range(len(seeds))]
