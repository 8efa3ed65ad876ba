"""How a RAM disk, a file system in a file, or an overlay is undone. Standard library only: the watchdog loads it.

Its directory holds two: on ``store`` it is mounted; ``memory`` has a loop device's file, for a RAM disk on a tmpfs, or
the layers of an overlay.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from leadline.host.procfs import backing_file, mounts
from leadline.host.undo import TREE_MARKER, CannotUndo, Entry

KIND = "ramdisk"
IMAGE = "image"  # a file system in a file on a disk, which a reboot unmounts and leaves there
UNION = "overlay"
WHAT = {KIND: "RAM disk", IMAGE: "file system", UNION: "overlay"}
_PREFIX = "leadline-"  # leadline.host.paths.OWN
BLANK = 1 << 20  # bytes at the start of a device: a file system's signature lies there
PACKAGES = {"losetup": "util-linux", "mount": "util-linux", "umount": "util-linux"}
MAKERS = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}  # file system: the package of mkfs
_PATIENCE = 5.0  # seconds until the kernel has let go of a device
_COMMAND = 120.0  # seconds that mkfs, mount, umount and the like may take


class CommandFailed(Exception):
    """A command's own words."""


def command(*argv: str) -> str:
    """Raises CommandFailed with the command's own words."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_COMMAND)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{' '.join(argv)}: it did not end within {_COMMAND:g} s") from None
    except FileNotFoundError:
        package = PACKAGES.get(argv[0]) or MAKERS.get(argv[0].removeprefix("mkfs."))
        also = f"; install the package {package}" if package else ""
        raise CommandFailed(f"the command {argv[0]} is not installed{also}") from None
    if done.returncode:
        raise CommandFailed(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def _loops(file: Path, blocks: Path) -> list[str]:
    """Loop devices over a file."""
    return [f"/dev/{path.name}" for path in sorted(blocks.glob("loop*")) if backing_file(path.name, blocks) == file]


def _until(holds: Callable[[], bool], act: Callable[[], object]) -> None:
    """Act again and again until it holds: the kernel lets go of ended processes a moment late. Raises CommandFailed."""
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        try:
            act()
        except CommandFailed:
            if time.monotonic() > deadline:
                raise
        if not holds():
            if time.monotonic() > deadline:
                raise CommandFailed("it is still in use")
            time.sleep(0.05)


def undo(entries: Sequence[Entry], root: Path, run: Callable[..., str] = command) -> str:
    """Unmount the disk, free its memory, remove its directory; looks at the machine, not at how far making it came."""
    base, what = Path(entries[0].target), WHAT[entries[0].kind]
    if not base.name.startswith(_PREFIX):
        raise CannotUndo(f"{base} is not a {what} of leadline")
    blocks, table = root / "sys/block", root / "proc/self/mountinfo"

    def unmount(point: Path) -> None:
        """Removing its directory unmounts it for processes with mounts of their own too, which hold copies of it
        where mounts do not propagate (rmdir(2), mount_namespaces(7)).
        """
        _until(lambda: all(mount.point != str(point) for mount in mounts(table)), lambda: run("umount", str(point)))
        with suppress(FileNotFoundError):
            point.rmdir()

    file = base / "memory" / "disk"
    there = base.exists()
    try:
        unmount(base / "store")
        _until(lambda: not _loops(file, blocks), lambda: [run("losetup", "-d", name) for name in _loops(file, blocks)])
        file.unlink(missing_ok=True)
        if entries[0].kind == UNION and (base / TREE_MARKER).is_file():
            shutil.rmtree(base / "memory", ignore_errors=True)
        unmount(base / "memory")
        for entry in entries:
            if device := entry.data.get("device"):
                _empty(device)
    except (CommandFailed, OSError) as error:
        raise CannotUndo(f"{what} {base}: {error}") from None
    if there:
        _remove(base, what)
    return f"{what} {base}: removed" if there else f"{what} {base}: already removed"


def _empty(device: str) -> None:
    """Free a brd device's memory where the kernel can, and leave it blank for the next one. Raises OSError."""
    with suppress(FileNotFoundError, subprocess.TimeoutExpired):
        subprocess.run(["blkdiscard", device], capture_output=True, check=False, timeout=_COMMAND)
    handle = os.open(device, os.O_RDWR | os.O_EXCL)  # refused where something else has taken it
    try:
        os.write(handle, bytes(BLANK))
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(base: Path, what: str) -> None:
    """Only what was made here. Raises CannotUndo."""
    try:
        (base / TREE_MARKER).unlink(missing_ok=True)
        base.rmdir()
    except OSError as error:
        raise CannotUndo(f"{what} {base}: {error}; left alone") from None
