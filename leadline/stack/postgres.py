"""A private PostgreSQL, without a socket in the file system."""

from __future__ import annotations

import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pg8000.exceptions
import pg8000.native

from leadline import catalogue
from leadline.host.base import Process, ProcessSpec
from leadline.host.textfile import write_private
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Kind, Level
from leadline.model.places import DATA, DATABASE_TEMPORARY, LOG
from leadline.stack import databases, started
from leadline.stack.base import Endpoint, Settings
from leadline.stack.private import PASSWORD, PrivateDatabase
from leadline.stack.provision import POSTGRES_JDBC, Artefact, JdbcDriver, postgres_artefact

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
    "active_time",
    "blk_read_time",
    "blk_write_time",
)
_COLUMNS = (*_COUNTERS, "wal_records", "wal_fpi", "wal_bytes", "checkpoints", "checkpoint_buffers")
_STATISTICS = (
    f"SELECT {', '.join('d.' + name for name in _COUNTERS)}, w.wal_records, w.wal_fpi, w.wal_bytes,"
    " c.num_timed + c.num_requested, c.buffers_written"
    " FROM pg_stat_database d, pg_stat_wal w, pg_stat_checkpointer c WHERE d.datname = :database"
)

# Planning is in their time: a statement that is prepared again is planned again.
_STATEMENTS = (
    "SELECT left(s.query, 4000), s.calls, s.total_plan_time + s.total_exec_time"
    " FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = :database"
    f" ORDER BY 3 DESC LIMIT {databases.STATEMENTS}"
)
_TRACKING = (
    "shared_preload_libraries = 'pg_stat_statements'",
    "pg_stat_statements.track = none",  # until it is asked for
    "pg_stat_statements.track_planning = on",
    "pg_stat_statements.save = off",
)


class QueryError(started.QueryError):
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


def read_setting(endpoint: Endpoint, parameter: str) -> tuple[str, str | None]:
    """``setting`` and ``unit`` of ``pg_settings``. Raises QueryError, LookupError."""
    with connect(endpoint) as connection:
        rows: Any = connection.run("SELECT setting, unit FROM pg_settings WHERE name = :name", name=parameter)
    if not rows:
        raise LookupError(f"this PostgreSQL has no parameter {parameter}")
    return rows[0][0], rows[0][1]


class Statistics(databases.Statistics[pg8000.native.Connection]):
    """Of the whole server, asked in its own database: an extension is added there."""

    def _open(self) -> pg8000.native.Connection:
        return _open(replace(self._endpoint, database="postgres"), 5.0)

    def _close(self, connection: pg8000.native.Connection) -> None:
        _close(connection)

    def _translated(self) -> AbstractContextManager[None]:
        return _translated()

    def read(self) -> dict[str, float]:
        """Counters since the start of the statistics: ``pg_stat_database`` of the one database (blocks of 8192 bytes,
        times in ms), ``wal_*`` of ``pg_stat_wal`` (bytes and records), ``checkpoints`` and ``checkpoint_buffers`` of
        ``pg_stat_checkpointer``, and ``GAUGES``.
        """
        rows = self.ask(lambda connection: connection.run(_STATISTICS, database=self._endpoint.database))
        return {name: float(value) for name, value in zip(_COLUMNS, rows[0], strict=True)}

    def track(self, on: bool) -> None:
        def change(connection: pg8000.native.Connection) -> None:
            connection.run("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            connection.run(f"ALTER SYSTEM SET pg_stat_statements.track = {'top' if on else 'none'}")
            connection.run("SELECT pg_reload_conf()")

        self.ask(change)

    def statements(self) -> list[databases.Statement]:
        rows = self.ask(lambda connection: connection.run(_STATEMENTS, database=self._endpoint.database))
        return [(str(text), int(calls), float(ms)) for text, calls, ms in rows]


# PostgreSQL's knobs: how a level is written to its configuration and how ``pg_settings`` is read back.


_KB = 1024
_SIZES = {"B": 1, "kB": _KB, "8kB": 8 * _KB, "MB": _KB**2}
_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0}


knob_of = partial(catalogue.knob_of, "postgres")


def render(name: str, level: Level) -> str:
    """``shared_buffers = '134217728B'`` for a level in its unit. Raises LookupError for an unknown knob."""
    knob = knob_of(name)
    option = knob.names["postgres"]
    if isinstance(level, bool):
        return f"{option} = {'on' if level else 'off'}"
    if knob.kind is Kind.SIZE:
        return f"{option} = '{int(level)}B'"
    if knob.kind is Kind.DURATION:
        unit = "ms" if knob.step is not None and knob.step < 1 else "s"
        return f"{option} = '{round(float(level) / _TIMES[unit])}{unit}'"
    if knob.kind is Kind.CHOICE:
        return f"{option} = '{level}'"
    return f"{option} = {level}"


def parse(name: str, setting: str, unit: str | None) -> Level:
    """The level for ``setting`` and ``unit`` as ``pg_settings`` gives them. Raises LookupError, ValueError."""
    kind = knob_of(name).kind
    if kind is Kind.SIZE:
        return int(setting) * _SIZES[unit or "B"]
    if kind is Kind.DURATION:
        return round(int(setting) * _TIMES[unit or "s"], 3)
    if kind is Kind.INTEGER:
        return int(setting)
    if kind is Kind.NUMBER:
        return float(setting)
    if kind is Kind.BOOLEAN:
        return setting == "on"
    return setting


_INCLUDED = "leadline.conf"  # in the data directory, included by postgresql.conf
_CLIENTS = "leadline_hba.conf"  # who may log in, where it is reached from other hosts
_TEMPORARY = "base/pgsql_tmp"  # in the data directory; made when it is first needed
_ALTERED = "postgresql.auto.conf"  # levels that were changed live; it would win at the next start
# Messages at start that tell of the host, not of the levels under test.
_INFRASTRUCTURE = ("could not bind", "lock file", "could not write", "Input/output error", "Read-only file system")
# Answers to the questions of wait_ready.
_PROBED = ("the database system is starting up", f'database "{PrivateDatabase.database}" does not exist')
_JDBC = JdbcDriver(
    subprotocol="postgresql",
    artefact=POSTGRES_JDBC,
    driver="org.postgresql.Driver",
    data_source="org.postgresql.ds.PGSimpleDataSource",
    connection_pool_data_source="org.postgresql.ds.PGConnectionPoolDataSource",
    xa_data_source="org.postgresql.xa.PGXADataSource",
    pool_parameters={"preparedStatementCacheQueries": "0"},
    cache_parameters={"preparedStatementCacheQueries": "{}"},
    refusals=("sorry, too many clients already", "remaining connection slots are reserved"),
)


class Postgres(PrivateDatabase):
    """PostgreSQL from pinned binaries (implements ``leadline.stack.base.Database``)."""

    name = "postgres"
    title = "PostgreSQL"
    jdbc_driver = _JDBC
    isolation = knob_of("database.default_transaction_isolation")
    stop_signal = signal.SIGINT  # fast shutdown: sessions that are open are ended
    kept_configuration = "postgres.conf"
    pid_file = "postmaster.pid"
    system = "PG_VERSION"
    log_files = "pg_wal"

    def artefact(self) -> Artefact:
        return postgres_artefact()

    def gauges(self) -> tuple[str, ...]:
        return GAUGES

    # configuration -------------------------------------------------------------------------------------------

    def _render(self, name: str, level: Level) -> str:
        return render(name, level)

    def _write_configuration(self) -> None:
        context = self.context
        others = [context.database_address] if context.database_address != started.LOOPBACK else []
        text = "\n".join(
            [
                f"listen_addresses = '{','.join([started.LOOPBACK, *others])}'",
                *([f"hba_file = '{self.places.data / _CLIENTS}'"] if others else []),
                f"port = {self._port}",
                "unix_socket_directories = ''",
                "timezone = 'UTC'",
                "log_timezone = 'UTC'",
                "log_line_prefix = '%m [%p] '",
                *(_TRACKING if context.profile else ()),
                *self._lines,
                "",
            ]
        )
        if others:
            allowed = [started.LOOPBACK, *others, *context.database_clients]
            (self.places.data / _CLIENTS).write_text(
                "".join(f"host all all {address}/32 scram-sha-256\n" for address in allowed)
            )
        (self.places.data / _INCLUDED).write_text(text)
        (self.places.data / _ALTERED).unlink(missing_ok=True)
        (self.context.artefacts / self.kept_configuration).write_text(text)

    def _binary(self, program: str) -> Path:
        return self._unpacked() / "bin" / program

    # life cycle ----------------------------------------------------------------------------------------------

    def _command(self) -> list[str]:
        return [str(self._binary("postgres")), "-D", str(self.places.data)]

    def _link(self) -> None:
        if (log := self.places.path(LOG)) is not None:
            (self.places.data / self.log_files).symlink_to(log / self.log_files)
        if (temporary := self.places.path(DATABASE_TEMPORARY)) is not None:
            self._unlink()
            (self.places.data / _TEMPORARY).symlink_to(temporary)

    def _unlink(self) -> None:
        link = self.places.data / _TEMPORARY
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            shutil.rmtree(link)

    def _ask_path(self, name: str) -> Path:
        data = Path(read_setting(self.endpoint(), "data_directory")[0])
        below = {DATA: data, LOG: data / self.log_files, DATABASE_TEMPORARY: data / _TEMPORARY}[name]
        return below if below.exists() else below.parent

    def _ask_first(self) -> None:
        endpoint = self.endpoint()
        try:
            with connect(endpoint) as connection:
                connection.run("SELECT 1")
        except QueryError as refused:
            if refused.code != UNKNOWN_DATABASE:
                raise
            with connect(replace(endpoint, database="postgres"), 60) as first:
                first.run(f"CREATE DATABASE {self.database}")

    def _ask_level(self, name: str) -> Level:
        value, unit = read_setting(self.endpoint(), knob_of(name).names["postgres"])
        return parse(name, value, unit)

    def _set(self, levels: Settings) -> None:
        with connect(self.endpoint()) as connection:
            for name, level in levels.items():
                connection.run(f"ALTER SYSTEM SET {self._render(name, level)}")
            connection.run("SELECT pg_reload_conf()")

    def _open_counters(self) -> Statistics:
        return Statistics(self.endpoint())

    def _settle(self) -> None:
        with connect(self.endpoint(), timeout=600) as connection:
            connection.run("VACUUM (FREEZE, ANALYZE)")
            connection.run("CHECKPOINT")

    def _end(self, process: Process) -> bool:
        """Immediate shutdown where the fast one does not come to an end."""
        if started.ended(process, 20.0):
            return True
        process.signal(signal.SIGQUIT)
        started.ended(process, 5.0)
        return False

    def _reason(self, words: str) -> tuple[str, bool]:
        fatal = [line.split("FATAL:", 1)[1].strip() for line in words.splitlines() if "FATAL:" in line]
        fatal = [line for line in fatal if not line.endswith(_PROBED)]
        # before its log is set up it speaks as a program
        fatal += [line.removeprefix("postgres: ") for line in words.splitlines() if line.startswith("postgres: ")]
        return fatal[-1] if fatal else "", any(sign in words for sign in _INFRASTRUCTURE)

    # data ----------------------------------------------------------------------------------------------------

    def _before_restore(self) -> None:
        """Give back the shared memory of a server that was killed on these data: PostgreSQL does it at its next start
        there, which a restore would take away from it.
        """
        if not (self._data / self.pid_file).exists():
            return
        context = self.context
        argv = [str(self._binary("postgres")), "--check", "-D", str(self._data)]
        log = context.artefacts / "postgres-check.log"
        check = context.host.start(self._helper("database-check", argv, log))
        started.ended(check, 10.0)
        check.stop(grace=1.0)

    def _helper(self, name: str, argv: list[str], output: Path) -> ProcessSpec:
        """A program of the distribution that works on the data."""
        home = self.context.directory
        owned = (home,)
        return ProcessSpec(name, argv, output, env={"LC_ALL": "C"}, cwd=home, owns=owned, reads=(self._unpacked(),))

    def _initialise(self) -> None:
        context = self.context
        if self._data.exists():  # of an initdb that was ended
            shutil.rmtree(self._data)
        self._data.mkdir(mode=0o700)
        secret = context.directory / PASSWORD
        write_private(secret, secrets.token_urlsafe(18))
        output = context.artefacts / "initdb.log"
        argv = [
            str(self._binary("initdb")),
            f"--pgdata={self._data}",
            f"--username={self.user}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",  # only for the making; the server itself syncs
            "--no-instructions",
        ]
        process = context.host.start(self._helper("initdb", argv, output))
        try:
            if not started.ended(process, 120.0) or process.exit_code() != 0:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE,
                    f"initdb could not make a cluster in {self._data}",
                    started.tail(output, 40),
                )
        finally:
            process.stop(grace=1.0)
        secret.rename(self._data / PASSWORD)
        with (self._data / "postgresql.conf").open("a") as stream:
            stream.write(f"include = '{_INCLUDED}'\n")
