"""The watchdog, with real processes; a directory stands for /."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from leadline.host import procfs
from leadline.host.lease import Lease
from leadline.host.local import LocalHost
from leadline.host.watchdog import start_watchdog
from leadline.model.errors import FailureClass, TrialFailure

# A leadline that holds the lease, sets a knob and runs a service; what it prints: its watchdog and service.
RUNS = """
import sys, time
from pathlib import Path
from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
host = LocalHost(state=Path(sys.argv[1]), root=Path(sys.argv[2]))
with host.guard(float(sys.argv[3])) as watchdog:
    host.set_knob("vm.swappiness", 10)
    service = host.start(ProcessSpec("service", ["sh", "-c", "sleep 300 & wait"], Path(sys.argv[1]) / "log"))
    print(watchdog.pid, service.pid, flush=True)
    sys.stdin.readline()
    host.restore()
"""
IDLE = 60.0


class Run:
    """A running leadline as above."""

    def __init__(self, state: Path, root: Path, dead_man: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNS, state, root, str(dead_man)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.watchdog, self.service = map(int, self.process.stdout.readline().split())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        procfs.send(self.watchdog, signal.SIGTERM)


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    path = tmp_path / "root/proc/sys/vm/swappiness"
    path.parent.mkdir(parents=True)
    path.write_text("60\n")
    return path


@pytest.fixture
def run(tmp_path: Path, setting: Path) -> Iterator[Callable[[float], Run]]:
    runs: list[Run] = []

    def begin(dead_man: float) -> Run:
        runs.append(Run(tmp_path / "state", tmp_path / "root", dead_man))
        return runs[-1]

    yield begin
    for one in runs:
        one.close()
        until(lambda one=one: ended(one.watchdog))  # type: ignore[misc]
    LocalHost(state=tmp_path / "state", root=tmp_path / "root").restore()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def ended(pid: int) -> bool:
    stat = procfs.read_stat(pid)
    return stat is None or not stat.alive


def log(tmp_path: Path) -> str:
    path = tmp_path / "state/watchdog.log"
    return path.read_text() if path.exists() else ""


def test_after_kill_9_the_watchdog_restores_the_host(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    leadline = run(0.3)
    service = procfs.marked(LocalHost(state=tmp_path / "state").journal.open_entries()[-1].data["token"])
    assert leadline.service in service
    leadline.process.kill()
    until(lambda: ended(leadline.watchdog))
    assert setting.read_text() == "60"
    assert all(ended(pid) for pid in service)
    assert "host put back" in log(tmp_path)
    assert not (tmp_path / "state/undo/local.jsonl").exists()


def test_the_whole_session_killed_from_the_terminal(run: Callable[[float], Run], tmp_path: Path, setting: Path) -> None:
    leadline = run(0.3)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(leadline.watchdog, number)
    os.killpg(leadline.process.pid, signal.SIGKILL)
    until(lambda: ended(leadline.watchdog))
    assert setting.read_text() == "60"
    assert ended(leadline.service)
    assert "host put back" in log(tmp_path)


def test_after_a_clean_end_it_leaves_at_once_and_did_nothing(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    leadline = run(IDLE)
    leadline.process.communicate(b"\n")
    assert leadline.process.returncode == 0
    assert ended(leadline.watchdog)
    assert setting.read_text() == "60"
    assert log(tmp_path) == ""


def test_it_leaves_the_host_to_a_leadline_that_resumes(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    first = run(2.0)
    first.process.kill()
    first.process.wait()
    lease = Lease(tmp_path / "root")
    lease.acquire()
    try:
        until(lambda: ended(first.watchdog))
    finally:
        lease.release()
    assert setting.read_text() == "10", "the resumed run decides what to undo"
    assert not ended(first.service)
    assert "another leadline took the lease" in log(tmp_path)


def test_one_that_stands_still_is_taken_for_dead_and_told_so(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    leadline = run(0.5)
    os.kill(leadline.process.pid, signal.SIGSTOP)
    until(lambda: ended(leadline.watchdog))
    assert setting.read_text() == "60"
    assert ended(leadline.service)
    assert "no sign of life" in log(tmp_path)


def test_nothing_is_changed_after_the_watchdog_fired(tmp_path: Path, setting: Path) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    with host.watched(IDLE) as watchdog:
        host.set_knob("vm.swappiness", 10)
        monkey = watchdog._process
        os.kill(monkey.pid, signal.SIGKILL)
        monkey.wait()
        with pytest.raises(TrialFailure, match="watchdog of this run has died") as caught:
            host.set_knob("vm.swappiness", 11)
        assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
        monkey.returncode = 10  # as if it had restored
        with pytest.raises(TrialFailure, match="dead-man") as caught:
            host.set_knob("vm.swappiness", 11)
        assert caught.value.failure_class is FailureClass.INTERRUPTED
        assert host.restore()
    assert setting.read_text() == "60"


def test_it_inherits_nothing_and_gives_nothing_to_services(tmp_path: Path) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    with host.watched(IDLE) as watchdog:
        pipe = Path(f"/proc/self/fd/{watchdog._pipe}").readlink()
        service = subprocess.Popen(["sleep", "60"], close_fds=False)
        try:
            held = []
            for fd in Path(f"/proc/{service.pid}/fd").iterdir():
                with suppress(FileNotFoundError):  # it is just loading
                    held.append(fd.readlink())
            assert held
            assert pipe not in held
        finally:
            service.kill()
            service.wait()
        own = {int(fd.name) for fd in Path(f"/proc/{watchdog.pid}/fd").iterdir()}
        assert own.issubset({0, 1, 2, 3, 4})  # three and the module it is just loading
        stat = procfs.read_stat(watchdog.pid)
        assert stat is not None
        assert stat.session == watchdog.pid


def test_it_loads_the_standard_library_only() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import leadline.host.watchdog; print(*sys.modules)"
    package = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, package], capture_output=True, text=True, check=True)
    foreign = {name.split(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names) - {"leadline"}
    assert {name for name in foreign if not name.startswith("_")} == set()


def test_a_restore_that_fails_is_logged(tmp_path: Path) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").touch()
    host.journal.record("tree", str(theirs))
    watchdog = start_watchdog(host.journal.path, 0.2, tmp_path / "root")
    watchdog.abandon()
    until(lambda: not watchdog.alive())
    assert watchdog.fired()
    assert "run leadline restore" in log(tmp_path)
    assert theirs.exists()
