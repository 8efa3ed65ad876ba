"""Figures of GC logs, checked by hand."""

import json
from pathlib import Path

import pytest

from leadline.gcanalysis.summary import durations, summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import parse_lines
from leadline.observe.gclog.report import render, report

MIB = 1 << 20


def pause(at: float, ms: float, before: int, after: int, what: str = "Young (Allocation Failure)") -> str:
    wall = f"2026-01-02T03:04:{at:06.3f}+0000"
    return f"[{wall}][{at:.3f}s][info][gc] GC(0) Pause {what} {before}M->{after}M(100M) {ms}ms\n"


# Mean pause 100 ms; from the end of one to the beginning of the next 0.9, 1.8 and 0.9 s.
LOG = [
    "[2026-01-02T03:04:00.000+0000][0.000s][info][gc] Using Serial\n",
    pause(1.0, 100.0, 50, 10),
    pause(2.0, 100.0, 55, 15),
    pause(4.0, 200.0, 95, 20, "Full (System.gc())"),
    "[2026-01-02T03:04:04.000+0000][4.000s][info][gc,cpu] GC(2) User=0.05s Sys=0.00s Real=0.20s\n",
    pause(4.9, 0.0, 65, 20),
    "[2026-01-02T03:04:10.000+0000][10.000s][info][gc,heap,exit] Heap\n",
]


def test_the_whole_log() -> None:
    figures = summary(parse_lines(LOG))
    assert figures.collector == "Serial"
    assert figures.span_s == 10
    assert figures.pauses.count == 4
    assert figures.pauses.sum_ms == 400
    assert figures.pauses.max_ms == 200
    assert figures.pauses.percentiles == {"p50": 100, "p90": 200, "p95": 200, "p99": 200, "p99.9": 200}
    assert figures.share == pytest.approx(0.04)
    assert figures.interval_s == pytest.approx((0.9 + 1.8 + 0.9) / 3)
    assert figures.share_cycle == pytest.approx(0.1 / 1.3)
    assert figures.share_interval == pytest.approx(0.1 / 1.2)
    assert (figures.full, figures.degenerated, figures.starved) == (1, 0, 1)
    assert figures.cpu_s == pytest.approx(0.05)
    assert figures.heap_after is not None
    assert (figures.heap_after.first, figures.heap_after.last, figures.heap_after.most) == (
        10 * MIB,
        20 * MIB,
        20 * MIB,
    )
    assert figures.allocation_rate == pytest.approx((45 + 80 + 45) * MIB / 3.6)
    assert list(figures.by_kind) == ["Pause Young (Allocation Failure)", "Pause Full (System.gc())"]
    assert figures.by_cause["System.gc()"].sum_ms == 200


def test_a_window_takes_pauses_that_end_in_it_and_straddling_ones_in_part() -> None:
    log = parse_lines(LOG)
    figures = summary(log, (1.0, 3.9), clock="uptime")
    assert figures.pauses.count == 1
    assert figures.share == pytest.approx((0.1 + 0.1) / 2.9)
    start = log.jvms[0].first_unix
    assert start is not None
    by_wall = summary(log, (start + 1.0, start + 3.9))
    assert by_wall.pauses == figures.pauses
    assert by_wall.share == pytest.approx(figures.share or 0)


def test_a_window_without_a_pause() -> None:
    figures = summary(parse_lines(LOG), (6, 9), clock="uptime")
    assert figures.pauses.count == 0
    assert figures.share == 0
    assert figures.interval_s is None
    assert figures.share_cycle is None
    assert figures.heap_after is None


def test_windows_that_make_no_sense() -> None:
    log = parse_lines(LOG)
    with pytest.raises(ValueError, match="before it begins"):
        summary(log, (2, 2))
    with pytest.raises(ValueError, match="unix or uptime"):
        summary(log, (1, 2), clock="sundial")
    plain = parse_lines(["[1.0s][gc] GC(0) Pause Full (System.gc()) 3M->1M(4M) 1.0ms\n"])
    with pytest.raises(ValueError, match="no wall-clock times"):
        summary(plain, (1, 2))


def test_percentiles_are_observed_values() -> None:
    got = durations(float(n) for n in range(1, 1001))
    assert got.percentiles == {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99.9": 999}
    assert durations([]).percentiles == {}


def test_the_report_is_json_with_the_promised_keys(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text("".join([*LOG, "[11.0s][info][gc] GC(9) Pause Unheard Of 3.0ms\n"]))
    read = json.loads(json.dumps(report([path]), allow_nan=False))
    assert read["pauses"]["count"] == 4
    assert read["pauses"]["sum_ms"] == 400
    assert read["pauses"]["max_ms"] == 200
    assert read["pauses"]["percentiles"]["p50"] == 100
    assert read["pauses"]["by_kind"]["Pause Full (System.gc())"]["count"] == 1
    assert read["pauses"]["by_cause"]["Allocation Failure"]["count"] == 3
    assert read["heap_after"]["last"] == 20 * MIB
    assert len(read["unknown"]) == 1
    assert "Pause Unheard Of" in read["unknown"][0]
    copy = tmp_path / "second.log"
    copy.write_text(path.read_text())
    both = report([path, copy, path])
    assert len(both["files"]) == 2
    assert "pauses" not in both
    with pytest.raises(UsageError, match=r"none\.log: No such file"):
        report([tmp_path / "none.log"])


def test_the_text_names_what_matters() -> None:
    text = render(summary(parse_lines([*LOG, "[11.0s][info][gc] GC(9) Pause Unheard Of 3.0ms\n"])))
    for part in (
        "4, 400.0 ms in all, longest 200.00 ms",
        "Pause Full (System.gc())",
        "warning: 1 line about",
        "Unheard Of",
    ):
        assert part in text
    empty = render(summary(parse_lines([])))
    assert "pauses        not known: the log is empty" in empty
