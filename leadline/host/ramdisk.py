"""A RAM disk: a block device in memory with ext4 on it.

The device is the kernel's own (brd, /dev/ram*) where there is one, else a loop device over a file on a tmpfs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from leadline.host.journal import UndoJournal
from leadline.host.undo import TREE_MARKER
from leadline.host.undo_ramdisk import BLANK, KIND, PACKAGES, CommandFailed, command

_SLACK = 1 << 20  # the tmpfs keeps a little beside the file
_BLKGETSIZE64 = 0x80081272  # linux/fs.h, 64-bit


class CannotMake(Exception):
    """No RAM disk can be made here, with the reason."""


def largest(root: Path = Path("/")) -> int:
    """Half of the memory that is free for use now, in bytes: what a RAM disk may take at most."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 // 2 if found else 0


def make(journal: UndoJournal, base: Path, size: int, run: Callable[..., str] = command) -> str:
    """Make an empty disk of ``size`` bytes, mounted at ``base / "store"``; tells what it is made of.

    Journalled before anything is done. Raises CannotMake, FileExistsError, TrialFailure(infrastructure).
    """
    if os.geteuid() != 0:
        raise CannotMake("only root may make a RAM disk; run leadline as root, or take tmpfs")
    if missing := [name for name in PACKAGES if shutil.which(name) is None]:
        packages = ", ".join(sorted({PACKAGES[name] for name in missing}))
        raise CannotMake(f"not installed: {', '.join(missing)}; install the package {packages}, or take tmpfs")
    if size > (room := largest(journal.root)):
        raise CannotMake(f"a RAM disk of {size >> 20} MiB is more than half of the memory available, {room >> 20} MiB")
    if base.is_symlink() or base.exists():
        raise FileExistsError(f"{base} exists already")
    entry = journal.record(KIND, str(base))
    base.parent.mkdir(parents=True, exist_ok=True)
    base.mkdir(mode=0o700)
    (base / "store").mkdir()
    (base / TREE_MARKER).touch()
    device = brd(size)
    if device is not None:
        journal.update(entry, device=device)
        told = f"{device} (brd)"
    else:
        device = _loop(base / "memory", size, run)
        told = f"{device} (loop device over a file on a tmpfs)"
    # nothing is put off to a thread of the kernel that would work beside the load
    lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", lazy, device, f"{size >> 10}k")
    run("mount", "-t", "ext4", device, str(base / "store"))
    return f"{told}, ext4, {size >> 20} MiB"


def _loop(memory: Path, size: int, run: Callable[..., str]) -> str:
    memory.mkdir()
    options = f"size={size + _SLACK},mode=700"
    try:
        run("mount", "-t", "tmpfs", "-o", f"{options},noswap", "tmpfs", str(memory))
    except CommandFailed:  # kernels before 6.4 have no noswap
        run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(memory))
    file = memory / "disk"
    with file.open("wb") as stream:
        stream.truncate(size)
    return run("losetup", "--find", "--show", str(file))


def brd(size: int, devices: Path = Path("/dev")) -> str | None:
    """One of the kernel's RAM disks that is large enough, not in use, and blank: nobody's data are written over."""
    for path in sorted(devices.glob("ram[0-9]*")):
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_EXCL)  # busy where it is mounted or is swap
            try:
                if device_size(handle) >= size and not os.pread(handle, BLANK, 0).strip(b"\0"):
                    return str(path)
            finally:
                os.close(handle)
    return None


def device_size(handle: int) -> int:
    """Bytes of an open block device. Raises OSError."""
    return int.from_bytes(fcntl.ioctl(handle, _BLKGETSIZE64, bytes(8)), "little")
