"""What databases share: exact copies of their directories, made and put back atomically, and what a running one tells
of itself: its counters, and its statements by their text.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from leadline.host.textfile import new_private
from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import started
from leadline.stack.base import Endpoint

_MARKER = ".leadline-restoring"


def save(source: Path, target: Path) -> None:
    """Copy ``source`` to ``target``, which appears complete or not at all; an older one is replaced.

    Raises TrialFailure(infrastructure) when the disk is full or fails.
    """
    with _disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
        try:
            _copy_tree(source, work / "copy")
            os.sync()
            if target.exists():
                target.rename(work / "old")
            (work / "copy").rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def put_back(snapshot: Path, target: Path) -> None:
    """Make ``target`` an exact copy of ``snapshot``; nothing of what it held stays.

    Until it is done ``interrupted(target)`` is true, also after a crash. The copy is on disk at the end, so its
    writeback does not fall into what follows. Raises TrialFailure(infrastructure).
    """
    marker = _marker(target)
    with _disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        if target.exists():
            shutil.rmtree(target)
        _copy_tree(snapshot, target)
        os.sync()
        marker.unlink()


def mark(target: Path) -> None:
    """From now on, also after a crash, ``interrupted(target)`` is true: part of it lies elsewhere."""
    with _disk(target):
        _marker(target).touch()
        os.sync()


def unmark(target: Path) -> None:
    """``target`` is whole again."""
    with _disk(target):
        os.sync()
        _marker(target).unlink(missing_ok=True)


def interrupted(target: Path) -> bool:
    """Whether ``target`` was left half restored, or without its part that lay elsewhere."""
    return _marker(target).exists()


def _marker(target: Path) -> Path:
    return target.parent / f".{target.name}{_MARKER}"


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=_copy_file)


def _copy_file(source: str, target: str) -> None:
    # copy_file_range shares blocks where the file system can and copies inside the kernel where it cannot
    with Path(source).open("rb") as read, new_private(Path(target)) as write:
        remaining = os.fstat(read.fileno()).st_size
        try:
            while remaining > 0:
                done = os.copy_file_range(read.fileno(), write.fileno(), remaining)
                if not done:
                    break
                remaining -= done
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        if remaining > 0:
            read.seek(0)
            write.seek(0)
            write.truncate()
            shutil.copyfileobj(read, write, 1 << 20)
    shutil.copystat(source, target)


@contextmanager
def _disk(target: Path) -> Iterator[None]:
    try:
        yield
    except shutil.Error as error:
        reasons = [str(item[2]) for item in error.args[0]]
        raise TrialFailure(FailureClass.INFRASTRUCTURE, f"cannot copy data to {target}: {reasons[0]}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"the disk is full: no room for a copy of the data in {target.parent}"
        else:
            message = f"cannot copy data to {target}: {error}"
        raise TrialFailure(FailureClass.INFRASTRUCTURE, message) from error


C = TypeVar("C")
T = TypeVar("T")
Statement = tuple[str, int, float]  # its text as the database has it, calls and ms since the start
STATEMENTS = 50  # of a database, by time: those that are told
_LITERALS = re.compile(
    r"""/\*.*?(?:\*/|$) | --[^\n]* | '(?:[^'\\]|''|\\.)*(?:'|$) | \$(\w*)\$.*?(?:\$\1\$|$) | \$\d+ | \b\d[\w.]*""",
    re.DOTALL | re.VERBOSE,
)
_LIST = re.compile(r"\?(?: ?, ?\?)+")
_LONGEST = 120


def plain(statement: str) -> str:
    """A statement on one line, cut, without comments and semicolons, with a question mark for each literal, list of
    literals, and parameter.
    """
    text = _LITERALS.sub(lambda match: " " if match[0][:2] in ("/*", "--") else "?", statement)
    text = _LIST.sub("?", " ".join(text.replace(";", " ").split()).replace(" )", ")").replace("( ", "("))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


class Statistics(Generic[C]):
    """What a running database is asked over one connection that stays open, so that asking often costs little.

    Safe to use from several threads. Every method raises QueryError.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: C | None = None
        self._lock = threading.Lock()

    @abstractmethod
    def _open(self) -> C: ...

    @abstractmethod
    def _close(self, connection: C) -> None: ...

    @abstractmethod
    def _translated(self) -> AbstractContextManager[None]:
        """Raises the client's errors as QueryError."""

    @abstractmethod
    def read(self) -> dict[str, float]: ...

    @abstractmethod
    def track(self, on: bool) -> None:
        """Count statements by their text, of a database that was configured for a profile, or no more."""

    @abstractmethod
    def statements(self) -> list[Statement]: ...

    def ask(self, question: Callable[[C], T]) -> T:
        with self._lock:
            try:
                with self._translated():
                    if self._connection is None:
                        self._connection = self._open()
                    return question(self._connection)
            except started.QueryError:
                self._drop()
                raise

    def close(self) -> None:
        """Close the connection; ``ask`` opens another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._close(connection)
