"""The knobs of the servers under one set of names; their files in the catalogue add own defaults and ranges."""

from __future__ import annotations

from collections.abc import Mapping

from leadline import catalogue
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level

UPKEEP = 5  # seconds between two looks at a pool whose connections have a limit

_KNOBS = catalogue.load("server")

MAX_CONNECTIONS = _KNOBS["server.datasource.max_connections"]
MIN_CONNECTIONS = _KNOBS["server.datasource.min_connections"]
STATEMENT_CACHE = _KNOBS["server.datasource.statement_cache"]
CONNECTION_TIMEOUT = _KNOBS["server.datasource.connection_timeout"]
IDLE_TIMEOUT = _KNOBS["server.datasource.idle_timeout"]
MAX_AGE = _KNOBS["server.datasource.max_age"]
PURGE_POLICY = _KNOBS["server.datasource.purge_policy"]
VALIDATION = _KNOBS["server.datasource.validation"]
THREADS = _KNOBS["server.threads.max"]
MIN_THREADS = _KNOBS["server.threads.min"]
THREAD_KEEP_ALIVE = _KNOBS["server.threads.keep_alive"]
THREAD_QUEUE = _KNOBS["server.threads.queue"]
HTTP_CONNECTIONS = _KNOBS["server.http.max_connections"]
ACCEPT_QUEUE = _KNOBS["server.http.accept_queue"]
KEEP_ALIVE = _KNOBS["server.http.max_keep_alive_requests"]
KEEP_ALIVE_TIMEOUT = _KNOBS["server.http.keep_alive_timeout"]
HTTP2 = _KNOBS["server.http.http2"]
TLS = _KNOBS["server.tls"]
COMPRESSION = _KNOBS["server.http.compression"]
MONITORING = _KNOBS["server.monitoring"]
IO_THREADS = _KNOBS["server.threads.io"]
BEAN_INSTANCES = _KNOBS["server.beans.max_instances"]
BY_REFERENCE = _KNOBS["server.calls.by_reference"]
ACCESS_LOG = _KNOBS["server.access_log"]


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


def check_bounds(settings: Mapping[str, Level], least: Knob, most: Knob, default: Level | None) -> None:
    """Raises UsageError for more kept than the maximum, of threads or connections; ``default``: of the maximum."""
    least_level, limit = settings.get(least.name), settings.get(most.name, default)
    if isinstance(least_level, int) and isinstance(limit, int) and least_level > limit:
        raise UsageError(f"{least.name} {least_level} is more than {most.name} {limit}; set at most {limit}")
