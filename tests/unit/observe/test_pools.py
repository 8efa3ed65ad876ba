"""The observer of the agent's samples, without a server."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from leadline.host.base import Host
from leadline.host.java import AttachError
from leadline.host.local import LocalHost
from leadline.observe import pools
from leadline.observe.base import COLUMNS, ObserverContext
from leadline.observe.pools import PoolsObserver

HEADER = "time_ns,metric,subject,value\n"
SAMPLE = (
    "1700000000000000000,pool.in_use,jdbc/brokerage,3\n"
    "1700000000000000000,agent.pools,tomcat,1\n"
    "1700000000000000000,agent.sample_us,agent,700.5\n"
)


class FakeProcess:
    """A group whose leader is this test's child; never signalled."""

    name = "server"

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def alive(self) -> bool:
        return True

    def exit_code(self) -> int | None:
        return None

    def signal(self, number: int) -> None:
        raise AssertionError("an observer signals nobody")

    def stop(self, grace: float = 10.0) -> bool:
        raise AssertionError("an observer stops nobody")

    def cpu_seconds(self) -> tuple[float, float]:
        return (0.0, 0.0)

    def pids(self) -> list[int]:
        return [self.pid]


@pytest.fixture
def sleeper() -> Iterator[FakeProcess]:
    child = subprocess.Popen(["sleep", "60"])
    yield FakeProcess(child.pid)
    child.kill()
    child.wait()


def recorded(directory: Path, text: str) -> Path:
    (directory / "raw").mkdir()
    (directory / "raw" / "agent.csv").write_text(text)
    return directory


def test_samples_become_a_tall_table_even_after_a_kill(tmp_path: Path) -> None:
    path = PoolsObserver(LocalHost()).collect_from(recorded(tmp_path, f"{HEADER}{SAMPLE}1700000001000000000,pool.in_u"))
    assert path == tmp_path / "series" / "pools.parquet"
    frame = pl.read_parquet(path)
    assert tuple(frame.columns) == COLUMNS
    assert frame.height == 3
    row = frame.filter(pl.col("metric") == "pool.in_use").row(0)
    assert row == (1700000000000000000, "pool.in_use", "jdbc/brokerage", 3.0)
    assert set(frame["metric"]) <= set(pools.UNITS)


@pytest.mark.parametrize("text", ["", "time_ns,met", HEADER])
def test_nothing_recorded_is_no_table(tmp_path: Path, text: str) -> None:
    assert PoolsObserver(LocalHost()).collect_from(recorded(tmp_path, text)) is None


def test_an_observer_that_never_started_collects_nothing(tmp_path: Path) -> None:
    observer = PoolsObserver(LocalHost())
    observer.stop()
    assert observer.collect() is None
    assert observer.collect_from(tmp_path) is None


def test_no_server_is_a_warning(tmp_path: Path) -> None:
    observer = PoolsObserver(LocalHost())
    observer.start(ObserverContext(tmp_path))
    assert observer.warnings == ["no server to load the agent into: no series of its pools"]


def test_a_process_that_is_no_jvm_is_a_warning(tmp_path: Path, sleeper: FakeProcess) -> None:
    observer = PoolsObserver(LocalHost())
    observer.start(ObserverContext(tmp_path, {"server": sleeper}))
    assert "no JVM in process group server" in observer.warnings[0]
    assert not (tmp_path / "raw" / "agent.properties").exists()


def test_an_agent_that_is_refused_is_a_warning(
    tmp_path: Path, sleeper: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake_load(host: Host, java_home: Path | None, pid: int, options: Path) -> None:
        raise AttachError("JVM 1 did not load the agent: no")

    monkeypatch.setattr(pools, "java_pid", lambda _files, process: process.pid)
    monkeypatch.setattr(pools, "load_agent", fake_load)
    observer = PoolsObserver(LocalHost())
    observer.start(ObserverContext(tmp_path, {"server": sleeper}))
    assert observer.warnings == ["no series of the server's pools: JVM 1 did not load the agent: no"]
    observer.stop()
    assert observer.collect() is None


def test_missing_statistics_are_told_and_forgiven_when_they_come(
    tmp_path: Path, sleeper: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = tmp_path / "raw" / "agent.csv"
    options = ""

    def fake_load(host: Host, java_home: Path | None, pid: int, file: Path) -> None:
        nonlocal options
        options = file.read_text()
        samples.write_text(HEADER + SAMPLE.replace("tomcat,1", "liberty,0"))

    monkeypatch.setattr(pools, "java_pid", lambda _files, process: process.pid)
    monkeypatch.setattr(pools, "load_agent", fake_load)
    observer = PoolsObserver(LocalHost())
    observer.start(ObserverContext(tmp_path, {"server": sleeper}, interval=0.5))
    compilations = samples.with_name("compilations.log")
    assert options == f"samples={samples}\ncompilations={compilations}\ninterval_ms=500\n"
    assert "server.monitoring" in observer.warnings[0]
    with samples.open("a") as file:
        file.write("1700000001000000000,agent.pools,liberty,1\n")
    observer.stop()
    assert observer.warnings == []
    assert not (tmp_path / "raw" / "agent.properties").exists(), "the sampler ends with its options"
    assert not compilations.exists()


def test_work_of_the_compiler_while_it_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "raw" / "agent.csv"
    file.parent.mkdir()
    rows = [f"{second}000000000,jit.time_ms,HotSpot,{300 * second}\n" for second in range(100, 111)]
    file.write_text(HEADER + "".join(rows))
    assert pools.compiled_since(tmp_path, 104.5) == (pytest.approx(1.65), 0.0), "what waits is not told by every JVM"
    file.write_text(file.read_text() + "110000000000,jit.queue,server,7\n110000000000,jit.que")
    assert pools.compiled_since(tmp_path, 104.5) == (pytest.approx(1.65), 7.0)
    for moment in (99, 110, 200):
        assert pools.compiled_since(tmp_path, moment) is None, "not recorded then"
    assert pools.compiled_since(tmp_path / "none", 104) is None
