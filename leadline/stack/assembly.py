"""Database, server, web server and application joined to one stack on one host."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from leadline.host.base import Host, Process
from leadline.host.files import oom_kills
from leadline.host.lock import exclusive
from leadline.host.paths import cache_dir
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.knob import Knob, Level
from leadline.model.owners import KnobOwner, Owners
from leadline.model.study import Placement, StackChoice
from leadline.stack import refusals, registry, snapshots
from leadline.stack.base import (
    Application,
    AuditResult,
    Companion,
    CompanionContext,
    Database,
    Endpoint,
    Progress,
    Service,
    ServiceContext,
    Settings,
)
from leadline.stack.deployment import Deployment
from leadline.stack.jdbc import driver_for
from leadline.stack.limits import KNOBS as LIMITS
from leadline.stack.limits import OF_SERVER, Limits
from leadline.stack.pages.server import SiteServer
from leadline.stack.servers import knobs as server_knobs
from leadline.stack.servers.common import JavaServer
from leadline.stack.shared_owners import Deployed, OneOfServers
from leadline.stack.web import knobs as web_knobs
from leadline.stack.web.common import WebServer
from leadline.stack.web.front import Behind, Front

_LOOPBACK = "127.0.0.1"
_PLAIN = re.compile(r"[A-Za-z0-9/._+=@~-]+")


@dataclass(frozen=True)
class StackOptions:
    """How a stack is placed and watched, and how much data it holds. ``http_port`` 0: a free one at every start.

    ``properties`` are system properties of the server's JVM beside the mode: switches of the application.
    """

    load_units: int = 1
    data_seed: int = 1
    placement: Placement = field(default_factory=Placement)
    observe: bool = True
    ready_timeout: float = 120.0
    cold: bool = False  # the page cache is dropped before each trial, and again where files were copied to a place
    http_port: int = 0
    http_address: str = _LOOPBACK  # 0.0.0.0 for load from other hosts
    address: str = _LOOPBACK  # by which the load reaches this host
    database_address: str = _LOOPBACK  # where the database listens beside the loopback
    database_clients: Sequence[str] = ()  # addresses of other hosts that may log in there
    database_port: int = 0
    web_servers: Sequence[str] = ()  # that levels will ask for
    http_names: Sequence[str] = ()  # addresses of this host as others know it
    servers: Sequence[str] = ()  # where the server is a factor: those that levels will name
    properties: Mapping[str, str] = field(default_factory=dict)


class Stack:
    """One stack, started and stopped many times.

    ``home`` holds the private directories of its services. A trial's ``directory`` takes ``logs/`` and ``raw/``.
    Steps are separate because the lab writes each to its store before it acts: ``provision``, ``prepare_data`` once,
    then ``reset_data``, ``start_database``, ``start_server``, ..., ``down`` for every trial. Raises UsageError for
    names that do not exist, modes a server cannot run and JDKs it does not run on.
    """

    def __init__(self, choice: StackChoice, host: Host, home: Path, options: StackOptions | None = None) -> None:
        registry.check_stack(choice)
        self.choice = choice
        self.options = options or StackOptions()
        self.servers: dict[str, JavaServer] = {}
        for name in self.options.servers or [choice.server]:
            server = registry.server_of(choice.model_copy(update={"server": name}))
            if isinstance(server, SiteServer):
                server.may_be = tuple(self.options.web_servers) or server.may_be
            server.check_java(choice.java)
            self.servers[name] = server
        self.server = next(iter(self.servers.values()))  # of several the one that was started last
        self.database: Database = registry.database_of(choice, self.options.database_port)
        self.application: Application = registry.application_of(choice)
        self.companion: Companion | None = self.application.companion()
        self._beside: Mapping[str, str] = {}  # properties by which the server knows the companion
        self._host = host
        self._home = home.absolute()
        self._processes: dict[str, Process] = {}
        self._configured = self._database_configured = False  # server, database, since they were last stopped
        self._limits = Limits(host, self._processes, OF_SERVER if self.alone else LIMITS)
        self._placement = self.options.placement  # of the last start
        placement, observe, names = self.options.placement, self.options.observe, self.options.http_names
        self._work = plain_directory(self._home)
        self.front = Front(host, self._work / "web", placement, observe, names)
        self._settings: Settings = {}  # of the last start of the server
        self._http_port = 0
        self._url_port = 0
        self._socket: Path | None = None
        self._memory_kills = 0
        self._elsewhere: Endpoint | None = None
        self._web_versions: dict[str, str] = {}

    # what it is ----------------------------------------------------------------------------------------------

    def versions(self) -> dict[str, str]:
        """Name -> version of the parts; web servers are known once they have been provisioned."""
        parts: list[Service | Application] = [self.database, *self.servers.values(), self.application]
        return {**{part.name: part.version for part in parts}, **self._web_versions}

    @cached_property
    def _deployed(self) -> Deployed:
        return Deployed(self.application, self._direct_url)

    @cached_property
    def _owners(self) -> Owners:
        front = () if self.alone else (self.front,)
        return Owners(self.database, self._serving, *front, self._deployed, *([self._limits] if self._limited else ()))

    @cached_property
    def _serving(self) -> KnobOwner:
        return OneOfServers(self.servers, lambda: self.server) if len(self.servers) > 1 else self.server

    @property
    def _limited(self) -> bool:
        """Whether it starts its services itself, so that it may give them less of the host."""
        return self.choice.own is None or self.choice.own.content.attach is None

    @property
    def alone(self) -> bool:
        """Whether it is a web server alone, without an application server behind it."""
        return isinstance(self.server, SiteServer)

    def _in_front(self, settings: Settings) -> Settings:
        """Levels that ask for a web server in front of the server."""
        return {} if self.alone else settings

    def knobs(self) -> Sequence[Knob]:
        return self._owners.knobs()

    def url(self) -> str:
        """Base address of the running application: the web server's where there is one."""
        scheme = "https" if self.certificate() else "http"
        return f"{scheme}://{self.options.address}:{self._url_port}{self.deployment().path}"

    def deployment(self) -> Deployment:
        """What the server is given at the levels of its last start. Raises UsageError."""
        own = self._owners.levels(self._settings, self._deployed)
        made = self.application.deployment(self.choice.mode, own)
        return replace(made, properties={**self.options.properties, **made.properties, **self._beside})

    def certificate(self) -> str | None:
        """PEM of the certificate to trust at ``url``; None without TLS."""
        web = self.front.server
        tls = web.tls if web is not None else self._settings.get(server_knobs.TLS.name)
        return self.front.certificate.certificate if tls else None

    def ready_url(self) -> str:
        return f"{self.url()}{self.deployment().ready.path}"

    def endpoint(self) -> Endpoint:
        """Where the database listens. Raises LookupError while it has no data."""
        return self._elsewhere or self.database.endpoint()

    def use_database(self, endpoint: Endpoint) -> None:
        """Have the application use a database that another stack runs, on another host."""
        self._elsewhere = endpoint

    def processes(self) -> Mapping[str, Process]:
        """``database``, ``server``, ``web`` and the application's companion, those that have been started."""
        return dict(self._processes)

    def homes(self) -> list[Path]:
        """Private directories of its database and its server."""
        own = [self._home / self.database.name] if self.database.runs else []
        return [*own, *(self._work / server.name for server in self.servers.values())]

    def place(self, cpus: str) -> None:
        """Put everything on these CPUs (``0,2-3``): what runs, by moving it, and what is started from now on. Raises
        OSError, UsageError for CPUs that cannot be used.
        """
        placement = self.options.placement.model_copy(update={"server_cpus": cpus, "database_cpus": cpus})
        self.options = replace(self.options, placement=placement)
        self._place({})
        for process in self._processes.values():
            process.confine(cpus)

    # once a run ----------------------------------------------------------------------------------------------

    def provision(self, progress: Progress) -> None:
        """Fetch and unpack every distribution, build the application. Raises LeadlineError."""
        self.database.provision(progress)
        for server in self.servers.values():
            server.provision(progress)
        self._web_versions = {} if self.alone else self.front.provision(self.options.web_servers, progress)
        self.application.build(progress)
        for server in self.servers.values():
            server.prepare(self.deployment(), progress)

    def prepare_data(self, progress: Progress) -> str:
        """Load the data and keep a snapshot, unless there is one; returns its name. The database is stopped after.

        Raises TrialFailure, LeadlineError.
        """
        key = self.application.data_key(self.options.load_units, self.options.data_seed)
        if not self.database.has_snapshot(key):
            lock = cache_dir() / "data" / f".{self.database.name}-{key}.lock"
            with exclusive(lock, lambda: progress("waiting for another process that loads the same data")):
                if not self.database.has_snapshot(key):
                    self._load_data(key, progress)
        return key

    def _load_data(self, key: str, progress: Progress) -> None:
        units, seed = self.options.load_units, self.options.data_seed
        progress(f"loading {units} load unit{'' if units == 1 else 's'} of {self.application.name} data")
        began = time.monotonic()
        directory = self._home / "load"
        shutil.rmtree(directory, ignore_errors=True)
        try:
            self.database.configure(self._context(directory / self.database.name, directory), {})
            self._start_database()
            self.application.load_data(self.endpoint(), units, seed, directory / "logs" / "load.log")
            if self.deployment().first_start:
                self._first_start(directory, progress)
            self.database.settle()
            if not self._stop_database():
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE, "the database did not stop after the load", self.database.log_tail()
                )
            self.database.snapshot(key)
        finally:
            self._stop_database()
        shutil.rmtree(directory, ignore_errors=True)
        progress(f"loaded and kept as a snapshot in {time.monotonic() - began:.1f} s")

    def _first_start(self, directory: Path, progress: Progress) -> None:
        progress(f"starting {self.application.name} once for its migrations")
        try:
            self.start_server({}, directory)
        finally:
            self._stop_server()

    # every trial ---------------------------------------------------------------------------------------------

    def reset_data(self, directory: Path) -> None:
        """Put the data back to the snapshot; nothing runs. Raises LookupError before ``prepare_data``."""
        self.database.configure(self._context(self._home / self.database.name, directory), {})
        self.database.restore(self.application.data_key(self.options.load_units, self.options.data_seed))
        if self.companion is not None:
            self.companion.reset(self._home / self.companion.name)

    def has_data(self) -> bool:
        """Whether there are whole data of an earlier start, for a study that keeps them."""
        data = self._home / self.database.name / "data"
        return not self.database.runs or (data.exists() and not snapshots.interrupted(data))

    def start_database(self, settings: Settings, directory: Path) -> float:
        """Seconds until it answers. ``settings``: all levels; those of other layers are left alone."""
        self._place(settings)
        context = self._context(self._home / self.database.name, directory)
        self._database_configured = True  # it holds places from its start on, also where that fails
        self.database.configure(context, self._owners.levels(settings, self.database))
        return self._start_database()

    def start_server(self, settings: Settings, directory: Path) -> float:
        """Seconds from the start until the application answers, through the web server where the levels ask for one;
        the database runs.
        """
        self.server = self.servers.get(str(settings.get(registry.SERVER_KNOB.name)), self.server)
        self._place(settings)
        in_front = self._in_front(settings)
        fronted = web_knobs.chosen(in_front) is not None
        self.front.configure(in_front)
        self._make_work()
        self._socket = self.front.socket(in_front, self.server.name if self.server.unix_socket else None)
        self._settings = dict(settings)
        fixed = self.choice.own.content.fixed_port if self.choice.own else None
        given = (0 if fronted else self.options.http_port) or fixed
        self._http_port = self._url_port = given or self._host.free_port()
        self._start_companion(directory)
        deployment = self.deployment()
        if not deployment.archive.is_file():
            raise LeadlineError(f"{deployment.name} is not built: {deployment.archive} does not exist")
        context = self._context(
            self._work / self.server.name,
            directory,
            http_port=self._http_port,
            http_socket=self._socket,
            tls=bool(settings.get(server_knobs.TLS.name)),
            http_address=_LOOPBACK if fronted else self.options.http_address,
            database=self.endpoint() if self.database.runs else None,
            deployment=deployment,
        )
        self._configured = True
        own = self._owners.levels(settings, self._serving)
        self.server.configure(context, {name: at for name, at in own.items() if name != registry.SERVER_KNOB.name})
        self._processes["server"] = self.server.start()
        seconds = self._server_ready()
        return seconds + self.start_web(settings, directory) if fronted else seconds

    def _start_companion(self, directory: Path) -> None:
        """Start the process that the application needs beside its server, before it; both know each other's port."""
        self._beside = {}
        if self.companion is None:
            return
        context = CompanionContext(
            host=self._host,
            directory=self._home / self.companion.name,
            artefacts=directory.absolute() / "logs",
            port=self._host.free_port(),
            url=self._direct_url(),
            seed=self.options.data_seed,
            cpus=self.options.placement.driver_cpus,
        )
        self.companion.configure(context, self._owners.levels(self._settings, self._deployed))
        self._beside = self.companion.properties()
        self.restart_companion()

    def restart_companion(self) -> float:
        """Start it, also anew after its process has ended; seconds until it answers. Raises TrialFailure."""
        assert self.companion is not None
        self._processes[self.companion.name] = self.companion.start()
        return self.companion.wait_ready(self.options.ready_timeout)

    def start_web(self, settings: Settings, directory: Path) -> float:
        """Start the web server that the levels ask for in front of the running server; seconds until the application
        answers through it. A Unix socket is there only if the server was started with the same levels.
        """
        self._settings = dict(settings)
        self._url_port = self.options.http_port or self._host.free_port()
        behind = Behind(self._http_port, self.deployment())
        socket = self._socket if settings.get(web_knobs.UPSTREAM.name) == "unix" else None
        return self.front.start(
            settings,
            behind,
            socket,
            self.options.http_address,
            self._url_port,
            directory.absolute() / "logs",
            self.options.ready_timeout,
            lambda process: self._processes.__setitem__("web", process),
        )

    def stop_web(self) -> bool:
        """True if it ended cleanly, or there was none; the application is then reached directly."""
        self._processes.pop("web", None)
        self._url_port = self._http_port
        return self.front.stop()

    def up(self, settings: Settings, directory: Path) -> float:
        """Database and server in order, both ready; seconds it took. What was started is stopped when it fails."""
        self.check_settings(settings)
        began = time.monotonic()
        try:
            self.start_database(settings, directory)
            self.start_server(settings, directory)
        except BaseException:
            self.down()
            raise
        return time.monotonic() - began

    def down(self) -> list[str]:
        """Stop in reverse order; returns what did not end cleanly. Nothing happens when nothing runs."""
        unclean = []
        web = self.front.server
        if not self.stop_web():
            unclean.append(f"{web.name if web else 'web server'} did not stop cleanly")
        if not self._stop_server():
            unclean.append(f"{self.server.name} did not stop cleanly")
        beside = self.companion
        if beside is not None and self._processes.pop(beside.name, None) is not None and not beside.stop():
            unclean.append(f"{beside.name} did not stop cleanly")
        if self._work != self._home:
            self._host.remove_tree(self._work)
        if not self._stop_database():
            unclean.append(f"{self.database.name} did not stop cleanly")
        return unclean

    def apply(self, levels: Settings) -> None:
        """Set levels in the running stack. Raises UsageError for those that take effect at a start."""
        self._owners.apply(levels)

    def read_back(self, knob: str) -> Level:
        """The level in force in the running stack. Raises LookupError where it cannot be asked, NotInPlay for a web
        server's where the levels leave it out.
        """
        return self._owners.read_back(knob)

    def check_settings(self, settings: Settings) -> None:
        """Raises UsageError for a knob that no service of this stack has."""
        for name in settings:
            if name not in self._owners:
                why = registry.knob_of_others(name, self.server.name, self.database.name)
                parts = f"{self.server.name}, {self.database.name} and {self.application.name}"
                raise UsageError(why or f"none of {parts} has a knob {name}")

    def check_alive(self) -> None:
        """Raises TrialFailure with the last words of a service that has ended: infrastructure when something outside
        the stack killed it, else configuration (the kernel's out-of-memory killer included).
        """
        server = self.server.served if isinstance(self.server, SiteServer) else self.server
        services: dict[str, Service | WebServer | Companion] = {"database": self.database, "server": server}
        if self.companion is not None:
            services[self.companion.name] = self.companion
        if self.front.server is not None:
            services["web"] = self.front.server
        for role, process in self._processes.items():
            if process.alive():
                continue
            code = process.exit_code()
            starved = oom_kills(self._host.files) > self._memory_kills
            kind, how = FailureClass.CONFIGURATION, f"exit code {code}"
            if code is not None and -code in (signal.SIGKILL, signal.SIGTERM):
                if starved:
                    how = "the kernel killed it for want of memory"
                else:
                    kind, how = FailureClass.INFRASTRUCTURE, f"killed from outside by signal {-code}"
            service = services[role]
            if service is self.companion:  # part of the load
                kind = FailureClass.INFRASTRUCTURE
            raise TrialFailure(kind, f"{service.name} died during the trial: {how}", service.log_tail())

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

    def check_connections(self) -> None:
        """Raises TrialFailure(configuration) with the database's words when it refused connections of the pool."""
        if not self.database.runs:
            return
        words = driver_for(self.endpoint()).refusals
        refusals.check(self.database.name, self.server.name, self.server.artefacts(), words)

    def check_messages(self) -> None:
        """Raises TrialFailure(configuration) with the server's words when its message store failed."""
        refusals.check_store(self.server.name, self.server.artefacts())

    def restart_server(self) -> float:
        """Start the server anew, after its process has ended, on what it left behind: nothing is configured again.

        Seconds until the application answers. Raises TrialFailure.
        """
        self._processes["server"] = self.server.start()
        return self._server_ready()

    def _server_ready(self) -> float:
        try:
            return self.server.wait_ready(self.options.ready_timeout)
        except TrialFailure:
            # What was refused says more than that the server is not ready.
            self.check_connections()
            self.check_messages()
            raise

    def drain(self, times: Path) -> None:
        """Wait until the work that the application has accepted has had its effect; ``times`` as its ``drain``."""
        self.application.drain(self._direct_url(), self._settings, times)

    def _direct_url(self) -> str:
        scheme = "https" if self._settings.get(server_knobs.TLS.name) else "http"
        return f"{scheme}://{_LOOPBACK}:{self._http_port}{self.deployment().path}"

    def audit(self, counts: Mapping[str, Mapping[str, int]], log: Path) -> Sequence[AuditResult]:
        """The application's audits of its data; the database runs. ``counts`` as the driver counted them."""
        return self.application.audit(self.endpoint(), self.options.load_units, self.options.data_seed, counts, log)

    def artefacts(self) -> list[Path]:
        """Logs and effective configuration of the last start."""
        web = self.front.server
        beside = self.companion.artefacts() if self.companion else ()
        return [*self.database.artefacts(), *self.server.artefacts(), *(web.artefacts() if web else ()), *beside]

    # helpers -------------------------------------------------------------------------------------------------

    def _context(
        self,
        private: Path,
        directory: Path,
        *,
        http_port: int = 0,
        http_socket: Path | None = None,
        tls: bool = False,
        http_address: str | None = None,
        database: Endpoint | None = None,
        deployment: Deployment | None = None,
    ) -> ServiceContext:
        return ServiceContext(
            host=self._host,
            directory=private,
            artefacts=directory.absolute() / "logs",
            placement=self._placement,
            java_home=Path(self.choice.java) if self.choice.java else None,
            http_port=http_port,
            http_address=http_address or self.options.http_address,
            http_socket=http_socket,
            certificate=self.front.certificate if tls else None,
            database=database,
            deployment=deployment,
            observe=self.options.observe,
            cold=self.options.cold,
            raw=directory.absolute() / "raw",
            database_address=self.options.database_address,
            database_clients=self.options.database_clients,
        )

    def _place(self, settings: Settings) -> None:
        """Take the limits of a start."""
        self._placement = self.front.placement = self._limits.placement(self.options.placement, settings)

    def _make_work(self) -> None:
        if self._work != self._home and not self._work.exists():
            self._host.private_tree(self._work)
            self._work.chmod(0o711)

    def _start_database(self) -> float:
        self._memory_kills = oom_kills(self._host.files)
        if not self.database.runs:
            return 0.0
        self._processes["database"] = self.database.start()
        return self.database.wait_ready(self.options.ready_timeout)

    def _stop_server(self) -> bool:
        self._processes.pop("server", None)
        if not self._configured:  # it is also when it could not start: it may hold a place in memory
            return True
        self._configured = False
        return self.server.stop()

    def _stop_database(self) -> bool:
        if self._processes.pop("database", None) is None and not self._database_configured:
            return True
        self._database_configured = False
        return self.database.stop()


def plain_directory(home: Path, cache: Path | None = None) -> Path:
    """``home``, or a directory in its place where its path holds more than letters, digits and ``._-+=@~`` of ASCII:
    each server has characters of its own that it takes in no path (Tomcat quotation marks, OpenMQ spaces).
    """
    if _PLAIN.fullmatch(str(home)):
        return home
    base = cache if cache is not None else cache_dir()
    base = base if _PLAIN.fullmatch(str(base)) else Path("/var/tmp")
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    return base / f"leadline-{os.geteuid()}-{digest}"
