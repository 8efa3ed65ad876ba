"""Hosts over SSH as a testbed: studies with the plan, store and life cycle of all others, their services over there.

``FarStack`` does what ``leadline.stack.assembly.Stack`` does, by the agents there.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl

from leadline.checks.files.study import StudyFile
from leadline.checks.machine import check_far_machine, check_over_ssh
from leadline.checks.plan import Planned, plan_study
from leadline.checks.web import web_servers
from leadline.host.base import Process
from leadline.host.local import LocalHost
from leadline.host.paths import Scratch
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.hosts import SshHost
from leadline.model.knob import Knob, Level
from leadline.model.ownstack import OwnFile
from leadline.model.study import StackChoice, Study
from leadline.observe.base import Observer, ObserverContext, ObserverSet
from leadline.observe.counters import CounterObserver, database_observer
from leadline.observe.gc import GcObserver
from leadline.observe.host import HostObserver
from leadline.observe.pools import PoolsObserver, compiled_since
from leadline.observe.processes import ProcessObserver
from leadline.observe.profile import ProfileObserver
from leadline.observe.table import read_series
from leadline.observe.window import DRIVER
from leadline.places.real import RealSystem, roles_elsewhere
from leadline.places.ssh.host import FarHost, FarHosts, Place
from leadline.places.ssh.wire import Absent
from leadline.places.testbed import MachineTestbed, RunOptions
from leadline.stack import probe, provision
from leadline.stack.base import AskedFor, AuditResult, Counts, Endpoint
from leadline.stack.own.artifact import RUN_JAR
from leadline.stack.own.words import beside, line_of
from leadline.stack.registry import application_of, database_of, knob_roles, server_of, stack_catalogue
from leadline.stack.running import require_none_running
from leadline.stack.servers.files import ensure_agent
from leadline.stack.web.common import GAUGES as WEB_GAUGES
from leadline.stack.web.common import chosen
from leadline.store.lab import Store
from leadline.trial.measure import DriverRecording
from leadline.trial.progress import Watcher
from leadline.trial.run import RunResult, StudyRun
from leadline.trial.system import Compiled, Measured

# An application of one's own on another host: the files beside its stack file go there.


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


# The real system with its services on hosts over SSH: the driver runs here, what the hosts record is fetched.


NEAR = "near"  # folder of a trial's directory: the driver's processes, on this host
_MERGED = ("processes", "database", "statements", "web")  # series of other hosts that belong to the trial's own


class FarRecording(DriverRecording):
    """``unfetched``: directory of a trial -> why what was recorded on the hosts is not there."""

    def __init__(self, elsewhere: Sequence[str], unfetched: Mapping[Path, str]) -> None:
        super().__init__(elsewhere)
        self._unfetched = unfetched

    def measure(self, directory: Path, startup: float) -> Measured:
        """Also raises TrialFailure(infrastructure) where a host was lost before its recordings were fetched."""
        if why := self._unfetched.get(directory):
            raise TrialFailure(FailureClass.INFRASTRUCTURE, why)
        return super().measure(directory, startup)


class FarSystem(RealSystem):
    """Implements ``leadline.trial.system.System``; a lost connection is a failure of the trial, and the next attempt
    begins with a new one.
    """

    def __init__(self, study: Study, hosts: FarHosts, lab: Path) -> None:
        self._far = FarStack(study, hosts, lab)
        self._hosts = hosts
        self._fetched: set[Path] = set()
        self._unfetched: dict[Path, str] = {}
        super().__init__(study, hosts.local, lab)
        self._services_host = hosts

    def _made_stack(self, instance: int) -> FarStack:
        if instance:
            raise UsageError("no two instances stand side by side on hosts over SSH")
        return self._far

    @property
    def recording(self) -> FarRecording:
        return FarRecording([*roles_elsewhere(self._study), DRIVER, *self._hosts.elsewhere], self._unfetched)

    def beside(self, number: int) -> RealSystem:
        """Only the one system. Raises UsageError for another."""
        if number:
            self._made_stack(number)
        return self

    # the hosts -----------------------------------------------------------------------------------------------

    def reset(self, directory: Path, seed: int) -> None:
        self._far.ready()
        super().reset(directory, seed)

    # observers -----------------------------------------------------------------------------------------------

    def start_observers(self, directory: Path) -> None:
        self._hosts.read_clocks()
        for place in self._hosts.places:
            place.host.ask("start_observers", self._far.key(directory), self._study.profiling)
        self._roles = {}  # the driver joins when it is started
        self._observers = ObserverSet([ProcessObserver(LocalHost(directories={}).files)])
        self._observers.start(ObserverContext(directory / NEAR, self._roles))

    def profile(self, on: bool) -> None:
        for place in self._hosts.places if self._study.profiling != "off" else ():
            place.host.ask("profile", on)

    def stop_observers(self) -> Sequence[str]:
        self._observers.stop()
        hosts = [place.host for place in self._hosts.places]
        far = [f"{host.title}: {text}" for host in hosts for text in host.ask("stop_observers")]
        return [*self._observers.warnings, *far]

    def compiled(self, directory: Path, from_s: float) -> Compiled | None:
        raw = directory / "raw" / "agent.csv"
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.write_text(self._hosts.ask("samples", self._far.key(directory)))
        compiled_methods = compiled_since(directory, from_s + self._hosts.clock.ns / 1e9)
        return None if compiled_methods is None else Compiled(*compiled_methods)

    def collect(self, directory: Path) -> Sequence[str]:
        """Fetch what was recorded and turn it into series, by this host's clock."""
        warnings: list[str] = []
        if directory in self._fetched:
            return warnings
        key = self._far.key(directory)
        for place in self._hosts.places:
            host, into = place.host, directory / place.folder
            try:
                host.connection.fetch(str(host.ask("place", key)), into)
                shutil.rmtree(into / "series", ignore_errors=True)  # they are made here
                host.ask("forget", key)
            except (LeadlineError, OSError) as error:
                self._unfetched[directory] = f"what was recorded there is not here: {error}"
                warnings.append(self._unfetched[directory])
                continue
            decoders = ObserverSet(self._decoders())
            decoders.collect_from(into)
            warnings += decoders.warnings
            _shift(into / "series", round(-host.clock.ns))
        self._observers.collect_from(directory / NEAR)
        for folder, subjects in self._recorded():
            for name in _MERGED:
                file = f"series/{name}.parquet"
                _merge(directory / folder / file, directory / file, ("",) if name == "statements" else subjects)
        self._fetched.add(directory)
        return warnings

    def _recorded(self) -> list[tuple[str, Sequence[str]]]:
        """Folder of a trial's directory -> the roles whose series it has; of this host only the driver's."""
        apart = [(place.folder, place.roles) for place in self._hosts.places if place.host is not self._hosts]
        return [*apart, (NEAR, (DRIVER,))]

    def _decoders(self) -> list[Observer]:
        """Observers that only read what others recorded."""
        host = self._hosts.local
        database = database_of(self._study.stack)
        gauges = database.gauges() if database.runs else ()
        read: list[Observer] = [
            ProcessObserver(host.files),
            HostObserver(host.files),
            GcObserver(),
            PoolsObserver(host),
        ]
        web = CounterObserver("web", "web", lambda: {}, WEB_GAUGES, interval=1.0)
        if (detail := self._study.profiling) != "off":
            statements = CounterObserver("statements", "database", lambda: {}, interval=1.0)
            read += [ProfileObserver(host, detail), statements]
        return [*read, database_observer(lambda: {}, gauges, interval=1.0), web]


def _shift(series: Path, nanoseconds: int) -> None:
    """Move every series of a folder to this host's clock."""
    for path in series.glob("*.parquet") if nanoseconds else ():
        _write(read_series(path).with_columns(pl.col("time_ns") + nanoseconds), path)


def _merge(part: Path, whole: Path, subjects: Sequence[str]) -> None:
    """Add the rows of one host's roles to the trial's."""
    if not part.exists():
        return
    begins = [pl.col("subject").str.starts_with(name) for name in subjects]
    rows = read_series(part, pl.any_horizontal(begins))
    before = [read_series(whole)] if whole.exists() else []
    whole.parent.mkdir(parents=True, exist_ok=True)
    _write(pl.concat([*before, rows]).sort("metric", "subject", "time_ns"), whole)


def _write(frame: pl.DataFrame, path: Path) -> None:
    partial = path.with_name(f"{path.name}.partial")
    frame.write_parquet(partial, compression="zstd")
    partial.replace(path)


class FarTestbed(MachineTestbed):
    """``hosts``: role -> host, see ``StackChoice.ssh_hosts``."""

    def __init__(
        self,
        lab: Path,
        hosts: Mapping[str, SshHost],
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
    ) -> None:
        super().__init__(lab, watcher, disposable, service_knobs)
        self.host = FarHosts(hosts, disposable, self.watcher.message)

    @cached_property
    def store(self) -> Store:
        require_none_running(self.directory, LocalHost())
        return Store(self.directory)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Also asks the hosts. Raises UsageError for one that cannot be used."""
        check_over_ssh(file)
        for place in self.host.places:
            with _at(file, place.roles):
                place.host.reach()
        with _at(file, ()):
            planned = plan_study(file, self.host, self.knobs(file), self.disposable, idle_settings, self.host.of)
            check_far_machine(file, self.host.of, self.host.local)
        for place in self.host.places:
            with _at(file, place.roles):
                self._check_stack(file.study, place)
        return planned

    def _check_stack(self, study: Study, place: Place) -> None:
        """That a host has what its part of the stack needs and is not sent."""
        there = study.stack.model_copy(update={"host": "local", "hosts": None, "own": None})
        roles = [role for role in place.roles if role == "web" or study.stack.own is None]
        try:
            place.host.ask("check_stack", there, roles, web_servers(study))
        except TrialFailure:
            raise
        except LeadlineError as error:
            reason = str(error)
            raise UsageError(
                reason if reason.startswith(place.host.title) else f"{place.host.title}: {reason}"
            ) from None

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        application_of(file.study.stack).build(self.watcher.message)
        ensure_agent(self.watcher.message)
        for place in self.host.places:
            place.host.refresh()
        system = FarSystem(file.study, self.host, self.store.directory)
        run = StudyRun(
            *(file, planned, self.store, self.host, system, self.watcher, self.host.guard),
            budget=options.budget,
            give_up=options.give_up,
            opened=options.opened,
            part=options.part,
        )
        try:
            return run.execute(options.fresh, options.go_on)
        finally:
            for place in self.host.places:
                place.host.hang_up()


@contextmanager
def _at(file: StudyFile, roles: Sequence[str]) -> Iterator[None]:
    """Errors name the line of the host that has these roles."""
    hosts = file.study.stack.hosts
    named = [role for role in roles if hosts is not None and role in hosts.named()]
    place = file.where(("stack", "hosts", *named[:1]) if hosts else ("stack", "host"))
    try:
        yield
    except TrialFailure as error:
        raise UsageError(f"{place}: {error.message}") from None
    except UsageError as error:
        placed = str(error).startswith((file.source, place))
        raise UsageError(str(error) if placed else f"{place}: {error}") from None
