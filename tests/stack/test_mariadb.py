"""The real MariaDB: catalogue against the server, settings, data, faults, the application's data."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mariadb_effects as effects
import pytest
from witnesses import little_address_space, matrix, over_two_starts, statements_are_told, to_run, until, without_effect

from leadline import catalogue
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import ApplyCost, Kind, Level
from leadline.stack import mariadb as client
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.mariadb import MariaDb, parse, render

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("own_cache")]

KB, MB = 1024, 1024**2

# Away from every default.
LEVELS: dict[str, Level] = {
    "database.innodb_buffer_pool_size": 37 * MB,
    "database.innodb_buffer_pool_load_at_startup": False,
    "database.innodb_adaptive_hash_index": True,
    "database.sort_buffer_size": 1000001,
    "database.join_buffer_size": 128 * 1001,
    "database.tmp_table_size": 48 * KB,
    "database.max_heap_table_size": 33 * KB,
    "database.innodb_flush_log_at_trx_commit": 2,
    "database.innodb_log_file_size": 20 * MB,
    "database.innodb_log_buffer_size": 4 * MB + 4 * KB,
    "database.log_bin": True,
    "database.sync_binlog": 7,
    "database.binlog_commit_wait_count": 3,
    "database.binlog_commit_wait_usec": 50,
    "database.innodb_flush_method": "O_DSYNC",
    "database.innodb_doublewrite": "fast",
    "database.innodb_io_capacity": 321,
    "database.innodb_io_capacity_max": 4321,
    "database.innodb_flush_neighbors": 0,
    "database.innodb_max_dirty_pages_pct": 61.5,
    "database.innodb_max_dirty_pages_pct_lwm": 7.5,
    "database.innodb_read_io_threads": 2,
    "database.innodb_write_io_threads": 3,
    "database.innodb_use_native_aio": False,
    "database.innodb_purge_threads": 2,
    "database.transaction_isolation": "READ-COMMITTED",
    "database.innodb_snapshot_isolation": True,
    "database.innodb_lock_wait_timeout": 11.0,
    "database.innodb_deadlock_detect": False,
    "database.innodb_autoinc_lock_mode": 2,
    "database.max_connections": 37,
    "database.thread_handling": "pool-of-threads",
    "database.thread_pool_size": 3,
    "database.thread_cache_size": 5,
    "database.table_open_cache": 400,
    "database.max_prepared_stmt_count": 500,
    "database.query_cache_type": "demand",
    "database.query_cache_size": 3 * MB,
    "database.innodb_stats_auto_recalc": False,
    "database.performance_schema": True,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance with a table, stopped, and its snapshot ``fresh``."""
    home = tmp_path_factory.mktemp("mariadb")
    database = MariaDb()
    configure(database, home, {})
    database.provision(lambda _: None)
    database.start()
    database.wait_ready(60)
    run(database, "CREATE TABLE account (id INT PRIMARY KEY, balance INT)")
    run(database, "INSERT INTO account SELECT seq, 100 FROM seq_1_to_20000")
    run(database, "CREATE TABLE wide (id INT PRIMARY KEY, filler CHAR(250) CHARACTER SET latin1)")
    run(database, "INSERT INTO wide SELECT seq, 'x' FROM seq_1_to_40000")
    database.settle()
    assert database.stop()
    database.snapshot("fresh")
    return home


@pytest.fixture
def database(home: Path) -> Iterator[MariaDb]:
    database = MariaDb()
    configure(database, home, {})
    database.restore("fresh")
    yield database
    database.stop()


def configure(database: MariaDb, home: Path, settings: dict[str, Level], profile: bool = False) -> None:
    host = LocalHost(state=home / "state")
    context = ServiceContext(host=host, directory=home / "run", artefacts=home / "logs", profile=profile)
    database.configure(context, settings)


def run(database: MariaDb, statement: str) -> list[tuple[Any, ...]]:
    with client.connect(database.endpoint(), timeout=60) as connection:
        return client.query(connection, statement)


def test_the_catalogue_is_what_the_server_says_of_itself(database: MariaDb) -> None:
    database.start()
    database.wait_ready(60)
    rows = run(
        database,
        "SELECT VARIABLE_NAME, DEFAULT_VALUE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE, ENUM_VALUE_LIST"
        " FROM information_schema.SYSTEM_VARIABLES",
    )
    found = {row[0].lower(): row[1:] for row in rows}
    for knob in catalogue.load("mariadb").values():
        default, low, high, choices = found[knob.names["mariadb"]]
        if knob.default is not None and default is not None:  # the server does not tell log_bin's
            assert parse(knob.name, default) == knob.default, knob.name
        if knob.kind is Kind.CHOICE:
            known = {choice.casefold() for choice in choices.split(",")} - {"no-threads"}  # for debugging only
            assert {choice.casefold() for choice in knob.choices} == known, knob.name
        for bound, limit, sign in ((knob.minimum, low, 1), (knob.maximum, high, -1)):
            if bound is not None:
                assert sign * bound >= sign * float(limit), f"{knob.name} allows {bound}, the server {limit}"
    assert {name: database.read_back(name) for name in ("database.log_bin",)} == {"database.log_bin": False}


def test_statements_are_told_without_literals_while_they_are_tracked(home: Path, database: MariaDb) -> None:
    configure(database, home, {}, profile=True)
    statements_are_told(database, run, "...")


def test_levels_are_in_force_and_counters_count(home: Path, database: MariaDb) -> None:
    assert set(LEVELS) == {knob.name for knob in catalogue.load("mariadb").values()}
    assert not {knob.name for knob in catalogue.load("mariadb").values() if knob.default == LEVELS[knob.name]}
    configure(database, home, LEVELS)
    process = database.start()
    assert database.wait_ready(60) > 0
    assert {name: database.read_back(name) for name in LEVELS} == LEVELS
    before = database.stats()
    run(database, "UPDATE account SET balance = 0 WHERE id <= 1000")
    after = database.stats()
    assert after["Com_update"] - before["Com_update"] == 1
    assert after["Innodb_os_log_written"] > before["Innodb_os_log_written"]
    assert after["Binlog_commits"] - before["Binlog_commits"] == 1
    until(lambda: database.stats()["Threads_connected"] == 1, 10, "the update's connection is still there")
    assert database.stop()
    assert not process.alive()
    kept = {path.name: path.read_text() for path in database.artefacts()}
    assert "innodb_buffer_pool_size" in kept["mariadb.cnf"]
    assert "ready for connections" in kept["mariadb.log"]
    assert "Shutdown complete" in kept["mariadb.log"]
    password = database.endpoint().password
    assert not any(password in text for text in kept.values())
    assert LocalHost(state=home / "state").restore() == [], "its journal entries are closed"
    with pytest.raises(LookupError):
        database.read_back("database.max_connections")


def set_live(database: MariaDb, name: str, level: Level) -> None:
    if name in {knob.name for knob in catalogue.load("mariadb").values() if knob.apply_cost is ApplyCost.LIVE}:
        database.apply({name: level})
        return
    # Sessions that are open keep theirs, so it is not live.
    own, _, value = render(name, level).partition(" = ")
    run(database, f"SET GLOBAL {own} = " + (f"'{value}'" if isinstance(level, str) else value))
    assert database.read_back(name) == level


@matrix("each live level is changed under a load; those of a start are seen here")
def test_levels_that_change_in_the_running_server_take_effect(home: Path, database: MariaDb) -> None:
    configure(database, home, {"database.log_bin": True, "database.performance_schema": True})
    database.start()
    database.wait_ready(60)
    found = {}
    for name, witness in to_run(effects.LIVE):
        before = {each: database.read_back(each) for each in (name, *witness.under)}
        for other, level in witness.under.items():
            set_live(database, other, level)
        seen = []
        for level in witness.levels:
            set_live(database, name, level)
            seen.append(witness.measure(database))
        for each, level in before.items():
            set_live(database, each, level)
        found[name] = seen
    assert without_effect(effects.LIVE, found) == {}
    live = {knob.name for knob in catalogue.load("mariadb").values() if knob.apply_cost is ApplyCost.LIVE}
    database.apply({name: LEVELS[name] for name in live.difference(effects.LIVE)})


def test_levels_that_a_start_sets_take_effect(home: Path, database: MariaDb) -> None:
    found = over_two_starts(database, effects.RESTARTED, partial(configure, database, home))
    assert without_effect(effects.RESTARTED, found) == {}


def test_a_restore_is_exact(database: MariaDb) -> None:
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
    assert run(database, "SELECT COUNT(*), SUM(balance) FROM account") == [(20000, 2000000)]
    assert run(database, "SHOW TABLES") == [("account",), ("wide",)]


def test_a_level_that_does_not_fit_fails_with_the_servers_words(home: Path, database: MariaDb) -> None:
    configure(database, home, {"database.innodb_buffer_pool_size": 1024**5})
    with little_address_space():
        database.start()
    with pytest.raises(TrialFailure, match="annot allocate") as caught:
        database.wait_ready(60)
    assert caught.value.failure_class is FailureClass.CONFIGURATION
    assert "[ERROR]" in caught.value.evidence


def test_its_port_and_its_data_are_its_own(home: Path, database: MariaDb, tmp_path: Path) -> None:
    database.start()
    database.wait_ready(60)
    second = MariaDb()
    configure(second, home, {})
    with pytest.raises(TrialFailure, match="still runs on the data") as caught:
        second.start()
    assert caught.value.failure_class is FailureClass.INFRASTRUCTURE
    with pytest.raises(TrialFailure, match="still runs on the data"):
        second.restore("fresh")
    endpoint = database.endpoint()
    for user, password in (("leadline", "a guess"), ("root", ""), ("", "")):
        stranger = Endpoint("127.0.0.1", endpoint.port, "leadline", user, password)
        with pytest.raises(client.QueryError) as refused, client.connect(stranger):
            pass
        assert refused.value.code == 1045  # access denied
    other = MariaDb(endpoint.port)
    configure(other, tmp_path, {})
    (tmp_path / "run" / "data" / "mysql").mkdir(parents=True)  # as if there were data
    with pytest.raises(TrialFailure, match=f"port {endpoint.port} on 127.0.0.1 is in use"):
        other.start()


def test_a_killed_server_is_recovered_or_restored(database: MariaDb) -> None:
    process = database.start()
    database.wait_ready(60)
    run(database, "UPDATE account SET balance = 1")
    os.kill(process.pid, signal.SIGKILL)
    assert not database.stop()
    with pytest.raises(LeadlineError, match="did not stop cleanly"):
        database.snapshot("dirty")
    database.start()
    database.wait_ready(60)
    assert run(database, "SELECT SUM(balance) FROM account") == [(20000,)], "what was committed is there"
    assert database.stop()
    database.restore("fresh")
    database.start()
    database.wait_ready(60)
    assert run(database, "SELECT SUM(balance) FROM account") == [(2000000,)]
