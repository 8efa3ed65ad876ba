"""Questions to a running MariaDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pymysql
from pymysql.connections import Connection

from leadline.stack import local
from leadline.stack.base import Endpoint

UNKNOWN_DATABASE = 1049
ACCESS_DENIED = 1045
# Of SHOW GLOBAL STATUS.
GAUGES = (
    "Threads_connected",
    "Threads_running",
    "Prepared_stmt_count",
    "Innodb_buffer_pool_pages_dirty",
    "Innodb_buffer_pool_pages_free",
    "Innodb_history_list_length",
    "Innodb_row_lock_current_waits",
)
_COUNTERS = (
    "Connections",
    "Aborted_connects",
    "Questions",
    "Com_commit",
    "Com_rollback",
    "Com_select",
    "Com_insert",
    "Com_update",
    "Com_delete",
    "Com_stmt_prepare",
    "Bytes_received",
    "Bytes_sent",
    "Created_tmp_tables",
    "Created_tmp_disk_tables",
    "Handler_read_key",
    "Handler_read_rnd_next",
    "Qcache_hits",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_wait_free",
    "Innodb_buffer_pool_pages_flushed",
    "Innodb_data_fsyncs",
    "Innodb_data_read",
    "Innodb_data_written",
    "Innodb_deadlocks",
    "Innodb_log_waits",
    "Innodb_log_writes",
    "Innodb_os_log_written",
    "Innodb_row_lock_time",
    "Innodb_row_lock_waits",
    "Binlog_commits",
    "Binlog_group_commits",
)
_STATUS = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({', '.join(repr(name) for name in (*GAUGES, *_COUNTERS))})"


class QueryError(local.QueryError):
    """The server cannot be reached or refuses; ``code`` is its error number, 0 when it did not answer."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def _open(endpoint: Endpoint, timeout: float, flags: int = 0) -> Connection[Any]:
    return pymysql.connect(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=endpoint.password,
        database=endpoint.database,
        autocommit=True,
        charset="utf8mb4",
        connect_timeout=max(1, round(timeout)),
        read_timeout=timeout,
        write_timeout=timeout,
        program_name="leadline",
        client_flag=flags,
    )


def _close(connection: Connection[Any]) -> None:
    with suppress(pymysql.Error, OSError):  # the server may be gone
        connection.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        code, words = (*error.args, "", "")[:2]
        number = code if isinstance(code, int) else 0
        # the two thousands are the client's: nobody answered
        raise QueryError(str(words or error), 0 if 2000 <= number < 3000 else number) from error
    except OSError as error:
        raise QueryError(str(error)) from error


@contextmanager
def connect(endpoint: Endpoint, timeout: float = 5.0, flags: int = 0) -> Iterator[Connection[Any]]:
    """A connection, closed at the end. ``timeout`` in seconds for every exchange; ``flags``: of
    ``pymysql.constants.CLIENT``. Raises QueryError.
    """
    with _translated():
        connection = _open(endpoint, timeout, flags)
        try:
            yield connection
        finally:
            _close(connection)


def query(connection: Connection[Any], statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """All rows of a statement; none for one that gives none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return list(cursor.fetchall())


def variable(endpoint: Endpoint, name: str) -> str:
    """A global variable as the server writes it. Raises QueryError, LookupError."""
    with connect(endpoint) as connection:
        rows = query(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name = %s", name)
    if not rows:
        raise LookupError(f"this MariaDB has no variable {name}")
    return str(rows[0][1])


class Statistics:
    """Counters over one connection that stays open, so that asking every second costs the server little.

    Safe to use from several threads.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection[Any] | None = None
        self._lock = threading.Lock()

    def read(self) -> dict[str, float]:
        """``GAUGES``, and counters since the server's start, under its own names (bytes; ``Innodb_row_lock_time`` in
        ms). Raises QueryError.
        """
        with self._lock:
            try:
                with _translated():
                    if self._connection is None:
                        self._connection = _open(self._endpoint, 5.0)
                    rows = query(self._connection, _STATUS)
            except QueryError:
                self._drop()
                raise
        return {str(name): float(value) for name, value in rows}

    def close(self) -> None:
        """Close the connection; ``read`` opens another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            _close(connection)
