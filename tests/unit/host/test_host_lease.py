"""One run at a time on a host."""

import contextlib
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import leadline
from leadline.host.lease import HostBusyError, Lease
from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir, state_dir
from leadline.model.errors import UsageError

HOLDS = """
import sys
from pathlib import Path
from leadline.host.lease import Lease
lease = Lease(Path(sys.argv[1])); lease.acquire(); print("held", flush=True); sys.stdin.read()
"""
ASKS = """
import sys
from pathlib import Path
from leadline.host.lease import HostBusyError, Lease
try:
    Lease(Path(sys.argv[1])).acquire(patience=0.1)
except HostBusyError as error:
    print(error)
"""


def test_a_second_run_is_told_who_holds_the_host(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path, "run", "quickstart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lease = Lease(tmp_path)
        user = pwd.getpwuid(os.geteuid()).pw_name
        told = rf"pid {holder.pid} of user {user} \(-c .*run quickstart\) since \d\d:\d\d:\d\d"
        with pytest.raises(HostBusyError, match=told):
            lease.acquire(patience=0.1)
        assert lease.holder_alive()
        assert not lease.held
        holder.send_signal(signal.SIGSTOP)  # it says nothing itself; the kernel still names it
        with pytest.raises(HostBusyError, match=rf"pid {holder.pid} of user {user} \(python"):
            lease.acquire(patience=0.1)
    finally:
        holder.kill()
        holder.communicate()
    with lease:  # it ends with its holder, however that ended
        assert lease.holder()["pid"] == os.getpid()
    assert not lease.held
    assert lease.holder() == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="host: not root: no other user can be taken")
@pytest.mark.parametrize("root_first", [True, False])
def test_it_holds_across_users_whoever_came_first(tmp_path: Path, root_first: bool) -> None:
    tmp_path.chmod(0o755)
    package = str(Path(leadline.__file__).parents[1])
    other = ["setpriv", "--reuid=60705", "--regid=60705", "--clear-groups", "--"]
    root = f"/nonexistent/{tmp_path.name}"  # both must see the same name; neither needs the directory
    first = [sys.executable, "-c", HOLDS, root]
    second = [sys.executable, "-c", ASKS, root]
    env = {"PYTHONPATH": package, "PATH": os.environ["PATH"], "HOME": "/", "LEADLINE_STATE": str(tmp_path)}
    readable = subprocess.run([*other, sys.executable, "-c", "import leadline.host.lease"], env=env, check=False)
    if readable.returncode:
        pytest.skip(f"host: user 60705 may not read {sys.executable} or {package}")
    holder = subprocess.Popen(
        first if root_first else [*other, *first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        asked = subprocess.run(
            [*other, *second] if root_first else second, env=env, capture_output=True, text=True, check=False
        )
        assert f"pid {holder.pid} of user {'root' if root_first else '60705'}" in asked.stdout, asked.stderr
    finally:
        holder.kill()
        holder.communicate()


def test_a_long_wait_tells_for_whom(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held, waits = Lease(tmp_path), Lease(tmp_path)
    held.acquire()
    leaves = threading.Timer(4.0, held.release)
    leaves.start()
    waits.acquire(patience=60)
    leaves.join()
    waits.release()
    (told,) = caplog.messages
    assert re.fullmatch(rf"waiting up to [^ ]+ for this host, in use by pid {os.getpid()} of user .*", told), told


def test_a_child_does_not_inherit_the_lease(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    lease.acquire()
    child = subprocess.Popen(["sleep", "60"])
    try:
        lease.release()
        assert Lease(tmp_path).try_acquire()
    finally:
        child.kill()
        child.wait()


def test_many_who_only_connect_do_not_disturb_it(tmp_path: Path) -> None:
    with Lease(tmp_path) as lease, contextlib.ExitStack() as crowd:
        for _ in range(200):
            one = crowd.enter_context(socket.socket(socket.AF_UNIX))
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                one.connect(f"\0{lease.name}")
        assert not Lease(tmp_path).try_acquire()
    assert Lease(tmp_path).holder() == {}


def test_a_wait_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("soon", "-1", "nan", "inf", "1e12"):
        monkeypatch.setenv("LEADLINE_WAIT", text)
        with pytest.raises(UsageError, match=f"LEADLINE_WAIT={text}: not a number of seconds"):
            Lease(tmp_path).acquire()


def test_directories_follow_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEADLINE_CACHE", "LEADLINE_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache/leadline"
    assert state_dir() == tmp_path / ".local/state/leadline"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert cache_dir() == tmp_path / "c/leadline"
    assert state_dir() == tmp_path / "s/leadline"
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "own/cache"))
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "own/state"))
    assert cache_dir() == tmp_path / "own/cache"
    assert state_dir() == tmp_path / "own/state"
    assert state_dir().is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("LEADLINE_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(UsageError, match="set LEADLINE_STATE"):
        state_dir()


def test_nobody_takes_the_host_between_the_studies_of_one_run(tmp_path: Path) -> None:
    host = LocalHost(root=tmp_path, state=tmp_path / "state")

    def others_words() -> str:
        return subprocess.run([sys.executable, "-c", ASKS, tmp_path], capture_output=True, text=True, check=True).stdout

    with host.held():
        for _ in range(2):
            with host.guard(5.0):
                assert "in use" in others_words()
            assert "in use" in others_words()
    assert others_words() == ""
    with host.guard(5.0):
        assert "in use" in others_words()
    assert others_words() == ""
