"""A private PostgreSQL: own data directory, own port, loopback only, in the foreground, never as root."""

from __future__ import annotations

import secrets
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from leadline.host.base import Process, ProcessSpec
from leadline.host.paths import cache_dir
from leadline.host.privilege import make_accessible
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.stack import jdbc, local, postgres_catalogue, postgres_knobs, snapshots
from leadline.stack import postgres_client as client
from leadline.stack.base import Endpoint, Progress, ServiceContext, Settings
from leadline.stack.provision import fetch, postgres_artefact

_USER = "leadline"
_DATABASE = "leadline"
_CONFIGURATION = "leadline.conf"  # in the data directory, included by postgresql.conf
_PASSWORD = "leadline.password"  # in the data directory, so that a snapshot brings its own
_ISOLATION = next(knob for knob in postgres_catalogue.KNOBS if knob.name == "database.default_transaction_isolation")
# Messages at start that tell of the host, not of the levels under test.
_INFRASTRUCTURE = ("could not bind", "lock file", "could not write", "Input/output error", "Read-only file system")
_PROBED = ("the database system is starting up", f'database "{_DATABASE}" does not exist')  # answers to wait_ready


class Postgres:
    """PostgreSQL from pinned binaries (implements ``leadline.stack.base.Database``).

    ``port``: where it listens; 0 takes a free one at every ``configure``. The data live in
    ``context.directory/data``; ``start`` makes an empty cluster where there is none.
    """

    stop_signal = signal.SIGINT  # fast shutdown: sessions that are open are ended

    def __init__(self, port: int = 0) -> None:
        self._given_port = port
        self._port = port
        self._context: ServiceContext | None = None
        self._lines: list[str] = []
        self._isolation = str(_ISOLATION.default)
        self._process: Process | None = None
        self._started = 0.0
        self._log_from = 0
        self._statistics: client.Statistics | None = None

    @property
    def name(self) -> str:
        return "postgres"

    @property
    def version(self) -> str:
        return postgres_artefact().version

    def knobs(self) -> Sequence[Knob]:
        return postgres_catalogue.KNOBS

    def provision(self, progress: Progress) -> None:
        fetch(postgres_artefact(), progress)
        jdbc.POSTGRES.jar(progress)

    # configuration -------------------------------------------------------------------------------------------

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        """Raises LookupError for a knob that is not PostgreSQL's, UsageError for a level it would round."""
        self._lines = [postgres_knobs.render(name, level) for name, level in sorted(settings.items())]
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
            _DATABASE,
            _USER,
            self._password(),
            jdbc.POSTGRES.subprotocol,
            self._isolation.upper().replace(" ", "_"),
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
        return self._configured().artefacts / "postgres.log"

    def _password(self) -> str:
        try:
            return (self._data / _PASSWORD).read_text().strip()
        except FileNotFoundError:
            raise LookupError(f"there are no PostgreSQL data in {self._data} yet") from None

    def _write_configuration(self) -> None:
        text = "\n".join(
            [
                f"listen_addresses = '{local.LOOPBACK}'",
                f"port = {self._port}",
                "unix_socket_directories = ''",
                "timezone = 'UTC'",
                "log_timezone = 'UTC'",
                "log_line_prefix = '%m [%p] '",
                *self._lines,
                "",
            ]
        )
        (self._data / _CONFIGURATION).write_text(text)
        (self._configured().artefacts / "postgres.conf").write_text(text)

    # life cycle ----------------------------------------------------------------------------------------------

    def start(self) -> Process:
        """Start it; an empty cluster is made first where there are no data.

        Raises TrialFailure(infrastructure) when the port is in use, a server still runs on the data or a restore
        was interrupted.
        """
        context = self._configured()
        if snapshots.interrupted(self._data):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the restore of {self._data} was interrupted: restore it again"
            )
        self._require_stopped()
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        if local.port_in_use(self._port):
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"port {self._port} on {local.LOOPBACK} is in use: PostgreSQL cannot listen",
            )
        self._write_configuration()
        self._log_from = self._log.stat().st_size if self._log.exists() else 0
        self._started = time.monotonic()
        self._process = context.host.start(
            ProcessSpec(
                name="database",
                argv=[str(self._binary("postgres")), "-D", str(self._data)],
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
        error = "no answer"
        while True:
            alive = process.alive()
            if not alive:
                raise self._start_failure(f"PostgreSQL ended with code {process.exit_code()} before it was ready")
            try:
                self._ask_first()
                return time.monotonic() - self._started
            except client.QueryError as refused:
                error = str(refused)
            if time.monotonic() - self._started > timeout:
                raise self._start_failure(f"PostgreSQL was not ready after {timeout:g} s: {error}")
            time.sleep(0.02)

    def _ask_first(self) -> None:
        endpoint = self.endpoint()
        try:
            with client.connect(endpoint) as connection:
                connection.run("SELECT 1")
        except client.QueryError as refused:
            if refused.code != client.UNKNOWN_DATABASE:
                raise
            with client.connect(replace(endpoint, database="postgres"), 60) as first:
                first.run(f"CREATE DATABASE {_DATABASE}")

    def read_back(self, name: str) -> Level:
        try:
            value, unit = client.setting(self.endpoint(), postgres_knobs.parameter(name))
        except client.QueryError as error:
            raise LookupError(f"PostgreSQL cannot be asked for {name}: {error}") from error
        return postgres_knobs.parse(name, value, unit)

    def stats(self) -> dict[str, float]:
        """Counters of the running server, see ``postgres_client.Statistics``. Raises LookupError."""
        if self._statistics is None:
            self._statistics = client.Statistics(self.endpoint())
        try:
            return self._statistics.read()
        except client.QueryError as error:
            raise LookupError(f"PostgreSQL cannot be asked: {error}") from error

    def gauges(self) -> tuple[str, ...]:
        return client.GAUGES

    def settle(self) -> None:
        """Vacuum, freeze, analyse and checkpoint, so that loaded data start every trial in the same state.

        Raises TrialFailure(infrastructure).
        """
        try:
            with client.connect(self.endpoint(), timeout=600) as connection:
                connection.run("VACUUM (FREEZE, ANALYZE)")
                connection.run("CHECKPOINT")
        except client.QueryError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"PostgreSQL could not settle its data: {error}", self.log_tail()
            ) from error

    def stop(self) -> bool:
        """Fast shutdown, then immediate, then killed. True if the fast one was enough."""
        if self._statistics is not None:
            self._statistics.close()
            self._statistics = None
        process, self._process = self._process, None
        if process is None:
            return True
        process.signal(self.stop_signal)
        clean = local.ended(process, 20.0)
        if not clean:
            process.signal(signal.SIGQUIT)
            local.ended(process, 5.0)
        process.stop(grace=0.5)  # whatever is left of the group
        return clean and process.exit_code() == 0

    def log_tail(self, lines: int = 40) -> str:
        return local.tail(self._log, lines)

    def artefacts(self) -> Sequence[Path]:
        kept = [self._log, self._log.with_name("postgres.conf")]
        return [path for path in kept if path.exists()]

    # data ----------------------------------------------------------------------------------------------------

    def snapshot(self, name: str) -> None:
        self._require_stopped()
        if (self._data / "postmaster.pid").exists():
            raise LeadlineError(f"PostgreSQL did not stop cleanly in {self._data}: no snapshot is made of it")
        snapshots.save(self._data, self._snapshot(name))

    def has_snapshot(self, name: str) -> bool:
        return (self._snapshot(name) / "PG_VERSION").exists()

    def restore(self, name: str) -> None:
        """Raises LookupError without that snapshot, TrialFailure(infrastructure) while a server runs on the data."""
        if not self.has_snapshot(name):
            raise LookupError(f"there is no snapshot {name}")
        self._require_stopped()
        self._release_memory()
        snapshots.put_back(self._snapshot(name), self._data)
        make_accessible(self._data)

    def digest(self) -> str:
        """SHA-256 over names and contents of the stopped data directory."""
        return local.directory_digest(self._data)

    def _snapshot(self, name: str) -> Path:
        # data files of another release or CPU cannot be read
        return cache_dir() / "data" / f"{postgres_artefact().directory_name}-{name}"

    def _release_memory(self) -> None:
        """Give back the shared memory of a server that was killed on these data: PostgreSQL does it at its next start
        there, which a restore would take away from it.
        """
        if not (self._data / "postmaster.pid").exists():
            return
        context = self._configured()
        argv = [str(self._binary("postgres")), "--check", "-D", str(self._data)]
        log = context.artefacts / "postgres-check.log"
        check = context.host.start(ProcessSpec("database-check", argv, log, cwd=context.directory, unprivileged=True))
        local.ended(check, 10.0)
        check.stop(grace=1.0)

    def _initialise(self) -> None:
        context = self._configured()
        make_accessible(fetch(postgres_artefact(), lambda _: None))
        if self._data.exists():  # of an initdb that was ended
            shutil.rmtree(self._data)
        self._data.mkdir(mode=0o700)
        make_accessible(context.directory)
        secret = context.directory / _PASSWORD
        secret.unlink(missing_ok=True)
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_urlsafe(18))
        make_accessible(secret)
        output = context.artefacts / "initdb.log"
        argv = [
            str(self._binary("initdb")),
            f"--pgdata={self._data}",
            f"--username={_USER}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",  # only for the making; the server itself syncs
            "--no-instructions",
        ]
        made = context.host.start(
            ProcessSpec("initdb", argv, output, env={"LC_ALL": "C"}, cwd=context.directory, unprivileged=True)
        )
        try:
            if not local.ended(made, 120.0) or made.exit_code() != 0:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE,
                    f"initdb could not make a cluster in {self._data}",
                    output.read_text(errors="replace") if output.exists() else "",
                )
        finally:
            made.stop(grace=1.0)
        secret.rename(self._data / _PASSWORD)
        with (self._data / "postgresql.conf").open("a") as stream:
            stream.write(f"include = '{_CONFIGURATION}'\n")

    # helpers -------------------------------------------------------------------------------------------------

    def _binary(self, program: str) -> Path:
        return fetch(postgres_artefact(), lambda _: None) / "bin" / program

    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("start() comes first")
        return self._process

    def _require_stopped(self) -> None:
        """Raises TrialFailure when a server, of this or another leadline, runs on the data directory."""
        pid = local.runs_in(self._data / "postmaster.pid", self._data)
        if pid is not None:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"a PostgreSQL (process {pid}) still runs on the data in {self._data}"
            )

    def _start_failure(self, message: str) -> TrialFailure:
        words = local.text_from(self._log, self._log_from)
        fatal = [line.split("FATAL:", 1)[1].strip() for line in words.splitlines() if "FATAL:" in line]
        fatal = [line for line in fatal if not line.endswith(_PROBED)]
        # before its log is set up it speaks as a program
        fatal += [line.removeprefix("postgres: ") for line in words.splitlines() if line.startswith("postgres: ")]
        if "Address already in use" in words:
            message = f"port {self._port} on {local.LOOPBACK} is in use: PostgreSQL cannot listen"
        elif fatal:
            message = f"{message}: {fatal[-1]}"
        host = any(sign in words for sign in _INFRASTRUCTURE)
        return TrialFailure(FailureClass.INFRASTRUCTURE if host else FailureClass.CONFIGURATION, message, words)
