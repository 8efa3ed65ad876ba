"""A stack on one far host or two: what ``leadline.stack.assembly.Stack`` does, done by the agents there."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leadline.far.host import FarHost, FarHosts
from leadline.far.own import send_own
from leadline.far.wire import Absent
from leadline.host.base import Process
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Knob, Level
from leadline.model.study import StackChoice, Study
from leadline.stack import provision
from leadline.stack.base import AskedFor, AuditResult, Counts, Endpoint
from leadline.stack.registry import application_of, database_of, server_of, stack_catalogue

_EVERYWHERE = "0.0.0.0"
_REACHING = 5.0  # seconds for a connection to the application from here
_MOST_DISTRIBUTIONS = 50  # that one host may ask for
DATABASE_HOST = "database-host"  # folder of a trial's directory: what the database's own host recorded

Settings = Mapping[str, Level]


class FarStack:
    """Of one study. ``directory`` is always a trial's, inside the lab: it is known over there by its path below."""

    def __init__(self, study: Study, hosts: FarHosts, lab: Path) -> None:
        self.choice: StackChoice = study.stack
        self._study = study
        self._hosts = hosts
        self._lab = lab.absolute()
        self._database = hosts.database or hosts
        digest = hashlib.sha256(os.fsencode(f"{platform.node()} {self._lab}")).hexdigest()[:12]
        self._name = f"{study.study}-{digest}"
        self._generation: tuple[int, ...] = ()
        self._url = ""
        self._message: Callable[[str], None] = lambda _: None

    @property
    def apart(self) -> bool:
        """Whether the database has a host of its own."""
        return self._hosts.database is not None

    def everywhere(self) -> list[tuple[FarHost, str]]:
        """Each host, and the folder of a trial's directory that takes what it recorded."""
        return [(self._hosts, ""), *([(self._database, DATABASE_HOST)] if self.apart else [])]

    def key(self, directory: Path) -> str:
        """A trial's directory as the agents know it."""
        return str(directory.absolute().relative_to(self._lab))

    # once a connection ---------------------------------------------------------------------------------------

    def provision(self, progress: Callable[[str], None]) -> None:
        """Make the stack over there and bring what it lacks. Raises LeadlineError."""
        self._message = progress
        self._ready()

    def ready(self) -> None:
        """After a connection was lost all of it is made anew. Raises ConnectionLost, LeadlineError, TrialFailure."""
        for host, _ in self.everywhere():
            host.reach()
        if self._generation != self._connections():
            self._ready()
            self.prepare_data(self._message)

    def _connections(self) -> tuple[int, ...]:
        return tuple(host.lost for host, _ in self.everywhere())

    def _ready(self) -> None:
        clients = [self._hosts.ask("source_address", self._database.connection.address)] if self.apart else []
        for host, _ in self.everywhere():
            host.ask("listens_on", host.connection.address)
            work = str(host.ask("open_work", self._name))
            choice = send_own(self.choice, host, work) if self.choice.own else self.choice
            there = choice.model_copy(update={"host": "local", "hosts": None})
            host.ask("open_stack", there, self._options(host, clients))
            self._bring(host, host is self._database and self.apart)
        self._generation = self._connections()

    def _options(self, host: FarHost, clients: Sequence[str]) -> dict[str, Any]:
        study, address = self._study, host.connection.address
        apart = self.apart and host is self._database
        return {
            "load_units": study.workload.load_units,
            "placement": study.placement,
            "observe": study.observe,
            "ready_timeout": study.ready_timeout,
            "http_address": _EVERYWHERE,
            "http_names": [address],
            "address": address,
            **({"database_address": address} if apart else {}),
            "database_clients": list(clients) if apart else [],
        }

    def _bring(self, host: FarHost, database_only: bool) -> None:
        """Distributions go from this host's cache to that one's, each once."""
        for _ in range(_MOST_DISTRIBUTIONS):
            try:
                host.ask("provision", database_only)
                return
            except Absent as lacking:
                artefact = lacking.artefact
                found = provision.fetch(artefact, self._message)
                directory = found if artefact.unpack != "none" else found.parent
                self._message(f"{host.name}: sending {artefact.name} {artefact.version}")
                host.connection.send(directory, f"{host.cache}/dist/{artefact.directory_name}")
        raise LeadlineError(f"{host.name} asks for more than {_MOST_DISTRIBUTIONS} distributions")

    def prepare_data(self, progress: Callable[[str], None]) -> None:
        self._message = progress
        self._database.ask("prepare_data")

    def versions(self) -> dict[str, str]:
        """Of what is sent, so of this host's."""
        parts = (database_of(self.choice), server_of(self.choice), application_of(self.choice))
        return {part.name: part.version for part in parts}

    # every trial ---------------------------------------------------------------------------------------------

    def has_data(self) -> bool:
        return bool(self._database.ask("stack.has_data"))

    def reset_data(self, directory: Path) -> None:
        self._database.ask("reset_data", self.key(directory))

    def start_database(self, settings: Settings, directory: Path) -> float:
        return float(self._database.ask("start_database", dict(settings), self.key(directory)))

    def start_server(self, settings: Settings, directory: Path) -> float:
        """Also raises TrialFailure(infrastructure) where the application cannot be reached from here."""
        if self.apart:
            endpoint = self._database.ask("stack.endpoint")
            assert isinstance(endpoint, Endpoint)
            self._hosts.ask("stack.use_database", endpoint)
        seconds = float(self._hosts.ask("start_server", dict(settings), self.key(directory)))
        self._url = str(self._hosts.ask("stack.url"))
        self._reach_application()
        return seconds

    def _reach_application(self) -> None:
        parts = urlsplit(self._url)
        where = (str(parts.hostname), int(parts.port or 80))
        try:
            socket.create_connection(where, _REACHING).close()
        except OSError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{self._hosts.name}: the application answers there, but {where[0]}:{where[1]} cannot be reached from"
                f" here ({error}); open its ports from 32768 on to this host",
            ) from error

    def url(self) -> str:
        """Base address of the running application, as this host reaches it."""
        return self._url

    def population_urls(self) -> Mapping[str, str]:
        return dict(self._hosts.ask("stack.population_urls"))

    def certificate(self) -> str | None:
        found = self._hosts.ask("stack.certificate")
        return None if found is None else str(found)

    def processes(self) -> Mapping[str, Process]:
        """None of them is this host's."""
        return {}

    def place(self, cpus: str) -> None:
        """Raises UsageError: instances side by side are this host's."""
        raise LeadlineError(f"services on {self._hosts.name} are not moved to other CPUs ({cpus})")

    def check_alive(self) -> None:
        for host, _ in self.everywhere():
            host.ask("stack.check_alive")

    def check_connections(self) -> None:
        self._hosts.ask("stack.check_connections")

    def check_messages(self) -> None:
        self._hosts.ask("stack.check_messages")

    def drain(self, times: Path) -> None:
        directory = times.parent.parent
        self._hosts.ask("drain", self.key(directory), times.name)

    def audit(self, counts: Counts, log: Path, load: AskedFor = None) -> Sequence[AuditResult]:
        plain = {name: dict(count) for name, count in counts.items()}
        found = self._database.ask("audit", plain, self.key(log.parent.parent), load)
        return [audit for audit in found if isinstance(audit, AuditResult)]

    def down(self) -> list[str]:
        """Everything in reverse order; what did not end cleanly."""
        if not self._generation:
            return []
        return [str(line) for host, _ in self.everywhere() for line in host.ask("down")]

    # knobs ---------------------------------------------------------------------------------------------------

    def knobs(self) -> Sequence[Knob]:
        return stack_catalogue(self.choice)

    def _owner(self, name: str) -> FarHost:
        return self._database if name in {knob.name for knob in database_of(self.choice).knobs()} else self._hosts

    def apply(self, levels: Settings) -> None:
        for host, _ in self.everywhere():
            own = {name: level for name, level in levels.items() if self._owner(name) is host}
            if own:
                host.ask("stack.apply", own)

    def read_back(self, name: str) -> Level:
        level: Level = self._owner(name).ask("stack.read_back", name)
        return level
