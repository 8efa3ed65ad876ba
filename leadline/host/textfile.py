"""Text files that a user names: regular ones of a bounded size in UTF-8, whatever else the name stands for."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from leadline.model.errors import UsageError, shortened

LARGEST = 4 * 1024**2  # bytes
_KINDS = {
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


def expanded(name: str) -> Path:
    """The path that a user names, ``~`` and ``~user`` filled in where there is such a user."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 - Path.expanduser raises for others


def is_file(path: Path | str) -> bool:
    """Whether it is a regular file; False also for a name that no file can have."""
    try:
        return Path(path).is_file()
    except OSError:  # longer than any file's name
        return False


def read_text(path: Path, most: int = LARGEST) -> str:
    """The text, a byte-order mark left out. Never waits, as for the writer of a pipe. Raises UsageError of one line."""
    name = shortened(str(path), 200)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file has such a name"
        raise UsageError(f"{name} cannot be read: {reason}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        kind = next((kind for test, kind in _KINDS.items() if test(status.st_mode)), "something else")
        raise UsageError(f"{name} cannot be read: it is {kind}, not a file")
    with os.fdopen(handle, "rb") as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise UsageError(f"{name} is too large: {status.st_size:,} bytes; at most {most:,} are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name}:{line}: not UTF-8: save the file as UTF-8") from error


def write_private(path: Path, text: str | bytes) -> None:
    """A private file, in place of an older one."""
    path.unlink(missing_ok=True)
    with new_private(path) as stream:
        stream.write(text.encode() if isinstance(text, str) else text)


def new_private(path: Path) -> BinaryIO:
    """A new file, open for writing, that was never anybody else's to read: made with mode 0600. Raises OSError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
