"""Where a server keeps a store: on the lab's disk, on a tmpfs, or on a RAM disk (ext4 on a block device in memory)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from leadline.host.base import Host
from leadline.host.mounts import backing_file, mounts
from leadline.model.errors import FailureClass, TrialFailure, UsageError

DISK, TMPFS, RAMDISK = "disk", "tmpfs", "ramdisk"
CHOICES = (DISK, TMPFS, RAMDISK)
RAMDISK_SIZE = 1 << 30  # bytes; two stores of Liberty's take 400 MB at most, and only what is written takes memory
_SHARED = Path("/dev/shm")  # every Linux system mounts a tmpfs here
_IN_MEMORY = ("tmpfs", "ramfs")
_MEMORY_DEVICE = re.compile(r"/dev/z?ram\d+")
_BLOCKS, _MOUNTS = Path("/sys/block"), Path("/proc/self/mountinfo")


def memory_directory(directory: Path, shared: Path = _SHARED) -> Path:
    """The place in memory that belongs to the service in ``directory``. Raises UsageError where there is no tmpfs."""
    if not shared.is_dir() or place_of(shared) != TMPFS:
        raise UsageError(f"{shared} is not a tmpfs on this host, so a store cannot be placed there; take disk")
    digest = hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:16]
    return shared / f"leadline-{digest}"


def disk_directory(directory: Path) -> Path:
    """Where the RAM disk of the service in ``directory`` is kept; stores lie below its ``store``. Raises UsageError."""
    found = memory_directory(directory)
    return found.with_name(f"{found.name}-disk")


def make(host: Host, directory: Path) -> Path:
    """An empty place in memory for the service in ``directory``, private to this user; the host's journal knows it,
    so that it goes even if nobody calls ``remove``. Raises UsageError, TrialFailure(infrastructure).
    """
    found = memory_directory(directory)
    host.remove_tree(found)
    try:
        host.private_tree(found)
    except OSError as error:
        raise _unmade(error) from error
    return found


def make_disk(host: Host, directory: Path, size: int = RAMDISK_SIZE) -> tuple[Path, str]:
    """An empty RAM disk of ``size`` bytes for the service in ``directory``, as ``make``; also what it is made of.

    Raises UsageError, TrialFailure: ``configuration`` where none can be made, ``infrastructure``.
    """
    found = disk_directory(directory)
    host.remove_ram_disk(found)
    try:
        told = host.ram_disk(found, size)
    except OSError as error:
        raise _unmade(error) from error
    return found / "store", told


def _unmade(error: OSError) -> TrialFailure:
    return TrialFailure(
        FailureClass.INFRASTRUCTURE, f"a store cannot be placed in memory ({error}); remove what is left there"
    )


def made(directory: Path) -> list[Path]:
    """Places in memory that there are now for the service in ``directory``."""
    try:
        found = [memory_directory(directory), disk_directory(directory) / "store"]
    except UsageError:
        return []
    return [path for path in found if path.is_dir()]


def remove(host: Host, directory: Path) -> None:
    """Free what the service in ``directory`` left in memory."""
    host.remove_tree(memory_directory(directory))
    host.remove_ram_disk(disk_directory(directory))


def place_of(path: Path, table: Path = _MOUNTS, blocks: Path = _BLOCKS) -> str:
    """``tmpfs``, ``ramdisk`` or ``disk``, by the file system that holds ``path``, its device and, for a loop device,
    where its file lies (proc_pid_mountinfo(5), loop(4)). Raises LookupError.
    """
    path = path.resolve()
    try:
        mounted = mounts(table)
    except OSError as error:
        raise LookupError(f"cannot tell the file system of {path}: {error}") from error
    best = None
    for mount in mounted:  # later mounts lie over earlier ones
        if path.is_relative_to(mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    if best is None:
        raise LookupError(f"no mounted file system holds {path}")
    if best.kind in _IN_MEMORY:
        return TMPFS
    if _MEMORY_DEVICE.fullmatch(best.source):
        return RAMDISK
    file = backing_file(Path(best.source).name, blocks) if best.source.startswith("/dev/loop") else None
    return RAMDISK if file is not None and place_of(file, table, blocks) != DISK else DISK
