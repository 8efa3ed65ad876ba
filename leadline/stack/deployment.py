"""What an application asks of the server that runs it: features, and the names in a configuration that are its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

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
