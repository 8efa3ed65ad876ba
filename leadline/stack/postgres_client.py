"""Questions to a running PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pg8000.exceptions
import pg8000.native

from leadline.stack.base import Endpoint

UNKNOWN_DATABASE = "3D000"
_COUNTERS = (
    "numbackends",
    "sessions",
    "xact_commit",
    "xact_rollback",
    "blks_read",
    "blks_hit",
    "tup_returned",
    "tup_fetched",
    "tup_inserted",
    "tup_updated",
    "tup_deleted",
    "deadlocks",
    "temp_files",
    "temp_bytes",
    "blk_read_time",
    "blk_write_time",
)


class QueryError(Exception):
    """The server cannot be reached or refuses; ``code`` is its SQLSTATE, empty when it did not answer."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def connect(endpoint: Endpoint, timeout: float = 5.0) -> Iterator[pg8000.native.Connection]:
    """A connection, closed at the end. ``timeout`` in seconds for every exchange. Raises QueryError."""
    connection = None
    try:
        connection = pg8000.native.Connection(
            endpoint.user,
            host=endpoint.host,
            port=endpoint.port,
            database=endpoint.database,
            password=endpoint.password,
            timeout=timeout,
            application_name="leadline",
        )
        yield connection
    except (pg8000.exceptions.DatabaseError, pg8000.exceptions.InterfaceError) as error:
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        raise QueryError(str(fields.get("M", error)), str(fields.get("C", ""))) from error
    except OSError as error:
        raise QueryError(str(error)) from error
    finally:
        if connection is not None:
            with suppress(pg8000.exceptions.InterfaceError, OSError):  # the server may be gone
                connection.close()


def setting(endpoint: Endpoint, parameter: str) -> tuple[str, str | None]:
    """``setting`` and ``unit`` of ``pg_settings``. Raises QueryError, LookupError."""
    with connect(endpoint) as connection:
        rows: Any = connection.run("SELECT setting, unit FROM pg_settings WHERE name = :name", name=parameter)
    if not rows:
        raise LookupError(f"this PostgreSQL has no parameter {parameter}")
    return rows[0][0], rows[0][1]


def statistics(endpoint: Endpoint) -> dict[str, float]:
    """Counters since the start of the statistics: ``pg_stat_database`` of the one database (blocks of 8192 bytes,
    times in ms), ``wal_*`` of ``pg_stat_wal`` (bytes and records), ``checkpoints`` of ``pg_stat_checkpointer``.
    Raises QueryError.
    """
    with connect(endpoint) as connection:
        row: Any = connection.run(
            f"SELECT {', '.join(_COUNTERS)} FROM pg_stat_database WHERE datname = current_database()"
        )
        wal: Any = connection.run("SELECT wal_records, wal_fpi, wal_bytes FROM pg_stat_wal")
        checkpoints: Any = connection.run("SELECT num_timed + num_requested, buffers_written FROM pg_stat_checkpointer")
    found = dict(zip(_COUNTERS, row[0], strict=True))
    found |= dict(zip(("wal_records", "wal_fpi", "wal_bytes"), wal[0], strict=True))
    found |= dict(zip(("checkpoints", "checkpoint_buffers"), checkpoints[0], strict=True))
    return {name: float(value) for name, value in found.items()}
