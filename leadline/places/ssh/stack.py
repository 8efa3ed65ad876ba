"""A stack on far hosts: what ``leadline.stack.assembly.Stack`` does, done by the agents there."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from leadline.checks.web import web_servers
from leadline.host.base import Process
from leadline.host.paths import Scratch
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.knob import Knob, Level
from leadline.model.ownstack import OwnFile
from leadline.model.study import StackChoice, Study
from leadline.places.ssh.host import FarHost, FarHosts, Place
from leadline.places.ssh.wire import Absent
from leadline.stack import probe, provision
from leadline.stack.base import AskedFor, AuditResult, Counts, Endpoint
from leadline.stack.own.artifact import RUN_JAR
from leadline.stack.own.words import beside, line_of
from leadline.stack.registry import application_of, database_of, knob_roles, server_of, stack_catalogue
from leadline.stack.web.common import chosen

_FOLDER = "own"


def send_own(choice: StackChoice, host: FarHost, work: str) -> StackChoice:
    """The choice as it is there, its stack file's folder being one of that host. Raises UsageError for files that do
    not lie below the stack file's folder.
    """
    own_stack = choice.own
    assert own_stack is not None
    if own_stack.content.compose is not None:
        raise UsageError(
            f"{line_of(own_stack, 'compose')}: containers are started on this host only, not on {host.name}"
        )
    if own_stack.content.tls is not None:
        raise UsageError(
            f"{line_of(own_stack, 'tls')}: its files are read on this host only: leave tls or {host.name} out"
        )
    folder = Path(own_stack.file).parent.resolve()
    place = f"{work}/{_FOLDER}"
    with Scratch() as scratch:
        copy = scratch / _FOLDER
        copy.mkdir()
        for path in _files(own_stack):
            whole = path.resolve()
            if not whole.is_relative_to(folder):
                raise UsageError(
                    f"{own_stack.file}: {path} lies outside the stack file's folder, which is what {host.name} "
                    "gets; move it"
                    " there"
                )
            target = copy / whole.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if whole.is_dir():
                shutil.copytree(whole, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(whole, target)
        host.connection.send(copy, place)
    return choice.model_copy(
        update={"own": OwnFile(file=f"{place}/{Path(own_stack.file).name}", content=own_stack.content)}
    )


def _files(own: OwnFile) -> Iterator[Path]:
    """What the stack file names that lies here beside it; an absolute path is one of the far host."""
    stack = own.content
    yield Path(own.file)
    words = [*(stack.command or ()), *(stack.restart or ()), *stack.database.sql, *(stack.database.reset or ())]
    words += [word for audit in stack.audits for word in audit.command or ()]
    words += [*stack.data.values(), *([stack.settings_file.template] if stack.settings_file else [])]
    words += [word for service in stack.services.values() for word in (*service.command, service.directory) if word]
    words += [name for name in (stack.directory, stack.war, stack.server_config, stack.artifact) if name]
    for word in dict.fromkeys(map(str, words)):
        if "${" not in word and not word.startswith(("-", "/")) and (path := beside(own, word)).exists():
            yield path.parent if path.name == RUN_JAR else path


_EVERYWHERE = "0.0.0.0"
_MOST_DISTRIBUTIONS = 50  # that one host may ask for
Settings = Mapping[str, Level]


class FarStack:
    """Of one study. ``directory`` is always a trial's, inside the lab: it is known over there by its path below."""

    def __init__(self, study: Study, hosts: FarHosts, lab: Path) -> None:
        self.choice: StackChoice = study.stack
        self._study = study
        self._hosts = hosts
        self._lab = lab.absolute()
        self._companions = [
            companion for companion in application_of(study.stack).companions({}) if companion.name in hosts.elsewhere
        ]
        digest = hashlib.sha256(os.fsencode(f"{platform.node()} {self._lab}")).hexdigest()[:12]
        self._name = f"{study.study}-{digest}"
        self._generation: tuple[int, ...] = ()
        self._url = ""
        self._served_by: FarHost = hosts  # what the driver asks
        self._message: Callable[[str], None] = lambda _: None

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
        for place in self._hosts.places:
            place.host.reach_for_trial()
        if self._generation != self._connections():
            self._ready()
            self.prepare_data(self._message)

    def _connections(self) -> tuple[int, ...]:
        return tuple(place.host.lost for place in self._hosts.places)

    def _ready(self) -> None:
        for place in self._hosts.places:
            host = place.host
            host.ask("listens_on", host.connection.address)
            work = str(host.ask("open_work", self._name))
            choice = send_own(self.choice, host, work) if self.choice.own else self.choice
            there = choice.model_copy(update={"host": "local", "hosts": None})
            host.ask("open_stack", there, self._options(place))
            self._bring(host)
        self._generation = self._connections()

    def _options(self, place: Place) -> dict[str, Any]:
        study, address = self._study, place.host.connection.address
        apart = {}
        if "database" in place.roles and place.host is not self._hosts:
            clients = [self._hosts.ask("source_address", address)]
            apart = {"database_address": address, "database_clients": clients}
        return {
            "load_units": study.workload.load_units,
            "placement": study.placement.model_copy(update={"driver_cpus": None}),  # those of this host
            "observe": study.observe,
            "profile": study.profiling != "off",
            "ready_timeout": study.ready_timeout,
            "cold": study.reset.page_cache == "drop",
            "http_address": _EVERYWHERE,
            "http_names": [address],
            "address": address,
            "database_clients": [],
            "web_servers": web_servers(study),
            "roles": place.roles,
            **apart,
        }

    def _bring(self, host: FarHost) -> None:
        """Distributions go from this host's cache to that one's, each once."""
        for _ in range(_MOST_DISTRIBUTIONS):
            try:
                host.ask("provision")
                return
            except Absent as lacking:
                artefact = lacking.artefact
                fetch = provision.fetch(artefact, self._message)
                directory = fetch if artefact.unpack != "none" else fetch.parent
                self._message(f"{host.title}: sending {artefact.name} {artefact.version}")
                host.connection.send(directory, f"{host.cache}/dist/{artefact.directory_name}")
        raise LeadlineError(f"{host.title} asks for more than {_MOST_DISTRIBUTIONS} distributions")

    def prepare_data(self, progress: Callable[[str], None]) -> None:
        self._message = progress
        self._hosts.of("database").ask("prepare_data")

    def versions(self) -> dict[str, str]:
        """Of what is sent, so of this host's."""
        parts = (database_of(self.choice), server_of(self.choice), application_of(self.choice))
        return {part.name: part.version for part in parts}

    # every trial ---------------------------------------------------------------------------------------------

    def has_data(self) -> bool:
        return bool(self._hosts.of("database").ask("stack.has_data"))

    def reset_data(self, directory: Path) -> None:
        """Companions have data as well."""
        for place in self._hosts.places:
            place.host.ask("reset_data", self.key(directory))

    def start_database(self, settings: Settings, directory: Path) -> float:
        return float(self._hosts.of("database").ask("start_database", dict(settings), self.key(directory)))

    def start_server(self, settings: Settings, directory: Path) -> float:
        """The web server and companions on their hosts, too. Also raises TrialFailure(infrastructure) where a host
        cannot be reached from one that has to.
        """
        application, web = self._hosts, self._hosts.of("web")
        levels, key = dict(settings), self.key(directory)
        database = self._hosts.of("database")
        if database is not application:
            endpoint = database.ask("stack.endpoint")
            assert isinstance(endpoint, Endpoint)
            application.ask("stack.use_database", endpoint)
        direct = str(application.ask("stack.expect", levels))
        for companion in self._companions:  # before the server: both know each other's address
            host = self._hosts.of(companion.name)
            address = str(host.ask("start_companion", companion.name, levels, key, direct))
            self._check_way(application, host, address)
            application.ask("stack.use_companion", companion.name, address)
        seconds = float(application.ask("start_server", levels, key))
        for companion in self._companions:
            self._check_way(self._hosts.of(companion.name), application, direct)
        fronted = chosen(levels) is not None
        self._served_by = web if fronted else application
        if web is not application:
            if fronted:
                self._check_way(web, application, direct)
            web.ask("stack.use_application", *_where(direct))
            seconds += float(web.ask("start_web", levels, key))
        self._url = str(self._served_by.ask("stack.url"))
        self._check_way(None, self._served_by, self._url)
        return seconds

    def _check_way(self, source: FarHost | None, target: FarHost, url: str) -> None:
        """That what answers on ``target`` is reached from ``source``; None: from here."""
        address, port = _where(url)
        why = probe.unreached(address, port) if source is None else str(source.ask("unreached", address, port))
        if why:
            who = "here" if source is None else source.title
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{target.title}: what was started there answers, but {address}:{port} cannot be reached from {who}"
                f" ({why}); open its ports from 32768 on to {'this host' if source is None else 'that host'}",
            )

    def url(self) -> str:
        """Base address of the running application, as this host reaches it."""
        return self._url

    def population_urls(self) -> Mapping[str, str]:
        return dict(self._hosts.ask("stack.population_urls"))

    def certificate(self) -> str | None:
        certificate_text = self._served_by.ask("stack.certificate")
        return None if certificate_text is None else str(certificate_text)

    def processes(self) -> Mapping[str, Process]:
        """None of them is this host's."""
        return {}

    def check_alive(self) -> None:
        for place in self._hosts.places:
            place.host.ask("stack.check_alive")

    def check_members(self) -> None:
        for place in self._hosts.places:
            place.host.ask("stack.check_members")

    def restarts(self) -> int:
        return int(self._hosts.ask("stack.restarts"))

    def check_connections(self) -> None:
        self._hosts.ask("stack.check_connections")

    def check_messages(self) -> None:
        self._hosts.ask("stack.check_messages")

    def drain(self, times: Path) -> None:
        directory = times.parent.parent
        self._hosts.ask("drain", self.key(directory), times.name)

    def audit(self, counts: Counts, log: Path, load: AskedFor = None) -> Sequence[AuditResult]:
        """Of the application's host, which reaches all others."""
        plain = {name: dict(count) for name, count in counts.items()}
        audits = self._hosts.ask("audit", plain, self.key(log.parent.parent), load)
        return [audit for audit in audits if isinstance(audit, AuditResult)]

    def down(self) -> list[str]:
        """Everything in reverse order, on each host that answers; what did not end cleanly."""
        if not self._generation:
            return []
        unclean = list[str]()
        for place in self._hosts.places:
            try:
                unclean += [f"{place.host.title}: {line}" for line in place.host.ask("down")]
            except (LeadlineError, OSError) as error:  # of a lost host its watchdog ends what is left
                unclean.append(str(error))
        return unclean

    # knobs ---------------------------------------------------------------------------------------------------

    def knobs(self) -> Sequence[Knob]:
        return stack_catalogue(self.choice)

    @cached_property
    def _elsewhere(self) -> Mapping[str, FarHost]:
        """Knob -> the host whose service has it, where that is not the application's."""
        roles = knob_roles(self.choice)
        return {name: self._hosts.of(role) for name, role in roles.items() if role in self._hosts.elsewhere}

    def _owner(self, name: str) -> FarHost:
        return self._elsewhere.get(name, self._hosts)

    def apply(self, levels: Settings) -> None:
        for place in self._hosts.places:
            levels_here = {name: level for name, level in levels.items() if self._owner(name) is place.host}
            if levels_here:
                place.host.ask("stack.apply", levels_here)

    def read_back(self, name: str) -> Level:
        level: Level = self._owner(name).ask("stack.read_back", name)
        return level


def _where(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)
