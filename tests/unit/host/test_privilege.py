"""Users of their own for what leadline starts as root, and files that were never anybody else's."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.host import here, privilege, procfs, textfile
from leadline.host.base import ProcessSpec
from leadline.host.java import java_home
from leadline.host.local import LocalHost
from leadline.host.process import LocalProcess
from leadline.model.errors import UsageError

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="host: not root: processes run as this user anyway")
needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or not privilege.own_mounts(), reason="host: this user may have no mounts of its own"
)


NOBODYS = 3_999_999_000  # users that no study beside this test is given


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalHost]:
    host = LocalHost(state=tmp_path / "state")
    yield host
    host.restore()


def until(path: Path, text: str) -> str:
    deadline = time.monotonic() + 20
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{path} never held {text!r}"
        time.sleep(0.01)
    return path.read_text()


@needs_mounts
def test_a_process_is_a_user_of_its_own_without_capabilities(host: LocalHost, tmp_path: Path) -> None:
    own, closed = tmp_path / "closed" / "own", tmp_path / "closed" / "secret"
    own.mkdir(parents=True, mode=0o700)
    closed.write_text("not for it")
    (tmp_path / "closed").chmod(0o700)
    (own / "made before").touch(mode=0o600)
    script = f"cat /proc/self/status; touch 'made after'; id -un; cat {closed}; echo done; sleep 60"
    spec = ProcessSpec("worker", ["sh", "-c", script], tmp_path / "log", cwd=own, owns=(own,))
    process = host.start(spec)
    assert isinstance(process, LocalProcess)
    assert process.user is not None
    uid = process.user.uid
    said = until(tmp_path / "log", "done")
    status = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    assert uid in privilege.USERS
    assert status["Uid"].split() == status["Gid"].split() == [str(uid)] * 4
    assert not status["Groups"].strip()
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"
    assert f"leadline-{uid}" in said.splitlines()
    assert "not for it" not in said
    assert {path.stat().st_uid for path in (own, *own.iterdir())} == {uid}
    assert privilege.new_user() != process.user, "it is in use"
    process.stop()
    assert {path.stat().st_uid for path in (own, *own.iterdir())} == {0}


@root_only
def test_two_processes_are_two_users(host: LocalHost, tmp_path: Path) -> None:
    users = set()
    for name in ("one", "two"):
        process = host.start(ProcessSpec(name, ["sleep", "60"], tmp_path / name))
        assert isinstance(process, LocalProcess)
        assert process.user is not None
        users.add(process.user.uid)
    assert len(users) == 2


KILLED = """
import sys
from pathlib import Path
from leadline.host.base import ProcessSpec
from leadline.host.java import java_home
from leadline.host.local import LocalHost
place = Path(sys.argv[1])
host = LocalHost(state=place / "state")
script = "touch mine /dev/shm/leadline-test-$(id -u); env -i setsid sleep 300 & sleep 300 & echo $$ > started; wait"
own = place / "own"
process = host.start(ProcessSpec("worker", ["sh", "-c", script], place / "log", cwd=own, owns=(own,)))
print(process.user.uid, flush=True)
sys.stdin.readline()
"""


@root_only
def test_after_kill_9_its_processes_and_files_are_found_by_the_user(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    leadline = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert leadline.stdout is not None
    uid = int(leadline.stdout.readline())
    worker = int(until(tmp_path / "own" / "started", "\n"))
    leadline.kill()
    leadline.communicate()
    os.kill(worker, signal.SIGKILL)  # what is left has no mark, no leader and a session of its own
    (line,) = LocalHost(state=tmp_path / "state").restore()
    assert line.startswith("process worker: ended [")
    table = procfs.all_processes()
    assert not [pid for pid, stat in table.items() if stat.alive and uid in procfs.users(pid)]
    assert {path.stat().st_uid for path in (tmp_path / "own", *(tmp_path / "own").iterdir())} == {0}
    assert not Path(f"/dev/shm/leadline-test-{uid}").exists()


@root_only
def test_a_user_is_given_once_though_nothing_runs_as_it_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from leadline.host import privilege; privilege.USERS = range({0}, {0} + 2); "
    code += "print(privilege.new_user().uid, flush=True); sys.stdin.read()"
    first = NOBODYS
    monkeypatch.setattr(privilege, "USERS", range(first, first + 2))
    with subprocess.Popen(
        [sys.executable, "-c", code.format(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        uid = int(other.stdout.readline())
        user = privilege.new_user()
        assert user is not None
        assert {uid, user.uid} == {first, first + 1}
        with pytest.raises(UsageError, match="are in use"):
            privilege.new_user()
        other.communicate()
    again = privilege.new_user()
    assert again is not None
    assert again.uid == uid, "its holder has ended"


@root_only
def test_a_process_without_a_mark_is_its_parents() -> None:
    """PostgreSQL's children write over theirs: a user's number alone does not make them another study's."""
    uid = NOBODYS
    argv = ["/bin/sh", "-c", "/usr/bin/env -i /bin/sleep 60 & echo $!; wait"]
    env = {**os.environ, procfs.MARK: "theirs"}
    with subprocess.Popen(
        argv, env=env, cwd="/", stdout=subprocess.PIPE, user=uid, group=uid, extra_groups=[]
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            deadline = time.monotonic() + 20
            while not procfs.shows_nothing(child):
                assert time.monotonic() < deadline
            assert procfs.marked("ours", user=uid) == set()
            assert procfs.marked("theirs", user=uid) == {parent.pid, child}
            parent.kill()
            parent.wait()
            assert procfs.marked("ours", user=uid) == {child}, "nobody else's"
        finally:
            os.kill(child, signal.SIGKILL)


@root_only
def test_files_of_others_are_never_handed_over(tmp_path: Path) -> None:
    foreign, own = tmp_path / "foreign", tmp_path / "own"
    foreign.mkdir()
    own.mkdir()
    for name in ("linked", "pointed"):
        (foreign / name).touch()
    os.link(foreign / "linked", own / "second name")
    (own / "pointer").symlink_to(foreign / "pointed")
    (own / "folder").symlink_to(foreign)
    privilege.hand_over(own, privilege.USERS.start)
    assert {path.stat().st_uid for path in (foreign, *foreign.iterdir())} == {0}
    assert own.stat().st_uid == privilege.USERS.start
    privilege.take_back([own, tmp_path / "gone"], privilege.USERS.start)
    assert own.stat().st_uid == 0


@root_only
def test_without_mounts_closed_directories_are_named(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(privilege, "own_mounts", lambda: False)
    own = tmp_path / "own"
    own.mkdir()
    tmp_path.chmod(0o700)
    spec = ProcessSpec("worker", ["sh", "-c", "id -u; sleep 60"], tmp_path / "log", cwd=own, owns=(own,))
    with pytest.raises(UsageError, match=r"may not pass .*chmod o\+x"):
        host.start(spec)
    assert host.journal.open_entries() == []


@needs_mounts
def test_a_file_that_is_closed_to_others_is_named(host: LocalHost, tmp_path: Path) -> None:
    secret = tmp_path / "scenario.yaml"
    textfile.write_private(secret, "x")
    with pytest.raises(UsageError, match=r"scenario.yaml is closed to other users.*chmod o\+r"):
        host.start(ProcessSpec("driver", ["cat", str(secret)], tmp_path / "log", reads=(secret,)))


def test_a_private_file_has_its_mode_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "password", tmp_path / "other"
    other.write_text("somebody else's")
    path.symlink_to(other)
    modes = []
    real = os.fdopen

    def seen(handle: int, mode: str) -> object:
        modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return real(handle, mode)

    monkeypatch.setattr(os, "fdopen", seen)
    mask = os.umask(0)
    try:
        textfile.write_private(path, "secret")
    finally:
        os.umask(mask)
    assert modes == [0o600]
    assert path.read_text() == "secret"
    assert other.read_text() == "somebody else's"


@root_only
def test_a_file_given_to_a_process_later_is_taken_back(host: LocalHost, tmp_path: Path) -> None:
    later = tmp_path / "later"
    process = host.start(ProcessSpec("worker", ["sleep", "60"], tmp_path / "log", owns=(later,)))
    assert isinstance(process, LocalProcess)
    assert process.user is not None
    user = process.user.uid
    while privilege.user_of(process.pid) is None:  # it is still becoming that user
        time.sleep(0.01)
    textfile.write_private(later, "")
    privilege.give(later, process.pid)
    assert later.stat().st_uid == user
    process.stop()
    assert later.stat().st_uid == 0


@needs_mounts
def test_helper_programs_are_users_of_their_own(tmp_path: Path) -> None:
    home, log = tmp_path / "jdk", tmp_path / "gc.log"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f'#!/bin/sh\ntest -z "$3" || head -n 1 {log} >&2\necho "Error: version \\"17.$(id -u)\\"" >&2; exit 3\n'
    )
    program.chmod(0o755)
    tmp_path.chmod(0o700)
    user = int(java_home(home).version.removeprefix("17."))
    assert user in privilege.USERS, "java -version"
    command = [str(program), "-cp", "jar", "reads"]
    log.write_text("Error: read\n")
    log.chmod(0o644)
    assert "Error: read" in here.alone(command, [program, log]).stderr
    log.chmod(0o600)
    with pytest.raises(UsageError, match=r"gc.log is closed to other users.*chmod o\+r"):
        here.alone(command, [program, log])


_READ_ONLY = """
import os, subprocess, sys
from pathlib import Path
from leadline.host import privilege
from leadline.host.journal import UndoJournal
from leadline.model.errors import RestoreError
place, uid = Path(sys.argv[1]), privilege.USERS.start
place.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
own = place / "own"
own.mkdir()
privilege.hand_over(own, uid)
journal = UndoJournal(Path(sys.argv[2]))
journal.record("process", "server", token="of nobody", owns=[str(own)], user=uid)
subprocess.run(["mount", "-o", "remount,ro", place], check=True)
try:
    journal.restore()
except RestoreError as error:
    print(error)
subprocess.run(["mount", "-o", "remount,rw", place], check=True)
print(*journal.restore(), own.stat().st_uid)
"""


@needs_mounts
def test_files_on_a_read_only_file_system_are_taken_back_when_it_can_be_written(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _READ_ONLY, str(tmp_path / "place"), str(tmp_path / "undo/local.jsonl")]
    done = subprocess.run(["unshare", "--mount", *argv], capture_output=True, text=True, check=True)
    refused, restored = done.stdout.splitlines()
    assert "server: ended, but its files are not root's again: " in refused
    assert restored == "process server: not running any more 0"
