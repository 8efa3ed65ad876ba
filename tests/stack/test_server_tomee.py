"""TomEE for real: every knob off its default with a load and all audits, and the ways to fail to start."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_cells

from leadline.model.errors import FailureClass, UsageError
from leadline.model.knob import Level
from leadline.stack.assembly import Stack
from leadline.stack.servers.messaging import KNOBS as MESSAGING
from leadline.stack.servers.server_places import NAMES as PLACES

pytestmark = pytest.mark.stack

MIB = 1024**2
LEVELS: dict[str, Level] = {
    "server.datasource.max_connections": 7,
    "server.datasource.min_connections": 2,
    "server.datasource.statement_cache": 33,
    "server.datasource.connection_timeout": 17.0,
    "server.datasource.idle_timeout": 600.0,
    "server.datasource.max_age": 1200.0,
    "server.datasource.validation": True,
    "server.threads.max": 19,
    "server.threads.min": 11,
    "server.threads.keep_alive": 44.0,
    "server.threads.queue": 55,
    "server.beans.max_instances": 9,
    "server.http.max_connections": 77,
    "server.http.accept_queue": 66,
    "server.http.max_keep_alive_requests": 123,
    "server.http.keep_alive_timeout": 7.0,
    "server.http.http2": False,
    "server.tls": True,
    "server.http.compression": True,
    "server.access_log": True,
}
JVM: dict[str, Level] = {"jvm.heap": 300 * MIB, "jvm.collector": "parallel"}


def every_level_is_in_force(made: Stack) -> None:
    # messaging is in play where orders go through a queue (test_messaging.py); places have test_places_real.py
    elsewhere = PLACES | {knob.name for knob in MESSAGING}
    own = {
        knob.name: knob.default
        for knob in made.server.knobs()
        if knob.name.startswith("server.") and knob.name not in elsewhere
    }
    assert set(LEVELS) == set(own), "every knob is given a level"
    assert [name for name, level in LEVELS.items() if level == own[name]] == [], "levels differ from the defaults"
    levels = LEVELS | JVM
    assert {name: made.read_back(name) for name in levels} == levels
    server_cells.changes_while_it_runs(made, LEVELS)
    server_cells.answers_by_tls_only(made)


def test_every_knob_with_a_load_and_all_audits(tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, "tomee", "orm")
    cell = server_cells.run(made, tmp_path, LEVELS | JVM, every_level_is_in_force)
    assert cell.failed == 0
    assert cell.pools["pool.max"] == LEVELS["server.datasource.max_connections"]
    assert 1 <= cell.pools["pool.in_use"] <= cell.pools["pool.size"] <= cell.pools["pool.max"]
    assert cell.pools["threads.max"] == LEVELS["server.threads.max"]
    assert 1 <= cell.pools["threads.active"] <= cell.pools["threads.max"]
    assert "GET /brokerage/" in (tmp_path / "home" / "tomee" / "logs" / "access.log").read_text()


def test_an_application_that_does_not_start_is_told_in_its_words(tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, "tomee", "direct", properties={"brokerage.summary.ttl": "soon"})
    failure = server_cells.refuses_to_start(made, tmp_path, {}, "TomEE could not start the application: .*Startup")
    assert failure.failure_class is FailureClass.CONFIGURATION
    assert 'brokerage.summary.ttl is "soon"' in failure.evidence.splitlines()[0]


def test_a_port_taken_after_the_check_is_an_infrastructure_failure(tmp_path: Path) -> None:
    server_cells.port_taken(server_cells.stack(tmp_path, "tomee", "direct"), tmp_path)


def test_a_jdk_that_is_too_new_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "bin" / "java").touch()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="24.0.1"\n')
    with pytest.raises(UsageError, match=r"TomEE 9\.0\.0 runs on Java 17 to 23; .* is Java 24"):
        server_cells.stack(tmp_path, "tomee", "direct", java=tmp_path / "jdk")
