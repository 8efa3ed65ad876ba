"""Frameworks as servers, for real: every knob off its default with a load and all audits, and the ways to fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import server_cells
from witnesses import matrix

from leadline.model.errors import FailureClass
from leadline.model.knob import Level
from leadline.stack.assembly import Stack

pytestmark = pytest.mark.stack

MIB = 1024**2
FRAMEWORKS = pytest.mark.parametrize("name", ["quarkus", "spring-boot"])
LEVELS: dict[str, Level] = {
    "server.datasource.max_connections": 7,
    "server.datasource.min_connections": 2,
    "server.datasource.statement_cache": 33,
    "server.datasource.connection_timeout": 17.0,
    "server.datasource.idle_timeout": 300.0,
    "server.datasource.max_age": 1200.0,
    "server.threads.max": 19,
    "server.threads.min": 11,
    "server.http.max_connections": 77,
    "server.http.accept_queue": 66,
    "server.http.max_keep_alive_requests": 123,
}
JVM: dict[str, Level] = {"jvm.heap": 300 * MIB, "jvm.collector": "parallel"}


def own_levels(made: Stack) -> dict[str, Level]:
    """Of each knob that the framework has."""
    own = {knob.name: knob.default for knob in made.server.knobs() if knob.name.startswith("server.")}
    assert set(own) <= set(LEVELS), "every knob is given a level"
    assert [name for name in own if LEVELS[name] == own[name]] == [], "levels differ from the defaults"
    return {name: LEVELS[name] for name in own}


@FRAMEWORKS
def test_every_knob_with_a_load_and_all_audits(name: str, tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, name, "direct", app="dealership")
    own = own_levels(made)
    levels = own | JVM

    def every_level_is_in_force(running: Stack) -> None:
        assert {each: running.read_back(each) for each in levels} == levels
        server_cells.changes_while_it_runs(running, own)

    cell = server_cells.run(made, tmp_path, levels, every_level_is_in_force)
    assert cell.failed == 0
    assert cell.copies == 0
    assert cell.pools["pool.max"] == LEVELS["server.datasource.max_connections"]
    assert 1 <= cell.pools["pool.in_use"] <= cell.pools["pool.size"] <= cell.pools["pool.max"]
    assert cell.pools["threads.max"] == LEVELS["server.threads.max"]
    if name != "quarkus":  # its executor does not count them
        assert 1 <= cell.pools["threads.active"] <= cell.pools["threads.max"]


@matrix("another database")
def test_spring_boot_on_mariadb(tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, "spring-boot", "direct", "mariadb", app="dealership")
    levels: dict[str, Level] = {"server.datasource.statement_cache": 33}

    def kept(running: Stack) -> None:
        assert running.read_back("server.datasource.statement_cache") == 33

    assert server_cells.run(made, tmp_path, levels, kept).failed == 0


@FRAMEWORKS
def test_an_application_that_does_not_start_is_told_in_its_words(name: str, tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, name, "direct", app="dealership", properties={"dealership.calls": "remote"})
    failure = server_cells.refuses_to_start(made, tmp_path, {}, "ended with exit code 1 before it was ready")
    assert failure.failure_class is FailureClass.CONFIGURATION
    assert 'dealership.calls is "remote"; a program without enterprise beans has local only' in failure.evidence


@pytest.mark.parametrize(
    "name", [pytest.param("quarkus", marks=matrix("Spring Boot is told the same way")), "spring-boot"]
)
def test_a_port_taken_after_the_check_is_an_infrastructure_failure(name: str, tmp_path: Path) -> None:
    server_cells.port_taken(server_cells.stack(tmp_path, name, "direct", app="dealership"), tmp_path)
