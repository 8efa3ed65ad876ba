"""WildFly for real: every knob off its default with a load and all audits, and the ways to fail to start."""

from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path

import pytest
import server_cells
from witnesses import matrix

from leadline.model.errors import FailureClass
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
    "server.datasource.purge_policy": "entire-pool",
    "server.datasource.validation": True,
    "server.threads.max": 19,
    "server.threads.min": 11,
    "server.threads.keep_alive": 44.0,
    "server.threads.io": 3,
    "server.beans.max_instances": 9,
    "server.calls.by_reference": True,
    "server.http.max_connections": 77,
    "server.http.accept_queue": 66,
    "server.http.keep_alive_timeout": 7.0,
    "server.http.http2": False,
    "server.tls": True,
    "server.http.compression": True,
    "server.monitoring": True,
    "server.access_log": True,
}
JVM: dict[str, Level] = {"jvm.heap": 300 * MIB, "jvm.collector": "parallel"}
# The application's: calls by the remote interface are what passing by reference is about.
APPLICATION: dict[str, Level] = {"app.calls": "remote"}


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
    request = urllib.request.Request(f"{made.url()}/", headers={"Accept-Encoding": "gzip"})
    trust = ssl.create_default_context(cadata=made.certificate())
    with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
    server_cells.answers_by_tls_only(made)


def test_every_knob_with_a_load_and_all_audits(tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, "wildfly", "orm")
    cell = server_cells.run(made, tmp_path, LEVELS | JVM | APPLICATION, every_level_is_in_force)
    assert cell.failed == 0
    assert cell.copies == 0, "remote calls by reference"  # by value they copy: test_messaging.py
    assert cell.pools["pool.max"] == LEVELS["server.datasource.max_connections"]
    assert 1 <= cell.pools["pool.in_use"] <= cell.pools["pool.size"] <= cell.pools["pool.max"]
    assert cell.pools["threads.max"] == LEVELS["server.threads.max"]
    assert 1 <= cell.pools["threads.active"] <= cell.pools["threads.max"]
    assert cell.pools["statements.uses"] > cell.pools["statements.prepared"] > 0
    kept = LEVELS["server.datasource.statement_cache"] * LEVELS["server.datasource.max_connections"]
    assert 0 < cell.pools["statements.kept"] <= kept
    assert {"pool.waiting", "pool.wait_ms_mean", "statements.discarded"} <= set(cell.pools)
    log = tmp_path / "home" / "wildfly" / "log" / "access.log"
    assert "GET /brokerage/" in log.read_text()


@matrix("TomEE is told the same way")
def test_an_application_that_does_not_start_is_told_in_its_words(tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, "wildfly", "direct", properties={"brokerage.summary.ttl": "soon"})
    failure = server_cells.refuses_to_start(made, tmp_path, {}, "WildFly could not start the application: .*Startup")
    assert failure.failure_class is FailureClass.CONFIGURATION
    assert 'brokerage.summary.ttl is "soon"' in failure.evidence.splitlines()[0]


@matrix("TomEE and Spring Boot are told the same way")
def test_a_port_taken_after_the_check_is_an_infrastructure_failure(tmp_path: Path) -> None:
    server_cells.port_taken(server_cells.stack(tmp_path, "wildfly", "direct"), tmp_path)
