"""The page of a load alone, and pages as PDF."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from leadline.cli.commands import results
from leadline.cli.main import app
from leadline.model.errors import UsageError
from leadline.report.charts.latency import Load, heat_map
from leadline.report.latency import Histogram
from leadline.report.load_page import build_load

_TIMES = {"mean": 5.0, "p50": 4.0, "p90": 8.0, "p95": 9.0, "p99": 12.0, "p999": 20.0, "max": 25.0}
_ONE = {"ok": 990, "failed": 10, "per_second": 99.0, "response_ms": _TIMES}


def write_load(directory: Path) -> None:
    """What leadline-load leaves of a small load with errors, without its histograms."""
    directory.mkdir()
    summary = {
        "format": "leadline-load/1",
        "scenario": {"name": "shop"},
        "url": "http://127.0.0.1:9/<b>",
        "version": "0.1.0",
        "seed": 1,
        "completed": True,
        "started_unix_ns": 1_700_000_000 * 10**9,
        "arrivals": {"model": "closed", "users": 20, "rate": None},
        "phases": {"steady": [1.0, 3.0]},
        "driver": {"limit": True},
        "verdict": {"passed": False, "problems": ["1.0 % of the transactions failed"]},
        "steady": {"duration_s": 2.0, "all": _ONE, "transactions": {"home": _ONE}},
        "total": {"home": {"errors": {"status": 10}}},
        "error_samples": {"status": ["500 where <200> was due"]},
    }
    (directory / "summary.json").write_text(json.dumps(summary))
    head = "time_ns,second,phase,transaction,ok,failed,response_mean_ms,response_p50_ms,response_p99_ms,service_mean_ms"
    rows = [f"{at},{at},steady,all,495,5,5,4,12,5" for at in range(3)]
    (directory / "seconds.csv").write_text("\n".join([head, *rows]) + "\n")


def test_the_page_tells_verdict_figures_errors_and_files(tmp_path: Path) -> None:
    write_load(tmp_path / "out")
    text = build_load(tmp_path / "out", tmp_path / "load.html").read_text()
    assert "Failed: 99.0 transactions/s, p50 4 ms, p99 12 ms, 10 of 1,000 failed." in text
    assert "1.0 % of the transactions failed" in text
    assert "The driver was the limit" in text
    assert "500 where &lt;200&gt; was due" in text
    assert "http://127.0.0.1:9/&lt;b&gt;" in text
    assert 'data-figure="throughput"' in text
    assert 'data-figure="percentiles"' in text
    assert 'data-figure="heat-map"' not in text
    assert "seconds.csv</code>" in text
    assert len(text) < 3_000_000


def test_the_page_tells_limits_and_times_that_are_lower_bounds(tmp_path: Path) -> None:
    write_load(tmp_path / "out")
    file = tmp_path / "out" / "summary.json"
    summary = json.loads(file.read_text())
    summary["verdict"]["thresholds"] = [
        {
            "condition": "p99>9ms",
            "measure": "p99",
            "unit": "ms",
            "bound": 9.0,
            "value": 12.0,
            "kept": False,
            "at_least": True,
        },
        {
            "condition": "throughput<50",
            "measure": "throughput",
            "unit": "per_second",
            "bound": 50,
            "value": 99.0,
            "kept": True,
        },
    ]
    summary["limits"] = [
        {"transaction": "home", "measure": "errors", "unit": "share", "bound": 0.02, "value": 0.01, "kept": True},
        {"transaction": "buy", "measure": "p90", "unit": "ms", "bound": 2000.0, "value": None, "kept": None},
    ]
    summary["steady"]["all"] = {**_ONE, "response_at_least": ["p99", "max"]}
    file.write_text(json.dumps(summary))
    text = build_load(tmp_path / "out", tmp_path / "load.html").read_text()
    assert "p50 4 ms, p99 &gt;= 12 ms," in text
    assert "1 of 4 broken" in text
    for said in (
        '--fail p99&gt;9ms</th><td data-label="measured">&gt;= 12 ms</td><td data-label="kept" class="worse">no',
        '--fail throughput&lt;50</th><td data-label="measured">99.0 transactions/s</td><td data-label="kept">yes',
        'home: errors at most 2.0 %</th><td data-label="measured">1.0 %</td>',
        'buy: p90 at most 2000 ms</th><td data-label="measured">not measured</td>',
    ):
        assert said in text


def test_a_directory_without_a_load_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["load", "--out", str(tmp_path), "--html", str(tmp_path / "load.html")])
    assert isinstance(done.exception, UsageError)
    assert f"{tmp_path} holds no load" in str(done.exception)
    assert not (tmp_path / "load.html").exists()


def test_the_heat_map_loses_no_response() -> None:
    values = np.array([0.5, 1.0, 7.0, 400.0])
    intervals = [(100.0 + at, Histogram(values, np.array([1, 5, 2, at]))) for at in range(400)]
    drawn = heat_map([Load("", 100.0, intervals), Load("other", 90.0, intervals[:3])])
    assert drawn is not None
    (every,) = drawn.spec["datasets"].values()
    assert {row["from"] for row in every if row["load"] == "other"} == {9, 12}
    rows = [row for row in every if not row["load"]]
    assert sum(row["responses"] for row in rows) == sum(one.total for _, one in intervals)
    assert max(row["until"] for row in rows) == 402
    assert all(row["low"] < row["high"] for row in rows)


def test_without_a_browser_pdf_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match="needs a browser on the path, one of chromium"):
        results.find_browser()
