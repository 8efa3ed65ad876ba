"""The knobs of a web server in front. Which one runs, and where, are knobs too: a study may vary them."""

from __future__ import annotations

from leadline.model.knob import ApplyCost, Kind, Knob
from leadline.stack.base import Settings

NONE = "none"
NAMES = (NONE, "nginx", "httpd")
ABSENT, SAME, OWN = "absent", "same", "own"
_MANUAL = "nginx module reference; Apache HTTP Server 2.4 directives"


def _knob(name: str, kind: Kind, summary: str, nginx: str, httpd: str, **more: object) -> Knob:
    own = {"nginx": nginx, "httpd": httpd}
    return Knob(f"web.{name}", kind, ApplyCost.RESTART, summary, names=own, source=_MANUAL, **more)  # type: ignore[arg-type]


SERVER = Knob(
    "web.server",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "The web server in front of the application server, as its reverse proxy",
    default=NONE,
    choices=NAMES,
    source="leadline",
)
PLACE = Knob(
    "web.place",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "Where the web server runs: on the CPUs of the application server, on placement.web_cpus, or not at all"
    " (as web.server: none, so that one factor compares all three); own where placement.web_cpus is given, else same",
    choices=(ABSENT, SAME, OWN),
    source="leadline",
)
WORKERS = _knob(
    "workers",
    Kind.INTEGER,
    "Processes that serve; one of nginx serves any number of requests at once, one of httpd 25 (its threads)",
    "worker_processes (default 1)",
    "StartServers and ServerLimit of event (default 3 to 16)",
    unit="processes",
    minimum=1,
    maximum=256,
)
KEEPALIVE_REQUESTS = _knob(
    "keepalive_requests",
    Kind.INTEGER,
    "Requests that a client's connection carries before it is closed; 1 closes it after each",
    "keepalive_requests (default 1000)",
    "MaxKeepAliveRequests, which counts those after the first (default 100), KeepAlive",
    unit="requests",
    minimum=1,
    maximum=2**31 - 1,
)
UPSTREAM_KEEPALIVE = _knob(
    "upstream_keepalive",
    Kind.INTEGER,
    "Idle connections to the application server that each worker keeps for reuse; 0 opens one for every request",
    "keepalive of upstream (default 32)",
    "smax of ProxyPass (default: as many as threads), disablereuse",
    unit="connections a worker",
    minimum=0,
    maximum=10_000,
)
UPSTREAM = _knob(
    "upstream",
    Kind.CHOICE,
    "How the web server reaches the application server: TCP on the loopback, or a Unix socket",
    "server unix:",
    "ProxyPass unix:",
    default="tcp",
    choices=("tcp", "unix"),
)
COMPRESSION = _knob(
    "compression",
    Kind.BOOLEAN,
    "Text is compressed (gzip) for clients that take it, at each server's own default level",
    "gzip, level 1",
    "mod_deflate, zlib's level 6",
    default=False,
)
HTTP2 = _knob("http2", Kind.BOOLEAN, "HTTP/2 is offered to clients", "http2", "Protocols h2 h2c", default=False)
TLS = _knob(
    "tls",
    Kind.BOOLEAN,
    "Clients reach the web server over TLS, with a self-signed certificate (ECDSA, P-256) made for the run",
    "listen ... ssl",
    "SSLEngine",
    default=False,
)
STATIC = _knob(
    "static",
    Kind.BOOLEAN,
    "The web server serves the files below static/ of the application's archive itself, from a copy",
    "location with alias",
    "Alias",
    default=False,
)
ACCESS_LOG = _knob(
    "access_log",
    Kind.BOOLEAN,
    "One line in a file for every request",
    "access_log, format combined",
    "CustomLog, format combined",
    default=False,
)
KNOBS = (
    SERVER,
    PLACE,
    WORKERS,
    KEEPALIVE_REQUESTS,
    UPSTREAM_KEEPALIVE,
    UPSTREAM,
    COMPRESSION,
    HTTP2,
    TLS,
    STATIC,
    ACCESS_LOG,
)
KNOB_NAMES = frozenset(knob.name for knob in KNOBS)


def chosen(settings: Settings) -> str | None:
    """The web server that these levels ask for; None for none."""
    name = str(settings.get(SERVER.name, NONE))
    return None if name == NONE or settings.get(PLACE.name) == ABSENT else name


def own(settings: Settings) -> dict[str, int | float | str | bool]:
    """The levels of knobs that a web server itself has."""
    return {name: level for name, level in settings.items() if name in KNOB_NAMES - {SERVER.name, PLACE.name}}
