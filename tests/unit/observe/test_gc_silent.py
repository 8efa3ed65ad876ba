"""A log that says nothing of pauses: a sentence, null and exit 1, never a zero."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import parse, parse_lines

Z = "[0.1s][info][gc] Using The Z Garbage Collector\n"
Z += "[1.0s][info][gc] GC(0) Garbage Collection (Warmup) 9M(9%)->3M(3%)\n"
IDLE = "[0.1s][info][gc] Using G1\n[0.1s][info][gc,init] Heap Region Size: 1M\n"
PARTS = IDLE + "[1.0s][info][gc,heap] GC(0) Eden regions: 3->0(4)\n"

METRONOME = """\
<verbosegc xmlns="http://www.ibm.com/j9/verbosegc" version="1">
<gc-op id="4" type="heartbeat" contextid="2" timestamp="2026-01-02T03:04:05.000">
<quanta quantumCount="321" quantumType="mark" minTimeMs="0.367" meanTimeMs="0.524" maxTimeMs="1.878" />
</gc-op>
"""


def test_heartbeats_of_metronome_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(METRONOME)
    with pytest.raises(UsageError, match="OpenJ9's policy metronome"):
        parse(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (Z, "this log has no pauses: `-Xlog:gc` of ZGC does not write them; use -Xlog:gc*"),
        (IDLE, "this log has no collection"),
        (PARTS, "no line of a pause"),
        ("", "the log is empty"),
    ],
)
def test_no_pause_is_no_zero(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(text)
    shown = CliRunner().invoke(app, ["gc", str(path), "--json"])
    document = json.loads(shown.stdout)
    assert shown.exit_code == 4
    assert document["pauses"]["count"] is None
    assert document["share"] is None
    assert words in document["reasons"]["pauses"]
    assert words in CliRunner().invoke(app, ["gc", str(path)]).output


def test_a_line_without_end_takes_no_memory_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(IDLE + "[" * 3_000_000 + "\n[1.0s][info][gc] GC(0) Pause Remark 2M->1M(4M) 1.0ms\n")
    log = parse(path)
    assert [one.ms for one in log.pauses] == [1.0]
    assert log.understood == 3
    assert any("more than 32768 characters" in text for text in log.warnings)


def test_a_wall_clock_that_is_set_back_is_no_second_jvm() -> None:
    lines = [
        f"[2026-01-02T03:{10 + n:02d}:00.000+0000][info][gc] GC({n}) Pause Remark 2M->1M(4M) 1.0ms\n" for n in range(5)
    ]
    back = [
        f"[2026-01-02T03:{n:02d}:00.000+0000][info][gc] GC({n}) Pause Remark 2M->1M(4M) 1.0ms\n" for n in range(5, 9)
    ]
    log = parse_lines([*lines, *back])
    assert len(log.jvms) == 1
    assert len(log.pauses) == 9
    assert any("set back" in text for text in log.warnings)


def _wall(seconds: float) -> str:
    return f"[{datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%f}+0000]"


def _young(at: float, number: int, step: float = 0.0) -> list[str]:
    """Beginning and end of a pause of 10 ms; the clock is set forward between them by ``step``."""
    what = f"GC({number}) Pause Young (Normal) (G1 Evacuation Pause)"
    return [
        f"{_wall(at)}[info][gc,start] {what}\n",
        f"{_wall(at + step + 0.01)}[info][gc] {what} 60M->20M(64M) 10.000ms\n",
    ]


def test_a_wall_clock_that_is_set_forward_in_a_pause_makes_the_log_no_longer() -> None:
    lines = [text for n in range(20) for text in _young(n + 3600 * (n > 9), n, 3600 * (n == 9))]
    log = parse_lines(lines)
    assert summary(log).span_s == pytest.approx(19, abs=0.1)
    assert any("set forward by 3600.0 s in collection 9" in text for text in log.warnings)


@pytest.mark.parametrize(("rest", "told"), [(3600, True), (20, False)])
def test_a_rest_beyond_all_others_may_be_a_clock_that_was_set_forward(rest: float, told: bool) -> None:
    log = parse_lines([text for n in range(20) for text in _young(n + rest * (n > 9), n)])
    assert len(log.pauses) == 20
    assert any("after collection 9" in text and "set forward" in text for text in log.warnings) == told


@pytest.mark.parametrize("offset", [0.003, 0.4, 5])
@pytest.mark.parametrize("clock", ["wall", "uptime", "none"])
@pytest.mark.parametrize("prefix", ["", "web-{}  | "])
def test_two_containers_in_one_stream_are_no_single_jvm(offset: float, clock: str, prefix: str) -> None:
    told: list[tuple[float, str]] = []
    for which, (begin, every) in enumerate(((0.0, 1.0), (offset, 1.0 if offset < 1 else 0.7))):
        for n in range(30):
            at = n * every + 0.5
            fields = {"wall": _wall(begin + at), "uptime": f"[{at:.3f}s]", "none": ""}[clock] + "[info][gc] "
            message = f"GC({n}) Pause Young (Normal) (G1 Evacuation Pause) 60M->20M(64M) {1 + which}.000ms"
            told.append((begin + at, f"{prefix.format(which)}{fields}{message}\n"))
    log = parse_lines([text for _, text in sorted(told)])
    figures = summary(log)
    assert sorted(one.ms for one in log.pauses) == [1.0] * 30 + [2.0] * 30
    assert any("alternate and cannot be told apart" in text for text in log.warnings)
    assert figures.share is None
    assert figures.leak.verdict == "undetermined"


@pytest.mark.parametrize("fields", ["[info ]", "[gc]", "[web01]", "[1.000s]", "[4242]", "[1.000s][info][gc]"])
def test_the_share_understood_is_that_of_the_jvm_s_lines(fields: str) -> None:
    """Before the line that names the collector too; a program's brackets are not the JVM's."""
    early = [f"{fields} Heap address: 0x1\n", f"{fields} \n"]
    ours = [
        f"{fields} Using G1\n",
        f"{fields} GC(0) Pause Remark 2M->1M(4M) 1.0ms\n",
        f"{fields} Humongous regions: 1->0\n",
    ]
    other = ["12:00:01.250 INFO  [main] com.example.Shop - started\n", "[ERROR] no connection\n"]
    log = parse_lines([*early, *ours, *other * 3])
    assert log.understood == len(early) + len(ours)
