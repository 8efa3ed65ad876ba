"""Files of a user: text that the user names, and what nobody else may read.

Text files are regular ones of a bounded size in UTF-8, whatever else the name stands for. Private are directories,
files, and secrets, of which output shows asterisks.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, quote_plus

from leadline.host import privilege
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


SHORTEST = 4  # characters: a shorter word would be found everywhere
_CHUNK = 1 << 22  # bytes of a file at a time
_known: set[str] = set()


def hide(secret: str) -> None:
    """From now on, also as JSON, addresses and markup write it."""
    if len(secret) >= SHORTEST:
        in_json = (json.dumps(secret, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False))
        _known.update((secret, *in_json, quote(secret, safe=""), quote_plus(secret), escape(secret)))


def redacted(text: str) -> str:
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "*" * len(secret))
    return text


def redact_file(path: Path) -> None:
    """In its place, bytes for bytes: what another program wrote stays readable to it. Raises OSError."""
    if not _known:
        return
    pattern = re.compile(b"|".join(re.escape(encoding) for encoding in sorted(_encodings(), key=len, reverse=True)))
    longest = max(map(len, _encodings()))
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "r+b") as file:
        at = 0
        while part := os.pread(file.fileno(), _CHUNK + longest, at):
            for match in pattern.finditer(part):
                os.pwrite(file.fileno(), b"*" * len(match[0]), at + match.start())
            at += _CHUNK


def _encodings() -> set[bytes]:
    """Also as a JVM's recording has a text of its own."""
    return {secret.encode(encoding) for secret in _known for encoding in ("utf-8", "utf-16-le", "utf-16-be")}


def usual_mask() -> None:
    """What programs of users of their own must read can be read, and nobody else may write anything, whatever mask
    leadline was started with. What is private is made so.
    """
    os.umask(0o022)


def make_private(directory: Path, but: Collection[str] = ()) -> None:
    """Make a directory that is nobody else's, or make one so with all below it, ``but`` for some of its entries. One
    that its owner shares with a group (chmod g+s) stays the group's. Raises OSError.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o711 if _is_passed() else 0o700, exist_ok=True)
    status = directory.stat()
    if status.st_uid != os.geteuid() or not (closed := _closed(status.st_mode)) & status.st_mode:
        return
    for folder, folders, files in os.walk(directory):
        if Path(folder) == directory:
            folders[:] = [name for name in folders if name not in but]
        for name in (*folders, *files):
            tighten(Path(folder, name), closed)
    directory.chmod(stat.S_IMODE(status.st_mode) & ~closed)


def tighten(path: Path, closed: int = 0o077) -> None:
    """Nobody else may read a file, or list a directory; links are left alone."""
    with suppress(OSError):
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        away = closed if stat.S_ISDIR(mode_kind := status.st_mode) else closed | (0o011 if closed & 0o006 else 0)
        if not stat.S_ISLNK(mode_kind) and mode & away:
            path.chmod(mode & ~away)


def _closed(mode: int) -> int:
    """The bits that are taken away. Where root may not mount, its programs' users pass through directories."""
    group = 0o007 if mode & stat.S_ISGID else 0o077
    return group & ~0o011 if mode & 0o011 and _is_passed() else group


def _is_passed() -> bool:
    return os.geteuid() == 0 and not privilege.own_mounts()


def private_file(path: str, flags: int) -> int:
    """For ``open``: a new file that nobody else may read."""
    return os.open(path, flags, 0o600)
