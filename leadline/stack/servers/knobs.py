"""The knobs of the servers under one set of names; each server adds its own default and legal range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level


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
    "Connections the pool keeps; Tomcat opens them at start, Liberty only stops closing below this number",
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
KEEP_ALIVE = _knob(
    "http.max_keep_alive_requests",
    Kind.INTEGER,
    "Requests one kept-alive connection may carry before it is closed; -1 for no limit",
    unit="requests",
    minimum=-1,
    maximum=2**31 - 1,
)
MONITORING = _knob(
    "monitoring",
    Kind.BOOLEAN,
    "The server's own statistics: Liberty's monitor-1.0 feature, without a level on while the trial is observed;"
    " on Tomcat an MBean for every pooled connection and its statements (its other figures cannot be turned off)",
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
    THREADS,
    MIN_THREADS,
    KEEP_ALIVE,
    MONITORING,
    ACCESS_LOG,
)


def for_server(knob: Knob, server: str, own: str, default: Level | None, manual: str, **more: object) -> Knob:
    """``knob`` as ``server`` has it: ``own`` is the server's name for it; range and risk where they differ."""
    return replace(knob, default=default, source=manual, names={server: own}, **more)  # type: ignore[arg-type]


def check_threads(settings: Mapping[str, Level], most: Level | None) -> None:
    """Raises UsageError for more kept threads than the maximum; ``most`` is the server's default maximum."""
    kept, limit = settings.get(MIN_THREADS.name), settings.get(THREADS.name, most)
    if isinstance(kept, int) and isinstance(limit, int) and kept > limit:
        raise UsageError(f"{MIN_THREADS.name} {kept} is more than {THREADS.name} {limit}; set at most {limit}")
