"""GlassFish for real: every knob off its default with a load and all audits. Thirty seconds of CPU, so only on wish."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_cells
from witnesses import matrix

from leadline.model.knob import Level
from leadline.stack.assembly import Stack
from leadline.stack.servers.messaging import KNOBS as MESSAGING
from leadline.stack.servers.server_places import NAMES as PLACES

pytestmark = [
    pytest.mark.stack,
    matrix("GlassFish takes half a minute of CPU"),
]

MIB = 1024**2
LEVELS: dict[str, Level] = {
    "server.datasource.max_connections": 7,
    "server.datasource.min_connections": 2,
    "server.datasource.statement_cache": 33,
    "server.datasource.connection_timeout": 17.0,
    "server.datasource.idle_timeout": 600.0,
    "server.datasource.validation": True,
    "server.threads.max": 19,
    "server.threads.min": 11,
    "server.threads.keep_alive": 44.0,
    "server.threads.queue": 55,
    "server.beans.max_instances": 9,
    "server.http.max_connections": 77,
    "server.http.max_keep_alive_requests": 123,
    "server.http.keep_alive_timeout": 7.0,
    "server.tls": True,
    "server.http.compression": True,
    "server.access_log": True,
    "server.monitoring": True,
}
JVM: dict[str, Level] = {"jvm.heap": 400 * MIB, "jvm.collector": "parallel"}


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
    made = server_cells.stack(tmp_path, "glassfish", "orm")
    cell = server_cells.run(made, tmp_path, LEVELS | JVM, every_level_is_in_force)
    assert cell.failed == 0
    assert cell.pools["pool.max"] == LEVELS["server.datasource.max_connections"]
    assert 1 <= cell.pools["pool.in_use"] <= cell.pools["pool.size"] <= cell.pools["pool.max"]
    assert cell.pools["pool.requests"] > cell.pools["pool.created"] >= cell.pools["pool.size"]
    assert cell.pools["threads.max"] == LEVELS["server.threads.max"]
    assert 1 <= cell.pools["threads.active"] <= cell.pools["threads.size"] <= cell.pools["threads.max"]
    assert cell.pools["statements.uses"] > cell.pools["statements.prepared"] > 0
    kept = int(cell.pools["pool.size"]) * int(str(LEVELS["server.datasource.statement_cache"]))
    assert 0 < cell.pools["statements.kept"] <= kept
    assert cell.pools["agent.errors"] == 0
    assert {"pool.waiting", "pool.wait_ms_mean", "statements.discarded", "http.connections"} <= set(cell.pools)
