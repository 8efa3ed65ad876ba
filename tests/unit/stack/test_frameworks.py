"""Frameworks as servers: who runs on them, what is written for levels, what is read from their answers."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server_context import PASSWORD, server_context

from leadline.model.errors import UsageError
from leadline.model.knob import Level
from leadline.model.study import StackChoice
from leadline.places.running import choice_of
from leadline.stack import registry
from leadline.stack.base import ServiceContext
from leadline.stack.provision import DRIVERS
from leadline.stack.servers.framework import Framework, SpringBoot

ROOT = Path(__file__).parents[3]
FRAMEWORKS = [kind for kind in registry.SERVERS.values() if issubclass(kind, Framework)]
EACH = pytest.mark.parametrize("kind", FRAMEWORKS)
LEVELS: dict[str, Level] = {
    "server.datasource.max_connections": 7,
    "server.datasource.min_connections": 2,
    "server.datasource.statement_cache": 40,
    "server.datasource.connection_timeout": 4.5,
    "server.threads.max": 19,
}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    made = server_context(tmp_path, monkeypatch, "direct", java_home=tmp_path)
    program = tmp_path / "program.jar"
    program.touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    application = replace(made.application, programs={kind.name: program for kind in FRAMEWORKS})
    return replace(made, deployment=application)


def properties(server: Framework, context: ServiceContext, levels: Mapping[str, Level]) -> dict[str, str]:
    server.configure(context, levels)
    lines = (context.directory / server.configuration).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@EACH
def test_the_release_is_the_one_that_maven_builds_with(kind: type[Framework]) -> None:
    pinned = re.search(rf"<{kind.name}.version>(.*)</", (ROOT / "workloads" / "pom.xml").read_text())
    assert pinned
    assert kind().version == pinned[1]


@EACH
def test_only_what_is_built_for_it_runs(kind: type[Framework], context: ServiceContext) -> None:
    name = kind.name
    assert registry.modes("dealership", name) == ["direct"]
    assert registry.modes("brokerage", name) == []
    assert registry.applications_on(name) == ["dealership"]
    assert choice_of(name).app == "dealership"
    with pytest.raises(UsageError, match=rf"brokerage is not built for {name}; it runs on glassfish, liberty"):
        registry.check_mode("brokerage", "direct", name)
    with pytest.raises(UsageError, match=rf"{name} cannot run dealership in mode session, only direct; glassfish"):
        registry.check_mode("dealership", "session", name)
    with pytest.raises(UsageError, match=f"brokerage is not built for {kind.title}"):
        kind().configure(replace(context, deployment=replace(context.application, programs={})), {})


@EACH
def test_what_needs_a_container_is_refused_with_who_has_it(kind: type[Framework]) -> None:
    knobs = {knob.name: knob for knob in registry.stack_catalogue(StackChoice(app="dealership", server=kind.name))}
    assert "mode direct calls no session bean" in knobs["app.calls"].refused["remote"]
    assert knobs["app.deliveries"].refused["queue"].endswith(f"not on {kind.name}")
    assert f"{kind.name} has no such mode" in knobs["app.mode"].refused["session"]
    told = registry.knob_of_others("server.calls.by_reference", kind.name, "postgres")
    assert told == f"{kind.name} has no knob server.calls.by_reference; wildfly has it"


@EACH
def test_levels_and_the_database_are_written_and_the_password_is_not_kept(
    kind: type[Framework], context: ServiceContext
) -> None:
    server = kind()
    found = properties(server, context, LEVELS)
    assert found[server.properties["server.datasource.max_connections"]] == "7"
    assert found[server.properties["server.threads.max"]] == "19"
    assert found[server.password] == PASSWORD.replace("\\", "\\\\")
    assert any(value.endswith("/leadline?preparedStatementCacheQueries=40") for value in found.values())
    kept = (context.artefacts / f"{kind.name}-levels.properties").read_text()
    assert "(not kept)" in kept
    assert "a<b&c" not in kept
    assert not set(properties(server, context, {})) & set(server.properties.values()), "no level, nothing written"
    command, _ = server.command(server.context)
    assert command[-2:] == ["-jar", str(context.application.programs[kind.name])]


@EACH
def test_more_kept_connections_than_the_most_are_refused(kind: type[Framework], context: ServiceContext) -> None:
    levels: dict[str, Level] = {"server.datasource.max_connections": 3, "server.datasource.min_connections": 4}
    with pytest.raises(UsageError, match=r"min_connections 4 is more than server.datasource.max_connections 3"):
        kind().configure(context, levels)


def test_levels_are_what_the_agent_read_from_pool_and_server(context: ServiceContext) -> None:
    server = SpringBoot()
    properties(server, context, {})
    answer: dict[str, Any] = {
        "properties": {
            "spring.datasource.hikari.jdbc-url": "jdbc:postgresql://h:1/d?preparedStatementCacheQueries=40",
            "spring.datasource.hikari.connection-timeout": 4500,
            "server.tomcat.threads.max": 19,
        },
        "errors": {"server.tomcat.accept-count": "java.lang.NoSuchMethodException: acceptCount"},
    }
    assert set(answer["properties"]) <= set(server.question().values())
    assert server.level_of("server.datasource.statement_cache", answer) == 40
    assert server.level_of("server.datasource.connection_timeout", answer) == 4.5
    assert server.level_of("server.threads.max", answer) == 19
    with pytest.raises(LookupError, match=r"does not tell the level of server.http.accept_queue: java.lang.NoSuch"):
        server.level_of("server.http.accept_queue", answer)


def test_live_levels_are_told_in_the_setters_own_unit(context: ServiceContext) -> None:
    server = SpringBoot()
    properties(server, context, {})
    told = server.changes({"server.datasource.connection_timeout": 4.5, "server.threads.max": 19}, {})
    assert told == {
        "property-set.00": "spring.datasource.hikari.connection-timeout=4500",
        "property-set.01": "server.tomcat.threads.max=19",
    }


def test_a_database_that_a_program_is_not_built_for_is_refused() -> None:
    told = "quarkus has no driver for mariadb: its program is built for postgres; glassfish, liberty, spring-boot"
    with pytest.raises(UsageError, match=told):
        registry.check_stack(StackChoice(app="dealership", server="quarkus", database="mariadb"))
    registry.check_stack(StackChoice(app="dealership", server="spring-boot", database="mariadb"))


@pytest.mark.parametrize("subprotocol", ["postgresql", "mariadb"])
@pytest.mark.parametrize("statements", [0, 40])
def test_the_drivers_cache_is_told_by_the_url(context: ServiceContext, subprotocol: str, statements: int) -> None:
    assert context.database is not None
    driver = DRIVERS[subprotocol]
    url = driver.pool_url(replace(context.database, subprotocol=subprotocol), statements)
    assert driver.statements(url) == statements
