"""The search with limits of single transactions, an interval and a budget: a driver that is simulated, and the real."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.host import here
from leadline.load import knee_run
from leadline.load.bounds import Bound, check_bounds, read_bound, with_scenario
from leadline.load.driver import find_binary
from leadline.load.knee import Found, Limits, Range, Staircase, Step, measure_step, steps_at_most
from leadline.load.result import LimitResult
from leadline.load.series import SecondResponses
from leadline.model.errors import LeadlineError, UsageError

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
    limits = Limits(None, 0.01, (Bound("look", "p90", 200), Bound("buy", "p90", 200)))
    out = tmp_path / "out"
    told: list[Step] = []
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
    assert none.exit_code == 1, none.output
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
        str(simulated), ["--out", str(tmp_path / "out")], Limits(1000, 0.01), Range(1, 1000), lambda _: None, 8, 40
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
            stairs.record(measure_step(load, [fast] * 3, Limits(100, 0.01)))
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
    told: list[Step] = []
    limits = Limits(None, 0.9, (Bound("buy", "p90", 300),))
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
