"""Tomcat and Open Liberty for real: one start each, with every knob off its default, and the ways to fail to start."""

import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.observe.base import ObserverContext
from leadline.observe.pools import PoolsObserver
from leadline.stack.applications.brokerage import Brokerage
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.certificate import make_certificate
from leadline.stack.places import NAMES as PLACES
from leadline.stack.postgres import Postgres
from leadline.stack.probe import connection_to
from leadline.stack.provision import TOMCAT, fetch
from leadline.stack.servers.common import JavaServer
from leadline.stack.servers.knobs import KNOBS as MESSAGING
from leadline.stack.servers.liberty import Liberty
from leadline.stack.servers.tomcat import Tomcat

pytestmark = pytest.mark.stack

PROBE = Path(__file__).parent / "probe"
CONNECTIONS = 3
MIB = 1024**2
LEVELS: dict[str, Level] = {
    "server.datasource.max_connections": CONNECTIONS,
    "server.datasource.min_connections": 2,
    "server.datasource.statement_cache": 33,
    "server.datasource.connection_timeout": 17.0,
    "server.datasource.idle_timeout": 600.0,
    "server.datasource.max_age": 1200.0,
    "server.threads.max": 19,
    "server.threads.min": 11,
    "server.http.max_keep_alive_requests": 123,
    "server.http.keep_alive_timeout": 7.0,
    "server.http.max_connections": 77,
    "server.http.http2": False,
    "server.tls": True,
    "server.http.compression": True,
    "server.access_log": True,
    "jvm.heap": 300 * MIB,
    "jvm.heap_initial": 200 * MIB,
    "jvm.collector": "parallel",
    "jvm.large_pages": "transparent",
    "jvm.gc_threads": 3,
    "jvm.gc_pause_target": 0.15,
    "jvm.young_ratio": 3,
    "jvm.thread_stack": 512 * 1024,
    "jvm.pre_touch": True,
    "jvm.malloc_arenas": 3,
}
# Read back in test_jvm_knobs: no collector has all of these, and a young generation has a size or a ratio.
OTHER_COLLECTORS = {
    "jvm.soft_max_heap",
    "jvm.gc_concurrent_threads",
    "jvm.young_size",
    "jvm.g1_region_size",
    "jvm.g1_initiating_occupancy",
    "jvm.zgc_generational",
    "jvm.shenandoah_heuristics",
}
# Messaging is in play where orders go through a queue (test_messaging.py); places have test_places_real.py.
NOT_HERE = OTHER_COLLECTORS | PLACES | {knob.name for knob in MESSAGING}
# Off the server's own default, where the observer's figures do not need it on.
OWN_LEVELS: dict[type[JavaServer], dict[str, Level]] = {
    Tomcat: {
        "server.monitoring": False,
        "server.datasource.validation": False,
        "server.threads.keep_alive": 44.0,
        "server.threads.queue": 55,
        "server.http.accept_queue": 66,
    },
    Liberty: {
        "server.monitoring": True,
        "server.datasource.validation": True,
        "server.datasource.purge_policy": "validate-all",
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def host(place: Path) -> LocalHost:
    return LocalHost(state=place / "state")


@pytest.fixture(scope="module")
def database(place: Path, host: LocalHost) -> Iterator[Endpoint]:
    postgres = Postgres()
    postgres.provision(print)
    postgres.configure(ServiceContext(host, place / "database", place / "database-logs"), {})
    postgres.start()
    postgres.wait_ready(60)
    yield postgres.endpoint()
    assert postgres.stop()


@pytest.fixture(scope="module")
def archive(place: Path) -> Path:
    """A WAR of one servlet that holds a pooled connection as long as it is told."""
    library = fetch(TOMCAT, print) / f"apache-tomcat-{TOMCAT.version}" / "lib" / "servlet-api.jar"
    classes = place / "classes"
    javac = shutil.which("javac")
    assert javac, "the stack tests need a JDK"
    source = PROBE / "ProbeServlet.java"
    subprocess.run([javac, "--release", "17", "-cp", str(library), "-d", str(classes), str(source)], check=True)
    war = place / "probe.war"
    with zipfile.ZipFile(war, "w") as target:
        target.write(PROBE / "web.xml", "WEB-INF/web.xml")
        for file in classes.rglob("*.class"):
            target.write(file, f"WEB-INF/classes/{file.relative_to(classes)}")
    return war


@pytest.fixture
def context(tmp_path: Path, host: LocalHost, database: Endpoint, archive: Path) -> ServiceContext:
    return ServiceContext(
        host,
        tmp_path / "server",
        tmp_path / "trial" / "logs",
        http_port=LocalHost().free_port(),
        database=database,
        raw=tmp_path / "trial" / "raw",
        deployment=replace(Brokerage().deployment("direct", {}), archive=archive),
        certificate=make_certificate(),
    )


def get(port: int, path: str, scheme: str = "https") -> tuple[int, dict[str, str]]:
    connection = connection_to(f"{scheme}://127.0.0.1:{port}", timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def hold_connections(port: int, requests: int, milliseconds: int) -> list[int]:
    """Status of each of some requests at once that hold a connection of the pool."""
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(get(port, f"/brokerage/hold?ms={milliseconds}")[0]))
        for _ in range(requests)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_a_server_from_configuration_to_stop(kind: type[JavaServer], context: ServiceContext) -> None:
    server = kind()
    server.provision(print)
    levels = {**LEVELS, **OWN_LEVELS[kind]}
    assert set(levels) == {knob.name for knob in server.knobs()} - NOT_HERE, "every knob is given a level"
    defaults = {knob.name: knob.default for knob in server.knobs()}
    server.configure(context, levels)
    process = server.start()
    try:
        server.wait_ready(120)
        assert get(context.http_port, "/brokerage/health") == (200, {"status": "up", "mode": "direct"})
        assert {name: server.read_back(name) for name in levels} == levels
        changed = [name for name, level in levels.items() if level != defaults[name]]
        assert changed == list(levels), "levels differ from the defaults"

        trial = context.artefacts.parent
        observer = PoolsObserver(LocalHost())
        observer.start(ObserverContext(trial, {"server": process}, interval=0.2))
        statuses = hold_connections(context.http_port, requests=9, milliseconds=1000)
        time.sleep(0.5)  # two more samples, also where they come late
        observer.stop()
        assert statuses == [200] * 9
        assert observer.warnings == []
        path = observer.collect()
        assert path == trial / "series" / "pools.parquet"
        series = pl.read_parquet(path)
        assert peak(series, "pool.in_use") == CONNECTIONS
        assert peak(series, "pool.max") == CONNECTIONS
        assert peak(series, "pool.waiting") >= 1
        assert peak(series, "pool.wait_ms_mean") > 100
        assert peak(series, "pool.requests") >= 9
        assert peak(series, "threads.active") >= CONNECTIONS
        assert peak(series, "heap.used") > MIB
        assert peak(series, "agent.errors") == 0
        assert "Pause Young" in (trial / "raw" / "gc.log").read_text()

        second = kind()
        second.configure(replace(context, directory=context.directory.with_name("second")), {})
        with pytest.raises(TrialFailure, match=f"port {context.http_port} .* taken") as failure:
            second.start()
        assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    finally:
        clean = server.stop()
    assert clean
    assert not process.alive()
    with pytest.raises(ConnectionRefusedError):
        get(context.http_port, "/brokerage/health")
    for file in server.artefacts():
        assert context.database is not None
        assert file.is_dir() or context.database.password not in file.read_text(), f"{file} keeps a password"


def peak(series: pl.DataFrame, metric: str) -> float:
    values = series.filter(pl.col("metric") == metric)["value"]
    assert len(values), f"no samples of {metric}"
    return float(values.max())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Tomcat, Liberty])
def test_a_heap_the_jvm_refuses_is_told_in_its_own_words(kind: type[JavaServer], context: ServiceContext) -> None:
    server = kind()
    server.configure(context, {"jvm.heap": MIB})
    server.start()
    try:
        with pytest.raises(TrialFailure, match="Too small maximum heap") as failure:
            server.wait_ready(60)
    finally:
        server.stop()
    assert failure.value.failure_class is FailureClass.CONFIGURATION
    assert failure.value.evidence.startswith("Error occurred during initialization of VM: Too small maximum heap")


def test_a_port_taken_after_the_check_is_an_infrastructure_failure(context: ServiceContext) -> None:
    server = Tomcat()
    server.configure(context, {})
    server.start()
    with socket.socket() as squatter:  # sooner than the JVM can listen
        squatter.bind(("127.0.0.1", context.http_port))
        squatter.listen()
        try:
            with pytest.raises(TrialFailure, match=f"port {context.http_port} .* taken") as failure:
                server.wait_ready(60)
        finally:
            server.stop()
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE
    assert "Address already in use" in failure.value.evidence


def test_an_application_that_never_is_ready_fails_with_what_it_said(context: ServiceContext) -> None:
    server = Tomcat()
    assert context.database is not None
    server.configure(replace(context, database=replace(context.database, password="wrong")), {})
    server.start()
    try:
        wait_for_any_answer(context.http_port)
        with pytest.raises(TrialFailure, match=r"not ready after 0\.5 s \(/brokerage/health: HTTP 500") as failure:
            server.wait_ready(0.5)
    finally:
        assert server.stop()
    assert failure.value.failure_class is FailureClass.INFRASTRUCTURE  # a timeout is no proof of a wrong setting


def wait_for_any_answer(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/brokerage/health")
            connection.getresponse().read()
            return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise AssertionError(f"nothing answered on port {port} in 60 s")
