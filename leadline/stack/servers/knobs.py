"""The knobs of the servers under one set of names; each server adds its own default and legal range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level

UPKEEP = 5  # seconds between two looks at a pool whose connections have a limit


def _knob(name: str, kind: Kind, summary: str, **more: object) -> Knob:
    return replace(Knob(f"server.{name}", kind, ApplyCost.RESTART, summary), **more)  # type: ignore[arg-type]


MAX_CONNECTIONS = _knob(
    "datasource.max_connections",
    Kind.INTEGER,
    "Most connections the application's pool holds; on Tomcat as many may stay idle, as on Liberty",
    unit="connections",
    minimum=1,
    maximum=10_000,
)
MIN_CONNECTIONS = _knob(
    "datasource.min_connections",
    Kind.INTEGER,
    "Connections the pool keeps; Tomcat and WildFly open them at start, Liberty only stops closing below this number",
    unit="connections",
    minimum=0,
    maximum=10_000,
)
STATEMENT_CACHE = _knob(
    "datasource.statement_cache",
    Kind.INTEGER,
    "Prepared statements kept for reuse by each connection; 0 turns the cache off."
    " The PostgreSQL driver's own cache is always off",
    unit="statements a connection",
    minimum=0,
    maximum=100_000,
)
CONNECTION_TIMEOUT = _knob(
    "datasource.connection_timeout",
    Kind.DURATION,
    "How long a request waits for a connection of the pool before it fails",
    unit="seconds",
    minimum=0.001,
    maximum=86_400,
)
IDLE_TIMEOUT = _knob(
    "datasource.idle_timeout",
    Kind.DURATION,
    "How long a pooled connection may stay unused before it is closed, down to the pool's minimum;"
    " with a level the pool is looked over every five seconds",
    unit="seconds",
    minimum=1,
    maximum=86_400,
)
MAX_AGE = _knob(
    "datasource.max_age",
    Kind.DURATION,
    "How old a pooled connection may grow before it is closed: on Tomcat when it is next asked for, on Liberty when the"
    " pool is looked over, with a level every five seconds",
    unit="seconds",
    minimum=1,
    maximum=86_400,
)
PURGE_POLICY = _knob(
    "datasource.purge_policy",
    Kind.CHOICE,
    "Which connections are closed when one is found broken: all, that one, or those that fail a check",
    choices=("entire-pool", "failing-connection", "validate-all"),
)
VALIDATION = _knob(
    "datasource.validation",
    Kind.BOOLEAN,
    "Every connection is checked by a round trip to the database before a request gets it",
)
THREADS = _knob(
    "threads.max",
    Kind.INTEGER,
    "Most threads that serve requests; Liberty has one executor for all work, Tomcat's serves HTTP only",
    unit="threads",
    minimum=1,
    maximum=100_000,
)
MIN_THREADS = _knob(
    "threads.min",
    Kind.INTEGER,
    "Threads kept for requests; Liberty starts beyond its own choice of them only while throughput gains from it,"
    " so requests that mostly wait may need more",
    unit="threads",
    minimum=1,
    maximum=100_000,
)
THREAD_KEEP_ALIVE = _knob(
    "threads.keep_alive",
    Kind.DURATION,
    "How long a thread beyond those that are kept waits for work before it ends",
    unit="seconds",
    minimum=0.001,
    maximum=86_400,
)
THREAD_QUEUE = _knob(
    "threads.queue",
    Kind.INTEGER,
    "Requests that may wait for a thread; a connection whose request finds the queue full is closed",
    unit="requests",
    minimum=1,
    maximum=2**31 - 1,
)
HTTP_CONNECTIONS = _knob(
    "http.max_connections",
    Kind.INTEGER,
    "Most HTTP connections open at once; Tomcat leaves further ones in the accept queue, Liberty closes them",
    unit="connections",
    minimum=1,
    maximum=1_000_000,
)
ACCEPT_QUEUE = _knob(
    "http.accept_queue",
    Kind.INTEGER,
    "Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn",
    unit="connections",
    minimum=1,
    maximum=2**31 - 1,
)
KEEP_ALIVE = _knob(
    "http.max_keep_alive_requests",
    Kind.INTEGER,
    "Requests one kept-alive connection may carry before it is closed; -1 for no limit",
    unit="requests",
    minimum=-1,
    maximum=2**31 - 1,
)
KEEP_ALIVE_TIMEOUT = _knob(
    "http.keep_alive_timeout",
    Kind.DURATION,
    "How long a kept-alive connection may wait for its next request before it is closed",
    unit="seconds",
    minimum=0.001,
    maximum=86_400,
)
HTTP2 = _knob(
    "http.http2",
    Kind.BOOLEAN,
    "HTTP/2 for a client that begins with it without TLS, or chooses it in the handshake",
)
TLS = _knob(
    "tls",
    Kind.BOOLEAN,
    "HTTPS in place of HTTP, with a self-signed certificate (ECDSA, P-256) made for the run; not with a web server in"
    " front, which has web.tls",
)
COMPRESSION = _knob(
    "http.compression",
    Kind.BOOLEAN,
    "Answers of text are compressed for a client that accepts it",
    default=False,
)
MONITORING = _knob(
    "monitoring",
    Kind.BOOLEAN,
    "The server's own statistics, without a level on while the trial is observed: Liberty's monitor-1.0 feature,"
    " WildFly's statistics-enabled, GlassFish's monitoring levels of its pools and of HTTP;"
    " on Tomcat an MBean for every pooled connection and its statements (its other figures cannot be turned off)",
)
IO_THREADS = _knob(
    "threads.io",
    Kind.INTEGER,
    "Threads that read requests and write answers without ever waiting, beside those that serve requests",
    unit="threads",
    minimum=1,
    maximum=10_000,
)
BEAN_INSTANCES = _knob(
    "beans.max_instances",
    Kind.INTEGER,
    "Most instances of a stateless session bean; a call that finds all in use waits for one",
    unit="instances",
    minimum=1,
    maximum=100_000,
)
BY_REFERENCE = _knob(
    "calls.by_reference",
    Kind.BOOLEAN,
    "Calls of a bean's remote interface inside the server pass their arguments and results by reference;"
    " off, the standard's way, copies them",
)
ACCESS_LOG = _knob(
    "access_log",
    Kind.BOOLEAN,
    "One line in a file for every HTTP request",
    default=False,
)
KNOBS = (
    MAX_CONNECTIONS,
    MIN_CONNECTIONS,
    STATEMENT_CACHE,
    CONNECTION_TIMEOUT,
    IDLE_TIMEOUT,
    MAX_AGE,
    PURGE_POLICY,
    VALIDATION,
    THREADS,
    MIN_THREADS,
    THREAD_KEEP_ALIVE,
    THREAD_QUEUE,
    IO_THREADS,
    BEAN_INSTANCES,
    BY_REFERENCE,
    HTTP_CONNECTIONS,
    ACCEPT_QUEUE,
    KEEP_ALIVE,
    KEEP_ALIVE_TIMEOUT,
    HTTP2,
    TLS,
    COMPRESSION,
    MONITORING,
    ACCESS_LOG,
)


def for_server(knob: Knob, server: str, own: str, default: Level | None, manual: str, **more: object) -> Knob:
    """``knob`` as ``server`` has it: ``own`` is the server's name for it; range and risk where they differ."""
    return replace(knob, default=default, source=manual, names={server: own}, **more)  # type: ignore[arg-type]


def whole_seconds(name: str, settings: Mapping[str, Level], title: str) -> int | None:
    """A duration's level for a server that counts whole seconds, None without a level.

    Raises UsageError for parts of a second, with the nearest level.
    """
    if name not in settings:
        return None
    seconds = float(settings[name])
    if seconds != int(seconds):
        nearest = max(1, round(seconds))
        raise UsageError(f"{name} {seconds:g} s: {title} counts whole seconds; the nearest is {nearest}s")
    return int(seconds)


def check_threads(settings: Mapping[str, Level], most: Level | None) -> None:
    """Raises UsageError for more kept threads than the maximum; ``most`` is the server's default maximum."""
    kept, limit = settings.get(MIN_THREADS.name), settings.get(THREADS.name, most)
    if isinstance(kept, int) and isinstance(limit, int) and kept > limit:
        raise UsageError(f"{MIN_THREADS.name} {kept} is more than {THREADS.name} {limit}; set at most {limit}")
