"""Where a server keeps a store: on the lab's disk, on a tmpfs, or on a RAM disk (ext4 on a block device in memory)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from leadline.host import mounts
from leadline.host.base import Host
from leadline.model.errors import FailureClass, TrialFailure, UsageError

DISK, TMPFS, RAMDISK = mounts.DISK, mounts.TMPFS, mounts.RAMDISK
CHOICES = (DISK, TMPFS, RAMDISK)
RAMDISK_SIZE = 1 << 30  # bytes; two stores of Liberty's take 400 MB at most, and only what is written takes memory
_SHARED = Path("/dev/shm")  # every Linux system mounts a tmpfs here


def memory_directory(directory: Path) -> Path:
    """The place in memory that belongs to the service in ``directory``."""
    digest = hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:16]
    return _SHARED / f"leadline-{digest}"


def disk_directory(directory: Path) -> Path:
    """Where the RAM disk of the service in ``directory`` is kept; stores lie below its ``store``."""
    found = memory_directory(directory)
    return found.with_name(f"{found.name}-disk")


def make(host: Host, directory: Path) -> Path:
    """An empty place in memory for the service in ``directory``, private to this user; the host's journal knows it,
    so that it goes even if nobody calls ``remove``. Raises UsageError, TrialFailure(infrastructure).
    """
    _require_memory(host)
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
    _require_memory(host)
    found = disk_directory(directory)
    host.remove_ram_disk(found)
    try:
        told = host.ram_disk(found, size)
    except OSError as error:
        raise _unmade(error) from error
    return found / "store", told


def _require_memory(host: Host, shared: Path = _SHARED) -> None:
    if not shared.is_dir() or host.place_of(shared) != TMPFS:
        raise UsageError(f"{shared} is not a tmpfs on this host, so a store cannot be placed there; take disk")


def _unmade(error: OSError) -> TrialFailure:
    return TrialFailure(
        FailureClass.INFRASTRUCTURE, f"a store cannot be placed in memory ({error}); remove what is left there"
    )


def made(directory: Path) -> list[Path]:
    """Places in memory that there are now for the service in ``directory``."""
    found = [memory_directory(directory), disk_directory(directory) / "store"]
    return [path for path in found if path.is_dir()]


def remove(host: Host, directory: Path) -> None:
    """Free what the service in ``directory`` left in memory."""
    host.remove_tree(memory_directory(directory))
    host.remove_ram_disk(disk_directory(directory))
