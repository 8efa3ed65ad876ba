"""A RAM disk, a block device in memory with ext4 on it; a file system of its own in a file on a disk; an overlay.

The device is the kernel's own (brd, /dev/ram*) where there is one, else a loop device over a file on a tmpfs. Whoever
asks for ``brd`` gets the kernel's own or none.
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
from leadline.host.procfs import mount_of
from leadline.host.undo import BLANK, IMAGE, KIND, MAKERS, PACKAGES, TREE_MARKER, UNION, CommandFailed, Entry, command
from leadline.model.places import BRD, OVERLAY, SCHEDULERS

_SLACK = 1 << 20  # the tmpfs keeps a little beside the file
_SHOWN = 1 << 30  # bytes of a RAM disk in the advice to load its module
_SEPARATORS = re.compile(r"[:,\\]")  # of an overlay's options
_BLKGETSIZE64 = 0x80081272  # linux/fs.h, 64-bit


class CannotMake(Exception):
    """No such disk can be made here, with the reason."""


def largest(root: Path = Path("/")) -> int:
    """Half of the memory that is free for use now, in bytes: what a RAM disk may take at most."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 // 2 if match else 0


def make(
    journal: UndoJournal, base: Path, size: int, run: Callable[..., str] = command, kernels_own: bool = False
) -> str:
    """Make an empty disk of ``size`` bytes, mounted at ``base / "store"``; tells what it is made of.

    Journalled before anything is done. ``kernels_own``: on brd or not at all. Raises CannotMake, FileExistsError,
    TrialFailure(infrastructure).
    """
    if os.geteuid() != 0:
        raise CannotMake("only root may make a RAM disk; run leadline as root, or take tmpfs")
    if missing := _missing("ext4"):
        raise CannotMake(f"{missing}, or take tmpfs")
    if size > (room := largest(journal.root)):
        raise CannotMake(f"a RAM disk of {size >> 20} MiB is more than half of the memory available, {room >> 20} MiB")
    device = brd(size)
    if kernels_own and device is None:
        raise CannotMake(_without_brd(size))
    entry = _begun(journal, KIND, base)
    if device is not None:
        journal.update(entry, device=device)
        description = f"{device} (brd)"
    else:
        device = _loop(base / "memory", size, run)
        description = f"{device} (loop device over a file on a tmpfs)"
    # nothing is put off to a thread of the kernel that would work beside the load
    lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", lazy, device, f"{size >> 10}k")
    run("mount", "-t", "ext4", device, str(base / "store"))
    return f"{description}, ext4, {size >> 20} MiB"


def lacks(kind: str, root: Path = Path("/")) -> str:
    """Why no file system of this kind can be made here, or none with this I/O scheduler; empty if it can."""
    if os.geteuid() != 0:
        return "only root may make and mount file systems; run leadline as root, or take disk"
    if kind in SCHEDULERS:
        files = sorted((root / "sys/block").glob("*/queue/scheduler"), key=lambda file: "/loop" not in str(file))
        offered = files[0].read_text().replace("[", "").replace("]", "").split() if files else []
        names = ", ".join(offered) or "no scheduler"
        return "" if kind in offered else f"this kernel's block devices have {names}; load its module, or take another"
    if kind == BRD:
        if missing := _missing("ext4"):
            return f"{missing}, or take tmpfs"
        return "" if brd(0) is not None else _without_brd(_SHOWN)
    kinds = {line.split()[-1] for line in (root / "proc/filesystems").read_text().splitlines() if line.split()}
    if kind not in kinds:
        return f"this kernel has no {kind} (/proc/filesystems); load its module (modprobe {kind}), or take disk"
    missing = _missing(kind)
    return f"{missing}, or take disk" if missing else ""


def make_image(
    journal: UndoJournal, base: Path, size: int, kind: str, options: str, run: Callable[..., str] = command
) -> str:
    """Make an empty file system of ``size`` bytes in a file below ``base``, mounted at ``base / "store"`` with these
    options of mount(8); tells what it is made of. Journalled before anything is done. Raises as ``make``.
    """
    if why := lacks(kind, journal.root):
        raise CannotMake(why)
    parent = next(path for path in (base, *base.parents) if path.exists())
    if size > (room := shutil.disk_usage(parent).free // 2):
        raise CannotMake(f"a file system of {size >> 20} MiB is more than half of what is free there, {room >> 20} MiB")
    _begun(journal, IMAGE, base)
    (base / "memory").mkdir()
    with (base / "memory" / "disk").open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, size)  # no hole is filled while something is measured
    device = run("losetup", "--find", "--show", str(base / "memory" / "disk"))
    lazy = ["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"] if kind == "ext4" else []
    run(f"mkfs.{kind}", "-q", *lazy, device)
    run("mount", "-t", kind, "-o", options or "defaults", device, str(base / "store"))
    return f"{device} (loop device over a file), {kind}, {size >> 20} MiB, {options or 'defaults'}"


def make_overlay(
    journal: UndoJournal, base: Path, over: Path | None, options: str, run: Callable[..., str] = command
) -> str:
    """Make an overlay, mounted at ``base / "store"``: below a copy of ``over`` (nothing if None), above what is written
    from now on; tells what it is made of. Journalled before anything is done. Raises as ``make``.
    """
    if why := lacks(OVERLAY, journal.root):
        raise CannotMake(why)
    if match := _SEPARATORS.search(str(base)):
        raise CannotMake(f"a path that holds {match[0]!r} cannot be named to an overlay: {base}; take another --lab")
    if mount_of(next(path for path in (base, *base.parents) if path.exists()), journal.root).kind == OVERLAY:
        raise CannotMake(
            "the lab lies on an overlay (a container's own), which cannot hold another; take another --lab"
        )
    _begun(journal, UNION, base)
    lower, upper, work = (base / "memory" / name for name in ("lower", "upper", "work"))
    (base / "memory").mkdir()
    if over is not None:
        shutil.copytree(over, lower, symlinks=True)
    for path in (lower, upper, work):
        path.mkdir(exist_ok=True)
    shutil.copystat(lower, upper)  # the mount has the upper layer's mode
    # a new owner of a file is no reason to copy what is in it
    mount_options = ",".join(
        [f"lowerdir={lower}", f"upperdir={upper}", f"workdir={work}", "metacopy=on", *filter(None, [options])]
    )
    run("mount", "-t", OVERLAY, "-o", mount_options, OVERLAY, str(base / "store"))
    return f"overlay, its layers on the lab's disk, metacopy=on{f',{options}' if options else ''}"


def _without_brd(size: int) -> str:
    """What is wrong where the kernel has no RAM disk to give, and what to do."""
    return (
        f"this kernel has no RAM disk (/dev/ram*) of {size >> 20} MiB that is blank and not in use; load its module"
        f" (modprobe brd rd_nr=1 rd_size={size >> 10}), or take ramdisk or tmpfs"
    )


def _missing(kind: str) -> str:
    needed = {**({f"mkfs.{kind}": MAKERS[kind]} if kind in MAKERS else {}), **PACKAGES}
    missing = [name for name in needed if shutil.which(name) is None]
    packages = ", ".join(sorted({needed[name] for name in missing}))
    return f"not installed: {', '.join(missing)}; install the package {packages}" if missing else ""


def _begun(journal: UndoJournal, kind: str, base: Path) -> Entry:
    if base.is_symlink() or base.exists():
        raise FileExistsError(f"{base} exists already")
    entry = journal.record(kind, str(base))
    base.parent.mkdir(parents=True, exist_ok=True)
    base.mkdir(mode=0o700)
    (base / "store").mkdir()
    (base / TREE_MARKER).touch()
    return entry


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
