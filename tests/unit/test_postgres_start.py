"""Why PostgreSQL did not start: the treatment or the host, in its own words."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.host.base import ProcessSpec
from leadline.model.errors import FailureClass, TrialFailure
from leadline.stack import private as module
from leadline.stack.base import ServiceContext
from leadline.stack.postgres import Postgres


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


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def made(tmp_path: Path, words: str, port: int = 0) -> Postgres:
    data = tmp_path / "pg" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("18\n")
    (data / "leadline.password").write_text("secret")
    database = Postgres(port)
    host = FakeHost(words)
    database.configure(ServiceContext(host, tmp_path / "pg", tmp_path / "logs"), {})  # type: ignore[arg-type]
    return database


def failure(database: Postgres) -> TrialFailure:
    with pytest.raises(TrialFailure) as caught:
        database.wait_ready(1.0)
    return caught.value


def test_too_much_memory_is_the_treatments_doing(tmp_path: Path) -> None:
    database = made(tmp_path, "[1] FATAL:  could not map anonymous shared memory: Cannot allocate memory\n")
    database.start()
    found = failure(database)
    assert found.failure_class is FailureClass.CONFIGURATION
    assert "could not map anonymous shared memory" in found.message
    assert "FATAL" in found.evidence


def test_what_it_says_as_a_program_counts_too(tmp_path: Path) -> None:
    database = made(tmp_path, 'postgres: "reserved_connections" must be less than "max_connections" (2)\n')
    database.start()
    assert 'less than "max_connections"' in failure(database).message


def test_words_of_an_earlier_start_do_not_count(tmp_path: Path) -> None:
    database = made(tmp_path, "")
    (tmp_path / "logs" / "postgres.log").write_text("FATAL:  of yesterday\n")
    database.start()
    found = failure(database)
    assert "yesterday" not in found.message
    assert "yesterday" not in found.evidence


def test_a_port_lost_while_starting_is_the_hosts_doing(tmp_path: Path) -> None:
    words = 'LOG:  could not bind IPv4 address "127.0.0.1": Address already in use\nFATAL:  no TCP/IP sockets\n'
    database = made(tmp_path, words)
    database.start()
    found = failure(database)
    assert found.failure_class is FailureClass.INFRASTRUCTURE
    assert f"port {database.endpoint().port}" in found.message


def test_a_port_in_use_is_named_before_the_start(tmp_path: Path, port: int) -> None:
    database = made(tmp_path, "", port)
    with pytest.raises(TrialFailure, match=f"port {port} on 127.0.0.1 is in use") as caught:
        database.start()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE


def test_there_is_no_endpoint_without_data(tmp_path: Path) -> None:
    database = Postgres()
    database.configure(ServiceContext(FakeHost(""), tmp_path / "new", tmp_path / "logs"), {})  # type: ignore[arg-type]
    with pytest.raises(LookupError, match="no PostgreSQL data"):
        database.endpoint()
