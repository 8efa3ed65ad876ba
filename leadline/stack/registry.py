"""What can be named in a study's ``stack``: one line for each server, database and application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.knob import Knob
from leadline.model.study import StackChoice
from leadline.stack import brokerage_knobs
from leadline.stack.base import Application, Database, Service
from leadline.stack.brokerage import Brokerage
from leadline.stack.mariadb import MariaDb
from leadline.stack.postgres import Postgres
from leadline.stack.servers.common import JavaServer
from leadline.stack.servers.glassfish import GlassFish
from leadline.stack.servers.liberty import Liberty
from leadline.stack.servers.tomcat import Tomcat
from leadline.stack.servers.tomee import TomEE
from leadline.stack.servers.wildfly import WildFly
from leadline.stack.web.knobs import KNOBS as WEB_KNOBS

_T = TypeVar("_T")


class StackError(UsageError):
    """A stack that cannot be had; ``key`` of a study's ``stack`` is to blame."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


SERVERS: Mapping[str, Callable[[], Service]] = {
    "glassfish": GlassFish,
    "liberty": Liberty,
    "tomcat": Tomcat,
    "tomee": TomEE,
    "wildfly": WildFly,
}
DATABASES: Mapping[str, Callable[[int], Database]] = {"postgres": Postgres, "mariadb": MariaDb}
APPLICATIONS: Mapping[str, Callable[[], Application]] = {"brokerage": Brokerage}

# Persistence modes of the applications that a server can run; a servlet container has no session beans.
MODES: Mapping[str, tuple[str, ...]] = {
    "glassfish": ("direct", "session", "orm"),
    "liberty": ("direct", "session", "orm"),
    "tomcat": ("direct",),
    "tomee": ("direct", "session", "orm"),
    "wildfly": ("direct", "session", "orm"),
}

# Servers with a queue for the application's orders.
MESSAGING = ("glassfish", "liberty", "tomee", "wildfly")

# The knobs of an application in a stack, with the levels refused that this stack cannot have.
_APPLICATION_KNOBS = {"brokerage": brokerage_knobs.for_stack}

# Servers that do not run on every JDK from 17 on.
_CHOOSY: Mapping[str, type[JavaServer]] = {"glassfish": GlassFish, "tomee": TomEE}

# Servers whose plain port also speaks HTTP/2 to who begins with it (prior knowledge).
HTTP2 = ("liberty", "tomcat", "tomee", "wildfly")


def server(name: str) -> Service:
    """A new server. Raises UsageError for an unknown name."""
    return _find("server", name, SERVERS)()


def database(name: str, port: int = 0) -> Database:
    """A new database on ``port``, 0 for a free one. Raises UsageError for an unknown name."""
    return _find("database", name, DATABASES)(port)


def application(name: str) -> Application:
    """A new application. Raises UsageError for an unknown name."""
    return _find("application", name, APPLICATIONS)()


def service_catalogue(server_name: str, database_name: str) -> list[Knob]:
    """The knobs of a server (its JVM's included), a database and the web servers in front. Raises UsageError for an
    unknown name.
    """
    return [*server(server_name).knobs(), *database(database_name).knobs(), *WEB_KNOBS]


def knob_of_others(name: str, server_name: str, database_name: str) -> str:
    """Why this server and database have no knob ``name`` though others have; empty when nobody has it."""
    programs: list[tuple[str, str, Service]] = [("server", each, make()) for each, make in SERVERS.items()]
    programs += [("database", each, make(0)) for each, make in DATABASES.items()]
    able = {each: role for role, each, program in programs if name in {knob.name for knob in program.knobs()}}
    if not able or server_name in able or database_name in able:
        return ""
    roles = set(able.values())
    lacking = [each for role, each in (("server", server_name), ("database", database_name)) if role in roles]
    have = ["has" if len(names) == 1 else "have" for names in (lacking, able)]
    return f"{' and '.join(lacking)} {have[0]} no knob {name}; {' and '.join(able)} {have[1]} it"


def stack_catalogue(choice: StackChoice) -> list[Knob]:
    """The knobs of a stack's services and its application, with the levels refused that it cannot have.

    Raises UsageError for names that do not exist and a mode the server cannot run.
    """
    check_mode(choice.app, choice.mode, choice.server)
    return [
        *service_catalogue(choice.server, choice.database),
        *_APPLICATION_KNOBS[choice.app](choice, MODES, MESSAGING),
    ]


def check_mode(app: str, mode: str, server_name: str) -> None:
    """Raises UsageError when the application has no such mode or the server cannot run it."""
    modes = list(application(app).modes())
    _find("mode", mode, {name: name for name in modes})
    _find("server", server_name, SERVERS)
    if mode not in MODES[server_name]:
        able = [name for name, can in MODES.items() if mode in can]
        raise StackError(
            "mode",
            f"{server_name} cannot run {app} in mode {mode}, only {', '.join(MODES[server_name])};"
            f" {', '.join(able)} can",
        )


def check_java(server_name: str, java: str | None) -> None:
    """Raises UsageError when the server does not run on the JDK ``java`` (None: on any JDK of this host)."""
    if server_name in _CHOOSY:
        _CHOOSY[server_name].find_java(Path(java) if java else None)


def check_http(server_name: str, version: str) -> None:
    """Raises UsageError when the server's port without TLS does not speak this version (``auto``, ``1.1``, ``2``)."""
    if version == "2" and server_name not in HTTP2:
        raise UsageError(
            f"{server_name} does not speak HTTP/2 without TLS here; write 1.1, or take {' or '.join(HTTP2)} as server"
        )


def _find(kind: str, name: str, table: Mapping[str, _T]) -> _T:
    if name in table:
        return table[name]
    near = nearest(name, list(table))
    raise StackError(
        "app" if kind == "application" else kind,
        f"unknown {kind} {quoted(name)}; {f'did you mean {near}?' if near else 'there is'}"
        f"{'' if near else ' ' + ', '.join(table)}",
    )
