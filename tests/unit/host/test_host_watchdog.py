"""The watchdog, with real processes; a directory stands for /."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leadline.host import procfs
from leadline.host.journal import UndoJournal
from leadline.host.lease import HostBusyError, Lease
from leadline.host.local import LocalHost
from leadline.host.watchdog import Exit, Watchdog, _Guard, start_watchdog
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError

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

    def end_unseen(self) -> None:
        """Its watchdog stands still, so that others are quicker."""
        os.kill(self.process.pid, signal.SIGSTOP)  # else it wakes its watchdog
        os.kill(self.watchdog, signal.SIGSTOP)
        self.process.kill()
        self.process.wait()

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
    first = run(0.3)
    lease = LocalHost(state=tmp_path / "state", root=tmp_path / "root").lease()
    first.end_unseen()
    lease.acquire()
    os.kill(first.watchdog, signal.SIGCONT)
    try:
        until(lambda: "another leadline took the lease" in log(tmp_path))
        assert setting.read_text() == "10", "the resumed run decides what to undo"
        assert not ended(first.service)
        LocalHost(state=tmp_path / "state", root=tmp_path / "root").restore()
        until(lambda: ended(first.watchdog))
    finally:
        lease.release()
    assert "host put back" not in log(tmp_path)


TAKES_OVER = """
import sys, time
from pathlib import Path
from leadline.host.journal import UndoJournal
from leadline.host.lease import Lease
lease = Lease(Path(sys.argv[1]), Path(sys.argv[2]))
print("waits", flush=True)
lease.acquire(30)
print("taken", flush=True)
sys.stdin.readline()
"""


def test_one_that_takes_over_and_dies_before_it_undid_anything(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    first = run(0.3)
    argv = [sys.executable, "-c", TAKES_OVER, str(tmp_path / "root"), str(tmp_path / "state/undo/local.jsonl")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == b"waits\n"
        first.end_unseen()
        assert second.stdout.readline() == b"taken\n"
        os.kill(first.watchdog, signal.SIGCONT)
        until(lambda: "another leadline took the lease" in log(tmp_path))
        second.kill()
    until(lambda: ended(first.watchdog))
    assert setting.read_text() == "60"
    assert ended(first.service)


def test_nobody_gets_the_host_before_it_is_put_back(run: Callable[[float], Run], tmp_path: Path, setting: Path) -> None:
    first = run(IDLE)
    other = LocalHost(state=tmp_path / "other", root=tmp_path / "root").lease()
    first.process.kill()
    until(lambda: other.holder().get("pid") == first.watchdog)
    with pytest.raises(HostBusyError, match=rf"pid {first.watchdog} .*watchdog putting back .*state/undo/local.jsonl"):
        other.acquire(1.5)
    assert setting.read_text() == "10"
    os.kill(first.watchdog, signal.SIGTERM)
    with other:
        assert setting.read_text() == "60"
        assert ended(first.service)


def test_nobody_gets_the_host_before_its_watchdog_has_heard(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    """A machine so busy that the watchdog comes late: its leadline is gone, and the lease is free."""
    first = run(0.3)
    first.end_unseen()
    other = LocalHost(state=tmp_path / "other", root=tmp_path / "root").lease()
    until(lambda: not other.holder())
    with pytest.raises(HostBusyError, match=rf"in use by pid {first.watchdog} "):
        other.acquire(0.5)
    assert not other.held
    assert setting.read_text() == "10"
    assert not ended(first.service)
    os.kill(first.watchdog, signal.SIGCONT)
    with other:
        assert setting.read_text() == "60"
        assert ended(first.service)


def test_one_without_the_lease_waits_for_nobody(tmp_path: Path, setting: Path) -> None:
    """The drivers of ``leadline load`` run beside a study: what they left is ended while that goes on."""
    code = (
        "import sys; from pathlib import Path; from leadline.host import process\n"
        "from leadline.host.base import ProcessSpec; from leadline.host.journal import UndoJournal\n"
        "from leadline.host.watchdog import start_watchdog\n"
        "state = Path(sys.argv[1]); journal = UndoJournal(state / 'undo' / 'load-1.jsonl')\n"
        "watchdog = start_watchdog(journal.path, 0.3, Path(sys.argv[2]), leased=False)\n"
        "service = process.start(ProcessSpec('driver', ['sleep', '300'], state / 'log'), journal)\n"
        "print(watchdog.pid, service.pid, flush=True); sys.stdin.readline()\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "state"), str(tmp_path / "root")]
    with Lease(tmp_path / "root"), subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as leadline:
        assert leadline.stdout is not None
        watchdog, service = map(int, leadline.stdout.readline().split())
        leadline.kill()
        until(lambda: ended(watchdog))
        assert ended(service)


def test_it_does_not_wait_for_one_that_resumes(run: Callable[[float], Run], tmp_path: Path, setting: Path) -> None:
    first = run(IDLE)
    resumed = LocalHost(state=tmp_path / "state", root=tmp_path / "root").lease()
    first.process.kill()
    until(lambda: resumed.holder().get("pid") == first.watchdog)
    with resumed:
        assert setting.read_text() == "60"
        assert ended(first.service)


def test_one_that_stands_still_is_taken_for_dead_and_told_so(
    run: Callable[[float], Run], tmp_path: Path, setting: Path
) -> None:
    leadline = run(0.5)
    os.kill(leadline.process.pid, signal.SIGSTOP)
    until(lambda: ended(leadline.watchdog))
    assert setting.read_text() == "60"
    assert ended(leadline.service)
    assert "no sign of life" in log(tmp_path)


@pytest.mark.parametrize("dead_man", [-1, 0, float("nan"), float("inf"), 1e12, 0.01, "soon", None, 10**400])
def test_a_dead_man_time_that_cannot_be_kept_is_refused(tmp_path: Path, dead_man: Any) -> None:
    with pytest.raises(UsageError, match="dead_man"):
        start_watchdog(tmp_path / "state/undo/local.jsonl", dead_man)


@pytest.mark.parametrize("dead_man", ["-1", "0", "nan", "inf", "1e12", "x"])
def test_the_watchdog_itself_refuses_it_too(tmp_path: Path, dead_man: str) -> None:
    argv = [sys.executable, "-c", "from leadline.host.watchdog import main; main()", "x", dead_man, "/", "1", "1"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == Exit.REFUSED.value


def failure_after(tmp_path: Path, end: Callable[[Watchdog], object]) -> tuple[LocalHost, TrialFailure]:
    """What is told once the watchdog of a host with one change has ended in some way."""
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    told: list[TrialFailure] = []
    with host.watched(IDLE) as watchdog:
        host.set_knob("vm.swappiness", 10)
        watchdog.tell(told.append)
        end(watchdog)
        until(lambda: told)
        with pytest.raises(TrialFailure) as caught:
            host.set_knob("vm.swappiness", 11)
        assert str(caught.value) == str(told[0])
        assert len(told) == 1
        assert caught.value.failure_class is FailureClass.INTERRUPTED
        host.restore()
    return host, caught.value


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_watchdog_that_was_killed_is_told_and_nothing_is_changed_any_more(
    tmp_path: Path, setting: Path, number: signal.Signals
) -> None:
    # SIGSEGV and SIGABRT are ignored where a program may: what is left of them is a watchdog that lives
    if number is not signal.SIGKILL:
        host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
        with host.watched(IDLE) as watchdog:
            os.kill(watchdog.pid, number)
            host.set_knob("vm.swappiness", 10)
            host.restore()
        return
    _, failure = failure_after(tmp_path, lambda watchdog: os.kill(watchdog.pid, number))
    assert str(failure) == "the watchdog of this run has died: killed by SIGKILL"
    assert "put" not in str(failure)
    assert setting.read_text() == "60"


class FakeProcess:
    """Ended with this code."""

    pid = 2**22 + 1  # no process has it

    def __init__(self, code: int) -> None:
        self.code = code

    def poll(self) -> int:
        return self.code


@pytest.mark.parametrize(
    ("code", "altered", "words"),
    [
        (Exit.RESTORED.value, [], "its watchdog put the host back"),
        (Exit.RESTORED.value, ["vm.swappiness is 10, it was 60"], "this is altered: vm.swappiness is 10"),
        (Exit.FAILED.value, [], "could not put everything back"),
        (Exit.LEFT.value, [], "left the host to another leadline"),
        (Exit.ENDED.value, [], "has died: exit code 0"),
        (1, [], "has died: exit code 1"),
        (-9, [], "has died: killed by SIGKILL"),
    ],
)
def test_every_end_of_a_watchdog_is_told_apart(code: int, altered: list[str], words: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        watchdog = Watchdog(FakeProcess(code), ours, IDLE, lambda: altered)  # type: ignore[arg-type]
        failure = watchdog.failure()
        watchdog.abandon()
    assert failure is not None
    assert words in str(failure)
    assert ("put the host back" in str(failure)) == (code == Exit.RESTORED.value and not altered)


def test_that_the_host_was_put_back_is_told_only_of_what_reads_back(tmp_path: Path, setting: Path) -> None:
    def put_back_and_changed_again(watchdog: Watchdog) -> None:
        watchdog._stop.set()  # leadline stands still
        watchdog._thread.join()
        watchdog._channel.close()
        os.kill(watchdog.pid, signal.SIGTERM)
        until(lambda: not watchdog.alive())
        setting.write_text("42")

    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    with host.watched(IDLE) as watchdog:
        host.set_knob("vm.swappiness", 10)
        put_back_and_changed_again(watchdog)
        with pytest.raises(TrialFailure, match=r"this is altered: vm\.swappiness is 42, it was 60"):
            host.set_knob("vm.swappiness", 11)


def test_a_stopped_watchdog_is_woken(tmp_path: Path) -> None:
    watchdog = start_watchdog(tmp_path / "state/undo/local.jsonl", 0.5)
    os.kill(watchdog.pid, signal.SIGSTOP)
    until(lambda: (stat := procfs.read_stat(watchdog.pid)) is not None and stat.state == "T")
    until(lambda: (stat := procfs.read_stat(watchdog.pid)) is not None and stat.state != "T")
    assert watchdog.failure() is None
    watchdog.finish()


def test_a_watchdog_that_does_not_respond_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.watchdog.SILENCE", 0.1)
    ours, theirs = socket.socketpair()
    told: list[TrialFailure] = []
    with theirs:
        watchdog = Watchdog(FakeProcess(None), ours, 0.1, lambda: [])  # type: ignore[arg-type]
        watchdog.tell(told.append)
        until(lambda: told)
        watchdog.abandon()
    assert "has not answered" in str(told[0])


@pytest.mark.parametrize("state", ["full", "read-only", "a file", "gone"])
def test_what_is_wrong_with_the_state_directory_keeps_nothing_from_being_put_back(
    tmp_path: Path, setting: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    journal = UndoJournal(tmp_path / "state/undo/local.jsonl", tmp_path / "root")
    journal.record_file(setting, "10")
    setting.write_text("10")
    guard = _Guard(socket.socket(), journal.path, 0.1, tmp_path / "root", os.getpid())

    def refuse(*_: object) -> Any:
        raise OSError(errno.EROFS if state == "read-only" else errno.ENOSPC, "no")

    if state == "a file":
        (tmp_path / "state/lease").write_text("")
    elif state == "gone":
        (tmp_path / "state/watchdog.log").mkdir()
    else:
        monkeypatch.setattr(Lease, "try_acquire", refuse)
        monkeypatch.setattr("leadline.host.journal.os.write", refuse)
        monkeypatch.setattr("leadline.host.journal.os.ftruncate", refuse)
        monkeypatch.setattr("leadline.host.undo.write_setting", lambda path, value: path.write_text(value))
    assert guard._restore() is Exit.RESTORED
    assert setting.read_text() == "60"


def test_what_cannot_be_put_back_at_once_is_tried_again(
    tmp_path: Path, setting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadline.host.watchdog._RETRIES", (0.0, 0.0))
    journal = UndoJournal(tmp_path / "state/undo/local.jsonl", tmp_path / "root")
    journal.record_file(setting, "10")
    setting.write_text("10")
    guard = _Guard(socket.socket(), journal.path, 0.1, tmp_path / "root", os.getpid())
    real, tries = UndoJournal.restore, []

    def no_file_to_be_had(journal: UndoJournal, of: int) -> list[str]:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(journal, of)

    monkeypatch.setattr(UndoJournal, "restore", no_file_to_be_had)
    assert guard._restore() is Exit.RESTORED
    assert setting.read_text() == "60"
    assert "trying again" in log(tmp_path)


def test_without_a_watchdog_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leadline.host.watchdog.sys.executable", "/bin/false")
    with pytest.raises(LeadlineError, match=r"did not start \(exit code 1\), so nothing was changed"):
        start_watchdog(tmp_path / "state/undo/local.jsonl", 1.0)
    monkeypatch.setattr("leadline.host.watchdog.sys.executable", str(tmp_path / "none"))
    with pytest.raises(LeadlineError, match=r"did not start .*No such file"):
        start_watchdog(tmp_path / "state/undo/local.jsonl", 1.0)


def test_it_inherits_nothing_and_gives_nothing_to_services(tmp_path: Path) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    with host.watched(IDLE) as watchdog:
        pipe = Path(f"/proc/self/fd/{watchdog._channel.fileno()}").readlink()
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
    package = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, package], capture_output=True, text=True, check=True)
    foreign = {name.split(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names) - {"leadline"}
    assert {name for name in foreign if not name.startswith("_")} == set()


def test_a_restore_that_fails_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalHost(state=tmp_path / "state", root=tmp_path / "root")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").touch()
    host.journal.record("tree", str(theirs))
    monkeypatch.setattr("leadline.host.watchdog._RETRIES", (0.0,))
    guard = _Guard(socket.socket(), host.journal.path, 0.2, tmp_path / "root", os.getpid())
    assert guard._restore() is Exit.FAILED
    assert "run leadline restore" in log(tmp_path)
    assert theirs.exists()
