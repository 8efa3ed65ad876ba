"""A log that says nothing of pauses: a sentence, null and exit 1, never a zero."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.observe.gclog import parse

Z = "[0.1s][info][gc] Using The Z Garbage Collector\n"
Z += "[1.0s][info][gc] GC(0) Garbage Collection (Warmup) 9M(9%)->3M(3%)\n"
IDLE = "[0.1s][info][gc] Using G1\n[0.1s][info][gc,init] Heap Region Size: 1M\n"
PARTS = IDLE + "[1.0s][info][gc,heap] GC(0) Eden regions: 3->0(4)\n"


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
    assert shown.exit_code == 1
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
    from leadline.observe.gclog import parse_lines

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
