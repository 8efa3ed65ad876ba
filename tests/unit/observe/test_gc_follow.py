"""A GC log that is being written: what is read of it, and what is told of it when."""

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.model.errors import UsageError
from leadline.observe.gclog import follow
from leadline.observe.gclog.follow import Follower, news


def pause(number: int, ms: float = 2.0, kind: str = "Pause Young (Allocation Failure)") -> str:
    return f"[{number + 1}.000s][info][gc] GC({number}) {kind} 9M->3M(16M) {ms:.3f}ms\n"


def numbers(follower: Follower) -> list[int | None]:
    return [event.gc_id for event in follower.log().pauses]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_what_is_added_is_read_half_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(pause(0))
    follower = Follower(path)
    assert follower.read() == (True, False)
    append(path, pause(1)[:20])
    follower.read()
    assert numbers(follower) == [0]
    append(path, pause(1)[20:])
    follower.read()
    assert numbers(follower) == [0, 1]
    assert follower.read() == (False, False)
    assert follower.finish().warnings == ()


def test_rotation_is_followed_and_what_was_rotated_before(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    for number in range(2):
        (tmp_path / f"gc.log.{number}").write_text(pause(number))
    path.write_text(pause(2))
    follower = Follower(path)
    follower.read()
    append(path, pause(3))
    path.rename(tmp_path / "gc.log.2")
    follower.read()  # its successor is not there yet
    path.write_text(pause(4))
    path.rename(tmp_path / "gc.log.0")  # twice between two looks, over the oldest
    path.write_text(pause(5))
    follower.read()
    assert numbers(follower) == list(range(6))
    assert follower.finish().warnings == ()


def test_a_log_that_is_emptied_goes_on(tmp_path: Path) -> None:
    """copytruncate of logrotate."""
    path = tmp_path / "gc.log"
    path.write_text(pause(0) + pause(1))
    follower = Follower(path)
    follower.read()
    path.write_text(pause(2))
    follower.read()
    assert numbers(follower) == [0, 1, 2]


def test_the_file_that_jdk_8_writes_to(tmp_path: Path) -> None:
    record = "{}.000: [GC (Allocation Failure) [PSYoungGen: 9K->2K(9K)] 9K->5K(90K), 0.0010000 secs]\n"
    (tmp_path / "gc.log.0.current").write_text(record.format(1))
    follower = Follower(tmp_path / "gc.log")
    follower.read()
    (tmp_path / "gc.log.0.current").rename(tmp_path / "gc.log.0")
    (tmp_path / "gc.log.1.current").write_text(record.format(2))
    follower.read()
    assert [event.at for event in follower.log().pauses] == pytest.approx([1.001, 2.001])


def test_standard_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        follower = Follower(Path("-"))
        assert follower.read() == (False, False)
        os.write(writing, pause(0).encode())
        assert follower.read() == (True, False)
        os.close(writing)
        assert follower.read() == (False, True)
        assert len(follower.finish().pauses) == 1


def test_one_log_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "gc.log").write_text(pause(0))
    with pytest.raises(UsageError, match="is of one log"):
        Follower(tmp_path)


def test_a_finding_is_told_when_it_comes_when_it_doubles_and_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gc.log"
    path.write_text("".join(pause(number) for number in range(30)))
    steps = iter(
        [
            "".join(pause(number, 200, "Pause Full (System.gc())") for number in range(30, 33)),
            pause(33, 200, "Pause Full (System.gc())"),  # a third more: not told again
            "".join(pause(number, 200, "Pause Full (System.gc())") for number in range(34, 37)),
            "".join(pause(number) for number in range(100, 100_000, 500)),  # its share is small now
        ]
    )
    follower = Follower(path, lambda: not more)
    more = True

    def step(_seconds: float) -> None:
        nonlocal more
        text = next(steps, "")
        more = bool(text)
        append(path, text)

    monkeypatch.setattr(follow.time, "sleep", step)
    monkeypatch.setattr(follow, "_LOOK", 0.0)
    monkeypatch.setattr(follow, "_TENTH", 0)
    told = [(entry.finding.name, entry.finding.count, entry.holds, entry.at) for entry in news(follower)]
    assert [entry for entry in told if entry[0] == "explicit-gc"] == [
        ("explicit-gc", 3, True, pytest.approx(33)),
        ("explicit-gc", 7, True, pytest.approx(37)),
    ]


def test_what_a_late_log_does_not_say_is_known_of_its_jvm(tmp_path: Path) -> None:
    path = tmp_path / "gc.log"
    path.write_text(pause(700))
    follower = Follower(path, heap=("Parallel", 64 << 20))
    follower.read()
    assert [(jvm.collector, jvm.heap_max) for jvm in follower.finish().jvms] == [("Parallel", 64 << 20)]


def test_the_command_tells_findings_then_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gc.log"
    path.write_text("".join(pause(number, 200, "Pause Full (System.gc())") for number in range(30)))

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(follow.time, "sleep", interrupt)
    told = CliRunner().invoke(app, ["gc", "--follow", str(path), "--json"])
    assert told.exit_code == 0
    first, *_, last = map(json.loads, told.stdout.splitlines())
    assert (first["finding"]["name"], first["at"]) == ("explicit-gc", 30.0)
    assert last["pauses"]["count"] == 30
    told = CliRunner().invoke(app, ["gc", "--follow", str(path)])
    assert told.stdout.startswith("30.0 s explicit-gc: ")
    assert "pauses        30, 6000.0 ms in all" in told.stdout
