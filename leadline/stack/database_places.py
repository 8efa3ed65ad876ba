"""The places of a private database's files: copied there before its start, brought back after an orderly stop.

The data at rest stay on the lab's disk. A crash leaves them as they were at the start; where only the log lay elsewhere
they are marked as not whole, so that no start takes them before they have been restored.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from leadline.host.base import Host
from leadline.model.errors import NotInPlay
from leadline.model.knob import Level
from leadline.model.places import DATA, DATABASE_MOUNT, DATABASE_TEMPORARY, DEFAULTS, DISK, LOG, MOUNTED
from leadline.stack import places, snapshots
from leadline.stack.base import Settings

_USES = {DATA: "data", LOG: "log", DATABASE_TEMPORARY: "temporary"}
NAMES = frozenset({*_USES, DATABASE_MOUNT})


class DatabasePlaces:
    """``at_rest``: the data directory on the lab's disk. ``log``: what its log is there, a pattern of names."""

    def __init__(self, host: Host, directory: Path, settings: Settings, at_rest: Path, log: str) -> None:
        self._host, self._directory, self._at_rest, self._log = host, directory, at_rest, log
        elsewhere = settings.get(DATA, DISK) != DISK  # then what is to stay on the disk needs a place there
        self._levels = {
            name: str(settings[name])
            for name in _USES
            if settings.get(name, DISK) != DISK or (elsewhere and name in settings)
        }
        self._options = str(settings.get(DATABASE_MOUNT, DEFAULTS))
        self._paths: dict[str, Path] = {}
        self.told: list[str] = []  # what the places are made of

    @property
    def data(self) -> Path:
        """Where the server works."""
        return self._paths.get(DATA, self._at_rest)

    def path(self, name: str) -> Path | None:
        """The directory of the log or of temporary files, None where it is the server's own."""
        return self._paths.get(name)

    def furnish(self) -> bool:
        """Make the places and copy the files there; whether anything was copied. Again: nothing, until they are
        removed. Raises UsageError, TrialFailure.
        """
        if not self._levels or self._paths:
            return False
        size = 2 * places.size_of(self._at_rest) + places.RAMDISK_SIZE
        if (level := self._levels.get(DATA)) is not None:
            directory, file_system = places.furnished(
                self._host, self._directory, level, _USES[DATA], self._options, size, self._at_rest
            )
            directory.chmod(0o700)
            self._add(DATA, directory, file_system)
        for name in (LOG, DATABASE_TEMPORARY):
            if (level := self._levels.get(name)) is not None:
                directory, file_system = places.make_at(
                    self._host, self._directory, level, _USES[name], self._options, size
                )
                (directory / "files").mkdir(mode=0o700)
                self._add(name, directory / "files", file_system)
        if (log := self._paths.get(LOG)) is not None:
            if DATA not in self._paths:
                snapshots.mark(self._at_rest)
            _moved(self.data, log, self._log)
        return True

    def _add(self, name: str, path: Path, told: str) -> None:
        self._paths[name] = path
        self.told.append(f"{name} = {self._levels[name]}: {told}")

    def owned(self) -> list[Path]:
        """What the server writes to beside its directory."""
        return [path for use in _USES.values() for path in places.made(self._directory, use)]

    def bring_back(self) -> None:
        """Copy what the stopped server has left back to the lab's disk. Raises TrialFailure."""
        if (log := self._paths.get(LOG)) is not None:
            for path in self.data.glob(self._log):
                if path.is_symlink():
                    path.unlink()
            _moved(log, self.data, self._log)
        if DATA in self._paths:
            snapshots.save(self.data, self._at_rest)
        elif log is not None:
            snapshots.unmark(self._at_rest)

    def remove(self) -> None:
        """Free the places; nothing where there are none."""
        for name in self._levels:  # one that could not be filled is there too
            places.remove(self._host, self._directory, _USES[name])
        self._paths.clear()

    def level(self, path: Path) -> Level:
        """The place of ``path``, which the running server has told. Raises LookupError."""
        return places.level_at(self._host, path)

    def options(self) -> Level:
        """Options of mount(8), as asked for where they hold at every place. Raises LookupError, NotInPlay."""
        if not set(self._levels.values()) & set(MOUNTED):
            raise NotInPlay("no place of the database is a file system of its own")
        return places.options_at(self._host, self._paths, self._options)


def _moved(source: Path, target: Path, pattern: str) -> None:
    for path in list(source.glob(pattern)):
        places.copied(path, target / path.name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
