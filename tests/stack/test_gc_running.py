"""``gc --follow`` on running JVMs: their log is found or switched on, and put back however the command ends."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leadline.host.java import JavaHome, java_homes

pytestmark = pytest.mark.stack

CHURN = Path(__file__).parents[2] / "bench" / "gc" / "Churn.java"
_PATIENCE = 60.0  # s


def wait(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def jdk() -> JavaHome:
    return max((home for home in java_homes() if home.jdk and home.major >= 17), key=lambda home: home.major)


@pytest.fixture
def churn(jdk: JavaHome, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    subprocess.run([jdk.path / "bin" / "javac", "-d", tmp_path, CHURN], check=True)

    def start(*options: str) -> subprocess.Popen[bytes]:
        java = [str(jdk.path / "bin" / "java"), "-Xmx64m", "-XX:+UseSerialGC", *options, "-cp", "."]
        started.append(subprocess.Popen([*java, "Churn", "999999999", "2000"], cwd=tmp_path))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def follow(process: subprocess.Popen[bytes], tmp_path: Path) -> tuple["subprocess.Popen[bytes]", Path]:
    """The command, when it has told of something, and its output."""
    output = tmp_path / "told"
    with output.open("wb") as file:
        command = [sys.executable, "-m", "leadline.cli", "gc", "--follow", "--json", str(process.pid)]
        following = subprocess.Popen(command, stdout=file)
    wait(lambda: output.stat().st_size or following.poll() is not None)
    return following, output


def logs_of(jdk: JavaHome, pid: int) -> list[str]:
    command = [jdk.path / "bin" / "jcmd", str(pid), "VM.log", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("file=")[1].split()[0] for line in done.stdout.splitlines() if "file=" in line]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_log_that_was_switched_on_is_put_back(
    ending: signal.Signals,
    jdk: JavaHome,
    churn: Callable[..., subprocess.Popen[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "state"))
    process = churn()
    following, output = follow(process, tmp_path)
    (path,) = map(Path, logs_of(jdk, process.pid))
    assert path.exists()
    following.send_signal(ending)
    code = following.wait(_PATIENCE)
    wait(lambda: not list(path.parent.glob(f"{path.name}*")))  # of a kill by the watchdog
    assert logs_of(jdk, process.pid) == []
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert {"at", "unix", "finding", "holds"} == lines[0].keys()
    if ending != signal.SIGKILL:
        assert code == (0 if ending == signal.SIGINT else 143)
        assert lines[-1]["collector"] == "Serial"
        assert lines[-1]["heap_max"] == 64 << 20


def test_the_jvm_s_own_log_is_followed_to_its_end(
    churn: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = churn("-Xlog:gc*:file=own.log::filecount=9,filesize=1M")
    following, output = follow(process, tmp_path)
    process.terminate()
    assert following.wait(_PATIENCE) == 0
    assert json.loads(output.read_text().splitlines()[-1])["file"] == str(tmp_path / "own.log")
    assert (tmp_path / "own.log").exists()
