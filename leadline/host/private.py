"""What nobody else may read: directories of 0700 with files of 0600, whatever the mask of the user was."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from leadline.host import privilege


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
