"""A real RAM disk: made, known from the mount table, written, and gone after `kill -9` of leadline and on request."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.host import undo
from leadline.host.local import LocalHost
from leadline.host.procfs import mounts
from leadline.model.errors import FailureClass, RestoreError, TrialFailure
from leadline.stack import places

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(os.geteuid() != 0, reason="host: only root may make a RAM disk"),
]
SIZE = 32 << 20

MAKES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from leadline.host import undo
from leadline.host.local import LocalHost
from leadline.stack import places
store, told = places.make_disk(LocalHost(state=Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3]))
(store / "messages").write_bytes(bytes(1 << 20))
print(told, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalHost]:
    host = LocalHost(state=tmp_path / "state")
    yield host
    host.restore()


def traces(base: Path) -> list[str]:
    """What is left of a RAM disk: mounts, loop devices, its directory."""
    files = [file.read_text() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    found = [mount.point for mount in mounts() if mount.point.startswith(str(base))]
    found += [file for file in files if file.startswith(str(base))]
    return [*found, str(base)] if base.exists() else found


def test_a_ram_disk_holds_what_is_written_and_no_more_than_its_size(host: LocalHost, tmp_path: Path) -> None:
    base = places.disk_directory(tmp_path)
    store, told = places.make_disk(host, tmp_path, SIZE)
    assert told.endswith("ext4, 32 MiB")
    assert host.place_of(store / "messages") == "ramdisk"
    assert host.temporary() == {f"mount {store}": ("gone", "there")}
    with pytest.raises(OSError, match="No space left"):
        (store / "filler").write_bytes(bytes(40 << 20))
    assert 20 << 20 < (store / "filler").stat().st_size < SIZE
    again, _ = places.make_disk(host, tmp_path, SIZE)  # what was left is taken away first
    assert [path.name for path in again.iterdir()] == ["lost+found"]
    with pytest.raises(TrialFailure, match="more than half of the memory available") as caught:
        places.make_disk(host, tmp_path, 1 << 50)
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert host.temporary() == {f"mount {store}": ("gone", "gone")}
    assert traces(base) == []
    assert host.restore() == []


def test_processes_with_mounts_of_their_own_do_not_keep_a_ram_disk(host: LocalHost, tmp_path: Path) -> None:
    """Every service of root's is one, and so is every container."""
    base = places.disk_directory(tmp_path)
    places.make_disk(host, tmp_path, SIZE)
    argv = ["unshare", "--mount", "sh", "-c", "cat /proc/self/mountinfo; echo; exec cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert str(base) in "".join(iter(other.stdout.readline, "\n")), "it has copies"
        host.remove_ram_disk(base)
        assert traces(base) == []
        assert other.poll() is None
    assert host.restore() == []


def test_kill_9_leaves_a_ram_disk_that_restore_removes(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "_PATIENCE", 0.2)
    base = places.disk_directory(tmp_path)
    argv = [sys.executable, "-c", MAKES_AND_DIES, str(tmp_path / "state"), str(tmp_path), str(SIZE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (base / "store/messages").stat().st_size == 1 << 20
    with (base / "store/messages").open(), pytest.raises(RestoreError, match="busy"):  # a server that still runs, say
        host.restore()
    with host.lease():
        assert host.restore() == [f"RAM disk {base}: removed"]
    assert traces(base) == []
    assert not host.journal.path.exists()
