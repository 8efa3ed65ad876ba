"""Where leadline keeps what outlives a command, and the lock that lets one process at a time change it. Standard
library only.

A kill does not leave temporary directories of a process for good. Such a directory is locked (flock(2)) for as long as
its process lives; the kernel lets go of it at any death. ``sweep`` removes those of the same user that nobody holds: a
new directory, ``restore`` and the watchdog call it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from leadline.model.errors import UsageError

OWN = "leadline-"  # what names of directories and mounts outside leadline's own places begin with


def _directory(own: str, shared: str, fallback: str) -> Path:
    base = os.environ.get(shared)
    home = os.environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - pathlib's version raises without a home
    chosen = os.environ.get(own) or (os.path.join(base, "leadline") if base else os.path.join(home, fallback))  # noqa: PTH118
    path = Path(chosen).absolute()
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be made: {error.strerror}; set {own} to a directory where you may write"
        ) from None
    return path


def cache_dir() -> Path:
    """Distributions and data snapshots: ``LEADLINE_CACHE``, else below ``XDG_CACHE_HOME``, else ``~/.cache/leadline``.

    Created on use. Raises UsageError.
    """
    return _directory("LEADLINE_CACHE", "XDG_CACHE_HOME", ".cache/leadline")


def state_dir() -> Path:
    """State of this host (undo journal): ``LEADLINE_STATE``, ``XDG_STATE_HOME`` or ``~/.local/state``.

    Created on use. Raises UsageError.
    """
    return _directory("LEADLINE_STATE", "XDG_STATE_HOME", ".local/state/leadline")


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path``; ``waiting`` is called once when another process holds it. Freed by the kernel when
    the holder dies. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


_PREFIX = ".leadline-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A directory below ``TMPDIR``, ``path``, that others may enter (not list) when ``shared``. Raises OSError."""

    def __init__(self, shared: bool = False) -> None:
        sweep()
        self._handle = -1
        while self._handle < 0:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=temporary()))
            self._handle = _lock(self.path)  # it is gone, where another process swept before the lock
        if shared:
            self.path.chmod(0o711)

    def close(self) -> None:
        """Remove it; again: nothing."""
        if self._handle >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def temporary() -> Path:
    """Where temporary files go. tempfile.gettempdir() writes one there to try it, which a kill would leave."""
    return Path(os.environ.get("TMPDIR") or "/tmp").absolute()


def sweep() -> list[str]:
    """Remove what processes of this user that are gone have left; a line for each."""
    lines = []
    for path in temporary().glob(f"{_PREFIX}*"):
        handle = _lock(path)
        if handle >= 0:
            shutil.rmtree(path, ignore_errors=True)
            os.close(handle)
            lines.append(f"directory {path}: removed")
    return lines


def _lock(path: Path) -> int:
    """The handle of a directory of this user's that no process holds, or -1."""
    try:
        handle = os.open(path, _DIRECTORY)
    except OSError:
        return -1
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_uid == os.geteuid() and path.exists():
            return handle
    except OSError:
        pass
    os.close(handle)
    return -1
