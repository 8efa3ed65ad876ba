"""Counters of a part of the stack, robust to calls that fail."""

import threading
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from leadline.host.files import LocalFiles
from leadline.observe.base import FrameWriter, Observer, ObserverContext, ObserverSet, Sampler, read_frames
from leadline.observe.counters import CounterObserver, database_observer
from leadline.observe.host import HostObserver
from leadline.observe.table import TallTable
from leadline.observe.window import MachineLines


class FakeDatabase:
    """Answers with growing counters; every call whose number is in ``fails`` raises."""

    def __init__(self, fails: frozenset[int] = frozenset()) -> None:
        self.calls = 0
        self.fails = fails

    def stats(self) -> Mapping[str, float]:
        self.calls += 1
        if self.calls in self.fails:
            raise LookupError("connection refused")
        return {"commits": 10.0 * self.calls, "connections": 4.0}


def test_values_and_rates(tmp_path: Path) -> None:
    source = FakeDatabase()
    observer = database_observer(source.stats, gauges=("connections",), interval=None)
    observer.start(ObserverContext(tmp_path))
    observer.stop()
    path = observer.collect()
    assert path == tmp_path / "series" / "database.parquet"
    table = pl.read_parquet(path)
    assert set(table["subject"]) == {"database"}
    assert table.filter(pl.col("metric") == "commits")["value"].to_list() == [10.0, 20.0]
    rates = table.filter(pl.col("metric") == "commits.per_s")
    seconds = table.filter(pl.col("metric") == "commits")["time_ns"].diff().to_list()[1] / 1e9
    assert abs(rates["value"][0] - 10.0 / seconds) / rates["value"][0] < 0.2
    assert "connections.per_s" not in set(table["metric"])


def test_failing_calls_are_gaps_and_warnings(tmp_path: Path) -> None:
    source = FakeDatabase(frozenset({1, 3}))
    observer = CounterObserver("database", "database", source.stats, interval=0.005)
    observer.start(ObserverContext(tmp_path))
    while source.calls < 5:
        pass
    observer.stop()
    path = observer.collect()
    assert path is not None
    commits = pl.read_parquet(path).filter(pl.col("metric") == "commits")["value"].to_list()
    assert commits[:3] == [20.0, 40.0, 50.0]
    assert observer.warnings == [f"database: 2 of {source.calls} calls failed: LookupError: connection refused"]
    raw = (tmp_path / "raw" / "database.jsonl").read_text().splitlines()
    assert '"error": "LookupError: connection refused"' in raw[0]


def test_a_source_that_never_answers_gives_no_table(tmp_path: Path) -> None:
    observer = CounterObserver("database", "database", FakeDatabase(frozenset(range(100))).stats, interval=None)
    observer.start(ObserverContext(tmp_path))
    observer.stop()
    assert observer.collect() is None
    assert observer.warnings


def test_a_cut_line_and_a_restarted_counter(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "database.jsonl"
    raw.parent.mkdir()
    line = '{{"time_ns": {n}000000000, "monotonic_ns": {n}000000000, "values": {{"commits": {v}}}}}\n'
    raw.write_text(line.format(n=1, v=50) + line.format(n=2, v=5) + line.format(n=3, v=9) + '{"time_ns": 4, "val')
    observer = CounterObserver("database", "database", dict)
    path = observer.collect_from(tmp_path)
    assert path is not None
    table = pl.read_parquet(path)
    assert table.filter(pl.col("metric") == "commits")["value"].to_list() == [50, 5, 9]
    rates = table.filter(pl.col("metric") == "commits.per_s")
    assert rates["value"].to_list() == [4]
    assert rates["time_ns"].to_list() == [3_000_000_000]


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


def write(directory: Path, *, idle: float = 0.1, roles: float = 1.0) -> None:
    """Five seconds of two CPUs: server, database and driver use 0.8 CPUs, a kernel thread 0.1, a program the rest."""
    directory.mkdir(exist_ok=True)
    processes, host = TallTable(), TallTable()
    for second in range(5):
        now = (100 + second) * 10**9
        for role, share in (("server", 0.5), ("database", 0.2), ("driver", 0.1)):
            processes.add(now, "cpu.seconds", role, share * roles * second)
            processes.add(now, "write_bytes", role, 1000.0)
        processes.add(now, "program.cpu", "python3 neighbour.py", 0.8)
        processes.add(now, "kernel.cpu", "kernel", 0.1)
        for cpu in ("host", "cpu0", "cpu1"):
            for kind, share in (("user", 0.75 - idle), ("system", 0.1), ("softirq", 0.1), ("steal", 0.05)):
                host.add(now, f"cpu.{kind}", cpu, share)
            host.add(now, "cpu.idle", cpu, idle)
        host.add(now, "psi.cpu.some", "host", 0.3)
        host.add(now, "disk.write_bytes", "sda", 5000.0)
        host.add(now, "disk.read_bytes", "sda", 1000.0)
        host.add(now, "net.rx_bytes", "lo", 9000.0)
        host.add(now, "net.rx_bytes", "eth0", 700.0)
    processes.write(directory / "processes.parquet")
    host.write(directory / "host.parquet")


def test_others_are_what_the_host_did_beside_the_study(tmp_path: Path) -> None:
    write(tmp_path, idle=0.0)
    use = MachineLines(tmp_path).use([(100, 104)])
    assert use is not None
    assert use.figures["others_cpu"] == pytest.approx(0.85 - 0.8 / 2 - 0.1 / 2)  # no steal, interrupts, kernel threads
    assert use.figures["steal"] == pytest.approx(0.05)
    assert use.taken == pytest.approx(0.4 + 0.05)
    assert use.figures["cpu_pressure"] == pytest.approx(0.3)
    assert use.figures["others_disk"] == pytest.approx(6000 - 3000)
    assert use.figures["others_network"] == pytest.approx(700)
    assert "frequency" not in use.figures
    assert use.programs == pytest.approx({"python3 neighbour.py": 0.4})


def test_instances_side_by_side_are_the_studys(tmp_path: Path) -> None:
    write(tmp_path / "a", idle=0.0)
    write(tmp_path / "b", idle=0.0, roles=0.25)
    use = MachineLines(tmp_path / "a", [tmp_path / "b"]).use([(100, 104)])
    assert use is not None
    assert use.figures["others_cpu"] == pytest.approx(0.4 - 0.2 / 2)


def test_a_short_window_has_the_programs_of_the_nearest_look(tmp_path: Path) -> None:
    write(tmp_path)
    use = MachineLines(tmp_path).use([(103.2, 103.9)])
    assert use is None or use.programs == pytest.approx({"python3 neighbour.py": 0.4})


def test_what_was_not_recorded_is_not_known(tmp_path: Path) -> None:
    assert MachineLines(tmp_path).use([(100, 104)]) is None
    write(tmp_path)
    (tmp_path / "host.parquet").write_bytes(b"PAR1 cut off")
    assert MachineLines(tmp_path).use([(100, 104)]) is None
    write(tmp_path)
    (tmp_path / "processes.parquet").unlink()
    use = MachineLines(tmp_path).use([(100, 104)])
    assert use is not None
    assert use.taken is None
    assert "others_disk" not in use.figures


class FakeObserver:
    """Notes its calls; raises in the step named by ``fails``."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        self.name = name
        self.log = log
        self.fails = fails
        self.warnings = ["dropped a sample"] if not fails else []

    def _step(self, step: str) -> None:
        self.log.append(f"{self.name} {step}")
        if self.fails == step:
            raise RuntimeError(f"{step} is broken")

    def start(self, context: ObserverContext) -> None:
        self._step("start")

    def stop(self) -> None:
        self._step("stop")

    def collect(self) -> Path | None:
        self._step("collect")
        return Path(f"{self.name}.parquet")

    def collect_from(self, directory: Path) -> Path | None:
        self._step("collect_from")
        return directory / f"{self.name}.parquet"


@pytest.mark.parametrize("step", ["start", "stop", "collect"])
def test_the_others_go_on(step: str) -> None:
    log: list[str] = []
    bad: Observer = FakeObserver("bad", log, step)
    observers = ObserverSet([FakeObserver("a", log), bad, FakeObserver("z", log)])
    observers.start(ObserverContext(Path()))
    observers.stop()
    observers.stop()
    found = observers.collect()
    for name in ("a", "z"):
        assert [f"{name} {each}" for each in ("start", "stop", "collect")] == [
            line for line in log if line.startswith(f"{name} ")
        ]
        assert found[name] == Path(f"{name}.parquet")
    assert ("bad" in found) is (step != "collect")
    assert len([text for text in observers.warnings if "RuntimeError" in text]) == 1
    assert f"{step} is broken" in observers.warnings[0]
    assert observers.warnings[1:] == ("dropped a sample",)
    assert ("bad stop" in log) is (step != "start")


def test_series_of_an_ended_trial(tmp_path: Path) -> None:
    log: list[str] = []
    observers = ObserverSet([FakeObserver("bad", log, "collect_from"), FakeObserver("a", log)])
    assert observers.collect_from(tmp_path) == {"a": tmp_path / "a.parquet"}
    assert "collect_from is broken" in observers.warnings[0]


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two observers are named host"):
        ObserverSet([HostObserver(LocalFiles()), HostObserver(LocalFiles())])


def test_a_directory_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    observers = ObserverSet([HostObserver(LocalFiles())])
    observers.start(ObserverContext(blocked))
    observers.stop()
    assert observers.collect() == {}
    assert observers.warnings[0].startswith("host: did not start: ")
