"""Where a service keeps files: on the lab's disk, in memory, on a file system of its own, on an overlay.

Each place belongs to a service's directory and one use of it; the host's journal knows it, so that it goes even if
nobody calls ``remove``.

Of a server: the places of its installation and of its temporary files, and what a running one tells of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline import catalogue
from leadline.host.base import PROC, Host
from leadline.host.paths import OWN
from leadline.model.errors import FailureClass, NotInPlay, TrialFailure, UsageError
from leadline.model.knob import Knob, Level
from leadline.model.places import (
    BRD,
    DEFAULTS,
    DISK,
    INSTALLATION,
    MOUNTED,
    OPTIONS_OF,
    OVERLAY,
    RAMDISK,
    SERVER_MOUNT,
    TEMPORARY,
    TMPFS,
)
from leadline.stack.base import ServiceContext, Settings

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
    """The place that holds ``path``, by the mount table: one of ``leadline.model.places.CHOICES``. A ``ramdisk``, which
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


NAMES = frozenset({INSTALLATION, TEMPORARY, SERVER_MOUNT})
_USES = {INSTALLATION: "installation", TEMPORARY: "temporary"}
_JVM = "java.lang:type=Runtime"
QUESTION = {"bean.places": f"{_JVM}|InputArguments"}
_TMPDIR = "-Djava.io.tmpdir="
_SPARE = 1 << 29  # bytes of a file system beside what is copied there


def knobs(server: str) -> list[Knob]:
    """Under the server's own name."""
    knobs_shipped = catalogue.load("server-places").values()
    return [replace(knob, names=dict.fromkeys([server], *knob.names.values())) for knob in knobs_shipped]


class ServerPlaces:
    """Of one start, for the service in ``context.directory``."""

    def __init__(self, context: ServiceContext, settings: Settings) -> None:
        self._host, self._directory = context.host, context.directory
        self._settings = settings
        self._levels = {name: str(settings[name]) for name in _USES if settings.get(name, DISK) != DISK}
        self._options = str(settings.get(SERVER_MOUNT, DEFAULTS))
        self.installation: Path | None = None  # the copied one
        self._temporary: Path | None = None

    def furnish(self, context: ServiceContext, home: Path) -> ServiceContext:
        """Make the places, with ``home`` and the application's archive copied there; the context with that archive.

        Raises UsageError, TrialFailure.
        """
        file_systems = []
        if (level := self._levels.get(INSTALLATION)) is not None:
            archive = context.application.archive
            size = size_of(home) + archive.stat().st_size + _SPARE
            self.installation, file_system = furnished(
                self._host, self._directory, level, _USES[INSTALLATION], self._options, size, home
            )
            copy = copied(archive, self.installation / ".leadline-archive" / archive.name)
            context = replace(context, deployment=replace(context.application, archive=copy))
            file_systems.append(f"{INSTALLATION} = {level}: {file_system}")
        if (level := self._levels.get(TEMPORARY)) is not None:
            temporary, file_system = make_at(self._host, self._directory, level, _USES[TEMPORARY], self._options)
            self._temporary = temporary / "files"
            self._temporary.mkdir(mode=0o700)
            file_systems.append(f"{TEMPORARY} = {level}: {file_system}")
        elif TEMPORARY in self._settings:
            self._temporary = self._directory / "tmp"
            self._temporary.mkdir(mode=0o700, exist_ok=True)
        if file_systems:
            (context.artefacts / "server-places.txt").write_text("".join(f"{line}\n" for line in file_systems))
            if context.cold:
                self._host.drop_page_cache()
        return context

    def link(self, names: Sequence[str]) -> None:
        """Directories below the server's own, for temporary files, become links to the place."""
        if TEMPORARY not in self._levels or self._temporary is None:
            return
        for name in names:
            path = self._directory / name
            if path.is_dir():
                shutil.rmtree(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            place = self._temporary / name.replace("/", "-")
            place.mkdir(mode=0o700)
            path.symlink_to(place)

    def options(self) -> list[str]:
        """Of the JVM's command line; nothing where no level says where its temporary files go."""
        return [f"{_TMPDIR}{self._temporary}"] if self._temporary is not None else []

    def owned(self) -> list[Path]:
        """What the server writes to beside its directory."""
        return made(self._directory, _USES[TEMPORARY])

    def remove(self) -> None:
        """Free the places; nothing where there are none."""
        for name in self._levels:
            remove(self._host, self._directory, _USES[name])

    def level(self, name: str, answer: Mapping[str, Any], pid: int, home: Path) -> Level:
        """A level from what the JVM tells of itself and from what it has open. Raises LookupError, NotInPlay."""
        if name == SERVER_MOUNT:
            used = {str(self._settings.get(option, DISK)) for option in OPTIONS_OF[SERVER_MOUNT]}
            if not used & set(MOUNTED):
                raise NotInPlay("no place of the server is a file system of its own")
            places_in_use = [path for use in (*_USES.values(), STORES) for path in made(self._directory, use)]
            return options_at(self._host, {str(path): path for path in places_in_use}, self._options)
        path = self._opened(pid, home) if name == INSTALLATION else _tmpdir(answer)
        return level_at(self._host, path)

    def _opened(self, pid: int, home: Path) -> Path:
        """A file of the installation that the JVM has open. Raises LookupError."""
        files, resolved = self._host.files, home.resolve()
        for number in files.names(f"{PROC}/{pid}/fd"):
            try:
                opened = files.link(f"{PROC}/{pid}/fd/{number}")
            except OSError:  # closed since, or not ours to see
                continue
            if (path := Path(opened)).is_relative_to(resolved):
                return path
        raise LookupError(f"the server has no file of its installation in {home} open")


def _tmpdir(answer: Mapping[str, Any]) -> Path:
    """As the JVM tells its arguments; the last one holds."""
    arguments = answer["beans"][_JVM]["InputArguments"]
    directories = [str(argument).removeprefix(_TMPDIR) for argument in arguments if str(argument).startswith(_TMPDIR)]
    return Path(directories[-1] if directories else "/tmp")
