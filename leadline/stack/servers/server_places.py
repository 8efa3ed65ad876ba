"""The places of a server's installation and of its temporary files; what a running server tells of them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline import catalogue
from leadline.host.base import PROC
from leadline.model.errors import NotInPlay
from leadline.model.hosts import DEFAULTS, DISK, INSTALLATION, MOUNTED, OPTIONS_OF, SERVER_MOUNT, TEMPORARY
from leadline.model.knob import Knob, Level
from leadline.stack import places
from leadline.stack.base import ServiceContext, Settings

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
            size = places.size_of(home) + archive.stat().st_size + _SPARE
            self.installation, file_system = places.furnished(
                self._host, self._directory, level, _USES[INSTALLATION], self._options, size, home
            )
            copy = places.copied(archive, self.installation / ".leadline-archive" / archive.name)
            context = replace(context, deployment=replace(context.application, archive=copy))
            file_systems.append(f"{INSTALLATION} = {level}: {file_system}")
        if (level := self._levels.get(TEMPORARY)) is not None:
            temporary, file_system = places.make_at(self._host, self._directory, level, _USES[TEMPORARY], self._options)
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
        return places.made(self._directory, _USES[TEMPORARY])

    def remove(self) -> None:
        """Free the places; nothing where there are none."""
        for name in self._levels:
            places.remove(self._host, self._directory, _USES[name])

    def level(self, name: str, answer: Mapping[str, Any], pid: int, home: Path) -> Level:
        """A level from what the JVM tells of itself and from what it has open. Raises LookupError, NotInPlay."""
        if name == SERVER_MOUNT:
            used = {str(self._settings.get(option, DISK)) for option in OPTIONS_OF[SERVER_MOUNT]}
            if not used & set(MOUNTED):
                raise NotInPlay("no place of the server is a file system of its own")
            places_in_use = [
                path for use in (*_USES.values(), places.STORES) for path in places.made(self._directory, use)
            ]
            return places.options_at(self._host, {str(path): path for path in places_in_use}, self._options)
        path = self._opened(pid, home) if name == INSTALLATION else _tmpdir(answer)
        return places.level_at(self._host, path)

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
