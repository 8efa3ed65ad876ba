"""The database of a lab: SQLite (WAL) in its directory or PostgreSQL, brought up to date, changed in transactions."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from leadline.host.paths import Scratch, exclusive, state_dir
from leadline.host.private import make_private
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, quoted
from leadline.model.received import WRONG, ReceivedError, reading
from leadline.observe.table import check_tables
from leadline.store import postgresql
from leadline.store import schema as t
from leadline.store.artefacts import Artefacts
from leadline.store.labfile import FILE, SQLITE, Address, address_of, artefacts_of, is_lab
from leadline.store.postgresql import BrokenConnection

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
            return postgresql.size(connection)

    def alone(self, connection: sa.Connection) -> None:
        """Until this transaction ends nobody else adds a study. SQLite has one writer, from its first change on."""
        if self.address is not None:
            postgresql.alone(connection)


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
            engine = postgresql.engine_of(place)
            with reading("its answer"), _connected(engine) as connection, connection.begin():
                postgresql.alone(connection)
                postgresql.make_schema(connection, place)
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
            if engine.dialect.name == "sqlite" or not postgresql.is_away(error) or time.monotonic() >= deadline:
                raise
        except (OSError, *WRONG) as error:  # in the middle of a greeting
            if time.monotonic() >= deadline:
                raise BrokenConnection(str(error)) from error
        time.sleep(_PAUSE)


def _is_damage(error: DBAPIError, address: Address | None) -> bool:
    return not isinstance(error, OperationalError) if address is None else postgresql.is_damage(error)


def _reason(error: Exception, address: Address | None) -> str:
    if address is not None:
        return f"{address}: {postgresql.explained(error, address)}"
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
        postgresql.add_rows(connection, table, rows)


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
