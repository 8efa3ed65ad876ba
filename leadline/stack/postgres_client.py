"""Questions to a running PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pg8000.exceptions
import pg8000.native

from leadline.stack import local
from leadline.stack.base import Endpoint

UNKNOWN_DATABASE = "3D000"
GAUGES = ("numbackends",)  # connections now open
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
_COLUMNS = (*_COUNTERS, "wal_records", "wal_fpi", "wal_bytes", "checkpoints", "checkpoint_buffers")
_STATISTICS = (
    f"SELECT {', '.join('d.' + name for name in _COUNTERS)}, w.wal_records, w.wal_fpi, w.wal_bytes,"
    " c.num_timed + c.num_requested, c.buffers_written"
    " FROM pg_stat_database d, pg_stat_wal w, pg_stat_checkpointer c WHERE d.datname = current_database()"
)


class QueryError(local.QueryError):
    """The server cannot be reached or refuses; ``code`` is its SQLSTATE, empty when it did not answer."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def _open(endpoint: Endpoint, timeout: float) -> pg8000.native.Connection:
    return pg8000.native.Connection(
        endpoint.user,
        host=endpoint.host,
        port=endpoint.port,
        database=endpoint.database,
        password=endpoint.password,
        timeout=timeout,
        application_name="leadline",
    )


def _close(connection: pg8000.native.Connection) -> None:
    with suppress(pg8000.exceptions.InterfaceError, OSError):  # the server may be gone
        connection.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (pg8000.exceptions.DatabaseError, pg8000.exceptions.InterfaceError) as error:
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        raise QueryError(str(fields.get("M", error)), str(fields.get("C", ""))) from error
    except OSError as error:
        raise QueryError(str(error)) from error


@contextmanager
def connect(endpoint: Endpoint, timeout: float = 5.0) -> Iterator[pg8000.native.Connection]:
    """A connection, closed at the end. ``timeout`` in seconds for every exchange. Raises QueryError."""
    with _translated():
        connection = _open(endpoint, timeout)
        try:
            yield connection
        finally:
            _close(connection)


def setting(endpoint: Endpoint, parameter: str) -> tuple[str, str | None]:
    """``setting`` and ``unit`` of ``pg_settings``. Raises QueryError, LookupError."""
    with connect(endpoint) as connection:
        rows: Any = connection.run("SELECT setting, unit FROM pg_settings WHERE name = :name", name=parameter)
    if not rows:
        raise LookupError(f"this PostgreSQL has no parameter {parameter}")
    return rows[0][0], rows[0][1]


class Statistics:
    """Counters over one connection that stays open, so that asking every second costs the server little.

    Safe to use from several threads.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: pg8000.native.Connection | None = None
        self._lock = threading.Lock()

    def read(self) -> dict[str, float]:
        """Counters since the start of the statistics: ``pg_stat_database`` of the one database (blocks of 8192 bytes,
        times in ms), ``wal_*`` of ``pg_stat_wal`` (bytes and records), ``checkpoints`` and ``checkpoint_buffers`` of
        ``pg_stat_checkpointer``, and ``GAUGES``. Raises QueryError.
        """
        with self._lock:
            try:
                with _translated():
                    if self._connection is None:
                        self._connection = _open(self._endpoint, 5.0)
                    rows: Any = self._connection.run(_STATISTICS)
            except QueryError:
                self._drop()
                raise
        return {name: float(value) for name, value in zip(_COLUMNS, rows[0], strict=True)}

    def close(self) -> None:
        """Close the connection; ``read`` opens another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _close(connection)
