"""How each kind of change is put back and verified. Standard library only: the watchdog loads it."""

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
