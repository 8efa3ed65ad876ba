"""The knobs of a web server in front. Which one runs, and where, are knobs too: a study may vary them."""

from __future__ import annotations

from leadline import catalogue
from leadline.stack.base import Settings

NONE = "none"
ABSENT, SAME, OWN = "absent", "same", "own"

_KNOBS = catalogue.load("web")
KNOBS = tuple(_KNOBS.values())
SERVER = _KNOBS["web.server"]
PLACE = _KNOBS["web.place"]
WORKERS = _KNOBS["web.workers"]
MODEL = _KNOBS["web.model"]
SENDFILE = _KNOBS["web.sendfile"]
BACKLOG = _KNOBS["web.backlog"]
KEEPALIVE_REQUESTS = _KNOBS["web.keepalive_requests"]
UPSTREAM_KEEPALIVE = _KNOBS["web.upstream_keepalive"]
UPSTREAM = _KNOBS["web.upstream"]
COMPRESSION = _KNOBS["web.compression"]
HTTP2 = _KNOBS["web.http2"]
TLS = _KNOBS["web.tls"]
STATIC = _KNOBS["web.static"]
ACCESS_LOG = _KNOBS["web.access_log"]
KNOB_NAMES = frozenset(knob.name for knob in KNOBS)
# Of a web server alone: what means nothing without an application server, and TLS, is left out.
ALONE = (WORKERS, MODEL, KEEPALIVE_REQUESTS, SENDFILE, BACKLOG, HTTP2, ACCESS_LOG)
PREFORK = "prefork"


def chosen(settings: Settings) -> str | None:
    """The web server that these levels ask for; None for none."""
    name = str(settings.get(SERVER.name, NONE))
    return None if name == NONE or settings.get(PLACE.name) == ABSENT else name


def own(settings: Settings) -> dict[str, int | float | str | bool]:
    """The levels of knobs that a web server itself has."""
    return {name: level for name, level in settings.items() if name in KNOB_NAMES - {SERVER.name, PLACE.name}}
