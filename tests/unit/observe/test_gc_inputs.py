"""A log is the same log however people packed, encoded, wrapped or mixed it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import summary
from leadline.model.errors import LeadlineError
from leadline.observe.gclog import files
from leadline.observe.gclog.files import logs_of, parse, parse_files

STAMP = "2026-11-29T02:44:46.473000000Z stdout"
MESSAGES = [
    "Using G1",
    *(
        text
        for n in range(20)
        for text in (
            f"GC({n}) Pause Young (Normal) (G1 Evacuation Pause)",
            f"GC({n}) Pause Young (Normal) (G1 Evacuation Pause) {30 + n}M->10M(100M) {n + 1}.500ms",
        )
    ),
]
LINES = [f"[{n / 4:.3f}s][info][gc] {message}" for n, message in enumerate(MESSAGES)]
TEXT = "".join(f"{line}\n" for line in LINES)


def cri(lines: list[str]) -> str:
    return "".join(
        f"{STAMP} P {line[:40]}\n{STAMP} F {line[40:]}\n" if n % 3 == 0 else f"{STAMP} F {line}\n"
        for n, line in enumerate(lines)
    )


def docker(lines: list[str]) -> str:
    parts = [
        part
        for n, line in enumerate(lines)
        for part in ((line[:40], f"{line[40:]}\n") if n % 3 == 0 else (f"{line}\n",))
    ]
    return "".join(json.dumps({"log": part, "stream": "stdout", "time": STAMP}) + "\n" for part in parts)


def zipped(text: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("logs/gc.log", text)
        packed.writestr("logs/readme.txt", "nothing of a collector")
    return buffer.getvalue()


def taped(text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tape:
        member = tarfile.TarInfo("logs/gc.log")
        member.size = len(text)
        tape.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


FORMS: dict[str, Callable[[str], bytes]] = {
    "gc.log": lambda text: text.replace("\n", "\r").encode(),
    "crlf.log": lambda text: text.replace("\n", "\r\n").encode(),
    "le.log": lambda text: text.encode("utf-16-le"),
    "be.log": lambda text: text.encode("utf-16-be"),
    "twice.log.gz": lambda text: gzip.compress(gzip.compress(text.encode())),
    "both.log.gz": lambda text: bz2.compress(gzip.compress(text.encode())),
    "a.zip": zipped,
    "a.tgz": taped,
    "escaped.html": lambda text: f"<pre>\n{text.replace('->', '-&gt;')}</pre>\n".encode(),
    "cri.log": lambda text: cri(text.splitlines()).encode(),
    "docker.log": lambda text: docker(text.splitlines()).encode(),
}


@pytest.mark.parametrize("name", list(FORMS))
def test_every_pause_of_a_log_is_read_in_every_form(name: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text(TEXT)
    (tmp_path / name).write_bytes(FORMS[name](TEXT))
    (log,) = logs_of([tmp_path / name])
    found, plain = parse_files(log), parse(tmp_path / "plain")
    assert found.pauses == plain.pauses
    assert found.warnings == ()


def test_zstandard_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gc.log.zst"
    pl.DataFrame({"line": LINES}).write_csv(path, include_header=False, quote_style="never", compression="zstd")
    if path.read_bytes()[:4] != b"\x28\xb5\x2f\xfd":
        pytest.skip("this Polars writes no compressed table")
    assert len(parse(path).pauses) == 20


@pytest.mark.parametrize("hole", [1, 511, 100_000])
def test_a_hole_that_emptying_the_file_left_is_no_encoding(hole: int, tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    line = "[{0}.000s][info][gc] GC({0}) Pause Young (Allocation Failure) 9M->3M(16M) 2.000ms\n"
    path.write_bytes(bytes(hole) + "".join(line.format(number) for number in range(1, 9)).encode())
    assert len(parse(path).pauses) == 8


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    from leadline.model.errors import UsageError

    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(UsageError, match="damaged archive"):
        logs_of([tmp_path / "a.zip"])


def test_records_of_jdk_8_on_one_line_are_all_read(tmp_path: Path) -> None:
    record = "{at}.000: [GC (Allocation Failure) [PSYoungGen: 300K->30K(300K)] 1200K->500K(1300K), 0.0100000 secs] "
    (tmp_path / "gc.log").write_text("".join(record.format(at=at) for at in range(1, 1400)) + "\n")
    log = parse(tmp_path / "gc.log")
    assert len(log.pauses) == 1399
    assert log.warnings == ()


def test_an_applications_words_of_pauses_are_no_damage(tmp_path: Path) -> None:
    words = ["WARN Detected JVM Pause of 40ms; GC(3) pauses took 12.5ms", "[order-7] Pause for 20.5ms", "Pause 3.1ms"]
    mixed = [line for n, text in enumerate(LINES) for line in (text, words[n % 3])]
    (tmp_path / "gc.log").write_text("".join(f"{line}\n" for line in mixed))
    log = parse(tmp_path / "gc.log")
    assert len(log.pauses) == 20
    assert log.warnings == ()


def by_number(numbers: list[int], starts: bool = True) -> GcLog:
    """JVMs that write one line after the other in turn, each with its process number and a wall clock alone."""
    from leadline.observe.gclog.files import parse_lines

    lines = []
    for n, message in enumerate(MESSAGES if starts else MESSAGES[1:]):
        for place, number in enumerate(numbers):
            lines.append(f"[2026-11-29T02:44:{n:02d}.{place}00+0000][{number}] {message}\n")
    return parse_lines(lines)


def test_jvms_are_told_apart_by_their_process_numbers() -> None:
    log = by_number([4711, 4712, 4713])
    assert [len(log.of(n).pauses) for n in range(3)] == [20, 20, 20]
    assert len(log.jvms) == 3
    assert not log.alternating
    assert 35 < summary(log.of(1)).span_s < 45


def test_a_number_of_threads_makes_no_further_jvm() -> None:
    from leadline.observe.gclog.files import parse_lines

    lines = [f"[2026-11-29T02:44:{n:02d}.000+0000][{100 + n % 4}] {text}\n" for n, text in enumerate(MESSAGES)]
    log = parse_lines(lines)
    assert len(log.jvms) == 1
    assert len(log.pauses) == 20


def test_a_fragment_of_zgc_is_none_of_shenandoah() -> None:
    from leadline.observe.gclog.files import parse_lines

    lines = []
    for n in range(3, 9):
        lines += [
            f"[{n}.000s][info][gc,phases] GC({n}) Pause Mark Start 0.010ms\n",
            f"[{n}.100s][info][gc,phases] GC({n}) Concurrent Mark 12.500ms\n",
            f"[{n}.200s][info][gc,phases] GC({n}) Concurrent Relocate 2.500ms\n",
            f"[{n}.300s][info][gc] GC({n}) Garbage Collection (Proactive) 50M(50%)->20M(20%)\n",
        ]
    found = summary(parse_lines(lines))
    assert found.collector == "Z"
    assert found.cycles == {"Garbage Collection": 6}


def test_a_reader_that_is_not_built_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gc.log").write_text(TEXT)
    monkeypatch.setattr(files, "_PLACES", (tmp_path,))
    files._library.cache_clear()
    with pytest.raises(LeadlineError, match=r"libleadline_gclog\.so.* is not built: `make install`"):
        parse(tmp_path / "gc.log")
