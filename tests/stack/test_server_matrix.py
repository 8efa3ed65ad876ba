"""Servers and frameworks for real: every knob off its default with a load and all audits, the ways to fail to start.

With LEADLINE_MATRIX=1 every server with every database in every mode, too; ``pytest -s`` prints the table.
"""

import ssl
import urllib.request
from pathlib import Path

import pytest
import server_cells
from witnesses import matrix

from leadline.model.errors import FailureClass, UsageError
from leadline.model.knob import Level
from leadline.stack import registry
from leadline.stack.assembly import Stack
from leadline.stack.places import NAMES as PLACES
from leadline.stack.servers.knobs import KNOBS as MESSAGING

pytestmark = pytest.mark.stack

MIB = 1024**2
FRAMEWORKS = ("quarkus", "spring-boot")
LEVELS: dict[str, Level] = {
    "server.datasource.max_connections": 7,
    "server.datasource.min_connections": 2,
    "server.datasource.statement_cache": 33,
    "server.datasource.connection_timeout": 17.0,
    "server.datasource.idle_timeout": 420.0,
    "server.datasource.max_age": 1200.0,
    "server.datasource.purge_policy": "entire-pool",
    "server.datasource.validation": True,
    "server.threads.max": 19,
    "server.threads.min": 11,
    "server.threads.keep_alive": 44.0,
    "server.threads.queue": 55,
    "server.threads.io": 3,
    "server.beans.max_instances": 9,
    "server.calls.by_reference": True,
    "server.http.max_connections": 77,
    "server.http.accept_queue": 66,
    "server.http.max_keep_alive_requests": 123,
    "server.http.keep_alive_timeout": 7.0,
    "server.http.http2": False,
    "server.tls": True,
    "server.http.compression": True,
    "server.monitoring": True,
    "server.access_log": True,
}
# Calls by the remote interface are what passing by reference is about.
APPLICATION: dict[str, dict[str, Level]] = {"wildfly": {"app.calls": "remote"}}
LOGS = {"tomee": "tomee/logs/access.log", "wildfly": "wildfly/log/access.log"}
FIGURES = {  # of pools, beside those of each
    "glassfish": {"pool.waiting", "pool.wait_ms_mean", "statements.discarded", "http.connections"},
    "wildfly": {"pool.waiting", "pool.wait_ms_mean", "statements.discarded"},
}
CELLS = [
    (app, server, database, mode)
    for app in ("brokerage", "dealership")
    for server in registry.SERVERS
    for database in registry.DATABASES
    for mode in registry.modes(app, server)
    if app == "brokerage" or registry.SERVERS[server].reaches(database)
]


def stack(place: Path, server: str, mode: str = "direct", **more: str) -> Stack:
    """Of the brokerage, or of the dealership where a framework runs it, with these properties."""
    app = "dealership" if server in FRAMEWORKS else "brokerage"
    return server_cells.stack(place, server, mode, app=app, properties=more)


def own_levels(made: Stack) -> dict[str, Level]:
    """Of each knob that the server has. Messaging is in test_messaging.py, places are in test_places_real.py."""
    elsewhere = PLACES | {knob.name for knob in MESSAGING}
    own = {knob.name: knob.default for knob in made.server.knobs() if knob.name.startswith("server.")}
    own = {name: default for name, default in own.items() if name not in elsewhere}
    assert set(own) <= set(LEVELS), "every knob is given a level"
    assert [name for name in own if LEVELS[name] == own[name]] == [], "levels differ from the defaults"
    return {name: LEVELS[name] for name in own}


def compresses(made: Stack) -> None:
    request = urllib.request.Request(f"{made.url()}/", headers={"Accept-Encoding": "gzip"})
    trust = ssl.create_default_context(cadata=made.certificate())
    with urllib.request.urlopen(request, timeout=30, context=trust) as response:
        assert response.headers["Content-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "server",
    ["tomee", "wildfly", pytest.param("glassfish", marks=matrix("GlassFish takes half a minute of CPU")), *FRAMEWORKS],
)
def test_every_knob_with_a_load_and_all_audits(server: str, tmp_path: Path) -> None:
    made = stack(tmp_path, server, "direct" if server in FRAMEWORKS else "orm")
    own = own_levels(made)
    levels = own | {"jvm.heap": (400 if server == "glassfish" else 300) * MIB, "jvm.collector": "parallel"}

    def every_level_is_in_force(running: Stack) -> None:
        assert {name: running.read_back(name) for name in levels} == levels
        server_cells.changes_while_it_runs(running, own)
        if server == "wildfly":
            compresses(running)
        if server not in FRAMEWORKS:
            server_cells.answers_by_tls_only(running)

    cell = server_cells.run(made, tmp_path, levels | APPLICATION.get(server, {}), every_level_is_in_force)
    assert cell.failed == 0
    if server in (*FRAMEWORKS, "wildfly"):
        assert cell.copies == 0, "remote calls by reference"  # by value they copy: test_messaging.py
    pools = cell.pools
    assert pools["pool.max"] == LEVELS["server.datasource.max_connections"]
    assert 1 <= pools["pool.in_use"] <= pools["pool.size"] <= pools["pool.max"]
    assert pools["threads.max"] == LEVELS["server.threads.max"]
    if server != "quarkus":  # its executor does not count them
        assert 1 <= pools["threads.active"] <= pools.get("threads.size", pools["threads.max"]) <= pools["threads.max"]
    assert FIGURES.get(server, set()) <= set(pools)
    if server in FIGURES:
        assert pools["statements.uses"] > pools["statements.prepared"] > 0
        kept = LEVELS["server.datasource.statement_cache"] * LEVELS["server.datasource.max_connections"]
        assert 0 < pools["statements.kept"] <= kept
    if server == "glassfish":
        assert pools["pool.requests"] > pools["pool.created"] >= pools["pool.size"]
        assert pools["agent.errors"] == 0
    if server in LOGS:
        assert "GET /brokerage/" in (tmp_path / "home" / LOGS[server]).read_text()


@matrix("another database")
def test_spring_boot_on_mariadb(tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, "spring-boot", "direct", "mariadb", app="dealership")

    def kept(running: Stack) -> None:
        assert running.read_back("server.datasource.statement_cache") == 33

    assert server_cells.run(made, tmp_path, {"server.datasource.statement_cache": 33}, kept).failed == 0


TTL = {"brokerage.summary.ttl": "soon"}
CALLS = {"dealership.calls": "remote"}


@pytest.mark.parametrize(
    ("server", "properties", "words", "evidence"),
    [
        ("tomee", TTL, "TomEE could not start the application: .*Startup", 'brokerage.summary.ttl is "soon"'),
        pytest.param(
            *("wildfly", TTL, "WildFly could not start the application: .*Startup", 'brokerage.summary.ttl is "soon"'),
            marks=matrix("TomEE is told the same way"),
        ),
        *(
            pytest.param(
                *(name, CALLS, "ended with exit code 1 before it was ready"),
                'dealership.calls is "remote"; a program without enterprise beans has local only',
                marks=marks,
            )
            for name, marks in (("spring-boot", ()), ("quarkus", matrix("Spring Boot is told the same way")))
        ),
    ],
)
def test_an_application_that_does_not_start_is_told_in_its_words(
    server: str, properties: dict[str, str], words: str, evidence: str, tmp_path: Path
) -> None:
    failure = server_cells.refuses_to_start(stack(tmp_path, server, **properties), tmp_path, {}, words)
    assert failure.failure_class is FailureClass.CONFIGURATION
    assert evidence in (failure.evidence if server in FRAMEWORKS else failure.evidence.splitlines()[0])


@pytest.mark.parametrize(
    "server",
    ["spring-boot", *(pytest.param(name, marks=matrix("as Spring Boot")) for name in ("tomee", "wildfly", "quarkus"))],
)
def test_a_port_taken_after_the_check_is_an_infrastructure_failure(server: str, tmp_path: Path) -> None:
    server_cells.port_taken(stack(tmp_path, server), tmp_path)


def test_a_jdk_that_is_too_new_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "bin" / "java").touch()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="24.0.1"\n')
    with pytest.raises(UsageError, match=r"TomEE 9\.0\.0 runs on Java 17 to 23; .* is Java 24"):
        server_cells.stack(tmp_path, "tomee", "direct", java=tmp_path / "jdk")


@matrix("the whole matrix takes some minutes")
@pytest.mark.parametrize(("app", "server", "database", "mode"), CELLS)
def test_a_cell(app: str, server: str, database: str, mode: str, tmp_path: Path) -> None:
    made = server_cells.stack(tmp_path, server, mode, database, app=app)
    cell = server_cells.run(made, tmp_path, {})
    print(
        f"\n| {app} | {server} | {database} | {mode} | {cell.ready:.1f} | {cell.cpu:.1f} | {cell.resident / 2**20:.0f}"
        f" | {cell.ok} | {cell.failed} |"
    )
    assert cell.failed == 0
