"""What a server does under two treatments, seen from the database, the wire and the collector's log; no timings."""

import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import server_cells

from leadline.host.files import LocalFiles
from leadline.host.java import java_pid
from leadline.host.local import LocalHost
from leadline.model.knob import ApplyCost, Level
from leadline.observe.base import ObserverContext
from leadline.observe.pools import PoolsObserver
from leadline.stack import postgres, probe
from leadline.stack.assembly import Stack
from leadline.stack.servers import files

MIB = 1024**2
# Seconds until what must happen counts as not happening; EclipseLink asks four times for a connection within 20.
PATIENCE = 60.0
REQUESTS = 40  # whose statements are counted
HOMES = 6
MARKS = 5
AT_ONCE = 12  # requests that wait for one lock
POOL = 5  # connections; more than the first requests of a starting server open
QUOTES = "/quotes?symbols=S00001,S00002"

# With remote calls Open Liberty needs two threads of its one executor for a request, so there are enough here; of
# beans too, where a server has ten by default.
NARROW: dict[str, Level] = {
    "jvm.heap": 384 * MIB,
    "jvm.collector": "serial",
    "app.summary_cache": 60.0,
    "app.calls": "remote",
    "server.calls.by_reference": False,
    "server.datasource.max_connections": POOL,
    "server.datasource.min_connections": POOL,
    "server.datasource.statement_cache": 50,
    "server.datasource.connection_timeout": 1.0,
    "server.datasource.idle_timeout": 3.0,
    "server.datasource.validation": True,
    "server.beans.max_instances": 30,
    "server.threads.max": 30,
    "server.threads.min": 30,
    "server.http.max_keep_alive_requests": 3,
    "server.http.http2": False,
    "server.http.compression": True,
    "server.monitoring": True,
    "server.access_log": True,
}
WIDE: dict[str, Level] = {
    "jvm.heap": 448 * MIB,
    "jvm.collector": "parallel",
    "app.summary_cache": 0.0,
    "app.calls": "local",
    "server.calls.by_reference": True,
    "server.datasource.max_connections": 9,
    "server.datasource.min_connections": 0,
    "server.datasource.statement_cache": 0,
    "server.datasource.connection_timeout": 50.0,
    "server.datasource.idle_timeout": 3.0,
    "server.datasource.validation": False,
    "server.threads.max": 6,
    "server.threads.min": 6,
    "server.http.max_keep_alive_requests": -1,
    "server.http.http2": True,
    "server.http.compression": False,
    "server.monitoring": False,
    "server.access_log": False,
}


def levels(made: Stack, treatment: Mapping[str, Level]) -> dict[str, Level]:
    """Those of a treatment that this server and mode have."""
    own = {knob.name: knob for knob in made.knobs()}
    found = {name: level for name, level in treatment.items() if name in own}
    if made.choice.mode == "direct":  # calls no session bean
        found.pop("app.calls")
        for name in ("server.calls.by_reference", "server.beans.max_instances"):
            found.pop(name, None)
    elif "server.calls.by_reference" in found:
        found["app.calls"] = "remote"  # by reference is about remote calls
    idle = own["server.datasource.idle_timeout"].minimum or 0
    found["server.datasource.idle_timeout"] = max(float(idle), float(treatment["server.datasource.idle_timeout"]))
    return found


@dataclass
class Seen:
    """Of one server under one treatment."""

    levels: Mapping[str, Level]
    read_back: Mapping[str, Level] = field(default_factory=dict)
    opened: int = 0  # sessions in the database before any load
    kept: int = 0  # sessions left when the pool was idle
    parses: int = 0  # SELECTs that the database parsed for REQUESTS pages
    summaries: int = 0  # queries of the market summary for HOMES home pages
    copies: int = 0
    blocked: int = 0  # sessions that waited for the lock at once, never more
    refused: int = 0  # requests that failed while the lock was held
    checks: int = 0  # round trips without a statement for REQUESTS pages
    survived: list[int] = field(default_factory=list)  # statuses after every connection was cut
    carried: int = 0
    http2: bool = False
    encoded: int = 0  # bytes of a page for a client that takes gzip
    plain: int = 0
    figures: set[str] = field(default_factory=set)  # metrics of the pool that the server told
    access_lines: int = 0
    heap_max: int = 0  # MiB
    collector: str = ""


class Customer:
    """Of a running stack; a new connection for every request."""

    def __init__(self, made: Stack, cookie: str = "") -> None:
        self._made = made
        self.cookie = cookie

    def request(
        self, path: str, body: Mapping[str, Any] | None = None, encoding: str = "identity"
    ) -> tuple[int, bytes]:
        """Status, 0 where the connection broke, and body."""
        at = self._made.url()
        connection = probe.connection_to(at, PATIENCE)
        head = {"Connection": "close", "Cookie": self.cookie, "Content-Type": "application/json"}
        head["Accept-Encoding"] = encoding
        try:
            connection.request("POST" if body else "GET", f"/brokerage{path}", json.dumps(body) if body else None, head)
            answer = connection.getresponse()
            self.cookie = answer.headers.get("Set-Cookie", self.cookie).partition(";")[0]
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def login(self) -> None:
        assert self.request("/api/login", {"user": "user-000007", "password": "pw-000007"})[0] == 200
        assert self.cookie

    def pages(self, path: str, count: int) -> None:
        assert [self.request(path)[0] for _ in range(count)] == [200] * count, path


def sql(made: Stack, statement: str) -> list[list[Any]]:
    with postgres.connect(made.endpoint(), timeout=2 * PATIENCE) as connection:
        return list(connection.run(statement) or [])


def sessions(made: Stack, which: str = "true") -> int:
    own = "pid <> pg_backend_pid() and backend_type = 'client backend'"
    return int(sql(made, f"select count(*) from pg_stat_activity where {own} and {which}")[0][0])


def until(holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def logged(trial: Path, begin: int, pattern: str) -> int:
    """Lines of the database's log since ``begin`` (bytes) that match."""
    text = (trial / "logs" / "postgres.log").read_bytes()[begin:].decode(errors="replace")
    return len(re.findall(pattern, text, re.IGNORECASE))


def behind_a_lock(customer: Customer, made: Stack, most: int, in_vain: int) -> tuple[int, int]:
    """Sessions that wait at once for a locked table, and requests that failed meanwhile. Waits until ``most`` sessions
    wait and ``in_vain`` requests have failed, and a second longer to see whether there are more.
    """
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(Customer(made, customer.cookie).request(QUOTES)[0])

    askers = [threading.Thread(target=ask) for _ in range(AT_ONCE)]
    highest = 0

    def waiting() -> int:
        nonlocal highest
        highest = max(highest, sessions(made, "wait_event_type = 'Lock'"))
        return highest

    with postgres.connect(made.endpoint(), timeout=2 * PATIENCE) as lock:
        lock.run("BEGIN")
        lock.run("LOCK TABLE instrument IN ACCESS EXCLUSIVE MODE")
        for asker in askers:
            asker.start()
        until(lambda: waiting() >= most and len(statuses) >= in_vain, PATIENCE - 15)
        until(lambda: waiting() > AT_ONCE, 1.0)
        refused = len(statuses)
        lock.run("ROLLBACK")
    for asker in askers:
        asker.join()
    return highest, refused


def look(made: Stack, place: Path, treatment: Mapping[str, Level], begun: Mapping[str, Level]) -> Seen:
    """Start the stack under a treatment, see everything that its levels must change, stop it. Its live knobs have the
    levels of ``begun`` at the start, and take the treatment's while the server runs.
    """
    trial = place / "trial"
    seen = Seen(levels(made, treatment))
    live = {knob.name for knob in made.server.knobs() if knob.apply_cost is ApplyCost.LIVE}
    before = {name: level for name, level in levels(made, begun).items() if name in live and name in seen.levels}
    made.reset_data(trial)
    try:
        made.start_database(seen.levels, trial)
        made.start_server({**seen.levels, **before}, trial)
        Customer(made).login()  # a pool that is in use
        made.apply({name: seen.levels[name] for name in before})
        until(lambda: sessions(made) >= int(str(seen.levels["server.datasource.min_connections"])), 5)
        seen.opened = sessions(made)
        seen.read_back = {name: made.read_back(name) for name in seen.levels}
        of_the_wire(made, seen)
        customer = Customer(made)
        customer.login()
        seen.plain = len(customer.request("/home")[1])
        seen.encoded = len(customer.request("/home", encoding="gzip")[1])
        of_statements(customer, made, trial, seen)
        seen.figures = of_monitoring(customer, made, trial)
        narrow = seen.levels["server.datasource.max_connections"] == NARROW["server.datasource.max_connections"]
        most = POOL if narrow else 6
        seen.blocked, seen.refused = behind_a_lock(customer, made, most, AT_ONCE - most if narrow else 0)
        sql(
            made,
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and backend_type = 'client backend'",
        )
        seen.survived = [customer.request(QUOTES)[0] for _ in range(3)]
        if float(str(seen.levels["server.datasource.idle_timeout"])) < 60:
            for _ in range(9):  # where a broken connection is not looked for, one request finds each
                customer.request(QUOTES)
            behind_a_lock(customer, made, most, 0)
            until(lambda: sessions(made) <= int(str(seen.levels["server.datasource.min_connections"])), 40)
            time.sleep(4.0)  # it must not go below
        seen.kept = sessions(made)
    finally:
        unclean = made.down()
    assert unclean == []
    files = [path for path in (place / "home").rglob("*access*") if path.is_file()]
    seen.access_lines = sum(path.read_text(errors="replace").count("/ping?mark=") for path in files)
    log = (trial / "raw" / "gc.log").read_text()
    found = re.search(r"Heap Max Capacity: (\d+)M", log)
    seen.heap_max = int(found[1]) if found else 0
    using = re.search(r"Using (Serial|Parallel)", log)
    seen.collector = using[1].lower() if using else ""
    return seen


def of_the_wire(made: Stack, seen: Seen) -> None:
    client = probe.Client(made.options.http_port)
    seen.carried = client.requests_carried("/brokerage/ping", 6)
    seen.http2 = client.speaks_http2()
    Customer(made).pages("/ping?mark=effect", MARKS)


def of_statements(customer: Customer, made: Stack, trial: Path, seen: Seen) -> None:
    """With every statement in the database's log, which PostgreSQL's driver prepares from the fifth use on."""
    customer.pages(QUOTES, REQUESTS)
    customer.pages("/home", 1)
    sql(made, "alter system set log_min_duration_statement = 0")
    sql(made, "select pg_reload_conf()")
    log = trial / "logs" / "postgres.log"
    assert until(lambda: "log_min_duration_statement" in log.read_text(errors="replace"))
    customer.pages(QUOTES, 1)  # a session takes the setting with its next command
    begin = log.stat().st_size
    customer.pages(QUOTES, REQUESTS)
    seen.parses = logged(trial, begin, r" ms  parse [^:]*: select .* instrument")
    seen.checks = logged(trial, begin, r" ms  (execute [^:]*|statement): *\n")
    begin = log.stat().st_size
    customer.pages("/home", HOMES)
    seen.summaries = logged(trial, begin, r" ms  execute [^:]*: select .*order by [^ ]*volume desc")
    sql(made, "alter system reset log_min_duration_statement")
    sql(made, "select pg_reload_conf()")
    seen.copies = server_cells.copies(made)


def of_monitoring(customer: Customer, made: Stack, trial: Path) -> set[str]:
    """Metrics of the pool that the observer gets; on Tomcat the beans of pooled connections."""
    if made.choice.server == "tomcat":
        process = made.processes()["server"]
        question = {"bean.0": "*:connectionpool=connections,connection=*,*|CacheState"}
        answer = files.ask(LocalHost(), None, java_pid(LocalFiles(), process), trial / "raw", question)
        return {"pool.max"} if answer["beans"] else set()
    observer = PoolsObserver(LocalHost())
    observer.start(ObserverContext(trial, made.processes(), interval=0.25))
    customer.pages(QUOTES, 5)
    time.sleep(1.5)
    observer.stop()
    return {metric for metric in server_cells.largest(observer.collect()) if metric.startswith("pool.")}
