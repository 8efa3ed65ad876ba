"""Reading what the driver wrote: summary, rows, windows of the response log."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from leadline.load.result import read_summary
from leadline.load.series import by_transaction, driver_wait, responses_between, seconds_between, steady_series
from leadline.model.errors import LeadlineError
from leadline.model.result import AtLeast

HEADER = (
    "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,"
    "service_mean_ms,in_flight,skipped,unanswered,unanswered_from_ms,dropped\n"
)
LATENCY = {"mean": 2.0, "p50": 1.5, "p90": 3.0, "p95": 3.5, "p99": 4.0, "p999": 5.0, "max": 6.0}
PART = {"ok": 3, "failed": 1, "skipped": 0, "per_second": 1.5, "response_ms": LATENCY, "service_ms": LATENCY}
SUMMARY = {
    "format": "leadline-load/1",
    "version": "0.1.0",
    "completed": True,
    "scenario": {"name": "shop", "sha256": "ab"},
    "variables": {"think": "0ms"},
    "url": "http://127.0.0.1:1",
    "seed": 3,
    "arrivals": {"model": "closed", "users": 2, "rate": None},
    "started_unix_ns": 1_700_000_000_000_000_000,
    "phases": {"ramp_up": [0, 1], "steady": [1, 3], "ramp_down": [3, 4], "drained": 4.2},
    "steady": {"duration_s": 2.0, "transactions": {"look": PART}, "all": PART},
    "total": {"look": {"ok": 5, "failed": 1, "skipped": 2}},
    "requests": {"count": 9, "bytes_in": 10, "bytes_out": 11, "connects": 2, "reconnects": 0},
    "errors": {"check": 1},
    "error_samples": {"check": ["look: GET /: the body lacks `x`"]},
    "blocked_ms": dict.fromkeys(LATENCY),
    "arrivals_planned": 8,
    "arrivals_actual": 8,
    "dropped": 0,
    "driver": {
        "cpu_user_s": 0.1,
        "cpu_system_s": 0.2,
        "cpu_share": 0.03,
        "scheduling": "normal",
        "lag_ms": LATENCY,
        "limit": False,
        "evidence": ["fine"],
    },
    "littles_law": {"concurrency_observed": 1.0, "concurrency_expected": 1.1, "relative_error": 0.1},
}


class FakeDriverOutput:
    """Writes a response log and rows as the driver does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = ["#[Histogram log format version 1.3]\n", "#[BaseTime: 1700000000.000 (seconds since epoch)]\n"]
        self._rows = [HEADER]

    def second(self, second: int, tag: str, times_ms: list[float], failed: int = 0, phase: str = "steady") -> None:
        histogram = HdrHistogram(64, 2_000_000_000, 3)
        for value in times_ms:
            histogram.record_value(round(value * 1e6))
        payload = histogram.encode().decode()
        if times_ms:
            self._log.append(f"Tag={tag},{second}.000,1.000,{max(times_ms):.3f},{payload}\n")
        self.row(second, tag, len(times_ms), failed, phase)

    def row(self, second: int, tag: str, ok: int, failed: int, phase: str = "steady") -> None:
        times = "2.0,1.5,4.0,1.0" if ok else ",,,"
        self._rows.append(f"{second},{second},{phase},{tag},{ok},{failed},{times},1,0,0,,0\n")

    def write(self, cut: int = 0) -> Path:
        log, rows = "".join(self._log), "".join(self._rows)
        (self.directory / "response.hlog").write_text(log[: len(log) - cut])
        (self.directory / "seconds.csv").write_text(rows[: len(rows) - cut])
        return self.directory


@pytest.fixture
def run(tmp_path: Path) -> FakeDriverOutput:
    fake = FakeDriverOutput(tmp_path)
    for second, phase in enumerate(("ramp_up", "steady", "steady", "ramp_down")):
        times = [1.0, 2.0, 3.0, 4.0] if phase == "steady" else [1000.0]
        fake.second(second, "look", times, failed=1, phase=phase)
        if second == 2:
            fake.second(second, "buy", [10.0], phase=phase)
        fake.row(second, "all", len(times) + (second == 2), 1, phase)
    return fake


def test_a_window_holds_its_whole_seconds_only(run: FakeDriverOutput) -> None:
    window = responses_between(run.write(), 0.4, 3.0)
    assert (window.seconds, window.ok, window.throughput) == (2, 9, 4.5)
    assert window.max == pytest.approx(10.0, rel=1e-3)
    assert window.p50 == pytest.approx(3.0, rel=1e-3)
    assert window.mean == pytest.approx(30 / 9, rel=1e-3)
    assert window.errors == pytest.approx(2 / 11)


def test_each_transaction_has_its_own_window(run: FakeDriverOutput) -> None:
    found = by_transaction(run.write(), 1, 3)
    assert {name: part.ok for name, part in found.items()} == {"look": 8, "buy": 1}
    assert found["buy"].errors == 0
    assert found["look"].throughput == 4


def test_a_transaction_that_only_failed_is_there(tmp_path: Path) -> None:
    fake = FakeDriverOutput(tmp_path)
    fake.second(0, "look", [1.0])
    fake.second(0, "buy", [], failed=3)
    fake.row(0, "all", 1, 3)
    found = by_transaction(fake.write(), 0, 1)
    assert (found["buy"].ok, found["buy"].errors) == (0, 1.0)
    assert math.isnan(found["buy"].p99)


def test_what_has_no_answer_is_no_throughput_and_bounds_the_latencies(tmp_path: Path) -> None:
    fake = FakeDriverOutput(tmp_path)
    for second in range(20):
        fake.second(second, "all", [50.0] * 3 + [1500.0] * 3, failed=3)
    rows = fake.write() / "seconds.csv"
    rows.write_text(rows.read_text().replace(",6,3,", ",3,3,").replace("1,0,0,,0", "1,0,3,1500.000000,1"))
    window = responses_between(tmp_path, 0, 20)
    assert (window.ok, window.failed, window.unanswered, window.dropped) == (60, 60, 60, 20)
    assert (window.throughput, window.errors) == (3.0, pytest.approx(80 / 140))
    assert [name for name in ("mean", "p50", "p90", "max") if isinstance(getattr(window, name), AtLeast)] == [
        *("mean", "p90", "max")
    ]
    (one,) = seconds_between(tmp_path, 0, 1)
    assert (one.ok, one.failed, one.counts, one.unanswered_from) == (3, 4, (3, 3), 1500.0)


def test_no_whole_second_is_an_error(run: FakeDriverOutput) -> None:
    with pytest.raises(LeadlineError, match="no whole second"):
        responses_between(run.write(), 1.2, 1.9)


def test_a_killed_driver_leaves_whole_lines(run: FakeDriverOutput) -> None:
    directory = run.write(cut=7)
    assert responses_between(directory, 1, 3).ok == 9
    with pytest.raises(LeadlineError, match="did not end in order"):
        read_summary(directory)


def test_the_series_has_one_row_a_second(run: FakeDriverOutput) -> None:
    series = steady_series(run.write())
    assert [(row.second, row.phase, row.ok_per_s) for row in series] == [
        (0, "ramp_up", 1),
        (1, "steady", 4),
        (2, "steady", 5),
    ]
    assert (series[1].p99, series[1].response_mean_ms) == (4.0, 2.0)
    wait = series[1].response_mean_ms - series[1].service_mean_ms
    assert driver_wait(series, [(1, 2)]) == {"driver_wait": pytest.approx(wait)}
    assert driver_wait(series, [(7, 9)]) == {}


def test_the_summary_as_values(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    result = read_summary(tmp_path)
    assert (result.scenario, result.phases.steady, result.phases.drained) == ("shop", (1, 3), 4.2)
    assert (result.total["look"].skipped, result.all.response_ms.p999) == (2, 5.0)
    assert result.blocked_ms.mean is None
    assert result.driver.evidence == ("fine",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "leadline-load/9"}, "has format 'leadline-load/9'"),
        ({"total": None}, "damaged: total"),
    ],
)
def test_a_strange_summary_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({**SUMMARY, **change}))
    with pytest.raises(LeadlineError, match=message):
        read_summary(tmp_path)


def test_text_that_is_no_summary(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(LeadlineError, match=r"summary\.json is damaged: Expecting property name"):
        read_summary(tmp_path)
