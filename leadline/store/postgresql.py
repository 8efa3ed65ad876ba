"""The PostgreSQL database of a lab: its connections, its locks, and what its errors mean."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from io import BufferedRWPair
from typing import Any

import pg8000
import sqlalchemy as sa
from pg8000 import dbapi
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateSchema

from leadline.model.received import WRONG
from leadline.store.labfile import Address
from leadline.store.schema import without_nul

_TIMEOUT = 30.0  # seconds of an exchange with the server
_LONGEST = 300.0  # seconds that an answer may take from its first byte to its last
_MOST, _OVERHEAD = 256 << 20, 100  # bytes of an answer, and what each part of it takes here besides
_PART = 1 << 20  # bytes that are read at once
_ASKS_FOR_TLS = struct.pack("!ii", 8, 80877103)  # SSLRequest
_LOCKED = 10_000  # milliseconds that a statement waits for a lock, as SQLite does
_ABANDONED = 60_000  # milliseconds after which the server ends a transaction whose client is silent
_AGE = 60  # seconds after which a connection is not used again
_ALONE = 0x1EAD11E  # of the advisory lock
_ENDED = ("08", "57P")  # classes of SQLSTATE: the connection is over
_DAMAGED = ("21", "22", "23", "42", "XX")  # the data or the tables are not as they should be
_NO_RIGHT = "42501"
_FULL = "53300"  # of connections


class BrokenConnection(Exception):
    """The connection ended in the middle of an exchange."""


class _RefusedError(pg8000.InterfaceError):  # type: ignore[misc]
    """A server that is there and is not talked to."""


class _Stream:
    """A connection's bytes. What the server sends until more is sent to it is one answer, within bounds: pg8000 reads
    as many bytes as a server announces, and for as long as it sends.
    """

    def __init__(self, file: BufferedRWPair) -> None:
        self._file = file
        self.write = file.write
        self.flush()

    def flush(self) -> None:
        self._remaining, self._until = _MOST, time.monotonic() + _LONGEST
        self._file.flush()

    def read(self, size: int) -> bytes:
        """What there is of so many bytes, at least one but at the end. Raises InterfaceError, OSError."""
        self._remaining -= _OVERHEAD
        if not 0 <= size <= self._remaining:
            raise pg8000.InterfaceError(f"the server's answer has more than {_MOST:,} bytes, or a negative number")
        if time.monotonic() > self._until:
            raise pg8000.InterfaceError(f"the server's answer did not end within {_LONGEST:g} s")
        part = self._file.read1(min(size, _PART))
        self._remaining -= len(part)
        return part


class _PlainSocket(socket.socket):
    def makefile(self, mode: Any) -> _Stream:  # type: ignore[override]
        return _Stream(super().makefile(mode))


class _TlsSocket(ssl.SSLSocket):
    def makefile(self, mode: Any) -> _Stream:  # type: ignore[override]
        return _Stream(super().makefile(mode))


def _socket(address: Address) -> _PlainSocket | ssl.SSLSocket:
    """Connected to the server, with TLS as the address asks. Raises InterfaceError, OSError."""
    server = f"{address.host}:{address.port}"
    try:
        plain = socket.create_connection((address.host, address.port), _TIMEOUT)
    except OSError as error:
        raise pg8000.InterfaceError(f"{server} cannot be reached: {error.strerror or error}") from error
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if address.tls != "disable":
        plain.sendall(_ASKS_FOR_TLS)
        if plain.recv(1) == b"S":
            context = ssl.create_default_context()
            context.sslsocket_class = _TlsSocket
            if address.tls != "verify-full":
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                return context.wrap_socket(plain, server_hostname=address.host)
            except ssl.SSLError as error:
                reason = getattr(error, "verify_message", "") or error
                raise _RefusedError(f"the certificate of {server} is refused: {reason}") from error
        if address.tls != "prefer":
            plain.close()
            raise _RefusedError(f"{server} has no TLS, which sslmode={address.tls} asks for")
    bounded = _PlainSocket(fileno=plain.detach())
    bounded.settimeout(_TIMEOUT)
    return bounded


_engines: dict[tuple[Address, str | None], sa.Engine] = {}


def engine_of(address: Address) -> sa.Engine:
    """One for each lab in a process: opening a connection takes long. Raises UsageError for a file of passwords that
    others may read.
    """
    key = (address, address.secret())
    if key not in _engines:
        _engines[key] = _engine(*key)
    return _engines[key]


def _engine(address: Address, secret: str | None) -> sa.Engine:
    parameters = {"lock_timeout": str(_LOCKED), "idle_in_transaction_session_timeout": str(_ABANDONED)}
    if address.schema:
        parameters["search_path"] = address.schema
    given = {"password": secret or "", "application_name": "leadline", "startup_params": parameters}

    def connect() -> Any:
        bounded = _socket(address)
        return dbapi.connect(address.user, address.host, address.database, sock=bounded, ssl_context=False, **given)

    engine = sa.create_engine(
        "postgresql+pg8000://",
        creator=connect,
        isolation_level="READ COMMITTED",
        pool_size=1,
        max_overflow=9,
        pool_recycle=_AGE,
        pool_pre_ping=True,
        hide_parameters=True,
    )
    sa.event.listen(engine, "handle_error", _judge)
    return engine


def _judge(context: sa.ExceptionContext) -> BrokenConnection | None:
    """Never again use a connection that is over, or of which an exchange was cut short, as by a signal: what the server
    still sends would be taken for the reply to the next statement.
    """
    error, reply = context.original_exception, None
    if isinstance(error, (OSError, *WRONG)):  # what pg8000 meets at the end of a connection, and in strange answers
        reply = BrokenConnection(str(error) or type(error).__name__)
    if context.sqlalchemy_exception is None or code_of(error).startswith(_ENDED):
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False
    return reply


def _told(error: BaseException) -> dict[str, str]:
    first = error.args[0] if error.args else None
    return first if isinstance(first, dict) else {}


def code_of(error: BaseException | None) -> str:
    """SQLSTATE, empty where the server sent none."""
    return "" if error is None else str(_told(error).get("C", ""))


def is_away(error: DBAPIError) -> bool:
    """Whether a server that could not be connected to may be back soon."""
    code = code_of(error.orig)
    return code.startswith(_ENDED) or code == _FULL or (not code and not isinstance(error.orig, _RefusedError))


def is_damage(error: DBAPIError) -> bool:
    """Whether the rows or tables are wrong; else the server is away or refuses for now."""
    code = code_of(error.orig)
    return code.startswith(_DAMAGED) and code != _NO_RIGHT


def explained(error: BaseException, address: Address) -> str:
    """What went wrong and what to do, in one line without a password."""
    origin: Any = error.orig if isinstance(error, DBAPIError) else error
    message, code = str(_told(origin).get("M", origin)), code_of(origin)
    server = f"{address.host}:{address.port}"
    if code == "3D000":
        make = f"createdb -h {address.host} -p {address.port} -U {address.user} {address.database}"
        return f"{server} has no database {address.database}; who may, makes it with `{make}`"
    if code in ("28P01", "28000"):
        password_text = "the password was given" if address.secret() else "no password was given"
        return f"{message} ({password_text}: the URL's, else PGPASSWORD, else that of ~/.pgpass)"
    if code == _NO_RIGHT:
        what = f"DATABASE {address.database}" if address.schema else "SCHEMA public"
        return f"{message}; its owner runs: GRANT CREATE ON {what} TO {address.user}"
    return f"the connection to {server} was lost" if message == "network error" else " ".join(message.split())


def alone(connection: sa.Connection) -> None:
    """Until this transaction ends nobody else is here: for tables, and for what has no row yet."""
    connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ALONE})"))


def make_schema(connection: sa.Connection, address: Address) -> None:
    """The schema of a lab inside a lab."""
    schema_query = sa.text("SELECT 1 FROM pg_namespace WHERE nspname = :name")
    if address.schema and not connection.execute(schema_query, {"name": address.schema}).first():
        connection.execute(CreateSchema(address.schema))


def add_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns. They go as one parameter: pg8000 would send row after row, and a
    statement with a parameter for each value takes several times as long.
    """
    names = list(rows[0])
    documents = [{name: without_nul(value) for name, value in row.items()} for row in rows]
    of_table: sa.ColumnElement[Any] = sa.literal_column(f"NULL::{table.name}")
    table_valued = sa.func.json_populate_recordset(of_table, sa.cast(documents, sa.JSON)).table_valued(*names)
    connection.execute(sa.insert(table).from_select(names, sa.select(*(table_valued.c[name] for name in names))))


def size(connection: sa.Connection) -> int:
    """Bytes of the lab's tables on the server's disk."""
    relations = sa.text(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = current_schema()"
    )
    return int(connection.execute(relations).scalar_one())
