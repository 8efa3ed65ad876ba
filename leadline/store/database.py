"""The database of a lab: SQLite (WAL) in its directory or PostgreSQL, brought up to date, changed in transactions.

Of PostgreSQL: its connections, its locks, and what its errors mean.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import socket
import sqlite3
import ssl
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from io import BufferedRWPair
from pathlib import Path
from typing import Any

import pg8000
import sqlalchemy as sa
from pg8000 import dbapi
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn, CreateSchema

from leadline.host.paths import Scratch, exclusive, state_dir
from leadline.host.textfile import make_private
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, quoted
from leadline.model.received import WRONG, ReceivedError, reading
from leadline.observe.table import check_tables
from leadline.store import schema as t
from leadline.store.artefacts import Artefacts
from leadline.store.labfile import FILE, SQLITE, Address, address_of, artefacts_of, is_lab
from leadline.store.schema import without_nul

_TIMEOUT = 30.0  # seconds of an exchange with the server
_LONGEST_ANSWER = 300.0  # seconds that an answer may take from its first byte to its last
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
        self._remaining, self._until = _MOST, time.monotonic() + _LONGEST_ANSWER
        self._file.flush()

    def read(self, size: int) -> bytes:
        """What there is of so many bytes, at least one but at the end. Raises InterfaceError, OSError."""
        self._remaining -= _OVERHEAD
        if not 0 <= size <= self._remaining:
            raise pg8000.InterfaceError(f"the server's answer has more than {_MOST:,} bytes, or a negative number")
        if time.monotonic() > self._until:
            raise pg8000.InterfaceError(f"the server's answer did not end within {_LONGEST_ANSWER:g} s")
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


def _copy_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
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


# The version of a lab's tables: a lab of an earlier leadline is brought up to date when it is opened. Migrations are
# numbered from 1 and never change once released. Each may be run again after a crash in its middle: SQLite commits
# every change of a table by itself, PostgreSQL all of them together. New tables need no entry, they are made where they
# are missing.


Migration = Callable[[sa.Connection], None]


def _add(connection: sa.Connection, column: sa.Column[object]) -> None:
    """A column of the schema that an older table does not have."""
    table = column.table
    if column.name not in {get_column["name"] for get_column in sa.inspect(connection).get_columns(table.name)}:
        statement = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {statement}")


def _blocks(connection: sa.Connection) -> None:
    """Each attempt belongs to a run of its block."""
    _add(connection, t.attempts.c.token)


def _contents(connection: sa.Connection) -> None:
    """The lab has a name of its own, and what is asked for often an index."""
    for index in (*t.artefacts.indexes, t.running_trials):
        index.create(connection, checkfirst=True)
    if connection.execute(sa.select(t.identity)).first() is None:
        connection.execute(sa.insert(t.identity).values(lab=uuid.uuid4().hex))


def _bounds(connection: sa.Connection) -> None:
    """Of a response is known whether it is only a lower bound."""
    _add(connection, t.responses.c.at_least)
    _add(connection, t.slot_responses.c.at_least)


MIGRATIONS: Sequence[Migration] = (_blocks, _contents, _bounds)


def bring_up_to_date(connection: sa.Connection, now: Callable[[], float]) -> None:
    """Make the tables, or what they lack. One process at a time. Raises LeadlineError for tables of a later version."""
    number = _version(connection)
    if number > len(MIGRATIONS):
        raise LeadlineError(
            f"its tables have version {number}, this leadline knows versions up to {len(MIGRATIONS)};"
            " open it with the leadline that wrote it last"
        )
    if number == len(MIGRATIONS):
        return
    t.metadata.create_all(connection, checkfirst=bool(sa.inspect(connection).get_table_names()))
    for following, migrate in enumerate(MIGRATIONS[number:], number + 1):
        migrate(connection)
        connection.execute(sa.insert(t.migrations).values(number=following, applied=now()))


def _version(connection: sa.Connection) -> int:
    """0 for no tables, and for those of before migrations were numbered."""
    if not sa.inspect(connection).has_table(t.migrations.name):
        return 0
    return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(t.migrations.c.number), 0))).scalar_one())


_LONGEST = 256 << 20  # bytes of a value in SQLite
_PAUSE = 0.2  # seconds between two tries to reach the server


class Database:
    """Raises TrialFailure(infrastructure) when the disk refuses a write or the server is away. ``now`` gives the unix
    seconds that are written down; ``real_time``: whether that is the machine's time, in which leases run out.
    """

    patience = 20.0  # seconds for a server that was there and is away

    def __init__(self, directory: Path, create: bool, now: Callable[[], float]) -> None:
        self.directory = directory.resolve()
        self.now = now
        self.real_time = now is time.time
        if not create and not is_lab(self.directory):
            raise UsageError(
                f"{self.directory} is no lab (no {SQLITE} and no {FILE} in it); name one with --lab or run a study"
            )
        self.address = address_of(self.directory)
        try:
            if changes := can_be_written(self.directory):
                make_private(self.directory, ("services",))
            place = self.address or (self.directory if changes else self._copied())
            self._engine = opened(place, now, changes)
            _try_tables(self.directory)
        except (OSError, LeadlineError) as error:
            raise LeadlineError(f"the lab {self.directory} cannot be opened: {error}") from error

    def _copied(self) -> Path:
        """A copy of the rows of a lab that this user may not write to, for as long as this process runs: SQLite would
        write beside them to read them.
        """
        scratch = Scratch()
        atexit.register(scratch.close)
        source, target = self.directory / SQLITE, scratch.path / SQLITE
        try:
            reader = sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)
            with closing(reader), closing(sqlite3.connect(target)) as copy:
                reader.backup(copy)
        except sqlite3.OperationalError:  # nobody has it open, and nobody may make what lies beside it
            target.unlink(missing_ok=True)
            for end in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{source}{end}", f"{target}{end}")
        return scratch.path

    @property
    def database(self) -> str:
        """Where the rows are, for people."""
        return str(self.address or self.directory / SQLITE)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """All of it or nothing."""
        try:
            with _connected(self._engine, self.patience) as connection, connection.begin():
                yield connection
        except (SQLAlchemyError, BrokenConnection) as error:
            reason = _reason(error, self.address)
            if isinstance(error, DBAPIError) and _is_damage(error, self.address):
                raise LeadlineError(f"the lab {self.directory} is damaged: {reason}") from error
            message = f"the lab {self.directory} cannot be written: {reason}"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, message) from error

    @cached_property
    def identity(self) -> str:
        """By which the place of its files knows it."""
        with self.transaction() as connection:
            return identity_of(connection)

    @cached_property
    def artefacts(self) -> Artefacts | None:
        """Where the files of its trials are kept beside its directory, None for nowhere."""
        place = artefacts_of(self.directory)
        return None if place is None else Artefacts(place)

    def server_bytes(self) -> int:
        """What the tables take on the disk of their server."""
        with self.transaction() as connection:
            return size(connection)

    def alone(self, connection: sa.Connection) -> None:
        """Until this transaction ends nobody else adds a study. SQLite has one writer, from its first change on."""
        if self.address is not None:
            alone(connection)


def _try_tables(directory: Path) -> None:
    """Read the tables of a lab that this user has not yet opened here: damage can end the process that reads them.
    Raises ReceivedError, OSError.
    """
    rows = directory / SQLITE
    number = (rows if rows.exists() else directory).stat().st_ino  # a copy has another
    mark = state_dir() / "labs" / hashlib.sha256(f"{number} {directory}".encode()).hexdigest()
    if mark.exists():
        return
    tables = []
    for folder, folders, files in os.walk(directory / t.trials.name):
        tables += [Path(folder, name) for name in files if name.endswith(".parquet")]
        for path in (Path(folder, name) for name in folders):
            if path.is_symlink():  # what is behind it was not tried
                raise ReceivedError(str(path), "it is a link")
    check_tables(sorted(tables))
    with suppress(OSError):  # it is tried again the next time
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.touch(mode=0o600)


def can_be_written(directory: Path) -> bool:
    """Whether this user may make or change a lab there; one of another user, or on a disk that is read-only, is read
    from a copy.
    """
    return all(os.access(path, os.W_OK) for path in (directory, directory / SQLITE) if path.exists())


def opened(place: Path | Address, now: Callable[[], float], changes: bool = True) -> sa.Engine:
    """The database of a lab: SQLite in the directory ``place`` or PostgreSQL, its tables made or brought up to date;
    without ``changes`` whatever is written later is refused.
    Raises LeadlineError where it cannot be reached, lacks a right or is of a later leadline, OSError.
    """
    address = place if isinstance(place, Address) else None
    try:
        if isinstance(place, Address):
            engine = engine_of(place)
            with reading("its answer"), _connected(engine) as connection, connection.begin():
                alone(connection)
                make_schema(connection, place)
                bring_up_to_date(connection, now)
        else:
            # A file that is there is not opened: its closing would end the locks of this process's other connections.
            with suppress(FileExistsError):
                os.close(os.open(place / SQLITE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            engine = _with_pragmas(sa.create_engine(sa.URL.create("sqlite", database=str(place / SQLITE))))
            # One at a time: SQLite refuses a change of its journal's mode, and a table that another has just made.
            with exclusive(place / ".opening.lock", lambda: None), engine.begin() as connection:
                _refuse_programs(connection)
                bring_up_to_date(connection, now)
            if not changes:
                engine.dispose()  # those that were opened before
                sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=ON"))
    except (ValueError, SQLAlchemyError, BrokenConnection) as error:
        raise LeadlineError(_reason(error, address)) from error
    except LeadlineError as error:
        raise error if address is None else LeadlineError(f"{address}: {error}") from error
    return engine


def _refuse_programs(connection: sa.Connection) -> None:
    """Raises LeadlineError for what no leadline puts into a file of SQLite, and what computes when it is read: views,
    triggers, virtual tables and generated columns.
    """
    query = sa.text(
        "SELECT m.name FROM sqlite_schema m LEFT JOIN pragma_table_xinfo(m.name) c"
        " WHERE m.type NOT IN ('table', 'index') OR m.rootpage = 0 OR c.hidden <> 0"
    )
    if row := connection.execute(query).first():
        raise LeadlineError(f"{quoted(str(row.name))} in its {SQLITE} is no table of leadline's")


def identity_of(connection: sa.Connection) -> str:
    return str(connection.execute(sa.select(t.identity.c.lab)).scalar_one())


def _connected(engine: sa.Engine, patience: float = 0.0) -> sa.Connection:
    """A connection; for ``patience`` seconds it waits for a server that is away."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return engine.connect()
        except DBAPIError as error:
            if engine.dialect.name == "sqlite" or not is_away(error) or time.monotonic() >= deadline:
                raise
        except (OSError, *WRONG) as error:  # in the middle of a greeting
            if time.monotonic() >= deadline:
                raise BrokenConnection(str(error)) from error
        time.sleep(_PAUSE)


def _is_damage(error: DBAPIError, address: Address | None) -> bool:
    return not isinstance(error, OperationalError) if address is None else is_damage(error)


def _reason(error: Exception, address: Address | None) -> str:
    if address is not None:
        return f"{address}: {explained(error, address)}"
    return str(error.orig) if isinstance(error, DBAPIError) else str(error)


def new_number(connection: sa.Connection, statement: sa.Insert) -> int:
    """The number that the row which is inserted gets."""
    key = connection.execute(statement).inserted_primary_key
    assert key is not None
    return int(key[0])


def add_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.execute(sa.insert(table), rows)
    else:
        _copy_rows(connection, table, rows)


def _with_pragmas(engine: sa.Engine) -> sa.Engine:
    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=10000")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA trusted_schema=OFF")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        cursor.close()

    return engine
