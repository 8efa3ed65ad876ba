"""What a running database tells of itself: its counters, and its statements by their text."""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from leadline.stack import started
from leadline.stack.base import Endpoint

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
