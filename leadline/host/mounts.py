"""What is mounted, and what lies behind a loop device. Standard library only: the watchdog loads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DISK, TMPFS, RAMDISK = "disk", "tmpfs", "ramdisk"
_IN_MEMORY = ("tmpfs", "ramfs")
_MEMORY_DEVICE = re.compile(r"/dev/z?ram\d+")


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo (proc_pid_mountinfo(5))."""

    point: str
    kind: str
    source: str
    options: frozenset[str] = frozenset()  # of the mount and of the file system


def mounts(file: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """What is mounted, oldest first. Raises OSError."""
    mounts_ = []
    for line in file.read_text().splitlines():
        head, _, right = line.partition(" - ")
        kind, source, *own = right.split()
        options = frozenset(",".join([head.split()[5], *own]).split(","))
        mounts_.append(Mount(_plain(head.split()[4]), kind, _plain(source), options))
    return mounts_


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def backing_file(device: str, blocks: Path = Path("/sys/block")) -> Path | None:
    """The file behind a loop device, None for any other device. ``device``: its name, ``loop0``."""
    try:
        return Path((blocks / device / "loop" / "backing_file").read_text().rstrip("\n"))
    except OSError:
        return None


def place_of(path: Path, root: Path = Path("/")) -> str:
    """``tmpfs``, ``ramdisk`` or ``disk``, by the file system that holds ``path``, its device and, for a loop device,
    where its file lies (proc_pid_mountinfo(5), loop(4)). Raises LookupError.
    """
    best = mount_of(path, root)
    if best.kind in _IN_MEMORY:
        return TMPFS
    if _MEMORY_DEVICE.fullmatch(best.source):
        return RAMDISK
    file = backing_file(Path(best.source).name, root / "sys/block") if best.source.startswith("/dev/loop") else None
    return RAMDISK if file is not None and place_of(file, root) != DISK else DISK


def mount_of(path: Path, root: Path = Path("/")) -> Mount:
    """What holds ``path``. Raises LookupError."""
    path = path.resolve()
    try:
        mounted = mounts(root / "proc/self/mountinfo")
    except OSError as error:
        raise LookupError(f"cannot tell the file system of {path}: {error}") from error
    best = None
    for mount in mounted:  # later mounts lie over earlier ones
        if path.is_relative_to(mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    if best is None:
        raise LookupError(f"no mounted file system holds {path}")
    return best
