"""What can be named in a study's ``stack``: one row for each server, database and application. What a server can do is
said by its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.knob import ApplyCost, Kind, Knob, Owner
from leadline.model.ownparts import PREFIX
from leadline.model.study import HOST_ROLES, StackChoice
from leadline.stack.applications.brokerage import Brokerage
from leadline.stack.applications.dealership import Dealership
from leadline.stack.base import Application, Database, Service
from leadline.stack.mariadb import MariaDb
from leadline.stack.options import KNOBS as LIMITS
from leadline.stack.options import OF_SERVER, role_of
from leadline.stack.own import server as own_server
from leadline.stack.own.application import OwnApplication, OwnDatabase
from leadline.stack.own.attached import AttachedServer
from leadline.stack.own.compose import ComposeServer
from leadline.stack.own.server import CommandServer, ServiceProgram
from leadline.stack.own.wars import war_server
from leadline.stack.pages import Pages, SiteServer, own_file
from leadline.stack.postgres import Postgres
from leadline.stack.private import PrivateDatabase
from leadline.stack.provision import Artefact, is_here
from leadline.stack.servers import jvm
from leadline.stack.servers.common import JavaServer
from leadline.stack.servers.framework import Quarkus, SpringBoot
from leadline.stack.servers.glassfish import GlassFish
from leadline.stack.servers.liberty import Liberty
from leadline.stack.servers.tomcat import Tomcat
from leadline.stack.servers.tomee import TomEE
from leadline.stack.servers.wildfly import WildFly
from leadline.stack.web.common import KNOBS as WEB_KNOBS

BYTES_PER_SECOND = 10e6  # assumed: no download has been timed on this machine


def downloads(choice: StackChoice) -> list[Artefact]:
    """Distributions of its server, database and JDBC driver that are not in the cache. Raises UsageError."""
    if choice.url is not None:
        return []
    distribution = getattr(server_of(choice), "distribution", None)  # none of an application that is its own server
    wanted: list[Artefact] = [distribution] if distribution is not None else []
    database = database_of(choice)
    if isinstance(database, PrivateDatabase):
        with suppress(UsageError):  # none for this CPU, which the run tells
            wanted.append(database.artefact())
        wanted.append(database.jdbc_driver.artefact)
    return [artefact for artefact in wanted if not is_here(artefact)]


def download_seconds(found: list[Artefact]) -> float:
    return sum(artefact.size for artefact in found) / BYTES_PER_SECOND


_T = TypeVar("_T")


class StackError(UsageError):
    """A stack that cannot be had; ``key`` of a study's ``stack`` is to blame."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


SERVERS: Mapping[str, type[JavaServer]] = {
    "glassfish": GlassFish,
    "liberty": Liberty,
    "quarkus": Quarkus,
    "spring-boot": SpringBoot,
    "tomcat": Tomcat,
    "tomee": TomEE,
    "wildfly": WildFly,
}
DATABASES: Mapping[str, Callable[[int], Database]] = {"postgres": Postgres, "mariadb": MariaDb}
APPLICATIONS: Mapping[str, Callable[[], Application]] = {"brokerage": Brokerage, "dealership": Dealership}


# In the catalogue of studies that have it as a factor.
SERVER_KNOB = Knob(
    "stack.server",
    Kind.CHOICE,
    ApplyCost.RESTART,
    "Application server, with the settings that all of the study's servers have",
    default_note="stack.server",
    choices=tuple(SERVERS),
    owner=Owner.SERVER,
    names={"leadline": "stack.server"},
    source="docs/reference/servers.md",
)


def server(name: str) -> JavaServer:
    """A new server. Raises UsageError for an unknown name."""
    return _find("server", name, SERVERS)()


def database(name: str, port: int = 0) -> Database:
    """A new database on ``port``, 0 for a free one. Raises UsageError for an unknown name."""
    return _find("database", name, DATABASES)(port)


def application(name: str) -> Application:
    """A new application. Raises UsageError for an unknown name."""
    return _find("application", name, APPLICATIONS)()


def server_of(choice: StackChoice) -> JavaServer | SiteServer:
    """A new server of a stack; the flags of its JVM are knobs, too. Raises UsageError for an unknown name."""
    return SiteServer(choice) if choice.web is not None else java_server_of(choice)


def java_server_of(choice: StackChoice) -> JavaServer:
    """The same of a stack that is no web server alone."""
    server = _java_server_of(choice)
    _take_flags(server, choice)
    if isinstance(server, AttachedServer):
        server.flags_of_running()
    return server


def _take_flags(server: JavaServer, choice: StackChoice) -> None:
    with suppress(UsageError):  # without a JDK nothing will start, which is told where it does not
        server.jvm.of(server.find_java(Path(choice.java) if choice.java else None))


def _java_server_of(choice: StackChoice) -> JavaServer:
    if choice.own is None:
        return server(choice.server)
    if choice.own.content.war is not None:
        return war_server(choice.own)
    if choice.own.content.compose is not None:
        return ComposeServer(choice.own)
    return AttachedServer(choice.own) if choice.own.content.attach else CommandServer(choice.own)


def services_of(choice: StackChoice) -> dict[str, ServiceProgram]:
    """The services that a stack file starts beside its application, in that order."""
    services = {name: ServiceProgram(choice.own, name) for name in choice.services} if choice.own else {}
    for service in services.values():
        if service.is_java:
            _take_flags(service.server, choice)
    return services


def database_of(choice: StackChoice, port: int = 0) -> Database:
    """A new database of a stack on ``port``, 0 for a free one. Raises UsageError for an unknown name."""
    own_stack = own_file() if choice.web is not None else choice.own
    if own_stack is not None and not own_stack.content.database.private:
        return OwnDatabase(own_stack)
    return database(choice.database, port)


def application_of(choice: StackChoice) -> Application:
    """A new application of a stack. Raises UsageError for an unknown name."""
    if choice.web is not None:
        return Pages()
    if choice.own is None:
        return application(choice.app)
    return OwnApplication(choice.own, war_server(choice.own).pool if choice.own.content.war else "")


def knob_of_others(name: str, server_name: str, database_name: str) -> str:
    """Why this server and database have no knob ``name`` though others have; empty when nobody has it."""
    programs: list[tuple[str, str, Service]] = [("server", name, make()) for name, make in SERVERS.items()]
    programs += [("database", name, make(0)) for name, make in DATABASES.items()]
    able = {name_: role for role, name_, program in programs if name in {knob.name for knob in program.knobs()}}
    if not able or server_name in able or database_name in able:
        return ""
    roles = set(able.values())
    lacking = [name for role, name in (("server", server_name), ("database", database_name)) if role in roles]
    have = ["has" if len(names) == 1 else "have" for names in (lacking, able)]
    return f"{' and '.join(lacking)} {have[0]} no knob {name}; {' and '.join(able)} {have[1]} it"


def not_a_knob(choice: StackChoice, name: str) -> str:
    """Why a stack has no knob ``name``, where more can be said than what is like it; empty where not."""
    if choice.url is not None:
        return f"{name} is no setting of the load or of this host, and leadline sets nothing of the server at stack.url"
    if name == SERVER_KNOB.name:
        return "the server is a factor of reference applications on this host, with two servers or more: " + (
            ", ".join(SERVERS)
        )
    if choice.own is not None:
        removed = own_server.catalogue(choice.own).removed.get(name.removeprefix(PREFIX))
        if removed is not None:
            return removed
    if choice.own is not None and choice.own.content.attach and not choice.own.content.restart:
        owner = server_of(choice)
        if isinstance(owner, CommandServer) and name in {knob.name for knob in CommandServer.knobs(owner)}:
            return f"{name} takes effect at a start, and leadline starts nothing here: give the stack file a `restart`"
    if choice.web is not None:
        have = ", ".join(knob.name for knob in server_of(choice).knobs() if knob.name.startswith("web."))
        return f"a web server alone has no knob {name}; it has {have} and those of a JVM"
    if name.startswith(jvm.PREFIX):
        return jvm.elsewhere(name, java_server_of(choice).jvm.flags)
    return knob_of_others(name, choice.server, choice.database)


def stack_catalogue(choice: StackChoice) -> list[Knob]:
    """The knobs of a stack's services and its application, with the levels refused that it cannot have.

    Raises UsageError for names that do not exist and a mode the server cannot run.
    """
    check_stack(choice)
    if choice.web is not None:
        return [*server_of(choice).knobs(), *OF_SERVER]
    if choice.own is not None:
        limits = LIMITS if choice.own.content.managed else ()
        of_services = [knob for service in services_of(choice).values() for knob in service.knobs()]
        return [*server_of(choice).knobs(), *database_of(choice).knobs(), *WEB_KNOBS, *limits, *of_services]
    can = {name: kind.features for name, kind in SERVERS.items()}
    knobs = application(choice.app).knobs_on(choice.mode, choice.server, can)
    return [*server_of(choice).knobs(), *database_of(choice).knobs(), *WEB_KNOBS, *LIMITS, *knobs]


def knob_roles(choice: StackChoice) -> dict[str, str]:
    """Knob -> the role of the service that has it; those left out that are the application's."""
    roles = {knob.name: "database" for knob in database_of(choice).knobs()}
    roles |= {knob.name: "web" for knob in WEB_KNOBS}
    for companion in application_of(choice).companions({}):
        roles |= dict.fromkeys(companion.knob_names, companion.name)
    roles |= {knob.name: role_of(knob.name) for knob in LIMITS}
    return {name: role for name, role in roles.items() if role in HOST_ROLES}


def common_knobs(own: Sequence[Sequence[Knob]]) -> list[Knob]:
    """Those of the first that all others have, too, for a stack whose server is a factor; and the one that names it."""
    names = [{knob.name for knob in knobs_of} for knobs_of in own]
    return [SERVER_KNOB, *(knob for knob in own[0] if all(knob.name in names_of for names_of in names))]


def servers_with(able: Callable[[type[JavaServer]], bool]) -> list[str]:
    """Names of the servers whose class says that they can."""
    return [name for name, kind in SERVERS.items() if able(kind)]


def check_stack(choice: StackChoice) -> None:
    """Raises UsageError for names that do not exist, for a mode that its application does not have, and for a server
    that runs already.
    """
    if choice.url is not None:
        raise StackError("url", f"{choice.url} runs already: leadline starts nothing of it and sets nothing")
    if choice.web is not None:
        return
    if choice.own is None:
        check_mode(choice.app, choice.mode, choice.server)
        _check_database(choice)
    elif choice.mode not in (modes_known := application_of(choice).modes()):
        raise StackError(
            "mode", f"{choice.app} has no mode {choice.mode}: leave it out, or write {', '.join(modes_known)}"
        )


def _check_database(choice: StackChoice) -> None:
    if choice.database in DATABASES and not SERVERS[choice.server].reaches(choice.database):
        able = ", ".join(servers_with(lambda kind: kind.reaches(choice.database)))
        problem = f"{choice.server} has no driver for {choice.database}: its program is built for"
        raise StackError("database", f"{problem} {', '.join(SERVERS[choice.server].databases)}; {able} reach it")


def check_mode(app: str, mode: str, server_name: str) -> None:
    """Raises UsageError when the application has no such mode or the server cannot run it."""
    chosen = application(app)
    _find("mode", mode, {name: name for name in chosen.modes()})
    _find("server", server_name, SERVERS)
    if mode not in (modes_known := modes(app, server_name)):
        able = ", ".join(name for name in SERVERS if mode in modes(app, name))
        if not modes_known:
            raise StackError("server", f"{app} is not built for {server_name}; it runs on {able}")
        raise StackError(
            "mode", f"{server_name} cannot run {app} in mode {mode}, only {', '.join(modes_known)}; {able} can"
        )


def modes(app: str, server_name: str) -> list[str]:
    """The modes of an application in which the server can run it."""
    chosen, kind = application(app), SERVERS[server_name]
    return [mode for mode in chosen.modes() if kind.runs(chosen.deployment(mode, {}))]


def applications_on(server_name: str) -> list[str]:
    """Names of the applications that a server can run; none for a name that is no server."""
    return [app for app in APPLICATIONS if server_name in SERVERS and modes(app, server_name)]


def check_http(choice: StackChoice, version: str) -> None:
    """Raises UsageError when the server's port without TLS does not speak this version (``auto``, ``1.1``, ``2``)."""
    if version == "2" and not server_of(choice).plain_http2:
        able = " or ".join(servers_with(lambda kind: kind.plain_http2))
        raise UsageError(f"{choice.server} does not speak HTTP/2 without TLS here; write 1.1, or take {able} as server")


def _find(kind: str, name: str, table: Mapping[str, _T]) -> _T:
    if name in table:
        return table[name]
    near = nearest(name, list(table))
    raise StackError(
        "app" if kind == "application" else kind,
        f"unknown {kind} {quoted(name)}; {f'did you mean {near}?' if near else 'there is'}"
        f"{'' if near else ' ' + ', '.join(table)}",
    )
