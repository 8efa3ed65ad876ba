"""One run at a time on a host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leadline.host.lease import HostBusyError, Lease
from leadline.host.paths import cache_dir, state_dir
from leadline.model.errors import UsageError

HOLDS = """
import sys
from pathlib import Path
from leadline.host.lease import Lease
lease = Lease(Path(sys.argv[1])); lease.acquire(); print("held", flush=True); sys.stdin.read()
"""


def test_a_second_run_is_told_who_holds_the_host(tmp_path: Path) -> None:
    path = tmp_path / "lease" / "local.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS, path, "run", "quickstart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lease = Lease(path)
        with pytest.raises(HostBusyError, match=rf"pid {holder.pid} \(-c .*run quickstart\)"):
            lease.acquire(patience=0.1)
        assert lease.holder_alive()
        assert not lease.held
    finally:
        holder.kill()
        holder.communicate()
    with lease:  # it ends with its holder, however that ended
        assert lease.holder()["pid"] == os.getpid()
    assert not lease.held


def test_a_child_does_not_inherit_the_lease(tmp_path: Path) -> None:
    path = tmp_path / "local.lock"
    lease = Lease(path)
    lease.acquire()
    child = subprocess.Popen(["sleep", "60"])
    try:
        lease.release()
        assert Lease(path).try_acquire()
    finally:
        child.kill()
        child.wait()


def test_a_damaged_lease_file_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "local.lock"
    path.write_bytes(b"\xff\x00{")
    lease = Lease(path)
    assert lease.holder() == {}
    assert not lease.holder_alive()
    assert lease.try_acquire()


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
