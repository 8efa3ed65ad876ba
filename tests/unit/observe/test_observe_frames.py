"""Frame files survive what happens to a trial."""

import threading
from pathlib import Path

import pytest

from leadline.observe.frames import FrameWriter, read_frames
from leadline.observe.sampler import Sampler


def record(path: Path, count: int) -> None:
    writer = FrameWriter(path)
    for n in range(count):
        writer.write(n * 10**9, 1_700_000_000_000_000_000 + n, n, n * 5, [("stat", b"cpu %d\n" % n), ("empty", b"")])
    writer.close()


def test_frames_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "raw" / "host.frames"
    record(path, 3)
    frames = list(read_frames(path))
    assert [frame.sequence for frame in frames] == [0, 1, 2]
    assert frames[2].monotonic_ns == 2 * 10**9
    assert frames[2].time_ns == 1_700_000_000_000_000_002
    assert (frames[2].lateness_ns, frames[2].cpu_ns) == (2, 10)
    assert frames[2].files == {"stat": b"cpu 2\n", "empty": b""}
    assert frames[2].text("stat") == "cpu 2\n"
    assert frames[2].text("no such file") == ""


def test_content_with_line_ends_and_header_words_is_verbatim(tmp_path: Path) -> None:
    content = b"frame 1 2 3 4 5 6\nstat 12\n\n\x00\xff"
    writer = FrameWriter(tmp_path / "f")
    writer.write(0, 0, 0, 0, [("a b", content), ("c", b"x")])
    writer.close()
    (frame,) = read_frames(tmp_path / "f")
    assert frame.files == {"a b": content, "c": b"x"}


def test_every_frame_is_on_disk_before_the_file_is_closed(tmp_path: Path) -> None:
    writer = FrameWriter(tmp_path / "f")
    for n in range(4):
        writer.write(n, n, 0, 0, [("stat", b"x" * 1000)])
        assert len(list(read_frames(tmp_path / "f"))) == n + 1


def test_a_cut_or_damaged_end_costs_only_that_end(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    writer = FrameWriter(whole)
    sizes = []
    for n in range(6):
        writer.write(n, n, 0, 0, [("stat", bytes(range(256)) * 20 + b"%d" % n)])
        sizes.append(whole.stat().st_size)
    writer.close()
    data = whole.read_bytes()
    cut = tmp_path / "cut"
    for length in range(len(data) + 1):
        cut.write_bytes(data[:length])
        survivors = len(list(read_frames(cut)))
        assert survivors >= sum(size <= length for size in sizes)
        assert survivors <= 6
    cut.write_bytes(data[: sizes[2]] + b"\xff\xff\xff\xff" + data[sizes[3] :])
    assert [frame.sequence for frame in read_frames(cut)][:3] == [0, 1, 2]


def test_the_sampler_goes_on_after_a_failed_sample_and_tells_once() -> None:
    calls: list[int] = []

    def sample(lateness_ns: int) -> None:
        calls.append(lateness_ns)
        raise OSError("no space left")

    sampler = Sampler("host", sample, 0.005)
    sampler.start()
    while len(calls) < 4:
        pass
    assert sampler.stop()
    assert sampler.warnings == ["host: OSError: no space left"]
    assert calls[0] == 0


def test_without_an_interval_there_is_a_first_and_a_last_sample() -> None:
    calls: list[int] = []
    sampler = Sampler("database", calls.append, None)
    sampler.start()
    while not calls:
        pass
    assert sampler.stop()
    assert len(calls) == 2


def test_an_interval_of_nought_is_refused() -> None:
    with pytest.raises(ValueError, match="host: the sampling interval must be above 0 s"):
        Sampler("host", lambda _lateness: None, 0)


def test_a_stuck_sample_is_told_and_not_waited_for() -> None:
    release = threading.Event()

    def sample(_lateness_ns: int) -> None:
        release.wait()

    sampler = Sampler("database", sample, 1.0)
    sampler.start()
    assert not sampler.stop(patience=0.05)
    release.set()
    assert "did not return" in sampler.warnings[0]
