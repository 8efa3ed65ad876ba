"""The observer of stacks: a real JVM, real recordings."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from leadline.host.java import find_java, java_environment
from leadline.host.local import LocalHost
from leadline.model.errors import LeadlineError
from leadline.observe.base import ObserverContext
from leadline.observe.profile import METRICS, WAITS, ProfileObserver, recording, tabulate
from leadline.observe.profile import _settings as profile_settings
from leadline.stack.servers.jvm import recorder

BUSY = """
public class Busy {
    public static void main(String[] args) throws Exception {
        System.out.println("ready");
        Runnable work = () -> { while (true) { spin(); } };
        work.run();
    }
    static double spun;
    static void spin() {  // code with calls and allocations, as servers have it: bare loops are seldom sampled
        long[] found = new java.util.Random(7).longs(20_000).toArray();
        java.util.Arrays.sort(found);
        spun += found[0];
    }
}
"""


class Server:
    """A process group that is one JVM."""

    name = "server"

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def pids(self) -> list[int]:
        return [self.pid]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with _busy(tmp_path, *recorder(tmp_path / "recorder")) as server:
        yield server


@contextmanager
def _busy(folder: Path, *flags: str) -> Iterator[Server]:
    source = folder / "Busy.java"
    source.write_text(BUSY)
    command = [str(find_java() / "bin" / "java"), "-Xmx64m", "-XX:+UseSerialGC", *flags, str(source)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=java_environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Server(process)
        process.kill()


def _recorded(context: ObserverContext, seconds: float) -> ProfileObserver:
    observer = ProfileObserver(LocalHost(), "light")
    observer.start(context)
    observer.sample(True)
    time.sleep(seconds)
    observer.sample(False)
    time.sleep(1.1)  # not asked for
    observer.stop()
    return observer


def test_what_a_jvm_does_is_sampled(server: Server, tmp_path: Path) -> None:
    trial = tmp_path / "a trial"
    context = ObserverContext(trial, {"server": server})  # type: ignore[dict-item]
    path = None
    for _ in range(20):  # on a busy machine few seconds may hold no sample
        observer = _recorded(context, 3.0)
        assert observer.warnings == []
        assert not (trial / "raw" / "profile.jfc").exists()
        path = observer.collect()
        if path is not None:
            break
    assert path == trial / "series" / "profile.parquet"
    table = pl.read_parquet(path)
    assert set(table["metric"]) <= set(METRICS.values())
    samples = table.filter(pl.col("metric").str.contains("samples"))
    spinning = samples.filter(pl.col("subject").str.contains("Busy.main;.*Busy.spin"))
    assert spinning["value"].sum() > 0.5 * samples["value"].sum() > 0
    assert "profile.allocated" in set(table["metric"])
    assert len(set(samples["time_ns"])) <= 4, "of the stretch that was asked for"
    assert not table["subject"].str.contains(r"0x|[./+]\d+[./;]").any(), "no names that differ from JVM to JVM"
    # a second trial of the same JVM, whose recorder is set up already
    again = _recorded(ObserverContext(tmp_path / "again", {"server": server}), 0.5)  # type: ignore[dict-item]
    assert again.warnings == []
    assert recording(tmp_path / "again").stat().st_size > 0


def test_a_jvm_whose_frames_are_not_exact_is_warned_of(tmp_path: Path) -> None:
    with _busy(tmp_path) as server:
        observer = _recorded(ObserverContext(tmp_path, {"server": server}), 0.1)  # type: ignore[dict-item]
        (warning,) = observer.warnings
        assert "-XX:+DebugNonSafepoints" in warning


def test_a_jvm_that_is_gone_costs_the_profile_only(server: Server, tmp_path: Path) -> None:
    observer = ProfileObserver(LocalHost(), "light")
    observer.start(ObserverContext(tmp_path, {"server": server}))  # type: ignore[dict-item]
    observer.sample(True)
    assert [path.name.rpartition("_")[2] for path in (tmp_path / "recorder").iterdir()] == [str(server.pid)]
    server.process.kill()
    server.process.wait()
    observer.stop()
    assert "no profile of the server" in observer.warnings[0]
    assert observer.collect() is None
    observer.start(ObserverContext(tmp_path, {"server": server}))  # type: ignore[dict-item]
    observer.sample(True)
    assert "no profile of the server" in observer.warnings[0]


def test_a_path_with_separators_of_options_leaves_the_recorder_where_the_jvm_puts_it(tmp_path: Path) -> None:
    folder = tmp_path / "a lab, of=mine"
    folder.mkdir()
    with _busy(folder, *recorder(folder)) as server:
        observer = _recorded(ObserverContext(folder, {"server": server}), 0.1)  # type: ignore[dict-item]
        assert observer.warnings == []
        assert recording(folder).stat().st_size > 0


def test_without_a_server_there_is_nothing_to_sample(tmp_path: Path) -> None:
    observer = ProfileObserver(LocalHost(), "light")
    assert observer.collect() is None
    observer.start(ObserverContext(tmp_path))
    observer.sample(True)
    observer.stop()
    assert observer.warnings == ["no profile of the server: there is none"]


def test_a_damaged_recording_is_named(tmp_path: Path) -> None:
    file = recording(tmp_path)
    file.parent.mkdir()
    file.write_bytes(b"FLR\0" + bytes(100))
    with pytest.raises(LeadlineError, match=r"profile\.jfr cannot be read"):
        ProfileObserver(LocalHost(), "light").collect_from(tmp_path)


def test_lines_become_rows() -> None:
    lines = [
        "1700000000000000000\tjdk.ThreadPark\t3\ta.A.run;b.B.get",
        "1700000001000000000\tjdk.ThreadPark\t1\ta.A.run",
    ]
    frame = tabulate(lines).frame()
    assert frame.rows() == [
        (1_700_000_001 * 10**9, "profile.parked", "a.A.run", 1.0),
        (1_700_000_000 * 10**9, "profile.parked", "a.A.run;b.B.get", 3.0),
    ]


def test_waits_are_recorded_in_full_alone() -> None:
    light, full = (profile_settings(detail, True) for detail in ("light", "full"))
    assert [event in light for event in WAITS.values()] == [False] * len(WAITS)
    assert all(event in full for event in WAITS.values())
