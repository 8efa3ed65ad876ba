"""What a stack holds and writes: open files and sockets of its processes, its directories, its logs within bounds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from leadline.host.base import PROC, Files, Process
from leadline.model.soak import LOG_BYTES

_MOST_FILES = 200_000  # of a directory that are looked at


class Holdings:
    """A source of counters for ``leadline.observe.counters``: "metric/subject" to its value now.

    ``homes``: directories whose use of the disk is told, by their names. ``logs``: those that leadline keeps of the
    stack.
    """

    def __init__(
        self, files: Files, processes: Mapping[str, Process], homes: Mapping[str, Path], logs: BoundedLogs
    ) -> None:
        self._files = files
        self._processes = processes
        self._homes = homes
        self._logs = logs

    def __call__(self) -> dict[str, float]:
        call: dict[str, float] = {}
        for role, process in list(self._processes.items()):
            kinds = [self._kind(pid, name) for pid in process.pids() for name in self._files.names(f"{PROC}/{pid}/fd")]
            call[f"handles/{role}"] = float(kinds.count("file"))
            call[f"sockets/{role}"] = float(kinds.count("socket"))
        for name, home in self._homes.items():
            call[f"disk/{name}"] = float(size_of(home))
        for name, written in self._logs.written().items():
            call[f"written/{name}"] = float(written)
        for home in self._homes.values():
            with suppress(OSError):
                call["free"] = float(shutil.disk_usage(home).free)
        return call

    def _kind(self, pid: int, name: str) -> str:
        try:
            return "socket" if self._files.link(f"{PROC}/{pid}/fd/{name}").startswith("socket:") else "file"
        except OSError:  # closed meanwhile
            return ""


def size_of(directory: Path) -> int:
    """Bytes on the disk of all files below a directory; what goes meanwhile is left out."""
    total = unread = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            unread += 1
            if unread > _MOST_FILES:
                return total
            with suppress(OSError):
                total += 512 * os.lstat(os.path.join(folder, name)).st_blocks  # noqa: PTH118 - thousands
    return total


class BoundedLogs:
    """Logs that processes append to. ``bound`` drops the older half of one that is too long: its end goes to
    ``NAME.1``, in place of the one before, and the file is emptied under its writer.
    """

    def __init__(self, directories: Mapping[str, Path], most: int = LOG_BYTES) -> None:
        self._directories = directories
        self._most = most
        self._dropped: dict[str, int] = {}

    def written(self) -> dict[str, int]:
        """Bytes written so far to the logs, by name of the file."""
        return {name: self._dropped.get(name, 0) + _length(path) for name, path in self._files().items()}

    def bound(self) -> list[str]:
        """Names of those that were too long."""
        names = []
        for name, path in self._files().items():
            length = _length(path)
            if length <= self._most:
                continue
            with path.open("rb") as stream:
                stream.seek(max(0, length - self._most // 2))
                end = stream.read(self._most // 2)
            path.with_name(f"{path.name}.1").write_bytes(end)
            os.truncate(path, 0)
            self._dropped[name] = self._dropped.get(name, 0) + length
            names.append(name)
        return names

    def _files(self) -> dict[str, Path]:
        files = {}
        for directory in self._directories.values():
            with suppress(OSError):
                for path in sorted(directory.iterdir()):
                    if path.suffix == ".log" and path.is_file() and not path.is_symlink():
                        files[path.name] = path
        return files


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
