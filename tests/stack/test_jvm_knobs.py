"""Every knob of the JVM on a real one: read back from its flags, and seen in what it then does."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from leadline.host.files import LocalFiles
from leadline.host.java import find_java_home, jcmd, load_agent
from leadline.host.local import LocalHost
from leadline.model.knob import Level
from leadline.stack.servers import jvm, large_pages
from leadline.stack.servers.files import ensure_agent, properties_text

pytestmark = pytest.mark.stack

PROGRAM = Path(__file__).parent / "probe" / "Stack.java"
MIB = 1024**2
RESERVED = "vm.nr_hugepages"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    javac = shutil.which("javac")
    assert javac, "the stack tests need a JDK"
    directory = tmp_path_factory.mktemp("classes")
    subprocess.run([javac, "--release", "17", "-d", str(directory), str(PROGRAM)], check=True)
    ensure_agent(print)
    return directory


@dataclass(frozen=True)
class Running:
    """``depth``: calls that fit on a thread's stack; ``log``: the collector's log so far."""

    pid: int
    depth: int
    flags: dict[str, str]
    log: str
    ask: Callable[[dict[str, Level]], dict[str, str]]  # change live levels; the flags then

    def level(self, name: str) -> Level:
        return jvm.level(name, self.flags, LocalFiles(), self.pid)

    def resident(self) -> int:
        rows = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("VmRSS:"))


@contextmanager
def running(classes: Path, levels: dict[str, Level], tmp_path: Path) -> Iterator[Running]:
    command = [
        str(find_java_home() / "bin" / "java"),
        *jvm.options(levels, tmp_path / "gc.log"),
        "-cp",
        str(classes),
        "Stack",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            depth = int(process.stdout.readline())
            assert process.stdout.readline() == "ready\n"
            answer, options = tmp_path / "answer.json", tmp_path / "options.properties"

            def ask(changed: dict[str, Level]) -> dict[str, str]:
                asked = {"answer": str(answer), "flags": ",".join(jvm.FLAGS), **jvm.flags(changed)}
                options.write_text(properties_text(asked))
                load_agent(LocalHost(state=tmp_path), None, process.pid, options)
                found = json.loads(answer.read_text())
                assert found["refused"] == []
                flags: dict[str, str] = found["flags"]
                return flags

            yield Running(process.pid, depth, ask({}), (tmp_path / "gc.log").read_text(), ask)
        finally:
            process.terminate()  # it removes its attach socket then


@pytest.mark.skipif(os.geteuid() != 0, reason="host: only root starts a program as another user")
def test_a_dead_jvm_s_attach_socket_is_not_in_the_way(classes: Path, tmp_path: Path) -> None:
    """The kernel gave the number of a JVM of root's that was killed to one of another user's."""
    readable = Path(os.environ["TMPDIR"]) / "classes"
    shutil.copytree(classes, readable)
    readable.chmod(0o755)
    command = [str(find_java_home() / "bin" / "java"), "-cp", str(readable), "Stack"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=65534) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) > 0
            left = Path(f"/tmp/.java_pid{process.pid}")
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(left))
                dead.listen()
            assert left.stat().st_uid == 0
            for _ in ("by the JDK's tool", "by the socket that it opened"):
                code, said = jcmd(LocalHost(state=tmp_path), None, process.pid, ["VM.version"])
                assert (code, "OpenJDK" in said) == (0, True), said
                assert left.stat().st_uid == 65534
        finally:
            process.terminate()
    assert not left.exists()


def logged(log: str, pattern: str) -> int:
    found = re.search(pattern, log)
    assert found, f"no {pattern} in the collector's log"
    return int(found[1])


def test_g1(classes: Path, tmp_path: Path) -> None:
    levels: dict[str, Level] = {
        "jvm.heap": 96 * MIB,
        "jvm.heap_initial": 64 * MIB,
        "jvm.collector": "g1",
        "jvm.gc_threads": 2,
        "jvm.gc_concurrent_threads": 1,
        "jvm.young_size": 24 * MIB,
        "jvm.g1_region_size": 2 * MIB,
        "jvm.g1_initiating_occupancy": 60,
        "jvm.gc_pause_target": 0.07,
        "jvm.thread_stack": 4 * MIB,
        "jvm.pre_touch": True,
        "jvm.large_pages": "off",
    }
    with running(classes, levels, tmp_path) as found:
        assert {name: found.level(name) for name in levels} == levels
        assert logged(found.log, r"Heap Region Size: (\d+)M") == 2
        assert logged(found.log, r"Heap Initial Capacity: (\d+)M") == 64
        assert logged(found.log, r"Heap Max Capacity: (\d+)M") == 96
        assert logged(found.log, r"Parallel Workers: (\d+)") == 2
        assert logged(found.log, r"Concurrent Workers: (\d+)") == 1
        # 24 MiB of young generation are twelve regions; all others of 64 MiB would be far more
        assert 6 <= logged(found.log, r"Eden regions: (\d+)->0") <= 12
        deep, touched = found.depth, found.resident()
    assert touched > 64 * MIB, "every page of the initial heap is there"

    plain: dict[str, Level] = {"jvm.heap": 64 * MIB, "jvm.collector": "g1", "jvm.thread_stack": MIB}
    (tmp_path / "plain").mkdir()
    with running(classes, plain, tmp_path / "plain") as found:
        assert deep > 2 * found.depth, "a stack four times as large"


def test_the_parallel_collector_by_ratio(classes: Path, tmp_path: Path) -> None:
    levels: dict[str, Level] = {
        "jvm.heap": 96 * MIB,
        "jvm.collector": "parallel",
        "jvm.young_ratio": 1,
        "jvm.gc_threads": 3,
    }
    with running(classes, levels, tmp_path) as found:
        assert {name: found.level(name) for name in levels} == levels
        assert logged(found.log, r"PSYoungGen: \d+K\((\d+)K\)") * 1024 > 36 * MIB, "half of the heap, less a survivor"
        assert logged(found.log, r"Parallel Workers: (\d+)") == 3


def test_zgc(classes: Path, tmp_path: Path) -> None:
    levels: dict[str, Level] = {
        "jvm.heap": 192 * MIB,
        "jvm.collector": "zgc",
        "jvm.soft_max_heap": 96 * MIB,
        "jvm.gc_concurrent_threads": 2,
    }
    with running(classes, levels, tmp_path) as found:
        assert {name: found.level(name) for name in levels} == levels
        assert "Using The Z Garbage Collector" in found.log
        with pytest.raises(LookupError, match="young_ratio has no effect with the zgc collector"):
            found.level("jvm.young_ratio")
        changed = found.ask({"jvm.soft_max_heap": 80 * MIB})
        assert jvm.level("jvm.soft_max_heap", changed, LocalFiles(), found.pid) == 80 * MIB


def test_shenandoah(classes: Path, tmp_path: Path) -> None:
    levels: dict[str, Level] = {
        "jvm.heap": 96 * MIB,
        "jvm.collector": "shenandoah",
        "jvm.soft_max_heap": 64 * MIB,
        "jvm.shenandoah_heuristics": "compact",
    }
    with running(classes, levels, tmp_path) as found:
        assert {name: found.level(name) for name in levels} == levels
        assert re.search(r"Heuristics: Compact", found.log, re.IGNORECASE)


@pytest.mark.parametrize("collector", ["serial", "g1"])
def test_transparent_pages_are_seen_in_the_kernel(classes: Path, tmp_path: Path, collector: str) -> None:
    levels: dict[str, Level] = {"jvm.heap": 128 * MIB, "jvm.collector": collector, "jvm.large_pages": "transparent"}
    if why := large_pages.shortage(LocalFiles(), levels):
        pytest.skip(f"host: {why}")
    with running(classes, levels, tmp_path) as found:
        assert found.level("jvm.large_pages") == "transparent"
