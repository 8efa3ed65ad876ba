"""Why MariaDB did not start: the treatment or the host, in its own words."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from leadline.host.base import ProcessSpec
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import Level
from leadline.stack import private as module
from leadline.stack.base import ServiceContext
from leadline.stack.mariadb import MariaDb
from leadline.stack.mariadb_bootstrap import script
from leadline.stack.provision import mariadb_artefact


class FakeProcess:
    """Has ended already."""

    name = "database"
    pid = 0

    def alive(self) -> bool:
        return False

    def exit_code(self) -> int:
        return 1

    def signal(self, number: int) -> None: ...
    def stop(self, grace: float = 10.0) -> bool:
        return True


class FakeHost:
    """Starts processes that say ``words`` and end."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.specs: list[ProcessSpec] = []

    def start(self, spec: ProcessSpec) -> FakeProcess:
        self.specs.append(spec)
        with spec.output.open("a") as output:
            output.write(self.words)
        return FakeProcess()


@pytest.fixture(autouse=True)
def _distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "fetch", lambda _artefact, _progress: tmp_path / "dist")


def started(tmp_path: Path, words: str, settings: dict[str, Level] | None = None) -> tuple[MariaDb, FakeHost]:
    data = tmp_path / "db" / "data"
    (data / "mysql").mkdir(parents=True)
    (data / "leadline.password").write_text("secret")
    database, host = MariaDb(), FakeHost(words)
    context = ServiceContext(host, tmp_path / "db", tmp_path / "logs")  # type: ignore[arg-type]
    database.configure(context, settings or {})
    database.start()
    return database, host


def failure(database: MariaDb) -> TrialFailure:
    with pytest.raises(TrialFailure) as caught:
        database.wait_ready(1.0)
    return caught.value


def test_the_first_error_is_the_reason(tmp_path: Path) -> None:
    words = "0 [ERROR] InnoDB: Cannot allocate memory for the buffer pool\n0 [ERROR] Aborting\n"
    found = failure(started(tmp_path, words)[0])
    assert found.failure_class is FailureClass.CONFIGURATION
    assert found.message.endswith("before it was ready: InnoDB: Cannot allocate memory for the buffer pool")
    assert "Aborting" in found.evidence


@pytest.mark.parametrize(
    "words",
    [
        "0 [ERROR] InnoDB: Unable to lock ./ibdata1 error: 11",
        '0 [ERROR] mariadbd: Error writing file (Errcode: 28 "No space left on device")',
        "mariadbd: error while loading shared libraries: libcrypt.so.1: cannot open shared object file",
    ],
)
def test_what_the_host_is_to_blame_for(tmp_path: Path, words: str) -> None:
    found = failure(started(tmp_path, words)[0])
    assert found.failure_class is FailureClass.INFRASTRUCTURE
    assert words.removeprefix("0 [ERROR] ") in found.message


def test_a_port_lost_while_starting_is_the_hosts_doing(tmp_path: Path) -> None:
    words = "0 [ERROR] Can't start server: Bind on TCP/IP port. Got error: 98: Address already in use\n"
    database, _ = started(tmp_path, words)
    found = failure(database)
    assert found.failure_class is FailureClass.INFRASTRUCTURE
    assert f"port {database.endpoint().port}" in found.message


def test_words_of_an_earlier_start_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "mariadb.log").write_text("0 [ERROR] of yesterday\n")
    found = failure(started(tmp_path, "")[0])
    assert "yesterday" not in found.message
    assert "yesterday" not in found.evidence


def test_it_runs_unprivileged_on_its_own_files_and_loopback_only(tmp_path: Path) -> None:
    database, host = started(tmp_path, "", {"database.max_connections": 37, "database.log_bin": False})
    (spec,) = host.specs
    assert spec.unprivileged
    assert spec.argv[1:] == [f"--defaults-file={tmp_path / 'db' / 'mariadb.cnf'}"]
    lines = (tmp_path / "db" / "mariadb.cnf").read_text().splitlines()
    assert {"bind_address = 127.0.0.1", f"datadir = {tmp_path / 'db' / 'data'}", "socket = mariadb.sock"} <= set(lines)
    assert {"max_connections = 37", "skip_log_bin"} <= set(lines)
    assert database.endpoint().jdbc_url == f"jdbc:mariadb://127.0.0.1:{database.endpoint().port}/leadline"


def test_a_port_in_use_is_named_before_the_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "db" / "data" / "mysql").mkdir(parents=True)
        database = MariaDb(port)
        database.configure(ServiceContext(FakeHost(""), tmp_path / "db", tmp_path / "logs"), {})  # type: ignore[arg-type]
        with pytest.raises(TrialFailure, match=f"port {port} on 127.0.0.1 is in use") as caught:
            database.start()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE


def test_there_is_no_endpoint_without_data(tmp_path: Path) -> None:
    database = MariaDb()
    database.configure(ServiceContext(FakeHost(""), tmp_path / "new", tmp_path / "logs"), {})  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="no MariaDB data"):
        database.endpoint()


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
