"""What a service, a server, a database and an application are to the lab.

What an application asks of the server that runs it: features, and the names in a configuration that are its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from leadline.host.base import Host, Process
from leadline.model.errors import LeadlineError
from leadline.model.knob import Knob, KnobOwner, Level
from leadline.model.study import Placement
from leadline.stack.certificate import Certificate

_PLAIN = re.compile(r"[A-Za-z_][\w.-]*(/[A-Za-z_][\w.-]*)*", re.ASCII)  # stands in any configuration as it is
_ROOT = re.compile(r"/[\w.-]*", re.ASCII)  # one part: servers that take it from the archive's name know no more


class Feature(StrEnum):
    """What a server can do and an application may need, in one of its modes or at a level of a knob."""

    SERVLETS = "servlets"
    BEANS = "session beans"
    PERSISTENCE = "persistence"
    REMOTE = "remote calls"
    MESSAGING = "messaging"
    REMOTE_CLIENTS = "remote calls of other programs"


def _check(name: str) -> None:
    if not _PLAIN.fullmatch(name):
        raise ValueError(f"{name!r}: a name has letters, digits, . _ - and / between its parts")


@dataclass(frozen=True)
class Resource:
    """``jndi``: its name in the server, such as ``jdbc/orders``; ``name``: its last part, where no slash is taken."""

    jndi: str

    def __post_init__(self) -> None:
        _check(self.jndi)

    @property
    def name(self) -> str:
        return self.jndi.rpartition("/")[2]


class DataSource(Resource):
    """The pool of connections of the database, whose knobs are ``server.datasource.``."""


class ConnectionFactory(Resource):
    """What messages are sent through."""


@dataclass(frozen=True)
class Receiver:
    """A message-driven bean. ``parallel``: how many work at once is ``server.messaging.consumers``."""

    bean: str
    parallel: bool = False

    def __post_init__(self) -> None:
        _check(self.bean)


@dataclass(frozen=True)
class Queue(Resource):
    """``dead_letters``: the queue (its JNDI name) that takes what could not be delivered."""

    receiver: Receiver
    dead_letters: str = ""


@dataclass(frozen=True)
class Topic(Resource):
    """Every receiver of it gets every message."""

    receiver: Receiver


@dataclass(frozen=True)
class RemoteBean:
    """A session bean that another program calls. ``interface``: the full name of its remote one."""

    bean: str
    interface: str

    def __post_init__(self) -> None:
        _check(self.bean)
        _check(self.interface)


@dataclass(frozen=True)
class RemoteClient:
    """How another program reaches a remote bean of a running server: ``class_path`` of the server's own client,
    ``naming`` the properties of its JNDI context, ``bean`` the name there or a ``corbaname`` address, ``options`` of
    the JVM, ``reads`` what the jars need beside themselves.
    """

    class_path: tuple[Path, ...]
    naming: Mapping[str, str]
    bean: str
    options: tuple[str, ...] = ()
    reads: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Ready:
    """When the application is up: ``path`` below its address is answered by this ``status``, and by a JSON object with
    these entries where there are any.
    """

    path: str = "/"
    status: int = 200
    json: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """One application at some levels, as a server is given it. ``properties`` are system properties of its JVM; queues
    and topics are in use where ``features`` say so. ``programs``: the same application with a framework's server
    inside, by the name of the framework.
    """

    name: str
    archive: Path
    context_root: str
    data_source: DataSource
    ready: Ready = Ready()
    features: frozenset[Feature] = frozenset({Feature.SERVLETS})
    properties: Mapping[str, str] = field(default_factory=dict)
    persistence_units: tuple[str, ...] = ()
    connection_factory: ConnectionFactory | None = None
    queues: tuple[Queue, ...] = ()
    topics: tuple[Topic, ...] = ()
    programs: Mapping[str, Path] = field(default_factory=dict)
    profile: Literal["", "web", "full"] = ""  # of Jakarta EE, where it is not known which features it needs
    remote_bean: RemoteBean | None = None  # that a program outside calls
    first_start: bool = False  # it is started once on loaded data before their snapshot: migrations

    def __post_init__(self) -> None:
        for name in (self.name, *self.persistence_units):
            _check(name)
        if not _ROOT.fullmatch(self.context_root):
            raise ValueError(f"{self.context_root!r}: a context root is / or /name")
        jndi_names = {queue.jndi for queue in self.queues}
        for queue in self.queues:
            if queue.dead_letters and queue.dead_letters not in jndi_names:
                raise ValueError(f"{queue.jndi}: no queue {queue.dead_letters} for its dead letters")
        if Feature.MESSAGING in self.features and not (self.connection_factory and self.queues):
            raise ValueError(f"{self.name} needs messaging, but names no connection factory or no queue")

    @property
    def path(self) -> str:
        """The context root as the beginning of a path."""
        return self.context_root.rstrip("/")

    @property
    def file_name(self) -> str:
        """What a server that takes the context root from a file's name must find, without the suffix."""
        return self.context_root[1:] or "ROOT"

    @property
    def destinations(self) -> tuple[Queue | Topic, ...]:
        return (*self.queues, *self.topics)

    def takes_dead_letters(self, destination: Queue | Topic) -> bool:
        """Whether it is the queue of another's dead letters."""
        return destination.jndi in {queue.dead_letters for queue in self.queues}


Progress = Callable[[str], None]
Counts = Mapping[str, Mapping[str, int]]  # transaction -> {"ok": n, "failed": n} as the driver counted them
Settings = Mapping[str, Level]  # knob name -> level, only knobs that this service knows
AskedFor = Mapping[str, Any] | None  # by users who were there the whole time (leadline.load.series); None: others


@dataclass(frozen=True)
class Endpoint:
    """Where a database listens and how to log in. ``subprotocol`` is JDBC's word for the product; ``isolation`` the
    level of sessions that ask for none, in the words of ``java.sql.Connection`` (``READ_COMMITTED``): for servers that
    would set one of their own.
    """

    host: str
    port: int
    database: str
    user: str
    password: str
    subprotocol: str = "postgresql"
    isolation: str = "READ_COMMITTED"

    @property
    def jdbc_url(self) -> str:
        """Without parameters; a server's pool takes ``leadline.stack.provision``'s."""
        return f"jdbc:{self.subprotocol}://{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True)
class ServiceContext:
    """What a service needs from its surroundings for one start.

    ``directory`` is private to the service and wiped by nobody else; ``artefacts`` is the trial's directory for
    logs and configuration copies; ``http_port`` and ``database`` matter to servers only.
    """

    host: Host
    directory: Path
    artefacts: Path
    placement: Placement = field(default_factory=Placement)
    java_home: Path | None = None
    http_port: int = 0
    http_address: str = "127.0.0.1"  # of this host, where the server listens
    calls_port: int = 0  # for remote calls of programs outside, where a server has them on a port of their own
    http_socket: Path | None = None  # a Unix socket to listen on beside the port
    certificate: Certificate | None = None  # for a port that speaks TLS
    database: Endpoint | None = None
    deployment: Deployment | None = None  # the application, for a server
    observe: bool = True
    profile: bool = False
    database_address: str = "127.0.0.1"  # of this host, where a database listens beside the loopback
    database_clients: Sequence[str] = ()  # addresses of other hosts that may log in there
    cold: bool = False  # the page cache is dropped once files have been copied to their places
    raw: Path | None = None  # where a service writes raw observations (gc.log) when ``observe``; None: nowhere
    ports: Mapping[str, str] = field(default_factory=dict)  # of services that are up before it: ``broker.port``

    @property
    def application(self) -> Deployment:
        """What the server runs. Raises LeadlineError where nothing is deployed."""
        if self.deployment is None:
            raise LeadlineError("nothing is deployed here")
        return self.deployment


class Service(KnobOwner, Protocol):
    """A process of the stack: configured by its own override mechanisms only, read back while it runs."""

    @property
    def name(self) -> str:
        """``postgres``, ``liberty``, ``tomcat``, ``tomee``, ``wildfly``."""

    @property
    def version(self) -> str: ...
    def provision(self, progress: Progress) -> None:
        """Fetch and unpack the pinned distribution into the cache (no work when it is there). Raises LeadlineError."""

    def configure(self, context: ServiceContext, settings: Settings) -> None:
        """Write the private configuration for these levels; knobs absent from ``settings`` keep the default."""

    def start(self) -> Process: ...
    def wait_ready(self, timeout: float) -> float:
        """Seconds from start to the first right answer. Raises TrialFailure with the service's own words when it ends
        or stays silent.
        """

    def stop(self) -> bool:
        """Clean stop, killed if it does not end. True if clean."""

    def words(self) -> str:
        """What it said since its start."""

    def log_tail(self, lines: int = 40) -> str: ...
    def artefacts(self) -> Sequence[Path]:
        """Logs and effective configuration worth keeping, below ``context.artefacts``."""


class Database(Service, Protocol):
    """A service with data that can be put back to a snapshot. ``runs``: whether there is one to start; where there is
    none its endpoint has no subprotocol.
    """

    @property
    def runs(self) -> bool: ...

    @property
    def stop_signal(self) -> int:
        """What ends it in order, also when sessions are open."""

    def endpoint(self) -> Endpoint: ...
    def settle(self) -> None:
        """Bring freshly loaded data to the state every trial starts from."""

    def stats(self) -> Mapping[str, float]:
        """The running server's own counters. Raises LookupError."""

    def track(self, on: bool) -> None:
        """Where it was configured for a profile: count statements from now on, or no more. Never fails."""

    def statements(self) -> Mapping[str, float]:
        """While they are tracked, ``calls`` and ``ms`` of each so far, each name with a tab and the statement's text
        without literals. Raises LookupError.
        """

    def gauges(self) -> Sequence[str]:
        """Those of ``stats`` whose rate means nothing: what is open or waits now."""

    def snapshot(self, name: str) -> None:
        """Keep the stopped data directory under ``name`` (atomic: a half-made snapshot is never used)."""

    def has_snapshot(self, name: str) -> bool: ...
    def restore(self, name: str) -> None:
        """Put the data directory back to the snapshot; the database must be stopped."""


@dataclass(frozen=True)
class AuditResult:
    """``counted``: it holds the data against what leadline-load counted, so it says nothing of another generator."""

    name: str
    passed: bool
    detail: str
    counted: bool = False


@dataclass(frozen=True)
class CompanionContext:
    """What a companion needs for one start. ``directory`` is private and kept; ``url``: the application's address;
    ``listen``, ``address``: of this host, where it listens for the load and where the load reaches it; ``client``: how
    it calls the bean that the deployment names for programs outside.
    """

    host: Host
    directory: Path
    artefacts: Path
    port: int
    url: str
    seed: int
    cpus: str | None = None
    listen: str = "127.0.0.1"
    address: str = "127.0.0.1"
    client: RemoteClient | None = None


class Companion(Protocol):
    """A process that the application needs beside its server, such as an emulator of somebody it talks to: part of the
    load, not of what is measured.
    """

    @property
    def name(self) -> str:
        """Its role among the stack's processes: ``supplier``."""

    def properties(self) -> Mapping[str, str]:
        """System properties by which the server knows of it, after ``configure``."""

    @property
    def knob_names(self) -> Sequence[str]:
        """Of the application's knobs that are its own."""

    @property
    def address(self) -> str:
        """Where other hosts reach it, after ``configure``."""

    def use(self, address: str) -> None:
        """Be one that another host runs, which is reached there: it is asked, not started."""

    def takes(self) -> Mapping[str, str]:
        """Populations of the scenario whose requests go to it, with its address for them, after ``configure``."""

    def configure(self, context: CompanionContext, settings: Settings) -> None:
        """``settings``: levels of the application's knobs."""

    def reset(self, directory: Path) -> None:
        """Forget earlier runs in ``directory``; nothing runs."""

    def start(self) -> Process: ...
    def wait_ready(self, timeout: float) -> float:
        """Seconds from start to the first right answer. Raises TrialFailure."""

    def stop(self) -> bool:
        """True if clean."""

    def log_tail(self, lines: int = 40) -> str: ...
    def artefacts(self) -> Sequence[Path]: ...


class Application(Protocol):
    """The application under test: its archive, its data, the audits of its work, and what it asks of a server.

    A knob is one of ``knobs``, set by ``deployment``, a live one by ``change`` too, and read by ``read_back``.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def modes(self) -> Sequence[str]: ...
    def scenarios(self) -> Sequence[str]:
        """Names of the built-in scenarios that are made for it, the usual one first."""

    def knobs(self) -> Sequence[Knob]:
        """Switches of the application itself, named ``app.``; at a start of its server, or live."""

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        """The same with the levels refused that it cannot have in ``mode`` on ``server``; ``servers``: what each can
        do, to name those that it can have them on.
        """

    def deployment(self, mode: str, settings: Settings) -> Deployment:
        """What a server is given at these levels. Raises UsageError."""

    def companions(self, settings: Settings) -> Sequence[Companion]:
        """The processes that it needs beside its server at these levels; the same objects at every call."""

    def read_back(self, url: str, knob: str) -> Level:
        """The level in force, asked of the application at ``url``. Raises LookupError."""

    def change(self, url: str, levels: Settings) -> None:
        """Have the application running at ``url`` take live levels. Raises LookupError."""

    def build(self, progress: Progress) -> None: ...
    def data_key(self, load_units: int, seed: int) -> str:
        """Names the snapshot: changes when schema, generator, scale or seed change."""

    def load_data(self, database: Endpoint, load_units: int, seed: int, log: Path) -> None: ...
    def login(self) -> str:
        """How a person logs in, in one phrase; empty where nobody does."""

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """After the load: wait until accepted work has had its effect, keep in ``times`` how long each piece took.

        Raises TrialFailure.
        """

    def audit(
        self, database: Endpoint, load_units: int, seed: int, counts: Counts, log: Path, load: AskedFor = None
    ) -> Sequence[AuditResult]:
        """Check the data after a run; ``counts`` are of all of it (warm-up, ramps and drain included)."""


class Services(KnobOwner, Protocol):
    """``leadline.stack.assembly.Stack`` on this host says what each method does and raises."""

    def versions(self) -> dict[str, str]: ...
    def provision(self, progress: Progress) -> None: ...
    def prepare_data(self, progress: Progress) -> object: ...
    def reset_data(self, directory: Path) -> None: ...
    def has_data(self) -> bool: ...
    def start_database(self, settings: Settings, directory: Path) -> float: ...
    def start_server(self, settings: Settings, directory: Path) -> float: ...
    def url(self) -> str: ...
    def population_urls(self) -> Mapping[str, str]: ...
    def certificate(self) -> str | None: ...
    def processes(self) -> Mapping[str, Process]: ...
    def check_alive(self) -> None: ...
    def check_members(self) -> None: ...
    def check_connections(self) -> None: ...
    def check_messages(self) -> None: ...
    def restarts(self) -> int: ...
    def drain(self, times: Path) -> None: ...
    def audit(self, counts: Counts, log: Path, load: AskedFor = None) -> Sequence[AuditResult]: ...
    def down(self) -> list[str]: ...


class Opaque:
    """The part of ``leadline.stack.base.Application`` that such applications share."""

    def __init__(self) -> None:
        self._url = ""  # of what runs

    def modes(self) -> Sequence[str]:
        return ("direct",)

    def knobs(self) -> Sequence[Knob]:
        return ()

    def knobs_on(self, mode: str, server: str, servers: Mapping[str, Set[Feature]]) -> Sequence[Knob]:
        del mode, server, servers
        return ()

    def companions(self, settings: Settings) -> Sequence[Companion]:
        """It needs none, or starts it itself."""
        del settings
        return ()

    def read_back(self, url: str, knob: str) -> Level:
        raise LookupError(f"{url} has no knob {knob}")

    def change(self, url: str, levels: Settings) -> None:
        raise LookupError(f"{url} has no live knobs {', '.join(levels)}")

    def login(self) -> str:
        return ""

    def drain(self, url: str, settings: Settings, times: Path) -> None:
        """Nothing is accepted that has no effect yet; the audits that follow ask at this address."""
        del settings, times
        self._url = url
