"""The knobs of the servers under one set of names; each server adds its own default and legal range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost, Kind, Knob, Level

LIBERTY_MANUAL = "Open Liberty server configuration reference"
TOMCAT_MANUAL = "Apache Tomcat 10.1 configuration reference"


def _knob(name: str, kind: Kind, summary: str, liberty: str, tomcat: str, **more: object) -> Knob:
    knob = Knob(
        f"server.{name}",
        kind,
        ApplyCost.RESTART,
        summary,
        names={"liberty": liberty, "tomcat": tomcat},
        source=f"{LIBERTY_MANUAL}; {TOMCAT_MANUAL}",
    )
    return replace(knob, **more)  # type: ignore[arg-type]


MAX_CONNECTIONS = _knob(
    "datasource.max_connections",
    Kind.INTEGER,
    "Most connections the application's pool holds; on Tomcat as many may stay idle, as on Liberty",
    "connectionManager/@maxPoolSize",
    "Resource/@maxTotal",
    unit="connections",
    minimum=1,
    maximum=10_000,
)
MIN_CONNECTIONS = _knob(
    "datasource.min_connections",
    Kind.INTEGER,
    "Connections the pool keeps; Tomcat opens them at start, Liberty only stops closing below this number",
    "connectionManager/@minPoolSize",
    "Resource/@minIdle and @initialSize",
    unit="connections",
    minimum=0,
    maximum=10_000,
)
STATEMENT_CACHE = _knob(
    "datasource.statement_cache",
    Kind.INTEGER,
    "Prepared statements kept for reuse by each connection; 0 turns the cache off."
    " The PostgreSQL driver's own cache is always off",
    "dataSource/@statementCacheSize",
    "Resource/@maxOpenPreparedStatements",
    unit="statements a connection",
    minimum=0,
    maximum=100_000,
)
CONNECTION_TIMEOUT = _knob(
    "datasource.connection_timeout",
    Kind.DURATION,
    "How long a request waits for a connection of the pool before it fails",
    "connectionManager/@connectionTimeout",
    "Resource/@maxWaitMillis",
    unit="seconds",
    minimum=0.001,
    maximum=86_400,
)
THREADS = _knob(
    "threads.max",
    Kind.INTEGER,
    "Most threads that serve requests; Liberty has one executor for all work, Tomcat's serves HTTP only",
    "executor/@maxThreads",
    "Executor/@maxThreads",
    unit="threads",
    minimum=1,
    maximum=100_000,
)
MIN_THREADS = _knob(
    "threads.min",
    Kind.INTEGER,
    "Threads kept for requests; Liberty starts beyond its own choice of them only while throughput gains from it,"
    " so requests that mostly wait may need more",
    "executor/@coreThreads",
    "Executor/@minSpareThreads",
    unit="threads",
    minimum=1,
    maximum=100_000,
)
KEEP_ALIVE = _knob(
    "http.max_keep_alive_requests",
    Kind.INTEGER,
    "Requests one kept-alive connection may carry before it is closed; -1 for no limit",
    "httpOptions/@maxKeepAliveRequests",
    "Connector/@maxKeepAliveRequests",
    unit="requests",
    minimum=-1,
    maximum=2**31 - 1,
)
MONITORING = _knob(
    "monitoring",
    Kind.BOOLEAN,
    "The server's own statistics: Liberty's monitor-1.0 feature, without a level on while the trial is observed;"
    " on Tomcat an MBean for every pooled connection and its statements (its other figures cannot be turned off)",
    "featureManager/feature monitor-1.0",
    "Resource/@registerConnectionMBean",
)
ACCESS_LOG = _knob(
    "access_log",
    Kind.BOOLEAN,
    "One line in a file for every HTTP request",
    "httpEndpoint/accessLogging",
    "Valve AccessLogValve/@enabled",
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


def for_server(knob: Knob, server: str, default: Level | None, **more: object) -> Knob:
    """``knob`` as ``server`` has it: its own name, default, manual and, where it differs, range and risk."""
    manual = LIBERTY_MANUAL if server == "liberty" else TOMCAT_MANUAL
    own = replace(knob, default=default, source=manual, names={server: knob.names[server]})
    return replace(own, **more)  # type: ignore[arg-type]


def check_threads(settings: Mapping[str, Level], most: Level | None) -> None:
    """Raises UsageError for more kept threads than the maximum; ``most`` is the server's default maximum."""
    kept, limit = settings.get(MIN_THREADS.name), settings.get(THREADS.name, most)
    if isinstance(kept, int) and isinstance(limit, int) and kept > limit:
        raise UsageError(f"{MIN_THREADS.name} {kept} is more than {THREADS.name} {limit}; set at most {limit}")
