"""The life cycle that private databases share, and why one did not start: the treatment or the host, in its words."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leadline.host.base import ProcessSpec
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.stack import databases, private, started
from leadline.stack.base import ServiceContext
from leadline.stack.databases import plain
from leadline.stack.mariadb import MariaDb, script
from leadline.stack.postgres import Postgres
from leadline.stack.private import PrivateDatabase
from leadline.stack.provision import mariadb_artefact
from leadline.stack.started import QueryError

BOTH = pytest.mark.parametrize("kind", [Postgres, MariaDb])
# What each writes where it fails.
ERRORS = {"postgres": "FATAL:  {}\n", "mariadb": "0 [ERROR] {}\n"}
IN_USE = {
    "postgres": 'LOG:  could not bind IPv4 address "127.0.0.1": Address already in use\nFATAL:  no TCP/IP sockets\n',
    "mariadb": "0 [ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address already in use\n",
}


@dataclass
class FakeProcess:
    """Lives until a signal that is in ``heeds``; ends by itself if there is none."""

    heeds: tuple[int, ...] = ()
    code: int = 1
    name: str = "database"
    pid: int = 0
    heard: list[int] = field(default_factory=list)

    def alive(self) -> bool:
        return bool(self.heeds) and not set(self.heard) & set(self.heeds)

    def exit_code(self) -> int:
        return self.code

    def pids(self) -> list[int]:
        return [self.pid]

    def signal(self, number: int) -> None:
        self.heard.append(number)

    def stop(self, grace: float = 10.0) -> bool:
        self.heard.append(signal.SIGKILL)
        return True


class FakeHost(LocalHost):
    """Starts processes that say ``words``."""

    def __init__(self, words: str = "", process: FakeProcess | None = None) -> None:
        super().__init__()
        self.words = words
        self.process = process or FakeProcess()
        self.specs: list[ProcessSpec] = []

    def start(self, spec: ProcessSpec) -> FakeProcess:  # type: ignore[override]
        self.specs.append(spec)
        with spec.output.open("a") as output:
            output.write(self.words)
        return self.process


@pytest.fixture(autouse=True)
def _distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(private, "fetch", lambda _artefact, _progress: tmp_path / "dist")
    monkeypatch.setattr(started, "ended", lambda process, _timeout: not process.alive())


def made(
    kind: type[PrivateDatabase],
    tmp_path: Path,
    host: FakeHost | None = None,
    settings: dict[str, Level] | None = None,
    port: int = 0,
) -> PrivateDatabase:
    """Configured, with data in place."""
    data = tmp_path / "db" / "data"
    (data / kind.system).mkdir(parents=True)
    (data / private.PASSWORD).write_text("secret")
    database = kind(port)
    context = ServiceContext(host or FakeHost(), tmp_path / "db", tmp_path / "logs")
    database.configure(context, settings or {})
    return database


def failure(kind: type[PrivateDatabase], tmp_path: Path, words: str) -> tuple[PrivateDatabase, TrialFailure]:
    database = made(kind, tmp_path, FakeHost(words))
    database.start()
    with pytest.raises(TrialFailure) as caught:
        database.wait_ready(1.0)
    return database, caught.value


# starting


@pytest.mark.parametrize(
    ("kind", "words", "reason"),
    [
        (
            Postgres,
            "[1] FATAL:  could not map anonymous shared memory: Cannot allocate memory\n",
            "could not map anonymous shared memory: Cannot allocate memory",
        ),
        (
            Postgres,
            'postgres: "reserved_connections" must be less than "max_connections" (2)\n',
            '"reserved_connections" must be less than "max_connections" (2)',
        ),
        (
            MariaDb,
            "0 [ERROR] InnoDB: Cannot allocate memory for the buffer pool\n0 [ERROR] Aborting\n",
            "InnoDB: Cannot allocate memory for the buffer pool",
        ),
    ],
)
def test_a_level_that_does_not_fit_is_the_treatments_doing(
    tmp_path: Path, kind: type[PrivateDatabase], words: str, reason: str
) -> None:
    found = failure(kind, tmp_path, words)[1]
    assert found.failure_class is FailureClass.CONFIGURATION
    assert found.message == f"{kind.title} ended with exit code 1 before it was ready: {reason}"
    assert found.evidence == words.strip()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Postgres, 'FATAL:  could not write lock file "postmaster.pid": No space left on device'),
        (MariaDb, "0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11"),
        (MariaDb, '0 [ERROR] mariadbd: Error writing file (Errcode: 28 "No space left on device")'),
        (MariaDb, "mariadbd: error while loading shared libraries: libcrypt.so.1: cannot open shared object file"),
    ],
)
def test_what_the_host_is_to_blame_for(tmp_path: Path, kind: type[PrivateDatabase], words: str) -> None:
    found = failure(kind, tmp_path, words)[1]
    assert found.failure_class is FailureClass.INFRASTRUCTURE
    assert words.removeprefix("0 [ERROR] ").removeprefix("FATAL:  ") in found.message


@BOTH
def test_a_port_lost_while_starting_is_the_hosts_doing(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    database, found = failure(kind, tmp_path, IN_USE[kind.name])
    assert found.failure_class is FailureClass.INFRASTRUCTURE
    assert found.message == f"port {database.endpoint().port} on 127.0.0.1 is in use: {kind.title} cannot listen"


@BOTH
def test_a_port_in_use_is_named_before_the_start(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        host = FakeHost()
        with pytest.raises(TrialFailure, match=f"port {port} on 127.0.0.1 is in use") as caught:
            made(kind, tmp_path, host, port=port).start()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert host.specs == []


@BOTH
def test_words_of_an_earlier_start_do_not_count(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{kind.name}.log").write_text(ERRORS[kind.name].format("of yesterday"))
    found = failure(kind, tmp_path, "")[1]
    assert found.message == f"{kind.title} ended with exit code 1 before it was ready"
    assert found.evidence == ""


@BOTH
def test_one_that_stays_silent_is_waited_for_and_named(
    tmp_path: Path, kind: type[PrivateDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: PrivateDatabase) -> None:
        raise QueryError("nothing listens")

    monkeypatch.setattr(kind, "_ask_first", refused)
    database = made(kind, tmp_path, FakeHost(process=FakeProcess(heeds=(signal.SIGKILL,))))
    database.start()
    with pytest.raises(TrialFailure, match=rf"{kind.title} was not ready after 0\.01 s: nothing listens") as late:
        database.wait_ready(0.01)
    assert late.value.failure_class is FailureClass.INFRASTRUCTURE


@BOTH
def test_nothing_is_asked_of_one_that_was_not_started(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    with pytest.raises(LeadlineError, match=f"{kind.title} has not been configured"):
        kind().start()
    with pytest.raises(LookupError, match=f"{kind.title} has not been started"):
        made(kind, tmp_path).wait_ready(1.0)


def test_mariadb_runs_unprivileged_on_its_own_files_and_loopback_only(tmp_path: Path) -> None:
    host = FakeHost()
    database = made(MariaDb, tmp_path, host, {"database.max_connections": 37, "database.log_bin": False})
    database.start()
    (spec,) = host.specs
    assert spec.unprivileged
    assert spec.argv[1:] == [f"--defaults-file={tmp_path / 'db' / 'mariadb.cnf'}"]
    lines = (tmp_path / "db" / "mariadb.cnf").read_text().splitlines()
    assert {"bind_address = 127.0.0.1", f"datadir = {tmp_path / 'db' / 'data'}", "socket = mariadb.sock"} <= set(lines)
    assert {"max_connections = 37", "skip_log_bin"} <= set(lines)


def test_postgres_runs_unprivileged_on_its_own_files_and_loopback_only(tmp_path: Path) -> None:
    host = FakeHost()
    database = made(Postgres, tmp_path, host, {"database.max_connections": 37})
    database.start()
    (spec,) = host.specs
    assert spec.unprivileged
    assert spec.argv[1:] == ["-D", str(tmp_path / "db" / "data")]
    lines = (tmp_path / "db" / "data" / "leadline.conf").read_text().splitlines()
    assert {"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "max_connections = 37"} <= set(lines)


# where it listens


@pytest.mark.parametrize(
    ("kind", "settings", "isolation"),
    [
        (Postgres, {}, "READ_COMMITTED"),
        (Postgres, {"database.default_transaction_isolation": "repeatable read"}, "REPEATABLE_READ"),
        (MariaDb, {}, "REPEATABLE_READ"),
        (MariaDb, {"database.transaction_isolation": "READ-COMMITTED"}, "READ_COMMITTED"),
    ],
)
def test_an_endpoint_names_the_isolation_as_jdbc_does(
    tmp_path: Path, kind: type[PrivateDatabase], settings: dict[str, Level], isolation: str
) -> None:
    endpoint = made(kind, tmp_path, settings=settings).endpoint()
    assert endpoint.isolation == isolation
    assert endpoint.password == "secret"
    product = {"postgres": "postgresql", "mariadb": "mariadb"}[kind.name]
    assert endpoint.jdbc_url == f"jdbc:{product}://127.0.0.1:{endpoint.port}/leadline"


@BOTH
def test_there_is_no_endpoint_without_data(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    database = made(kind, tmp_path)
    (tmp_path / "db" / "data" / private.PASSWORD).unlink()
    with pytest.raises(LookupError, match=f"no {kind.title} data"):
        database.endpoint()


# asking and stopping


@BOTH
def test_one_that_does_not_answer_is_named(
    tmp_path: Path, kind: type[PrivateDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    class FakeCounters:
        closed = False

        def read(self) -> dict[str, float]:
            raise QueryError("gone")

        def close(self) -> None:
            self.closed = True

    def gone(*_: object) -> None:
        raise QueryError("gone")

    counters = FakeCounters()
    monkeypatch.setattr(kind, "_ask_level", gone)
    monkeypatch.setattr(kind, "_settle", gone)
    monkeypatch.setattr(kind, "_open_counters", lambda _self: counters)
    database = made(kind, tmp_path)
    with pytest.raises(LookupError, match=f"{kind.title} cannot be asked for database.x: gone"):
        database.read_back("database.x")
    with pytest.raises(LookupError, match=f"{kind.title} cannot be asked: gone"):
        database.stats()
    with pytest.raises(TrialFailure, match=f"{kind.title} could not settle its data: gone") as caught:
        database.settle()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    assert database.stop(), "nothing ran"
    assert counters.closed


@pytest.mark.parametrize(
    ("kind", "heeds", "code", "heard", "orderly"),
    [
        (Postgres, signal.SIGINT, 0, [signal.SIGINT], True),
        (Postgres, signal.SIGINT, 1, [signal.SIGINT], False),
        (Postgres, signal.SIGQUIT, 0, [signal.SIGINT, signal.SIGQUIT], False),
        (MariaDb, signal.SIGTERM, 0, [signal.SIGTERM], True),
        (MariaDb, signal.SIGKILL, 0, [signal.SIGTERM], False),
    ],
)
def test_a_stop_is_orderly_only_by_its_own_signal(
    tmp_path: Path, kind: type[PrivateDatabase], heeds: int, code: int, heard: list[int], orderly: bool
) -> None:
    process = FakeProcess(heeds=(heeds,), code=code)
    database = made(kind, tmp_path, FakeHost(process=process))
    database.start()
    assert database.stop() is orderly
    assert process.heard == [*heard, signal.SIGKILL], "what is left of the group is always ended"
    assert database.stop(), "once is enough"


# data


@BOTH
def test_data_come_back_as_they_were(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    database = made(kind, tmp_path)
    database.snapshot("fresh")
    fresh = database.digest()
    assert (database.has_snapshot("fresh"), database.has_snapshot("stale")) == (True, False)
    (tmp_path / "db" / "data" / "more").write_text("written since")
    assert database.digest() != fresh
    database.restore("fresh")
    assert database.digest() == fresh
    with pytest.raises(LookupError, match="no snapshot stale"):
        database.restore("stale")


@BOTH
def test_no_snapshot_is_made_of_data_that_were_not_closed(tmp_path: Path, kind: type[PrivateDatabase]) -> None:
    database = made(kind, tmp_path)
    (tmp_path / "db" / "data" / kind.pid_file).write_text("0\n")
    with pytest.raises(LeadlineError, match=f"{kind.title} did not stop cleanly"):
        database.snapshot("dirty")
    assert not database.has_snapshot("dirty")


@BOTH
def test_half_restored_data_are_refused(
    tmp_path: Path, kind: type[PrivateDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_source: Path, target: Path) -> None:
        target.mkdir()
        raise KeyboardInterrupt

    database = made(kind, tmp_path)
    database.snapshot("fresh")
    with monkeypatch.context() as patch:
        patch.setattr(databases, "_copy_tree", killed)
        with pytest.raises(KeyboardInterrupt):
            database.restore("fresh")
    with pytest.raises(TrialFailure, match="was interrupted: restore it again"):
        database.start()
    database.restore("fresh")
    database.start()


# MariaDB's own


def test_the_bootstrap_leaves_one_user_with_a_password(tmp_path: Path) -> None:
    for name in ("mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql"):
        (tmp_path / name).write_text(f"-- {name}\n")
    lines = script(tmp_path, "s3cret").splitlines()
    assert lines.index("DELETE FROM global_priv WHERE User <> 'mariadb.sys';") > lines.index(
        "-- mariadb_system_tables_data.sql"
    )
    assert sum("INSERT INTO global_priv" in line and "PASSWORD('s3cret')" in line for line in lines) == 1


def test_a_cpu_without_binaries_is_told_what_runs_there() -> None:
    with pytest.raises(UsageError, match=r"no MariaDB binaries are pinned for CPU aarch64.* take database: postgres"):
        mariadb_artefact("aarch64")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT a FROM t1 WHERE b = $1 AND c IN ($2, $3,$4)", "SELECT a FROM t1 WHERE b = ? AND c IN (?)"),
        ("CREATE USER eve PASSWORD 'it''s; secret'", "CREATE USER eve PASSWORD ?"),
        ("SET app.token = 'unfinished and cut", "SET app.token = ?"),
        ("DO $body$ BEGIN x := 'y'; END $body$", "DO ?"),
        ("SELECT 1.5e3, 0x1F /* for jane@example.org */\n-- jane\nFROM t", "SELECT ? FROM t"),
        (r"INSERT INTO t VALUES (E'it\'s mine', ?, ?)", "INSERT INTO t VALUES (E?)"),
        ("SELECT " + "column_name, " * 20 + "x", "SELECT " + ("column_name, " * 20)[:112] + "…"),
    ],
)
def test_a_statement_is_told_without_what_users_wrote(statement: str, expected: str) -> None:
    assert plain(statement) == expected
    assert len(plain(statement)) <= 120
