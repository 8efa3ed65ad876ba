"""How the end of a guest is told, with an imitation of QEMU that ends as it is asked to."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.guest.boot import QEMU, Boot, command_line
from leadline.guest.machine import boot_and_save, run
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure

FAKE_QEMU = """#!/bin/sh
echo '{"QMP": {}}'
while read -r line; do
  case $line in
    *'"cont"'*) echo '{"return": {}}'; %s ;;
    *migrate*) echo '{"error": {"desc": "no such device"}}' ;;
    *) echo '{"return": {}}' ;;
  esac
done
"""
OFF = 'echo \'{"event": "SHUTDOWN"}\'; exit 0'
BEFORE = "echo say guest.began 1 >results; "
ENDS = {
    "silent": (":", "configuration", r"the guest's kernel did not come up within \d+ s"),
    "hung": (BEFORE + "while :; do :; done", "configuration", r"the guest's job did not end within \d+ s"),
    "bus": ("kill -BUS $$", "infrastructure", "QEMU was ended by SIGBUS: .* has no space left for the guest's memory"),
    "exit": (
        "echo 'qemu: cannot set up guest memory: Cannot allocate memory'; exit 1",
        "infrastructure",
        "QEMU does not start: qemu: cannot set up guest memory: Cannot allocate memory",
    ),
    "kernel": (
        "echo 'qemu: invalid kernel header'; exit 1",
        "configuration",
        "kernel is no kernel that QEMU boots: qemu: invalid kernel header",
    ),
    "panic": (f"echo 'Kernel panic - not syncing: VFS' >console.txt; {OFF}", "configuration", "panicked: VFS"),
    "no room": (
        f"echo '[ 3.0] Initramfs unpacking failed: write error' >console.txt; {BEFORE}echo finish >>results; {OFF}",
        "configuration",
        r"has not all of its files: .* could not be unpacked \(write error\): give `guest` more memory",
    ),
    "reserve": (  # as where a level leaves no memory: whoever allocates next is killed
        "echo '[ 9.1] postgres invoked oom-killer: gfp_mask=0x140cca' >console.txt; "
        "echo '[ 9.2] Out of memory: Killed process 71 (java) total-vm:1kB' >>console.txt; while :; do :; done",
        "configuration",
        r"the guest ran out of memory: its kernel killed java \(process 71\)",
    ),
    "reserve that kills all": (
        f"echo 'Kernel panic - not syncing: System is deadlocked on memory' >console.txt; {OFF}",
        "configuration",
        "the guest's kernel panicked: System is deadlocked on memory",
    ),
    "killed": (
        "echo 'Out of memory: Killed process 9 (java) x' >console.txt",  # and goes on: it is not waited for
        "configuration",
        r"its kernel killed java \(process 9\)",
    ),
    "damaged": (
        f"echo 'put x 9 0' >results; {OFF}",
        "infrastructure",
        "the guest's results are damaged at 'put x 9 0'",
    ),
    "off": (BEFORE + OFF, "configuration", "the guest switched itself off before its job's end"),
    "ended by somebody": (
        BEFORE + OFF.replace('"SHUTDOWN"', '"SHUTDOWN", "data": {"guest": false, "reason": "host-signal"}'),
        "infrastructure",
        "QEMU was ended by a signal from outside this run",
    ),
}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the PATH that every user may pass."""
    directory = Path(tempfile.mkdtemp(prefix="leadline-test-"))
    directory.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    yield directory
    shutil.rmtree(directory)


def booted(directory: Path) -> Boot:
    for name in ("kernel", "initial"):
        (directory / name).write_bytes(b"x")
    return Boot(directory / "kernel", directory / "initial", 64 << 20)


def imitate(programs: Path, after_start: str) -> None:
    (programs / QEMU).write_text(FAKE_QEMU % after_start)
    (programs / QEMU).chmod(0o755)


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_class_and_one_message(name: str, programs: Path, tmp_path: Path) -> None:
    after_start, kind, message = ENDS[name]
    imitate(programs, after_start)
    host = LocalHost(state=tmp_path / "state")
    limit = 5.0 if name in ("silent", "hung") else 60.0
    starved = r"the guest did not end within \d+ s: it waited \d+ s for a CPU of this host"  # where tests crowd it
    with pytest.raises(TrialFailure, match=f"{message}|{starved}") as raised:
        run(host, booted(tmp_path), "finish", tmp_path / "guest", limit)
    waited = re.search(starved, raised.value.message)
    assert raised.value.failure_class is FailureClass("infrastructure" if waited else kind)
    assert "\n" not in raised.value.message
    assert host.journal.open_entries() == []


def test_a_save_that_fails_leaves_no_memory_behind(programs: Path, tmp_path: Path) -> None:
    imitate(programs, 'echo save warm >results; echo \'{"event": "GUEST_PANICKED"}\'')
    host = LocalHost(state=tmp_path / "state")
    with pytest.raises(TrialFailure, match="QEMU refuses migrate-set-capabilities: no such device") as raised:
        boot_and_save(host, booted(tmp_path), "save warm", tmp_path / "guest", "warm", 60.0)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE
    assert not (tmp_path / "guest" / "saved").exists()
    assert host.journal.open_entries() == []


def test_without_qemu_the_message_tells_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrialFailure, match=f"{QEMU} is not on the PATH; install qemu-system-x86") as raised:
        run(LocalHost(state=tmp_path / "state"), booted(tmp_path), "finish", tmp_path / "guest", 5.0)
    assert raised.value.failure_class is FailureClass.INFRASTRUCTURE


def test_virtual_time_has_all_that_makes_it_exact_and_real_time_has_none(tmp_path: Path) -> None:
    boot = booted(tmp_path)
    virtual = " ".join(command_line(boot, "memory"))
    for words in ("-icount shift=1,sleep=off", "-seed 1", "clock=vm", "thread=single", "ioeventfd=off", "tsc=reliable"):
        assert words in virtual
    real = " ".join(command_line(Boot(boot.kernel, boot.initramfs, 1 << 28, 2, "real"), "memory"))
    assert "-icount" not in real
    assert "-smp 2" in real
