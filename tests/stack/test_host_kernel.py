"""The undo journal against the real kernel: /proc/sys, swap, a full disk. Everything is put back."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.host import procfs, undo
from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Knob

KNOB = "vm.dirty_expire_centisecs"
_probe = LocalHost(state=Path("/nonexistent/never-written"))
pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(
        bool(_probe.writable(KNOB)), reason=f"host: kernel settings cannot be set: {_probe.writable(KNOB)}"
    ),
]

SETS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from leadline.host.local import LocalHost
host = LocalHost(state=Path(sys.argv[1]))
with host.guard(float(sys.argv[2])) as watchdog:
    host.set_knob(sys.argv[3], int(sys.argv[4]))
    print(watchdog.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LocalHost]:
    host = LocalHost(state=tmp_path / "state")
    yield host
    host.restore()


def level(host: LocalHost, name: str) -> int:
    value = host.read_back(name)
    assert isinstance(value, int)
    return value


def test_set_read_back_and_undo(host: LocalHost) -> None:
    before = level(host, KNOB)
    host.set_knob(KNOB, before + 10)
    host.set_knob(KNOB, before + 20)
    assert level(host, KNOB) == before + 20
    (line,) = host.restore()
    assert line.endswith(f"put back to '{before}'")
    assert level(host, KNOB) == before


@pytest.mark.parametrize(
    ("ratio", "amount", "new_amount"),
    [
        ("vm.dirty_ratio", "vm.dirty_bytes", 1 << 30),
        ("vm.dirty_background_ratio", "vm.dirty_background_bytes", 1 << 29),
        ("vm.overcommit_ratio", "vm.overcommit_kbytes", 1 << 20),
    ],
)
def test_a_pair_that_clears_each_other_is_put_back_whole(
    host: LocalHost, ratio: str, amount: str, new_amount: int
) -> None:
    host.disposable = True  # where overcommit_memory is not 2, the small limits change nothing
    before = level(host, ratio), level(host, amount)
    host.set_knob(amount, new_amount)
    assert level(host, ratio) == 0
    host.restore()
    assert (level(host, ratio), level(host, amount)) == before
    # both in one run, in either order
    host.set_knob(ratio, 13)
    host.set_knob(amount, new_amount)
    host.set_knob(ratio, 14)
    host.restore()
    assert (level(host, ratio), level(host, amount)) == before


def test_a_pair_that_stood_at_bytes_goes_back_to_bytes(host: LocalHost) -> None:
    before = level(host, "vm.dirty_background_ratio"), level(host, "vm.dirty_background_bytes")
    outer = LocalHost(state=host.journal.path.parent.parent / "outer")
    try:
        outer.set_knob("vm.dirty_background_bytes", 1 << 29)
        host.set_knob("vm.dirty_background_ratio", 7)
        host.restore()
        assert level(host, "vm.dirty_background_bytes") == 1 << 29
        # both zero is a state as well
        outer.set_knob("vm.dirty_background_ratio", 0) if before[1] == 0 else None
        host.set_knob("vm.dirty_background_bytes", 1 << 28)
        host.restore()
        assert level(host, "vm.dirty_background_bytes") == 0
        assert level(host, "vm.dirty_background_ratio") == 0
    finally:
        outer.restore()
    assert (level(host, "vm.dirty_background_ratio"), level(host, "vm.dirty_background_bytes")) == before


def test_every_setting_can_be_written_as_it_is_and_undone(host: LocalHost) -> None:
    """Shows that each knob's text is one the kernel takes."""
    written = {}
    for knob in host.knobs():
        if host.writable(knob.name):
            continue
        today = host.read_back(knob.name)
        try:
            host.check_level(knob.name, today)
        except UsageError:
            continue  # the kernel takes no zero for bytes, where the ratio counts
        host.set_knob(knob.name, today)
        written[knob.name] = today
    assert len(written) > 30
    assert host.restore()
    assert {name: host.read_back(name) for name in written} == written


def test_the_kernels_refusal_is_a_configuration_failure(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    # a limit that the catalogue does not know
    monkeypatch.setattr(Knob, "accept", lambda _knob, raw, _disposable: raw)
    before = level(host, "vm.percpu_pagelist_high_fraction")
    with pytest.raises(TrialFailure, match=r"refuses|reads back") as caught:
        host.set_knob("vm.percpu_pagelist_high_fraction", 3)  # less than eight
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    host.restore()
    assert level(host, "vm.percpu_pagelist_high_fraction") == before


@pytest.mark.parametrize("dead_man", [0.3, 60.0])
def test_kill_9_of_leadline_with_a_real_setting(host: LocalHost, tmp_path: Path, dead_man: float) -> None:
    before = level(host, KNOB)
    done = subprocess.run(
        [sys.executable, "-c", SETS_AND_DIES, tmp_path / "state", str(dead_man), KNOB, str(before + 30)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    watchdog = int(done.stdout)
    if dead_man > 10:  # restore comes first
        assert level(host, KNOB) == before + 30
        with host.lease():
            host.restore()
        procfs.send(watchdog, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while (stat := procfs.read_stat(watchdog)) is not None and stat.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    assert level(host, KNOB) == before
    assert not host.journal.path.exists()


def test_the_page_cache_is_dropped(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    host.drop_page_cache()
    facts = host.facts()
    assert int(facts["memory.total"].split()[0]) > 0
    assert facts[KNOB] == str(level(host, KNOB))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"host: no small file system can be mounted: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", path], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass


def test_on_a_full_disk_nothing_is_changed(small_disk: Path) -> None:
    host = LocalHost(state=small_disk / "state")
    before = level(host, KNOB)
    fill(small_disk)
    with pytest.raises(TrialFailure, match="nothing was changed") as caught:
        host.set_knob(KNOB, before + 10)
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert level(host, KNOB) == before
    with pytest.raises(TrialFailure):
        host.start(ProcessSpec("never", ["sleep", "60"], small_disk.parent / "log"))


def test_a_disk_that_fills_up_later_does_not_prevent_undoing(small_disk: Path) -> None:
    host = LocalHost(state=small_disk / "state")
    before = level(host, KNOB)
    host.set_knob(KNOB, before + 10)
    with host.journal.path.open("a") as file:  # so that the next record needs a page the disk does not have
        file.write(" " * (4095 - host.journal.path.stat().st_size) + "\n")
    fill(small_disk)
    with pytest.raises(TrialFailure):
        host.set_knob("vm.dirty_writeback_centisecs", level(host, "vm.dirty_writeback_centisecs") + 10)
    assert host.restore()
    assert level(host, KNOB) == before
    assert host.journal.open_entries() == []


def test_swap_goes_off_and_comes_back(host: LocalHost, tmp_path: Path) -> None:
    if missing := [name for name in ("mkswap", "swapon", "swapoff") if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    file = tmp_path / "swap"
    with file.open("wb") as out:
        out.write(bytes(4 << 20))
    file.chmod(0o600)
    subprocess.run(["mkswap", file], check=True, capture_output=True)
    on = subprocess.run(["swapon", "--priority", "3", file], capture_output=True, text=True, check=False)
    if on.returncode:
        pytest.skip(f"host: this file system holds no swap: {on.stderr.strip()}")
    try:
        before = undo.active_swaps(Path("/"))
        assert before[str(file)] == 3
        host.swap_off()
        assert undo.active_swaps(Path("/")) == {}
        host.swap_off()
        host.restore()
        assert undo.active_swaps(Path("/")) == before
    finally:
        subprocess.run(["swapoff", file], check=False, capture_output=True)
