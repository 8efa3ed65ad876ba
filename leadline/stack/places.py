"""Where a service keeps files: on the lab's disk, in memory, on a file system of its own, on an overlay.

Each place belongs to a service's directory and one use of it; the host's journal knows it, so that it goes even if
nobody calls ``remove``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from leadline.host.base import Host
from leadline.host.paths import OWN
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.hosts import BRD, DEFAULTS, DISK, MOUNTED, OVERLAY, RAMDISK, TMPFS
from leadline.model.knob import Level

RAMDISK_SIZE = 1 << 30  # bytes; two stores of Liberty's take 400 MB at most, and only what is written takes memory
_SHARED = Path("/dev/shm")  # every Linux system mounts a tmpfs here
_KERNELS_OWN = re.compile(r"/dev/ram\d+")
STORES = "stores"


def memory_directory(directory: Path, use: str = STORES) -> Path:
    """The place on a tmpfs that belongs to the service in ``directory``, for one use of it."""
    named = directory.absolute() if use == STORES else directory.absolute() / use
    digest = hashlib.sha256(str(named).encode()).hexdigest()[:16]
    return _SHARED / f"{OWN}{digest}"


def disk_directory(directory: Path, use: str = STORES) -> Path:
    """Where the RAM disk of the service in ``directory`` is kept; what it holds lies below its ``store``."""
    disk = memory_directory(directory, use)
    return disk.with_name(f"{disk.name}-disk")


def mount_directory(directory: Path, use: str, place: str) -> Path:
    """Where its file system of this kind is kept, beside the service's own directory."""
    return directory.absolute().with_name(f"{OWN}{directory.name}-{use}-{place}")


def make_at(
    host: Host,
    directory: Path,
    place: str,
    use: str = STORES,
    options: str = "",
    size: int = RAMDISK_SIZE,
    over: Path | None = None,
) -> tuple[Path, str]:
    """An empty place of this kind for the service in ``directory``, and what it is made of. An overlay lies over a copy
    of ``over``. Raises UsageError, TrialFailure: ``configuration`` where none can be made, ``infrastructure``.
    """
    if place == TMPFS:
        return make(host, directory, use), "tmpfs on /dev/shm"
    if place == RAMDISK:
        return make_disk(host, directory, size, use)
    if place == DISK:
        return _empty(host, mount_directory(directory, use, place)), "a directory on the lab's disk"
    base = mount_directory(directory, use, place)
    host.remove_ram_disk(base)
    try:
        file_system = host.file_system(base, size, place, "" if options == DEFAULTS else options, over)
    except OSError as error:
        raise _unmade(error) from error
    return base / "store", file_system


def furnished(
    host: Host, directory: Path, place: str, use: str, options: str, size: int, source: Path
) -> tuple[Path, str]:
    """A copy of the directory ``source`` at a place of this kind, and what that is made of. Raises as ``make_at``."""
    if place == OVERLAY:
        return make_at(host, directory, place, use, options, size, source)
    place_made, file_system = make_at(host, directory, place, use, options, size)
    return copied(source, place_made / "files"), file_system


def make(host: Host, directory: Path, use: str = STORES) -> Path:
    """An empty place on a tmpfs for the service in ``directory``, private to this user. Raises UsageError,
    TrialFailure(infrastructure).
    """
    _require_memory(host)
    return _empty(host, memory_directory(directory, use))


def _empty(host: Host, place: Path) -> Path:
    host.remove_tree(place)
    try:
        host.private_tree(place)
    except OSError as error:
        raise _unmade(error) from error
    return place


def make_disk(host: Host, directory: Path, size: int = RAMDISK_SIZE, use: str = STORES) -> tuple[Path, str]:
    """An empty RAM disk of ``size`` bytes for the service in ``directory``, as ``make``; also what it is made of.

    Raises UsageError, TrialFailure: ``configuration`` where none can be made, ``infrastructure``.
    """
    _require_memory(host)
    disk = disk_directory(directory, use)
    host.remove_ram_disk(disk)
    try:
        ram_disk = host.ram_disk(disk, size)
    except OSError as error:
        raise _unmade(error) from error
    return disk / "store", ram_disk


def _require_memory(host: Host, shared: Path = _SHARED) -> None:
    if not shared.is_dir() or host.place_of(shared) != TMPFS:
        raise UsageError(f"{shared} is not a tmpfs on this host, so a store cannot be placed there; take disk")


def _unmade(error: OSError) -> TrialFailure:
    return TrialFailure(
        FailureClass.INFRASTRUCTURE, f"a store cannot be placed elsewhere ({error}); remove what is left there"
    )


def made(directory: Path, use: str = STORES) -> list[Path]:
    """Places that there are now for the service in ``directory``."""
    stores = [base / "store" for base in _bases(directory, use)]
    return [path for path in (*_trees(directory, use), *stores) if path.is_dir()]


def _trees(directory: Path, use: str) -> list[Path]:
    return [memory_directory(directory, use), mount_directory(directory, use, DISK)]


def _bases(directory: Path, use: str) -> list[Path]:
    return [disk_directory(directory, use), *(mount_directory(directory, use, place) for place in (BRD, *MOUNTED))]


def remove(host: Host, directory: Path, use: str = STORES) -> None:
    """Free what the service in ``directory`` left at its places."""
    for tree in _trees(directory, use):
        host.remove_tree(tree)
    for base in _bases(directory, use):
        host.remove_ram_disk(base)


def level_at(host: Host, path: Path) -> Level:
    """The place that holds ``path``, by the mount table: one of ``leadline.model.hosts.CHOICES``. A ``ramdisk``, which
    is the kernel's own where there is one, is mounted below /dev/shm; ``brd`` is not. Raises LookupError.
    """
    place, mount = host.place_of(path), host.mounted(path)
    point = Path(mount.point)
    if place == RAMDISK and _KERNELS_OWN.fullmatch(mount.source) and not point.is_relative_to(_SHARED):
        return BRD
    leadlines = point.name == "store" and point.parent.name.startswith(OWN)
    return mount.kind if place == DISK and leadlines else place


def options_at(host: Host, paths: Mapping[str, Path], wanted: Level) -> Level:
    """``wanted`` where it holds at every path that lies on a file system of its own, else what the first that differs
    has. Raises LookupError.
    """
    for path in paths.values():
        options = host.mounted(path).options
        if level_at(host, path) in MOUNTED and not options >= set(str(wanted).split(",")) - {DEFAULTS}:
            return ",".join(sorted(options))
    return wanted


def size_of(tree: Path) -> int:
    """Bytes that the files of a directory take."""
    return sum((Path(folder) / name).lstat().st_size for folder, _, names in os.walk(tree) for name in names)


def copied(source: Path, target: Path) -> Path:
    """A file or a directory, copied to ``target``. Raises TrialFailure(configuration) where it has no room."""
    try:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    except (OSError, shutil.Error) as error:
        raise TrialFailure(
            FailureClass.CONFIGURATION, f"{source} cannot be copied to its place: {str(error)[:300]}"
        ) from error
    return target
