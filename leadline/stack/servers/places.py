"""Where a server keeps a store: on the lab's disk, or in memory (tmpfs)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from leadline.host.base import Host
from leadline.model.errors import FailureClass, TrialFailure, UsageError

DISK, TMPFS = "disk", "tmpfs"
_SHARED = Path("/dev/shm")  # every Linux system mounts a tmpfs here
_IN_MEMORY = ("tmpfs", "ramfs")


def memory_directory(directory: Path, shared: Path = _SHARED) -> Path:
    """The place in memory that belongs to the service in ``directory``. Raises UsageError where there is no tmpfs."""
    if not shared.is_dir() or place_of(shared) != TMPFS:
        raise UsageError(f"{shared} is not a tmpfs on this host, so a store cannot be placed there; take disk")
    digest = hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:16]
    return shared / f"leadline-{digest}"


def make(host: Host, directory: Path) -> Path:
    """An empty place in memory for the service in ``directory``, private to this user; the host's journal knows it,
    so that it goes even if nobody calls ``remove``. Raises UsageError, TrialFailure(infrastructure).
    """
    found = memory_directory(directory)
    host.remove_tree(found)
    try:
        host.private_tree(found)
    except OSError as error:
        raise TrialFailure(
            FailureClass.INFRASTRUCTURE, f"a store cannot be placed in memory ({error}); remove what is left there"
        ) from error
    return found


def remove(host: Host, directory: Path) -> None:
    """Free what the service in ``directory`` left in memory."""
    host.remove_tree(memory_directory(directory))


def place_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """``tmpfs`` or ``disk``, by the file system that holds ``path`` (proc_pid_mountinfo(5)). Raises LookupError."""
    path = path.resolve()
    best, kind = "", ""
    try:
        lines = mounts.read_text().splitlines()
    except OSError as error:
        raise LookupError(f"cannot tell the file system of {path}: {error}") from error
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].encode().decode("unicode_escape")
        if path.is_relative_to(point) and len(point) >= len(best):  # later mounts lie over earlier ones
            best, kind = point, rest.split()[0]
    if not kind:
        raise LookupError(f"no mounted file system holds {path}")
    return TMPFS if kind in _IN_MEMORY else DISK
