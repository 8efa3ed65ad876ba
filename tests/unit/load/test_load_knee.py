"""The search for the highest load, on servers whose capacity is known."""

from __future__ import annotations

import json
import math
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.host import here
from leadline.load import knee_run
from leadline.load.driver import find_binary
from leadline.load.knee import (
    Found,
    LoadInterval,
    LoadLimits,
    LoadStep,
    Range,
    Staircase,
    knee_of,
    measure_step,
    steps_at_most,
)
from leadline.load.result import LimitResult
from leadline.load.series import SecondResponses
from leadline.load.within import Bound, check_bounds, read_bound, with_scenario
from leadline.model.errors import LeadlineError, UsageError

LIMITS = LoadLimits(p99_ms=100, errors=0.01)


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
    slow = [SecondResponses((1.0, 90.0), (50, 50), failed=50, unanswered=50, unanswered_from=90.0)] * 10
    step = measure_step(100, slow, LoadLimits(100.0, 0.9))
    assert (step.kept, step.sure, step.broken, step.at_least) == (False, True, ("p99",), ("p99",))
    assert (step.throughput.value, step.errors.value) == (50, 0.5)
    clean = measure_step(100, [SecondResponses((1.0,), (100,), 0)] * 10, LIMITS)
    assert clean.kept
    assert clean.sure
    assert clean.errors.high is not None
    assert 0 < clean.errors.high < 0.01  # never sure of none at all


def test_nothing_measured_is_no_number() -> None:
    step = measure_step(5, [SecondResponses((), (), 0)] * 3, LIMITS)
    assert step.p99_ms == LoadInterval(None, None, None)
    assert not step.kept
    assert step.sure
    stairs = Staircase(Range(first=5, highest=50))
    stairs.record(step)
    assert stairs.next() is None  # lower loads would show even less
    assert stairs.result().reason == "at 5 no transaction ended in the steady phase: measure longer (--steady)"
    one = measure_step(5, [SecondResponses((1.0,), (count,), 0) for count in (1, 40)], LIMITS)
    assert one.throughput.low == 0.0
    flat = [
        LoadStep(load, 9, step.throughput, 1.0, step.p99_ms, step.errors, True, True, False) for load in range(1, 9)
    ]
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
        "brokerage-classic", ["--seed=7", "--out", str(tmp_path)], LoadLimits(1e6, 0.0), Range(4, 5), lambda _: None
    )
    assert len(seeds) > 3  # no error in few transactions is no proof of none: in doubt
    assert seeds == [str(7 + number) for number in range(len(seeds))]


SCENARIO = "scenario: two\nmix: { look: 1, buy: 1 }\ntransactions:\n  look: [{ get: /look }]\n  buy: [{ get: /buy }]\n"


def responses(draw: random.Random, load: float, capacity: float, times: float) -> SecondResponses:
    """A second of M/M/1; ``times`` as long as its own response times."""
    mean = times * 1000 / max(capacity - load, 0.5)
    values = sorted(draw.expovariate(1 / mean) for _ in range(max(1, round(load))))
    return SecondResponses(tuple(values), (1,) * len(values), 0)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """leadline-load on a system of capacity 100/s, in which ``buy`` takes three times as long as ``look``."""
    rates: list[float] = []

    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        rates.append(float(argv[argv.index("--rate") + 1]))
        return subprocess.CompletedProcess(argv, 0)

    def seconds(_: object, *between: object) -> list[SecondResponses]:
        draw = random.Random(f"{len(rates)} {between[-1]}")
        return [responses(draw, rates[-1], 100, 3 if between[-1] == "buy" else 1) for _ in range(20)]

    summary = SimpleNamespace(
        phases=SimpleNamespace(steady=(0, 20)),
        dropped=0,
        driver=SimpleNamespace(limit=False, evidence=()),
        limits=(),
    )
    monkeypatch.setattr(knee_run, "find_binary", lambda: Path("leadline-load"))
    monkeypatch.setattr(here, "run", run)
    monkeypatch.setattr(knee_run, "read_summary", lambda _: summary)
    monkeypatch.setattr(knee_run, "seconds_between", seconds)
    path = tmp_path / "two.yaml"
    path.write_text(SCENARIO)
    return path


def test_the_transaction_that_gives_out_first_and_the_load_at_its_limit(simulated: Path, tmp_path: Path) -> None:
    """p90 of buy is 3 ln(10) / (100 - load) seconds: 200 ms at 65.5/s, where look has 67 ms."""
    limits = LoadLimits(None, 0.01, (Bound("look", "p90", 200), Bound("buy", "p90", 200)))
    out = tmp_path / "out"
    told: list[LoadStep] = []
    found = knee_run.find_knee(str(simulated), ["--out", str(out)], limits, Range(20, 1000), told.append, repeats=8)
    assert found.limit is not None
    assert found.limit.low is not None
    assert found.limit.high is not None
    assert found.limit.load == pytest.approx(65.5, rel=0.05)
    assert found.limit.low <= 65.5 <= found.limit.high
    assert (found.gave_out, found.limited_by, len(found.repeats)) == ("buy p90", "server", 8)
    assert len(told) == len(found.steps) + 8
    document = json.loads((out / "knee.json").read_text())
    assert document["limit"]["load"] == found.limit.load
    assert document["limits"]["bounds"][1] == {"transaction": "buy", "measure": "p90", "ms": 200}


def test_the_command_prints_the_limit(simulated: Path, tmp_path: Path) -> None:
    words = ["load", str(simulated), "--find-knee", "--limit", "buy:p90=200ms", "--from", "20", "--to", "1000"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "what gave out first: buy p90" in done.output
    assert "95 % interval from" in done.output
    assert "broken (buy p90)" in done.output
    none = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "none"), "--limit", "look:p50=1us"])
    assert none.exit_code == 4, none.output
    assert "no load in the range kept the limits" in none.output


def test_a_dry_run_says_how_long_and_runs_nothing(simulated: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["load", str(simulated), "--find-knee", "--dry-run", "--from", "10", "--to", "100", "--steady", "20s"]
    done = CliRunner().invoke(app, [*words, "--out", str(out), "--json"])
    # 10 to 100 by 1.5 needs 6 stairs after the first, 10 down to 0.1 12; a factor of 1.5 at 5 % is 4 bisections.
    assert json.loads(done.output) == {"steps": 18, "repeats": 8, "seconds_per_run": 22, "seconds_at_most": 968}
    assert not out.exists()
    assert "by the budget" in CliRunner().invoke(app, [*words, "--budget", "5m"]).output


def test_a_budget_ends_the_search(simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100_000, 5))
    monkeypatch.setattr(knee_run, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    found = knee_run.find_knee(
        str(simulated), ["--out", str(tmp_path / "out")], LoadLimits(1000, 0.01), Range(1, 1000), lambda _: None, 8, 40
    )
    assert (found.limited_by, found.repeats) == ("budget", ())
    assert found.reason == "the budget was used up before the search ended"
    assert 1 <= len(found.steps) <= 3


def test_the_longest_search_is_no_longer_than_forecast() -> None:
    for capacity in (0.2, 3, 47, 99, 1000):
        loads = Range(10, 100)
        steps, repeats = steps_at_most(loads, 3)
        assert repeats == 3
        stairs = Staircase(loads)
        count = 0
        while (load := stairs.next()) is not None:
            fast = SecondResponses((1.0 if load < capacity else 9999.0,), (1000,), 0)
            stairs.record(measure_step(load, [fast] * 3, LoadLimits(100, 0.01)))
            count += 1
        assert count + 1 <= steps


def test_limits_as_text(tmp_path: Path) -> None:
    assert read_bound("p90=2s") == Bound("all", "p90", 2000)
    assert read_bound("buy:p99=5ms").name == "buy p99"
    for text, part in (
        ("p90", "write [TRANSACTION:]MEASURE=TIME"),
        ("p91=2s", "did you mean p9"),
        ("buy:mean=2s", "measures are p50"),
        ("p90=2x", "--limit p90=2x"),
        ("p90=0s", "longer than 0"),
    ):
        with pytest.raises(UsageError) as error:
            read_bound(text)
        assert part in str(error.value)
    path = tmp_path / "two.yaml"
    path.write_text(SCENARIO)
    check_bounds([Bound("buy", "p90", 1), Bound("all", "p90", 1)], path)
    with pytest.raises(UsageError, match=r"no transaction .*bui.*did you mean buy"):
        check_bounds([Bound("bui", "p90", 1)], path)
    done = CliRunner().invoke(app, ["load", str(path), "--limit", "p90=2s"])
    assert done.exit_code != 0
    assert "--limit belongs to --find-knee" in str(done.exception)


def test_limits_that_the_scenario_states_count_too() -> None:
    stated = [
        LimitResult("buy", "p90", "ms", 300, 1.0, True),
        LimitResult("buy", "mean", "ms", 300, 1.0, True),
        LimitResult("look", "p99", "ms", 50, 1.0, True),
    ]
    assert with_scenario([Bound("buy", "p90", 200)], stated) == (Bound("buy", "p90", 200), Bound("look", "p99", 50))


class _OneWorker(BaseHTTPRequestHandler):
    """20 ms each, one at a time."""

    protocol_version = "HTTP/1.1"
    turn = threading.Lock()

    def do_GET(self) -> None:
        with self.turn:
            time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def one_worker() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _OneWorker) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_limit_of_a_real_server_is_told(one_worker: str, tmp_path: Path) -> None:
    """At most 50/s: 150/s is far beyond, whatever else this machine does."""
    try:
        find_binary()
    except LeadlineError as error:
        pytest.skip(str(error))
    scenario = tmp_path / "two.yaml"
    scenario.write_text(SCENARIO)
    told: list[LoadStep] = []
    limits = LoadLimits(None, 0.9, (Bound("buy", "p90", 300),))
    found: Found = knee_run.find_knee(
        str(scenario),
        ["--url", one_worker, "--ramp-up=0s", "--steady=1s", "--out", str(tmp_path / "out")],
        limits,
        Range(4, 150, factor=70, resolution=100),
        told.append,
    )
    if found.limited_by == "driver":
        return  # it had no CPU, and says so
    broken = [step for step in told if step.load == 150]
    assert [step.broken for step in broken] == [("buy p90",)]
    assert found.gave_out == "buy p90"
