"""How each kind of change is put back and verified. Standard library only: the watchdog loads it.

A RAM disk, a file system in a file, or an overlay has a directory of its own, which holds two: on ``store`` it is
mounted; ``memory`` has a loop device's file, for a RAM disk on a tmpfs, or the layers of an overlay.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.host import procfs
from leadline.host.privilege import take_back
from leadline.host.procfs import backing_file, mounts

TREE_MARKER = ".leadline-private"
CGROUP_PREFIX = "leadline-"
VOLATILE = frozenset({"file", "process", "cgroup", "swap", "ramdisk", "level", "logging"})  # a reboot undoes these

# Writing one file of a pair sets the other to zero (Documentation/admin-guide/sysctl/vm.rst).
PAIRS = (
    ("dirty_ratio", "dirty_bytes"),
    ("dirty_background_ratio", "dirty_background_bytes"),
    ("overcommit_ratio", "overcommit_kbytes"),
)

# What a new scheduler of a block device sets anew (block/elevator.c).
FOLLOW = {"scheduler": ("nr_requests", "wbt_lat_usec")}

SWAP = 3600.0  # seconds until what is swapped out is in memory again, or a swap is on


@dataclass
class Entry:
    """A change to undo. ``original``: what to put back, by kind; ``values``: what leadline set, oldest first."""

    id: str
    kind: str
    target: str
    original: Any = None
    note: str = ""
    boot: str = ""
    time: float = 0.0
    owner: Mapping[str, Any] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


class CannotUndo(Exception):
    """One change could not be put back, with the reason."""


def normalise(text: str) -> str:
    """A file's value as one compares it: the word in brackets of a choice, single spaces between numbers."""
    chosen = re.search(r"\[([^\]]+)\]", text)
    return chosen[1] if chosen else " ".join(text.split())


def originals(path: Path) -> dict[str, str]:
    """The values of a kernel setting and of those that a write to it changes, by their files. Raises OSError."""
    pairs = [name for pair in PAIRS if path.name in pair for name in pair if name != path.name]
    values = {str(path): _read(path)}
    for file in map(path.with_name, (*pairs, *FOLLOW.get(path.name, ()))):
        with suppress(OSError):  # not there, or without a value now
            values[str(file)] = _read(file)
    return values


def allowed(path: Path, root: Path) -> bool:
    """Whether a path is one that leadline sets: below /proc/sys or /sys, no way out through ``..``."""
    plain = Path(os.path.normpath(path))
    return plain == path and any(path.is_relative_to(root / folder) for folder in ("proc/sys", "sys"))


def _read(path: Path) -> str:
    return normalise(path.read_text())


def write_setting(path: Path, value: str) -> None:
    """Write an existing file in one go, as kernel settings want it. Raises OSError, also when it does not exist."""
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, (value or "\n").encode())  # no bytes are no write
    finally:
        os.close(handle)


def _write_back(originals: Mapping[Path, str]) -> None:
    names = {path.name: path for path in originals}
    pair = [(names[a], names[b]) for a, b in PAIRS if a in names and b in names]
    if not pair:
        for path, value in originals.items():  # what follows may be as it was already
            if _read(path) != value:
                write_setting(path, value)
        return
    ((ratio, amount),) = pair
    if originals[amount] != "0":
        write_setting(amount, originals[amount])
        return
    # The kernel clears the amount only when the ratio's value changes, and takes no zero for the amount.
    if _read(ratio) == originals[ratio] and _read(amount) != "0":
        write_setting(ratio, "1" if originals[ratio] != "1" else "2")
    write_setting(ratio, originals[ratio])
    if _read(amount) != "0":
        write_setting(amount, "0")


def undo_file(entries: Sequence[Entry], root: Path) -> str:
    """Write the oldest original back and read it back. ``entries``: all for the same file(s), newest first."""
    originals = {Path(name): value for name, value in entries[-1].original.items()}
    for path in originals:
        if not allowed(path, root):
            raise CannotUndo(f"{path} is not a kernel setting")
    target = Path(entries[-1].target)
    if not target.exists():
        return f"{target}: does not exist any more, nothing to put back"
    now = {path: _read(path) for path in originals}
    if now == originals:
        return f"{target}: already at its original {originals[target]!r}"
    followers = FOLLOW.get(target.name, ())
    foreign = {
        path: value
        for path, value in now.items()
        if path.name not in followers and value not in _expected(path, entries)
    }
    try:
        _write_back(originals)
    except PermissionError:
        raise CannotUndo(
            f"{target}: no permission to write {originals[target]!r}; run leadline restore as root"
        ) from None
    except OSError as error:
        raise CannotUndo(f"{target}: writing {originals[target]!r} failed: {error.strerror}") from None
    wrong = [
        f"{path} reads {_read(path)!r}, not {value!r}" for path, value in originals.items() if _read(path) != value
    ]
    if wrong:
        raise CannotUndo("; ".join(wrong))
    foreign_text = "".join(
        f" (something else had set {path.name} to {value!r} meanwhile)" for path, value in foreign.items()
    )
    cleared = "".join(f", {path.name} to {value!r}" for path, value in originals.items() if path != target)
    return f"{target}: put back to {originals[target]!r}{cleared}{foreign_text}"


def _expected(path: Path, entries: Sequence[Entry]) -> set[str]:
    """The values a file may have by leadline's doing alone: its originals, what was set, zero by its partner."""
    set_here = {value for entry in entries if entry.target == str(path) for value in entry.values}
    by_partner = {"0"} if len(entries[0].original) > 1 else set()
    return set_here | by_partner | {entry.original[str(path)] for entry in entries}


def undo_process(entries: Sequence[Entry], root: Path) -> str:  # noqa: ARG001
    """End every process that carries the entry's mark, what descends from it, and what its leader left behind."""
    ended: set[int] = set()
    for entry in entries:
        leader = (int(entry.data["pid"]), int(entry.data["start"])) if "start" in entry.data else None

        def find(entry: Entry = entry, leader: tuple[int, int] | None = leader) -> set[int]:
            alive = procfs.marked(entry.data["token"], leader, entry.data.get("cwd"), entry.data.get("user"))
            ended.update(alive)
            return alive

        try:
            procfs.end(find, grace=5.0)
        except PermissionError:
            raise CannotUndo(f"{entry.target}: no permission to end processes {sorted(find())}") from None
        except TimeoutError as error:
            raise CannotUndo(f"{entry.target}: {error}") from None
        if "user" in entry.data:
            try:
                take_back(map(Path, entry.data["owns"]), int(entry.data["user"]))
            except OSError as error:  # a read-only file system
                raise CannotUndo(f"{entry.target}: ended, but its files are not root's again: {error}") from None
    name = entries[0].target
    return f"process {name}: ended {sorted(ended)}" if ended else f"process {name}: not running any more"


def undo_cgroup(entries: Sequence[Entry], root: Path) -> str:
    """End what is left in a control group of ours and remove it."""
    path = Path(entries[0].target)
    if not path.name.startswith(CGROUP_PREFIX) or not path.is_relative_to(root / "sys/fs/cgroup"):
        raise CannotUndo(f"{path} is not a control group of leadline")
    if not path.exists():
        return f"control group {path.name}: already removed"

    def members() -> list[int]:
        try:
            return [int(word) for word in (path / "cgroup.procs").read_text().split()]
        except OSError:
            return []

    try:
        procfs.end(members, grace=5.0)
        remove_cgroup(path)
    except OSError as error:
        raise CannotUndo(f"control group {path}: {error}") from None
    return f"control group {path.name}: removed"


def remove_cgroup(path: Path, patience: float = 2.0) -> None:
    """Remove an empty control group; the kernel lets go of ended members a moment late. Raises OSError."""
    deadline = time.monotonic() + patience
    while True:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def active_swaps(root: Path) -> dict[str, int]:
    """Swap devices and files in use, with their priority."""
    try:
        lines = (root / "proc/swaps").read_text().splitlines()[1:]
    except OSError:
        return {}
    # the kernel writes blanks in names as octal escapes
    rows = [line.split() for line in lines if line.strip()]
    return {re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), row[0]): int(row[4]) for row in rows}


def undo_swap(entries: Sequence[Entry], root: Path) -> str:
    """Switch on again the swap that was on."""
    missing = {name: rank for name, rank in entries[-1].original.items() if name not in active_swaps(root)}
    for name, rank in missing.items():
        priority = ["--priority", str(rank)] if rank >= 0 else []
        try:
            argv = ["swapon", *priority, name]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SWAP)
        except FileNotFoundError:
            raise CannotUndo(f"swap {name}: the command swapon is not installed") from None
        except subprocess.TimeoutExpired:
            raise CannotUndo(f"swap {name}: swapon did not end within {SWAP:g} s") from None
        if done.returncode:
            raise CannotUndo(f"swap {name}: {done.stderr.strip()}")
    still = [name for name in missing if name not in active_swaps(root)]
    if still:
        raise CannotUndo(f"swap {', '.join(still)} is still off")
    return f"swap: on again: {', '.join(missing)}" if missing else "swap: already as it was"


def undo_tree(entries: Sequence[Entry], root: Path) -> str:  # noqa: ARG001
    """Remove a private directory, but only one that holds leadline's marker."""
    path = Path(entries[0].target)
    if not path.is_symlink() and not path.exists():
        return f"directory {path}: already removed"
    if path.is_symlink() or not path.is_dir():
        raise CannotUndo(f"{path} is not a directory of leadline")
    if not (path / TREE_MARKER).is_file():
        try:
            path.rmdir()  # the crash may have come between making the directory and marking it
        except OSError:
            raise CannotUndo(f"{path} does not hold leadline's marker {TREE_MARKER}; left alone") from None
        return f"directory {path}: removed"
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise CannotUndo(f"directory {path}: {error}") from None
    return f"directory {path}: removed"


UNDO: Mapping[str, Callable[[Sequence[Entry], Path], str]] = {
    "file": undo_file,
    "process": undo_process,
    "cgroup": undo_cgroup,
    "swap": undo_swap,
    "tree": undo_tree,
}


KIND = "ramdisk"
IMAGE = "image"  # a file system in a file on a disk, which a reboot unmounts and leaves there
UNION = "overlay"
MOUNTED = {KIND: "RAM disk", IMAGE: "file system", UNION: "overlay"}
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


def undo_mounted(entries: Sequence[Entry], root: Path, run: Callable[..., str] = command) -> str:
    """Unmount the disk, free its memory, remove its directory; looks at the machine, not at how far making it came."""
    base, what = Path(entries[0].target), MOUNTED[entries[0].kind]
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
