"""Hosts over SSH as a testbed: studies with the plan, store and life cycle of all others, their services over there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import polars as pl

from leadline.checks.files.study import StudyFile
from leadline.checks.machine import check_far_machine, check_over_ssh
from leadline.checks.plan import Planned, plan_study
from leadline.checks.web import web_servers
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError
from leadline.model.hosts import SshHost
from leadline.model.knob import Knob
from leadline.model.study import Study
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
from leadline.places.ssh.host import FarHosts, Place
from leadline.places.ssh.stack import FarStack
from leadline.places.testbed import MachineTestbed, RunOptions
from leadline.stack.registry import application_of, database_of
from leadline.stack.running import require_none_running
from leadline.stack.servers.files import ensure_agent
from leadline.stack.web.common import GAUGES as WEB_GAUGES
from leadline.store.lab import Store
from leadline.trial.measure import DriverRecording
from leadline.trial.progress import Watcher
from leadline.trial.run import RunResult, StudyRun
from leadline.trial.system import Compiled, Measured

# An application of one's own on another host: the files beside its stack file go there.


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
