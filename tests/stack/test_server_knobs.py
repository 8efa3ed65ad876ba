"""What knobs of Tomcat and Open Liberty do: each pair of levels on a running server, seen from outside it.

Live knobs start at their other level and are changed while the server runs.
"""

import http.client
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_servers import archive, context, database, host, place
from witnesses import matrix

from leadline.host.files import LocalFiles
from leadline.host.java import java_pid
from leadline.model.knob import ApplyCost, Level
from leadline.stack.base import Endpoint, ServiceContext
from leadline.stack.postgres import connect
from leadline.stack.probe import speaks_http2
from leadline.stack.servers import knobs
from leadline.stack.servers.common import JavaServer
from leadline.stack.servers.liberty import Liberty
from leadline.stack.servers.tomcat import Tomcat

pytestmark = pytest.mark.stack
__all__ = ["archive", "context", "database", "host", "place"]

ON_LIBERTY = matrix("Open Liberty starts twice; its knobs are read back in test_servers.py")
PATIENCE = 30.0  # seconds until what must happen counts as not happening


@dataclass(frozen=True)
class Up:
    server: JavaServer
    context: ServiceContext
    pid: int

    @property
    def database(self) -> Endpoint:
        assert self.context.database is not None
        return self.context.database

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.context.http_port, timeout=PATIENCE)
        try:
            connection.request("GET", f"/brokerage{path}", headers=headers)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read()
        finally:
            connection.close()

    def look(self) -> dict[str, int]:
        """Process of the database behind a connection, statements it has prepared; empty when the request fails."""
        while True:
            try:
                found: dict[str, int] = json.loads(self.get("/look")[2])
            except http.client.RemoteDisconnected:  # its queue is short, and the end of the last connection waits in it
                continue
            return found

    def at_once(self, requests: int, milliseconds: int) -> list[int]:
        """Status of each of some requests at once that hold a connection of the pool; 0 where there was no answer."""
        found: list[int] = []

        def ask() -> None:
            try:
                found.append(self.get(f"/hold?ms={milliseconds}")[0])
            except (OSError, http.client.HTTPException):
                found.append(0)

        threads = [threading.Thread(target=ask) for _ in range(requests)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    def kept(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.context.http_port), timeout=PATIENCE)

    def backends(self) -> set[int]:
        """The database's processes for this server's connections."""
        with connect(self.database) as connection:
            rows = connection.run(
                "select pid from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'",
            )
        return {int(row[0]) for row in rows or []}

    def terminate(self, backends: set[int]) -> None:
        with connect(self.database) as connection:
            for backend in backends:
                connection.run("select pg_terminate_backend(:pid)", pid=backend)

    def http_threads(self) -> int:
        names = [task.read_text() for task in Path(f"/proc/{self.pid}/task").glob("*/comm")]
        return sum(name.startswith("http-exec-") for name in names)


@contextmanager
def up(
    kind: type[JavaServer], context: ServiceContext, levels: dict[str, Level], others: dict[str, Level]
) -> Iterator[Up]:
    """With ``levels`` in force; its live knobs start at those of ``others``."""
    server = kind()
    live = {knob.name for knob in server.knobs() if knob.apply_cost is ApplyCost.LIVE} & set(levels)
    others = {**REMOTE, **others}
    server.provision(print)
    server.configure(context, {name: others[name] if name in live else level for name, level in levels.items()})
    process = server.start()
    try:
        server.wait_ready(120)
        running = Up(server, context, java_pid(LocalFiles(), process))
        if "server.datasource.max_connections" in live:
            most = int(others["server.datasource.max_connections"])
            assert running.at_once(most, 300) == [200] * most
            assert len(running.backends()) >= min(most, 3), "more than a smaller pool may keep"
        server.apply({name: levels[name] for name in live})
        yield running
    finally:
        assert server.stop()


def ask(connection: socket.socket) -> bytes:
    """The answer's head and body over a kept connection; empty when it was closed instead."""
    try:
        connection.sendall(b"GET /brokerage/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(65536)
    except (ConnectionError, BrokenPipeError):
        return b""


def answers(running: Up, most: int = 6) -> int:
    """Requests that one connection carries before the server closes it, ``most`` if it does not."""
    with running.kept() as connection:
        for count in range(most):
            found = ask(connection)
            if not found:
                return count
            if b"connection: close" in found.lower():
                return count + 1
    return most


def closed_within(running: Up, seconds: float) -> bool:
    """Whether a connection with one answer behind it is closed by the server."""
    with running.kept() as connection:
        assert ask(connection)
        connection.settimeout(seconds)
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            return False


def until(found: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture(autouse=True)
def _looked_over_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "UPKEEP", 1)


NARROW: dict[str, Level] = {
    "jvm.heap": 128 * 1024**2,
    "server.datasource.max_connections": 2,
    "server.datasource.min_connections": 1,
    "server.datasource.connection_timeout": 1.0,
    "server.datasource.statement_cache": 10,
    "server.datasource.validation": True,
    "server.http.max_keep_alive_requests": 3,
    "server.http.keep_alive_timeout": 1.0,
    "server.http.http2": False,
    "server.http.compression": True,
    "server.access_log": True,
}
WIDE: dict[str, Level] = {
    "jvm.heap": 128 * 1024**2,
    "server.datasource.max_connections": 8,
    "server.datasource.statement_cache": 0,
    "server.datasource.validation": False,
    "server.http.max_keep_alive_requests": -1,
    "server.http.http2": True,
    "server.http.compression": False,
    "server.monitoring": False,
}
OF_TOMCAT: dict[str, Level] = {
    "server.datasource.max_age": 1.0,
    "server.threads.max": 3,
    "server.threads.min": 1,
    "server.threads.keep_alive": 0.5,
    "server.threads.queue": 2,
    "server.http.max_connections": 6,
    "server.http.accept_queue": 2,
}
# Where live knobs begin that have one level here.
REMOTE: dict[str, Level] = {
    "server.datasource.min_connections": 0,
    "server.datasource.connection_timeout": 20.0,
    "server.datasource.idle_timeout": 600.0,
    "server.datasource.max_age": 600.0,
    "server.datasource.purge_policy": "entire-pool",
    "server.threads.max": 50,
    "server.threads.min": 4,
    "server.threads.keep_alive": 60.0,
    "server.http.keep_alive_timeout": 60.0,
    "server.http.max_connections": 100,
    "server.access_log": False,
}
OF_LIBERTY: dict[str, Level] = {
    "server.datasource.idle_timeout": 2.0,
    "server.datasource.purge_policy": "failing-connection",
    "server.http.max_connections": 5,
}


# Which connections go by themselves, and how many stay: Liberty's age goes below the minimum.
CLOSED: dict[type[JavaServer], tuple[str, int]] = {
    Tomcat: ("server.datasource.idle_timeout", 1),
    Liberty: ("server.datasource.max_age", 0),
}


@pytest.mark.parametrize("kind", [Tomcat, pytest.param(Liberty, marks=ON_LIBERTY)])
def test_narrow_levels(kind: type[JavaServer], context: ServiceContext) -> None:
    closed, stay = CLOSED[kind]
    with up(kind, context, {**NARROW, closed: 1.0}, WIDE) as running:
        assert running.at_once(4, 2500) == [200, 200, 500, 500], "two connections, and a second of patience"
        assert answers(running) == 3
        assert closed_within(running, PATIENCE)
        assert not speaks_http2(context.http_port)
        _, headers, body = running.get("/text", **{"Accept-Encoding": "gzip"})
        assert headers.get("Content-Encoding") == "gzip"
        assert len(body) < 2000
        assert "Content-Encoding" not in running.get("/text")[1]
        assert running.look()["prepared"] == 1, "one statement, prepared in the database after five uses"
        until(lambda: len(running.backends()) == stay, f"connections are closed by {closed}")
        assert running.look()
        running.terminate(running.backends())
        assert running.look(), "a broken connection is found before a request gets it"
        log = context.directory / ("logs/access.log" if kind is Tomcat else "access.log")
        until(lambda: log.exists() and log.read_text().count("/brokerage/text") == 2, "two lines of the access log")


def test_wide_levels_of_tomcat(context: ServiceContext) -> None:
    with up(Tomcat, context, {**WIDE, **OF_TOMCAT}, NARROW) as running:
        check_wide(running)
        first = running.look()["backend"]
        until(lambda: running.look().get("backend") != first, "a connection older than a second is replaced")

        def breaks() -> bool:
            running.look()
            running.terminate(running.backends())
            return not running.look()

        until(breaks, "a request gets a broken connection that nothing has checked")
        statuses = running.at_once(12, 700)
        assert 0 in statuses, "three threads, a queue of two: the rest is turned away"
        assert 200 in statuses
        until(lambda: running.http_threads() == 1, "threads without work end")
        port = context.http_port
        shown = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
        assert shown.split()[2] == "2", "connections that may wait to be accepted"
        with ExitStack() as stack:
            connections = [stack.enter_context(running.kept()) for _ in range(8)]
            served = 0
            for connection in connections:
                connection.settimeout(1.0)
                try:
                    served += bool(ask(connection))
                except TimeoutError:
                    break
            assert 5 <= served <= 7, "six connections at once, and the one that is taken to be counted"


@ON_LIBERTY
def test_wide_levels_of_liberty(context: ServiceContext) -> None:
    with up(Liberty, context, {**WIDE, **OF_LIBERTY}, NARROW) as running:
        check_wide(running)
        assert running.server.read_back("server.monitoring") is False

        def purges_one() -> bool:
            running.at_once(3, 500)
            before = running.backends()
            broken = running.look().get("backend", 0)
            running.terminate({broken})
            failed = any(not running.look() for _ in range(4))
            return failed and len(before) == 3 and running.backends() == before - {broken}

        until(purges_one, "a broken connection goes, the others stay")
        until(lambda: not running.backends(), "idle connections are closed")
        with ExitStack() as stack:
            kept = [stack.enter_context(running.kept()) for _ in range(8)]
            assert sum(bool(ask(connection)) for connection in kept) == 5, "further connections are closed"


def check_wide(running: Up) -> None:
    assert answers(running) == 6
    assert speaks_http2(running.context.http_port)
    assert "Content-Encoding" not in running.get("/text", **{"Accept-Encoding": "gzip"})[1]
    assert running.look()["prepared"] == 0, "every time another statement"
