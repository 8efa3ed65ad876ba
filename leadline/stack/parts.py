"""Database, server, web server and application of a stack: which they are, their knobs, where they are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from leadline.host.base import Host, Process
from leadline.model.errors import Event, Evidence, UsageError, blamed, unanswered
from leadline.model.knob import ApplyCost, AtStart, Knob, KnobOwner, Level, Owners
from leadline.model.study import StackChoice
from leadline.stack import base, registry
from leadline.stack.base import Deployment
from leadline.stack.options import KNOBS as LIMITS
from leadline.stack.options import LOOPBACK, OF_SERVER, Limits, StackOptions, plain_directory
from leadline.stack.own.server import CommandServer
from leadline.stack.own.words import tls_files
from leadline.stack.pages import SiteServer
from leadline.stack.servers import knobs as server_knobs
from leadline.stack.servers.common import JavaServer
from leadline.stack.web.front import Front


class Parts:
    """The parts of a stack, and the owner of all their knobs. Nothing is started here."""

    def __init__(self, choice: StackChoice, host: Host, home: Path, options: StackOptions | None = None) -> None:
        registry.check_stack(choice)
        self.choice = choice
        self.options = options or StackOptions()
        self.servers: dict[str, JavaServer | SiteServer] = {}
        for name in self.options.servers or [choice.server]:
            server = registry.server_of(choice.model_copy(update={"server": name}))
            if isinstance(server, SiteServer):
                server.may_be = tuple(self.options.web_servers) or server.may_be
            if self.options.here("application"):
                server.check_java(choice.java)
            self.servers[name] = server
        self.server = next(iter(self.servers.values()))  # of several the one that was started last
        self.database: base.Database = registry.database_of(choice, self.options.database_port)
        self.application: base.Application = registry.application_of(choice)
        self.services = registry.services_of(choice)
        self.companions: dict[str, base.Companion] = {}  # those configured for the last start, by their names
        self._host = host
        self._home = home.absolute()
        placement, observe, names = self.options.placement, self.options.observe, self.options.http_names
        self._work = plain_directory(self._home)
        self._processes: dict[str, Process] = {}
        self._limits = Limits(host, self._processes, OF_SERVER if self.alone else LIMITS)
        self._placement = placement  # of the last start
        apart = not self.options.here("application")
        self.front = Front(host, self._work / "web", placement, observe, names, apart)
        self._settings: base.Settings = {}  # of the last start of the server
        self._http_port = self._calls_port = 0
        self._url_port = 0
        self._elsewhere: base.Endpoint | None = None
        self._server_address = LOOPBACK
        self._reached: dict[str, str] = {}  # companions that other hosts run, with their addresses
        self._web_versions: dict[str, str] = {}

    # what it is ----------------------------------------------------------------------------------------------

    def versions(self) -> dict[str, str]:
        """Name -> version of the parts; web servers are known once they have been provisioned."""
        parts: list[base.Service | base.Application] = [self.database, *self.servers.values(), self.application]
        services = {name: service.version for name, service in self.services.items()}
        return {**{part.name: part.version for part in parts}, **services, **self._web_versions}

    @cached_property
    def _deployed(self) -> _Deployed:
        return _Deployed(self.application, self._direct_url)

    @cached_property
    def _owners(self) -> Owners:
        front = () if self.alone else (self.front,)
        limits = (self._limits,) if self._limited else ()
        return Owners(self.database, self._serving, *front, self._deployed, *limits, *self.services.values())

    @cached_property
    def _serving(self) -> KnobOwner:
        return _Serving(self) if len(self.servers) > 1 else self.server

    @property
    def _limited(self) -> bool:
        """Whether it starts its services itself, so that it may give them less of the host."""
        return self.choice.own is None or self.choice.own.content.managed

    def _place(self, settings: base.Settings) -> None:
        """Take the limits of a start."""
        self._placement = self.front.placement = self._limits.placement(self.options.placement, settings)

    @property
    def alone(self) -> bool:
        """Whether it is a web server alone, without an application server behind it."""
        return isinstance(self.server, SiteServer)

    def _in_front(self, settings: base.Settings) -> base.Settings:
        """Levels that ask for a web server of this host in front of the server."""
        return {} if self.alone or not self.options.here("web") else settings

    def knobs(self) -> Sequence[Knob]:
        return self._owners.knobs()

    def url(self) -> str:
        """Base address of the running application: the web server's where there is one."""
        scheme = "https" if self.certificate() else "http"
        return f"{scheme}://{self.options.address}:{self._url_port}{self.deployment().path}"

    def deployment(self) -> Deployment:
        """What the server is given at the levels of its last start. Raises UsageError."""
        levels = self._owners.levels(self._settings, self._deployed)
        deployment = self.application.deployment(self.choice.mode, levels)
        properties = {
            name: text for companion in self.companions.values() for name, text in companion.properties().items()
        }
        return replace(deployment, properties={**self.options.properties, **deployment.properties, **properties})

    def certificate(self) -> str | None:
        """PEM of the certificate to trust at ``url``; None without TLS."""
        web = self.front.server
        if (trusted := tls_files(self.choice.own)[0]) is not None:
            return trusted.read_text()
        tls = web.tls if web is not None else self._settings.get(server_knobs.TLS.name)
        return self.front.certificate.certificate if tls else None

    def population_urls(self) -> dict[str, str]:
        """Populations of the scenario whose requests go elsewhere than to ``url``, with their address."""
        return {name: url for companion in self.companions.values() for name, url in companion.takes().items()}

    def ready_url(self) -> str:
        return f"{self.url()}{self.deployment().ready.path}"

    def endpoint(self) -> base.Endpoint:
        """Where the database listens. Raises LookupError while it has no data."""
        return self._elsewhere or self.database.endpoint()

    def use_database(self, endpoint: base.Endpoint) -> None:
        """Have the application use a database that another stack runs, on another host."""
        self._elsewhere = endpoint

    def use_companion(self, name: str, address: str) -> None:
        """The same of a companion."""
        self._reached[name] = address

    def use_application(self, address: str, port: int) -> None:
        """Have the web server stand before an application server that another stack runs, on another host."""
        self._server_address, self._http_port = address, port

    def homes(self) -> list[Path]:
        """Private directories of its database and its server."""
        homes = [self._home / self.database.name] if self.database.runs else []
        return [*homes, *(self._work / server.name for server in (*self.servers.values(), *self.programs))]

    @property
    def programs(self) -> list[CommandServer]:
        """The programs of its stack file's services."""
        return [service.server for service in self.services.values()]

    def provision(self, progress: base.Progress) -> None:
        """Fetch and unpack every distribution of this host, build the application. Raises LeadlineError."""
        here = self.options.here
        serves = here("application")
        if serves or here("database"):
            self.database.provision(progress)
        for server in (*self.servers.values(), *self.programs) if serves else ():
            server.provision(progress)
        in_front = here("web") and not self.alone
        self._web_versions = self.front.provision(self.options.web_servers, progress) if in_front else {}
        self.application.build(progress)
        for server in self.servers.values() if serves else ():
            server.prepare(self.deployment(), progress)

    def apply(self, levels: base.Settings) -> None:
        """Set levels in the running stack. Raises UsageError for those that take effect at a start."""
        self._owners.apply(levels)

    def read_back(self, knob: str) -> Level:
        """The level in force in the running stack. Raises LookupError where it cannot be asked, NotInPlay for a web
        server's where the levels leave it out.
        """
        return self._owners.read_back(knob)

    def check_settings(self, settings: base.Settings) -> None:
        """Raises UsageError for a knob that no service of this stack has."""
        for name in settings:
            if name not in self._owners:
                why = registry.knob_of_others(name, self.server.name, self.database.name)
                parts = f"{self.server.name}, {self.database.name} and {self.application.name}"
                raise UsageError(why or f"none of {parts} has a knob {name}")

    def web_counters(self) -> Callable[[], Mapping[str, float]] | None:
        """What tells the counters of the running web server, in front or alone; None without one."""
        if isinstance(self.server, SiteServer):
            return None if self.server.runs_java else self.server.stats
        return None if self.front.server is None else self.front.stats

    @property
    def has_jvm(self) -> bool:
        """Whether the server of the last start is a JVM."""
        if isinstance(self.server, SiteServer):
            return self.server.runs_java
        return self.choice.own is None or self.choice.own.content.jvm

    def _direct_url(self, address: str = LOOPBACK) -> str:
        scheme = "https" if self._settings.get(server_knobs.TLS.name) else "http"
        return f"{scheme}://{address}:{self._http_port}{self.deployment().path}"

    def _context(
        self,
        private: Path,
        directory: Path,
        *,
        http_port: int = 0,
        calls_port: int = 0,
        http_socket: Path | None = None,
        tls: bool = False,
        http_address: str | None = None,
        database: base.Endpoint | None = None,
        deployment: Deployment | None = None,
        ports: Mapping[str, str] | None = None,
    ) -> base.ServiceContext:
        return base.ServiceContext(
            host=self._host,
            directory=private,
            artefacts=directory.absolute() / "logs",
            placement=self._placement,
            java_home=Path(self.choice.java) if self.choice.java else None,
            http_port=http_port,
            calls_port=calls_port,
            http_address=http_address or self.options.http_address,
            http_socket=http_socket,
            certificate=self.front.certificate if tls else None,
            database=database,
            deployment=deployment,
            observe=self.options.observe,
            profile=self.options.profile,
            cold=self.options.cold,
            raw=directory.absolute() / "raw",
            ports=ports or {},
            database_address=self.options.database_address,
            database_clients=self.options.database_clients,
        )


class _Serving:
    """The servers of a stack whose server is a factor, as the owner of what they have in common."""

    def __init__(self, stack: Parts) -> None:
        self._stack = stack

    def knobs(self) -> Sequence[Knob]:
        return registry.common_knobs([server.knobs() for server in self._stack.servers.values()])

    def apply(self, levels: Mapping[str, Level]) -> None:
        self._stack.server.apply(levels)

    def read_back(self, name: str) -> Level:
        if name != registry.SERVER_KNOB.name:
            return self._stack.server.read_back(name)
        return next(name for name, server in self._stack.servers.items() if server is self._stack.server)


class _Deployed(AtStart):
    """The application at an address, as the owner of its knobs."""

    def __init__(self, application: base.Application, url: Callable[[], str]) -> None:
        self._url, self._application = url, application

    def knobs(self) -> Sequence[Knob]:
        return self._application.knobs()

    def apply(self, levels: Mapping[str, Level]) -> None:
        knobs = {knob.name: knob for knob in self.knobs()}
        if fixed := {name: level for name, level in levels.items() if knobs[name].apply_cost is not ApplyCost.LIVE}:
            super().apply(fixed)
        try:
            self._application.change(self._url(), levels)
            wrong = [f"{name} {level}" for name, level in levels.items() if self.read_back(name) != level]
        except LookupError as error:
            raise blamed(Evidence(unanswered(error)), str(error)) from error
        if wrong:
            raise blamed(Evidence(Event.REFUSED), f"{self._application.name} did not take {', '.join(wrong)}")

    def read_back(self, name: str) -> Level:
        return self._application.read_back(self._url(), name)
