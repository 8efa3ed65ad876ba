"""The real PostgreSQL: catalogue against the server, settings, data, faults."""

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import postgres_effects as effects
import pytest
from witnesses import (
    little_address_space,
    over_two_starts,
    statements_are_told,
    to_run,
    wait_for,
    without_effect,
)

from leadline import catalogue
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Level
from leadline.stack import postgres as client
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.postgres import Postgres, parse

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

PORT = 15510
MB = 1024**2

# Away from every default.
LEVELS: dict[str, Level] = {
    "database.shared_buffers": 24 * MB,
    "database.max_connections": 37,
    "database.synchronous_commit": "off",
    "database.commit_delay": 50,
    "database.commit_siblings": 3,
    "database.wal_buffers": 2 * MB,
    "database.checkpoint_timeout": 420.0,
    "database.max_wal_size": 192 * MB,
    "database.work_mem": 3 * MB,
    "database.effective_cache_size": 512 * MB,
    "database.random_page_cost": 1.25,
    "database.wal_compression": "pglz",
    "database.full_page_writes": False,
    "database.autovacuum": False,
    "database.huge_pages": "off",
    "database.default_transaction_isolation": "repeatable read",
    "database.fsync": False,
    "database.wal_sync_method": "open_datasync",
    "database.wal_writer_delay": 0.123,
    "database.min_wal_size": 48 * MB,
    "database.checkpoint_completion_target": 0.75,
    "database.bgwriter_delay": 0.033,
    "database.bgwriter_lru_maxpages": 50,
    "database.maintenance_work_mem": 5 * MB,
    "database.io_method": "sync",
    "database.effective_io_concurrency": 3,
    "database.max_parallel_workers_per_gather": 1,
    "database.autovacuum_naptime": 33.0,
    "database.deadlock_timeout": 0.25,
    "database.track_io_timing": True,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster with a table, stopped, and its snapshot ``fresh``."""
    home = tmp_path_factory.mktemp("postgres")
    database = prepared(home, {})
    database.provision(lambda _: None)
    database.start()
    database.wait_ready(60)
    run(database, "CREATE TABLE account AS SELECT g AS id, 100 AS balance FROM generate_series(1, 50000) g")
    database.settle()
    assert database.stop()
    database.snapshot("fresh")
    return home


@pytest.fixture
def database(home: Path) -> Iterator[Postgres]:
    database = prepared(home, {})
    database.restore("fresh")
    yield database
    database.stop()


def prepared(home: Path, settings: dict[str, Level], port: int = PORT) -> Postgres:
    database = Postgres(port)
    configure(database, home, settings)
    return database


def configure(database: Postgres, home: Path, settings: dict[str, Level], profile: bool = False) -> None:
    host = LocalHost(state=home / "state")
    context = ServiceContext(host=host, directory=home / "run", artefacts=home / "logs", profile=profile)
    database.configure(context, settings)


def run(database: Postgres, statement: str) -> Any:
    with client.connect(database.endpoint(), timeout=60) as connection:
        return connection.run(statement)


def test_the_catalogue_is_what_the_server_says_of_itself(database: Postgres) -> None:
    database.start()
    database.wait_ready(60)
    rows = run(database, "SELECT name, unit, boot_val, min_val, max_val, enumvals FROM pg_settings")
    found = {row[0]: row[1:] for row in rows}
    for knob in catalogue.load("postgres").values():
        unit, default, low, high, choices = found[knob.names["postgres"]]
        if knob.default is not None:
            assert parse(knob.name, default, unit) == knob.default
        if choices:
            assert set(knob.choices) == set(choices), knob.name
        for bound, limit, sign in ((knob.minimum, low, 1), (knob.maximum, high, -1)):
            if bound is not None and limit is not None and limit != "-1":
                level = parse(knob.name, limit, unit)
                assert isinstance(level, (int, float))
                assert sign * bound >= sign * level, f"{knob.name} allows {bound}, the server {level}"


def test_statements_are_told_without_literals_while_they_are_tracked(home: Path, database: Postgres) -> None:
    configure(database, home, {}, profile=True)
    statements_are_told(database, run, "?")


def test_levels_are_in_force_and_counters_count(home: Path, database: Postgres) -> None:
    assert set(LEVELS) == {knob.name for knob in catalogue.load("postgres").values()}
    configure(database, home, LEVELS)
    process = database.start()
    assert database.wait_ready(60) > 0
    assert {name: database.read_back(name) for name in LEVELS} == LEVELS
    before = database.stats()
    run(database, "UPDATE account SET balance = 0 WHERE id <= 1000")
    with client.connect(database.endpoint()) as connection:
        connection.run("SELECT pg_stat_force_next_flush()")
        connection.run("SELECT 1")
    after = database.stats()
    assert after["tup_updated"] - before["tup_updated"] == 1000
    assert after["xact_commit"] > before["xact_commit"]
    assert after["wal_bytes"] > before["wal_bytes"]
    assert database.stop()
    assert not process.alive()
    kept = {path.name: path.read_text() for path in database.artefacts()}
    assert "shared_buffers" in kept["postgres.conf"]
    assert "ready to accept connections" in kept["postgres.log"]
    assert (home / "state" / "undo").exists()
    assert LocalHost(state=home / "state").restore() == [], "its journal entries are closed"
    with pytest.raises(LookupError):
        database.read_back("database.work_mem")


def in_force(database: Postgres, levels: dict[str, Level]) -> bool:
    return {name: database.read_back(name) for name in levels} == levels


def test_levels_that_a_reload_changes_take_effect(home: Path, database: Postgres) -> None:
    live = {knob.name for knob in catalogue.load("postgres").values() if knob.apply_cost is ApplyCost.LIVE}
    small: dict[str, Level] = {"database.shared_buffers": MB, "database.max_connections": 12}
    configure(database, home, small)
    database.start()
    database.wait_ready(60)
    found = {}
    for name, witness in to_run(effects.RELOADED):
        seen = []
        before = {each: database.read_back(each) for each in (name, *witness.under)}
        for level in witness.levels:
            levels = {**small, **witness.under, name: level}
            if live.issuperset({name, *witness.under}):
                database.apply({**witness.under, name: level})
            else:  # sessions that are open keep their plans, so it is not live
                configure(database, home, levels)
                database._write_configuration()
                run(database, "SELECT pg_reload_conf()")
            assert wait_for(partial(in_force, database, levels)), name
            seen.append(witness.measure(database))
        if live.issuperset(before):
            database.apply(before)
        found[name] = seen
    assert without_effect(effects.RELOADED, found) == {}
    database.apply({name: LEVELS[name] for name in live.difference(effects.RELOADED)})
    with pytest.raises(UsageError, match=r"database\.max_connections: cannot be changed while it runs"):
        database.apply({"database.max_connections": 13})
    assert database.stop()
    configure(database, home, small)
    database.start()
    database.wait_ready(60)
    defaults = {
        knob.name: knob.default
        for knob in catalogue.load("postgres").values()
        if knob.name in live and knob.default is not None
    }
    assert in_force(database, defaults), "a live change does not outlive its start"


def test_levels_that_a_start_sets_take_effect(home: Path, database: Postgres) -> None:
    found = over_two_starts(database, effects.RESTARTED, partial(configure, database, home))
    assert without_effect(effects.RESTARTED, found) == {}


def test_a_restore_is_exact(database: Postgres) -> None:
    fresh = database.digest()
    database.start()
    database.wait_ready(60)
    run(database, "UPDATE account SET balance = balance - 1")
    run(database, "CREATE TABLE other (id int)")
    assert database.stop()
    assert database.digest() != fresh
    database.restore("fresh")
    assert database.digest() == fresh
    database.start()
    database.wait_ready(60)
    assert run(database, "SELECT count(*), sum(balance) FROM account") == [[50000, 5000000]]
    assert run(database, "SELECT to_regclass('other')") == [[None]]


def test_a_level_that_does_not_fit_fails_with_the_servers_words(home: Path, database: Postgres) -> None:
    configure(database, home, {"database.shared_buffers": 1024**4})
    with little_address_space():
        database.start()
    with pytest.raises(TrialFailure, match="could not map anonymous shared memory") as caught:
        database.wait_ready(60)
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert "reduce the request size" in caught.value.evidence


def test_its_port_and_its_data_are_its_own(home: Path, database: Postgres, tmp_path: Path) -> None:
    database.start()
    database.wait_ready(60)
    second = prepared(home, {}, PORT + 1)
    with pytest.raises(TrialFailure, match="still runs on the data") as caught:
        second.start()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    with pytest.raises(TrialFailure, match="still runs on the data"):
        second.restore("fresh")
    other = prepared(tmp_path, {}, PORT)
    with pytest.raises(TrialFailure, match=f"port {PORT} on 127.0.0.1 is in use"):
        other.start()
    stranger = Endpoint("127.0.0.1", PORT, "leadline", "leadline", "a guess")
    with pytest.raises(client.QueryError, match="password") as refused, client.connect(stranger):
        pass
    assert refused.value.code == "28P01"


def test_a_killed_server_leaves_nothing_behind_after_the_restore(database: Postgres) -> None:
    process = database.start()
    database.wait_ready(60)
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    shared = {Path(word) for word in maps.split() if word.startswith("/dev/shm/PostgreSQL.")}
    assert shared
    run(database, "UPDATE account SET balance = 1")
    members = process.pids()
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() and pid != process.pid for pid in members):
        assert time.monotonic() < deadline, "children outlive their postmaster"
        time.sleep(0.02)
    assert not database.stop()
    if os.geteuid() != 0:  # else they went with the user that they belonged to
        assert all(path.exists() for path in shared)
    database.restore("fresh")
    assert not any(path.exists() for path in shared)
    database.start()
    database.wait_ready(60)
    assert run(database, "SELECT sum(balance) FROM account") == [[5000000]]
