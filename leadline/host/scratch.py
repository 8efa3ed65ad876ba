"""Temporary directories of this process, which a kill does not leave for good. Standard library only.

A directory is locked (flock(2)) for as long as its process lives; the kernel lets go of it at any death. ``sweep``
removes those of the same user that nobody holds: a new directory, ``restore`` and the watchdog call it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

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
