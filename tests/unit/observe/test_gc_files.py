"""Logs as they are found on disk: any decorators, rotated, of several JVMs, damaged, cut, compressed."""

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import summary
from leadline.model.errors import UsageError
from leadline.observe.gclog.files import logs_of, parse, parse_files, parse_lines
from leadline.observe.gclog.report import report

START = 1_767_000_000.0


def pause(n: int, ms: float = 10.0, after: int = 20) -> str:
    return f"GC({n}) Pause Young (Normal) (G1 Evacuation Pause) 60M->{after}M(64M) {ms:.3f}ms"


def line(at: float, message: str, tags: str = "gc", start: float = START) -> str:
    return f"[{round((start + at) * 1e3)}ms][{at:.3f}s][info][{tags}] {message}\n"


def jvm(collector: str, count: int, start: float = START) -> list[str]:
    """A pause a second, each told to begin and to end."""
    lines = [line(0.01, f"Using {collector}", start=start)]
    for n in range(count):
        lines.append(line(n + 1 - 0.01, pause(n).rpartition(" 60M")[0], "gc,start", start))
        lines.append(line(n + 1, pause(n), start=start))
    return lines


FIELDS = {
    "time": "2026-01-02T03:04:05.250+0100",
    "utctime": "2026-01-02T02:04:05.250+0000",
    "uptime": "5.250s",
    "timemillis": "1767319445250ms",
    "uptimemillis": "5250ms",
    "timenanos": "1767319445250000000ns",
    "uptimenanos": "5250000000ns",
    "hostname": "server-1.example",
    "pid": "4242",
    "tid": "17",
    "level": "info ",
    "tags": "gc          ",
}


@pytest.mark.parametrize("chosen", [*itertools.combinations(FIELDS, 2), *itertools.combinations(FIELDS, 3)])
def test_any_decorators(chosen: Sequence[str]) -> None:
    head = "".join(f"[{FIELDS[name]}]" for name in chosen)
    read = parse_lines([f"{head} Using G1\n", f"{head} {pause(0, 3.5)}\n"])
    assert [found.ms for found in read.pauses] == [3.5], chosen
    assert not read.unknown
    up = {"uptime", "uptimemillis", "uptimenanos"} & set(chosen)
    wall = {"time", "utctime", "timemillis", "timenanos"} & set(chosen)
    assert read.pauses[0].at == (5.25 if up else 1767319445.25 if wall else 0)
    assert read.pauses[0].unix == (1767319445.25 if wall else None)
    assert read.timeless == (not up and not wall)


def test_no_decorators_at_all() -> None:
    read = parse_lines(["Using G1\n", "GC(0) Pause Young (Normal) (G1 Evacuation Pause)\n", f"{pause(0, 3.5)}\n"])
    assert [found.ms for found in read.pauses] == [3.5]
    figures = summary(read)
    assert figures.pauses.sum_ms == 3.5
    assert figures.share is None
    assert figures.interval_s is None
    assert figures.reasons["share"] == "the lines have no time"
    assert "the lines have no time" in "".join(read.warnings)


@pytest.mark.parametrize("before", ["app-1  | ", "2026-01-02T03:04:05.250000001Z stdout F "])
def test_what_a_container_puts_before_each_line_does_not_matter(before: str) -> None:
    read = parse_lines([before + text for text in jvm("G1", 3)])
    assert len(read.pauses) == 3
    assert read.pauses[0].at == 1.0


def rotated(folder: Path) -> tuple[Path, list[str]]:
    """As the JVM rotates: the numbered files go round, the one without a number is the latest."""
    lines = jvm("G1", 30)
    for name, part in (("gc.log.1", lines[:20]), ("gc.log.0", lines[20:41]), ("gc.log", lines[41:])):
        (folder / name).write_text("".join(part))
    return folder / "gc.log", lines


def test_a_rotated_log_is_one_log(tmp_path: Path) -> None:
    path, lines = rotated(tmp_path)
    whole = parse_lines(lines)
    (found,) = logs_of([path])
    assert [part.name for part in found.parts] == ["gc.log.1", "gc.log.0", "gc.log"]
    read = parse_files(found)
    assert read.pauses == whole.pauses
    assert len(read.jvms) == 1
    assert any("rotated" in text for text in read.warnings)
    by_glob = logs_of([tmp_path / name for name in ("gc.log", "gc.log.0", "gc.log.1")])
    assert by_glob == [found]
    document = report([path])
    assert document["pauses"]["count"] == 30
    assert [Path(part).name for part in document["files_read"]] == ["gc.log.1", "gc.log.0", "gc.log"]


def test_a_part_that_was_written_over_is_missed(tmp_path: Path) -> None:
    path, _ = rotated(tmp_path)
    (tmp_path / "gc.log.0").unlink()
    read = parse_files(logs_of([path])[0])
    assert "10 collections missing in the middle: 10-19" in "\n".join(read.warnings)
    (tmp_path / "gc.log.1").unlink()
    read = parse_files(logs_of([path])[0])
    assert "the log begins with collection 20: the first 20 are not in it" in "\n".join(read.warnings)


def test_packed_parts_are_joined_in_the_order_of_their_times(tmp_path: Path) -> None:
    """As a rotation leaves them that packs: the JVM's numbers go round, so they are not the order."""
    lines = jvm("G1", 12)
    newest, parts = lines[19:], {0: lines[13:19], 1: lines[:7], 2: lines[7:13]}
    (tmp_path / "gc.log").write_text("".join(newest))
    for number, part in parts.items():
        (tmp_path / f"gc.log.{number}.gz").write_bytes(gzip.compress("".join(part).encode()))
    (log,) = logs_of([tmp_path / "gc.log"])
    assert [part.name for part in log.parts] == ["gc.log.1.gz", "gc.log.2.gz", "gc.log.0.gz", "gc.log"]
    found = parse_files(log)
    assert [one.gc_id for one in found.pauses] == list(range(12))
    assert len(found.jvms) == 1
    assert found.warnings == ("rotated: read as one log, gc.log.1.gz, gc.log.2.gz, gc.log.0.gz, gc.log",)


def test_one_of_the_parts_alone(tmp_path: Path) -> None:
    rotated(tmp_path)
    assert len(parse_files(logs_of([tmp_path / "gc.log.1"])[0]).pauses) == 9
    assert len(parse(tmp_path / "gc.log").pauses) == 10
    with pytest.raises(UsageError, match="No such file"):
        logs_of([tmp_path / "gc.log.7"])


def test_a_directory_or_a_pattern_is_its_logs(tmp_path: Path) -> None:
    rotated(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing of a collector\n")
    assert logs_of([tmp_path]) == logs_of([tmp_path / "gc.log"]) == logs_of([tmp_path / "gc.*"])


def test_two_jvms_and_two_collectors_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text("".join([*jvm("G1", 5), *jvm("Serial", 7, START + 60)]))
    document = report([path])
    assert document["jvms"] == 2
    assert document["collector"] == "G1, Serial"
    assert [(one["collector"], one["pauses"]["count"]) for one in document["per_jvm"]] == [("G1", 5), ("Serial", 7)]
    assert any("2 JVMs" in text for text in document["warnings"])
    assert document["interval_s"] == pytest.approx(0.99)  # never from one JVM's pause to the other's
    shown = CliRunner().invoke(app, ["gc", str(path)])
    assert shown.exit_code == 0
    assert "JVM 2 of 2:" in shown.output


def mixed() -> list[str]:
    first, second = jvm("G1", 20), jvm("Parallel", 12, START + 4.5)
    return sorted([*first, *second], key=lambda text: int(text[1 : text.index("ms]")]))


def test_two_jvms_that_write_at_the_same_time_are_told_apart() -> None:
    read = parse_lines(mixed())
    assert [one.collector for one in read.jvms] == ["G1", "Parallel"]
    assert [sum(found.jvm == n for found in read.pauses) for n in range(2)] == [20, 12]
    assert any("alternate" in text for text in read.warnings)
    assert summary(read.of(1)).interval_s == pytest.approx(0.99)


def test_a_wall_clock_that_is_set_while_the_jvm_runs_makes_no_second_jvm() -> None:
    lines = jvm("G1", 20)
    stepped = [*lines[:21], *(line(float(n + 1), pause(n), start=START + 3600) for n in range(10, 20))]
    read = parse_lines(stepped)
    assert len(read.jvms) == 1
    assert len(read.pauses) == 20


def damage(lines: list[str], kind: str) -> bytes:
    text = [one.encode() for one in lines]
    if kind == "junk inside a line":
        text[20] = text[20][:40] + bytes(range(128, 200)) + b"\x00\x01" + text[20][60:]
    elif kind == "junk between lines":
        text.insert(20, bytes(range(256)) * 4 + b"\n")
    elif kind == "half a line":
        text[20] = text[20][:50] + b"\n"
    elif kind == "the other half":
        text[20] = text[20][50:]
    elif kind == "two lines in one":
        text[20] = text[20][:50] + text[21]
        del text[21]
    elif kind == "a block of zeros":
        text[18:23] = [bytes(400)]
    return b"".join(text)


@pytest.mark.parametrize(
    "kind",
    ["junk inside a line", "half a line", "the other half", "two lines in one", "a block of zeros"],
)
def test_a_damaged_log_gives_the_rest_and_says_what_is_lost(kind: str, tmp_path: Path) -> None:
    lines = jvm("G1", 20)
    path = tmp_path / "gc.log"
    path.write_bytes(damage(lines, kind))
    whole, read = parse_lines(lines), parse(path)
    assert 17 <= len(read.pauses) < 20 or kind == "junk between lines"
    assert all(found in whole.pauses for found in read.pauses)
    assert len(read.jvms) == 1
    told = "\n".join(read.warnings)
    assert "damaged" in told or "not known" in told or "missing in the middle" in told or "did not end" in told, told


@pytest.mark.parametrize("lost", ["uptime", "wall clock"])
def test_a_damaged_time_is_told_by_the_other_clock(lost: str) -> None:
    lines = jvm("G1", 20)
    stamp, up = lines[20][1:-1].split("][")[:2]
    lines[20] = lines[20].replace(up if lost == "uptime" else stamp, "\ufffd\ufffd")
    read = parse_lines(lines)
    whole = summary(parse_lines(jvm("G1", 20)))
    assert len(read.jvms) == 1
    assert len(read.pauses) == 20
    assert [found.at for found in read.pauses] == pytest.approx([n + 1.0 for n in range(20)])
    assert summary(read).span_s == pytest.approx(whole.span_s)


def test_digits_that_cannot_be_are_damage() -> None:
    lines = jvm("G1", 20)
    lines[20] = lines[20].replace(" 10.000ms", " 19910.000ms")
    lines[24] = lines[24].replace("GC(11)", "GC(110000000011)")
    read = parse_lines(lines)
    assert max(found.ms for found in read.pauses) == 10.0
    told = "\n".join(read.warnings)
    assert "collections missing in the middle: " in told
    assert "damaged" in told


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.touch()
    shown = CliRunner().invoke(app, ["gc", str(path)])
    assert "warning: the log is empty" in shown.output


def test_junk_between_lines_costs_nothing(tmp_path: Path) -> None:
    lines = jvm("G1", 20)
    path = tmp_path / "gc.log"
    path.write_bytes(damage(lines, "junk between lines"))
    assert parse(path).pauses == parse_lines(lines).pauses


def test_every_cut_gives_what_is_before_it() -> None:
    text = "".join(jvm("G1", 6))
    whole = parse_lines(text.splitlines(keepends=True))
    for end in range(len(text)):
        read = parse_lines(text[:end].splitlines(keepends=True))
        assert not read.unknown
        assert not read.damaged
        complete = read.pauses if text[:end].endswith("ms") else read.pauses[: len(whole.pauses)]
        assert [found.ms for found in complete] == [10.0] * len(complete)


def test_an_unknown_pause_is_loud(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text("".join([*jvm("G1", 2), line(9.0, "GC(2) Pause For Thought 7.000ms")]))
    shown = CliRunner().invoke(app, ["gc", str(path)])
    assert "warning: 1 line about a pause is not known, so every figure may be short of it" in shown.output
    assert "Pause For Thought" in shown.output


def test_compressed_logs(tmp_path: Path) -> None:
    data = gzip.compress("".join(jvm("G1", 2000)).encode())
    path = tmp_path / "gc.log.gz"
    path.write_bytes(data)
    assert len(parse(path).pauses) == 2000
    path.write_bytes(data[: len(data) // 2])
    assert 0 < len(parse(path).pauses) < 2000
    path.write_bytes(b"no gzip")
    with pytest.raises(UsageError, match=r"gc\.log\.gz"):
        parse(path)


def test_several_logs_stand_side_by_side(tmp_path: Path) -> None:
    for name, collector in (("a.log", "G1"), ("b.log", "Serial")):
        (tmp_path / name).write_text("".join(jvm(collector, 4)))
    shown = CliRunner().invoke(app, ["gc", str(tmp_path / "a.log"), str(tmp_path / "b.log")])
    assert shown.exit_code == 0
    assert "side by side:" in shown.output
    assert len(report([tmp_path / "a.log", tmp_path / "b.log"])["files"]) == 2


def test_the_events_of_one_jvm() -> None:
    read = parse_lines(mixed())
    alone = read.of(1)
    assert isinstance(alone, GcLog)
    assert {found.jvm for found in alone.pauses} == {0}
    assert len(alone.pauses) == 12


@pytest.mark.parametrize("name", ["zero", "urandom"])
def test_a_device_without_an_end_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a device without an end"):
        logs_of([Path("/dev", name)])


def test_a_word_in_brackets_before_the_time_takes_no_clock_from_the_lines_that_follow(tmp_path: Path) -> None:
    lines = [f"[{n}.000s] GC({n}) Pause Young (Normal) (G1 Evacuation Pause) 9M->3M(64M) 1.000ms" for n in range(1, 9)]
    lines.insert(4, "[4.500s] java.util.Collection source: shared objects file")  # no word of the collector's messages
    path = tmp_path / "gc.log"
    path.write_text("".join(f"INFO [gc-thread-{n + 6}] o.e.Gc - {text}\n" for n, text in enumerate(lines)))
    log = parse(path)
    assert [one.at for one in log.pauses] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert log.understood == log.lines == 9
