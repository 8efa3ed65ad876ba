"""The database of a lab directory: SQLite (WAL), opened and brought up to date, changed in transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, Insert, create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError

from leadline.host.lock import exclusive
from leadline.lab.migrations import bring_up_to_date
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError


class Database:
    """Raises TrialFailure(infrastructure) when the disk refuses a write. ``now`` gives the unix seconds that are
    written down; ``real_time``: whether that is the machine's time, in which leases run out.
    """

    def __init__(self, directory: Path, create: bool, now: Callable[[], float]) -> None:
        self.directory = directory.resolve()
        self.now = now
        self.real_time = now is time.time
        path = self.directory / "lab.sqlite"
        if not create and not path.exists():
            raise UsageError(f"{self.directory} is no lab (no lab.sqlite in it); name one with --lab or run a study")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._engine = _with_pragmas(create_engine(URL.create("sqlite", database=str(path))))
            # One at a time: SQLite refuses a change of its journal's mode, and a table that another has just made.
            with exclusive(self.directory / ".opening.lock", lambda: None):
                bring_up_to_date(self._engine, now)
        except (OSError, ValueError, DatabaseError, LeadlineError) as error:
            reason = error.orig if isinstance(error, DatabaseError) else error
            raise LeadlineError(f"the lab {self.directory} cannot be opened: {reason}") from error

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of it or nothing."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the lab {self.directory} cannot be written: {error.orig}"
            ) from error
        except DatabaseError as error:
            raise LeadlineError(f"the lab {self.directory} is damaged: {error.orig}") from error


def new_number(connection: Connection, statement: Insert) -> int:
    """The number that the row which is inserted gets."""
    key = connection.execute(statement).inserted_primary_key
    assert key is not None
    return int(key[0])


def _with_pragmas(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=10000")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine
