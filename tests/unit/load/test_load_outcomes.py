"""Every transaction that was due in a window is in its figures, once: by the driver's own record, real loads."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from bench.outcomes.__main__ import freezes
from bench.outcomes.loads import frozen, mixed, run, scenario
from bench.outcomes.record import Row, differences, read_rows, recomputed
from bench.outcomes.server import serving
from leadline.load.series import (
    ALL,
    WindowResult,
    by_transaction,
    responses_between,
    responses_in_windows,
    responses_over,
    seconds_between,
)
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.result import AtLeast
from leadline.trial.measure import measure, measure_turns, measure_windows
from leadline.trial.system import Window

MATRIX = "LEADLINE_MATRIX" in os.environ
_HEADER = (
    "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,service_mean_ms,"
    "in_flight,skipped,unanswered,unanswered_from_ms,dropped"
)


@pytest.mark.parametrize("number", range(200 if MATRIX else 9))
def test_a_frozen_server_is_in_the_figures(tmp_path: Path, number: int) -> None:
    assert frozen(tmp_path, freezes()[number % len(freezes())], number) == []


@pytest.mark.parametrize("seed", range(200 if MATRIX else 6))
def test_files_have_what_the_driver_recorded(tmp_path: Path, seed: int) -> None:
    with serving() as server:
        assert mixed(tmp_path, server, seed) == []


def assert_same(responses: Mapping[str, float], of_record: WindowResult) -> None:
    """What the lab stores of a window is what the driver's record of every transaction gives."""
    assert bool(responses) == bool(of_record.ok)
    for name in ("throughput", "mean", "p50", "p90", "p95", "p99", "p999", "max", "errors"):
        if responses:
            value, expected = responses[name], getattr(of_record, name)
            assert (value, isinstance(value, AtLeast)) == (expected, isinstance(expected, AtLeast)), name


def test_timeouts_are_errors_and_no_throughput_in_trials_slots_and_turns(tmp_path: Path) -> None:
    """Of 60 right and 40 that never answer, where up to 95 % may fail: nothing but the right ones is throughput."""
    path = scenario({"ok": 60, "never": 40}, 100, tmp_path)
    options = ["--users", "6", "--ramp-up", "1s", "--steady", "5s", "--timeout", "700ms", "--limit-errors", "0.95"]
    with serving() as server:
        result = run(path, server.url, tmp_path / "driver", [*options, "--seed", "3"])
    rows = read_rows([tmp_path / "driver"])
    assert result.verdict is not None
    assert result.verdict.passed
    turns = [(1.0, 3.0), (4.0, 5.0)]
    of_turns = recomputed(rows, [1, 2, 4], ALL).over(3)
    assert of_turns.failed
    assert_same(measure_turns(tmp_path, 0.0, turns).responses, of_turns)
    whole = measure(tmp_path, 0.0)
    assert whole.phases is not None
    first = round(whole.phases.steady_from - whole.phases.load_started)
    assert_same(whole.responses, recomputed(rows, range(first, 6), ALL).over(6 - first))
    started = whole.phases.load_started
    slots = [(1, 4), (3, 6)]
    windows = [Window(started + begin, started + end) for begin, end in slots]
    for (begin, end), slot in zip(slots, measure_windows(tmp_path, windows), strict=True):
        assert_same(slot.responses, recomputed(rows, range(begin, end), ALL).over(end - begin))


def test_a_load_in_which_nothing_succeeds_is_a_failed_trial(tmp_path: Path) -> None:
    path = scenario({"never": 1}, 20, tmp_path)
    options = ["--users", "2", "--ramp-up", "0s", "--steady", "2s", "--timeout", "300ms", "--limit-errors", "0.99"]
    with serving() as server:
        result = run(path, server.url, tmp_path / "driver", options)
    assert result.verdict is not None
    assert not result.verdict.passed
    for measured in (lambda: measure(tmp_path, 0.0), lambda: measure_turns(tmp_path, 0.0, [(0.0, 2.0)])):
        with pytest.raises(TrialFailure, match="no transaction succeeded") as failed:
            measured()
        assert failed.value.failure_class is FailureClass.WORKLOAD


def rows_of(rng: random.Random) -> list[Row]:
    outcomes = ["ok"] * 5 + ["timeout", "unfinished", "status_5xx", "skipped", "dropped"]
    found = []
    for _ in range(rng.randint(0, 300)):
        outcome = rng.choice(outcomes)
        timed = outcome in ("ok", "timeout", "unfinished")
        response = int(10 ** rng.uniform(4, 10)) if timed else None
        name = "" if outcome == "dropped" else rng.choice("abcd")
        found.append(Row(rng.randrange(20 * 10**9), name, outcome, response))
    return found


def write(directory: Path, rows: list[Row]) -> None:
    """As the driver does, from the rows alone."""
    lines, log = [_HEADER], ["#[Histogram log format version 1.3]"]
    for second in range(20):
        for name in [*sorted({row.name for row in rows if row.name and row.second == second}), ALL]:
            mine = [row for row in rows if row.second == second and name in (ALL, row.name)]
            ok, skipped, dropped = (sum(row.outcome == kind for row in mine) for kind in ("ok", "skipped", "dropped"))
            waits = [row.response_ns for row in mine if row.outcome in ("timeout", "unfinished") and row.response_ns]
            least = f"{min(waits) / 1e6:.6f}" if waits else ""
            failed = len(mine) - ok - skipped - dropped
            lines.append(
                f"{second},{second},steady,{name},{ok},{failed},,,,,0,{skipped},{len(waits)},{least},{dropped}"
            )
            histogram = HdrHistogram(64, 3_600_000_000_000, 3)
            for row in mine:
                if row.response_ns is not None:
                    histogram.record_value(row.response_ns)
            if name != ALL and histogram.get_total_count():
                log.append(f"Tag={name},{second}.000,1.000,1.000,{histogram.encode().decode()}")
    (directory / "seconds.csv").write_text("\n".join([*lines, ""]))
    (directory / "response.hlog").write_text("\n".join([*log, ""]))


@pytest.mark.parametrize("seed", range(50 if MATRIX else 10))
def test_random_mixes_are_read_as_they_were_recorded(tmp_path: Path, seed: int) -> None:
    """40 windows of five names each: 10,000 mixes in the matrix, and as many in writer_tests.rs."""
    rng = random.Random(seed)
    rows = rows_of(rng)
    write(tmp_path, rows)
    windows = [sorted(rng.sample(range(20), rng.randint(1, 20))) for _ in range(40)]
    assert differences(tmp_path, rows, windows) == []
    begin = rng.randrange(19)
    end = rng.randint(begin + 1, 20)
    whole = recomputed(rows, range(begin, end), ALL).over(end - begin)
    spans = [(float(begin), end + 0.4)]
    for found in (responses_between(tmp_path, begin, end), responses_over(tmp_path, spans)):
        assert vars(found) == pytest.approx(vars(whole), rel=0, abs=0, nan_ok=True)
    (one,) = responses_in_windows(tmp_path, spans)
    assert one is not None
    assert (one.ok, one.errors) == (whole.ok, whole.errors)
    assert sum(part.ok for part in by_transaction(tmp_path, begin, end).values()) == whole.ok
    slots = [Window(float(begin), end + 0.4), Window(0.0, 20.0)]
    lab = tmp_path / "trial"
    lab.mkdir()
    (lab / "driver").symlink_to(tmp_path)
    for slot, measured in zip(slots, measure_windows(lab, slots), strict=True):
        due = range(int(slot.begin), int(slot.end))
        assert_same(measured.responses, recomputed(rows, due, ALL).over(len(due)))
    seconds = seconds_between(tmp_path, begin, end)
    assert sum(second.ok for second in seconds) == whole.ok
    assert sum(second.failed for second in seconds) == whole.failed + whole.dropped
    assert min((second.unanswered_from for second in seconds), default=math.inf) == (
        recomputed(rows, range(begin, end), ALL).unanswered_from
    )
