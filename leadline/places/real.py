"""The real system: services on a host, leadline-load, observers; joined for the life of a trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leadline.checks.stack import servers_of
from leadline.checks.web import web_servers
from leadline.host.base import Host, Process, TrialHost
from leadline.host.signals import LOG
from leadline.load.command import judge
from leadline.load.driver import DriverRun, find_binary
from leadline.load.generators.lab import GeneratorRun
from leadline.load.knobs import LoadOwner
from leadline.load.progress import ProgressLog
from leadline.load.result import DriverResult, read_summary
from leadline.load.scenario import sent_variables
from leadline.load.series import asked_in
from leadline.model.errors import Event, Evidence, FailureClass, LeadlineError, Part, TrialFailure, blamed
from leadline.model.knob import KnobOwner
from leadline.model.plan import Slot, stretches
from leadline.model.record import AuditRecord
from leadline.model.study import Study
from leadline.model.workload import Workload
from leadline.observe.base import ObserverContext, ObserverSet
from leadline.observe.host import HostObserver
from leadline.observe.pools import compiled_since
from leadline.observe.processes import ProcessObserver
from leadline.observe.profile import ProfileObserver
from leadline.stack.assembly import Stack
from leadline.stack.base import Services
from leadline.stack.options import StackOptions
from leadline.stack.own.words import tls_files
from leadline.stack.served import Served
from leadline.stack.started import held, stopped
from leadline.store.labfile import services_of
from leadline.trial import measure as measure_module
from leadline.trial.drivers import Pacer, check_drivers, load_together, reach_drivers
from leadline.trial.measure import DriverRecording
from leadline.trial.system import (
    Compiled,
    InTurns,
    LoadOutcome,
    OnLoad,
    OnSlot,
    Recording,
    Settings,
    System,
    observers_of,
)

_POLL = 0.2  # seconds between two looks at the driver and the services
_READY = 60.0  # seconds until every driver of instances side by side must be ready
_LEAD = 1.0  # seconds from then to the start they are told
_OVERTIME = 30.0  # seconds a driver may need beyond its plan before it counts as hung


def roles_elsewhere(study: Study) -> list[str]:
    """Of a study, not on the application's host; a database that somebody else runs is on it, and is not seen."""
    choice = study.stack
    if choice.url is not None:
        return ["server", "database"]
    without = choice.web is not None or (choice.own is not None and choice.own.content.database.kind == "none")
    return ["database"] if without else []


class RealSystem:
    """Implements ``leadline.trial.system.System`` for a study on a host."""

    def __init__(self, study: Study, host: Host, lab: Path, instance: int = 0) -> None:
        self._study = study
        self._host = host
        self._services_host: TrialHost = host
        self._lab = lab
        self._stack = self._made_stack(instance)
        self._others: dict[int, RealSystem] = {}
        self._side_by_side: dict[Path, dict[str, list[int]]] = {}  # one for all instances
        self._progress: ProgressLog | None = None
        self._observers = ObserverSet([])
        self._profile: ProfileObserver | None = None
        self._roles: dict[str, Process] = {}
        self._driver: Process | None = None
        self._driver_lost = False
        self._message: Callable[[str], None] = lambda _: None
        self._number = instance
        self._cpus = study.placement.driver_cpus
        self._load_owner = LoadOwner(study.workload)

    def _made_stack(self, instance: int) -> Services:
        study = self._study
        options = StackOptions(
            load_units=study.workload.load_units,
            placement=study.placement,
            observe=study.observe,
            profile=study.profiling != "off",
            ready_timeout=study.ready_timeout,
            cold=study.reset.page_cache == "drop",
            http_address="0.0.0.0" if any(driver.server for driver in study.drivers) else "127.0.0.1",
            http_names=[driver.server for driver in study.drivers if driver.server],
            web_servers=web_servers(study),
            servers=servers_of(study),
        )
        home = services_of(self._lab) / study.study
        return Stack(study.stack, self._host, home / f"instance-{instance}" if instance else home, options)

    @property
    def recording(self) -> Recording:
        return DriverRecording(roles_elsewhere(self._study))

    def versions(self) -> Mapping[str, str]:
        return self._stack.versions()

    def prepare(self, message: Callable[[str], None]) -> None:
        self._message = message
        if self._study.drivers:
            check_drivers(self._study.drivers, services_of(self._lab) / "drivers", self._host.start, message)
        elif self._study.workload.generator is None:
            find_binary()  # else each trial would start its services first
        self._stack.provision(message)
        self._stack.prepare_data(message)

    def reset(self, directory: Path, seed: int) -> None:  # noqa: ARG002 - the load takes it
        self._reach_drivers()
        reset = self._study.reset
        if reset.database == "snapshot" or not self._stack.has_data():
            self._stack.reset_data(directory)
        if reset.swap == "off":
            self._services_host.swap_off()
        if reset.page_cache == "drop":
            self._services_host.drop_page_cache()

    def _reach_drivers(self) -> None:
        """Where the last load lost one."""
        if self._driver_lost:
            reach_drivers(self._study.drivers, services_of(self._lab) / "drivers", self._host.start, self._message)
            self._driver_lost = False

    def start_database(self, settings: Settings, directory: Path) -> None:
        self._stack.start_database(settings, directory)

    def start_server(self, settings: Settings, directory: Path) -> float:
        self._load_owner.begin(settings, directory)
        return self._stack.start_server(settings, directory)

    def owners(self) -> Sequence[KnobOwner]:
        return [self._stack, self._load_owner]

    def start_observers(self, directory: Path) -> None:
        assert isinstance(self._stack, Stack)
        detail = self._study.profiling
        self._profile = None if detail == "off" else ProfileObserver(self._host, detail)
        observers = observers_of(self._study.observe, self._host, self._stack)
        self._observers = ObserverSet([*observers, *([self._profile] if self._profile else [])])
        java = Path(self._study.stack.java) if self._study.stack.java else None
        self._roles = dict(self._stack.processes())  # the driver joins when it is started
        self._observers.start(ObserverContext(directory, self._roles, java, side_by_side=self._side_by_side))

    def profile(self, on: bool) -> None:
        if self._profile is not None:
            self._profile.sample(on)
            if isinstance(self._stack, Stack):
                self._stack.database.track(on)

    def compiled(self, directory: Path, from_s: float) -> Compiled | None:
        compiled = compiled_since(directory, from_s)
        return None if compiled is None else Compiled(*compiled)

    def cpu_seconds(self) -> float:
        return sum(sum(process.cpu_seconds()) for process in self._stack.processes().values())

    def stop_observers(self) -> Sequence[str]:
        self._observers.stop()
        return self._observers.warnings

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        return self._load(self._load_owner.at(self._study.workload), directory, seed, on_load, None)

    def load_for(self, seconds: float, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        """A load whose steady phase lasts so long."""
        workload = self._load_owner.at(self._study.workload).model_copy(update={"steady": seconds})
        return self._load(workload, directory, seed, on_load, None)

    def load_in_slots(
        self, directory: Path, seed: int, on_load: OnLoad, slots: Sequence[Slot], on_slot: OnSlot
    ) -> LoadOutcome:
        steady = slots[-1].begin + slots[-1].seconds
        workload = self._load_owner.at(self._study.workload).model_copy(update={"steady": steady})
        pacer = Pacer(directory / "driver", workload.ramp_up, slots, on_slot)
        return self._load(workload, directory, seed, on_load, pacer)

    def _load(
        self, workload: Workload, directory: Path, seed: int, on_load: OnLoad, pacer: Pacer | None
    ) -> LoadOutcome:
        out = directory / "driver"
        url, cpus = self._stack.url(), self._cpus
        run: DriverRun | GeneratorRun
        if workload.generator is not None:
            run = GeneratorRun(workload.generator, workload, url, seed, out, cpus)
        else:
            run = DriverRun(
                workload,
                url,
                seed,
                out,
                sent_variables(workload),
                cpus,
                *self._trusted(directory),
                population_urls=self._stack.population_urls(),
                errors=self._study.limits.errors,
            )
            if self._study.drivers:
                look, start = self._stack.check_alive, self._host.start
                logs = directory / "logs"
                self._driver_lost = True
                load_together(self._study.drivers, run, logs, start, on_load, look, pacer, _POLL, _OVERTIME)
                self._driver_lost = False
                judge(out, run.bounds)
                return load_outcome(read_summary(out))
        self._driver = self._roles["driver"] = self._host.start(run.spec(directory / "logs" / "driver.log"))
        try:
            self._follow(self._driver, directory / "logs" / "driver.log", run.seconds, on_load, pacer)
        finally:
            self._end_driver()
        return load_outcome(read_summary(out))

    def _trusted(self, directory: Path) -> tuple[Path | None, Sequence[Path]]:
        """A file with the certificate that the driver has to trust, None without TLS; those of what it shows."""
        certificate = self._stack.certificate()
        if certificate is None:
            return None, ()
        file = directory / "logs" / "tls.crt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(certificate)
        return file, tls_files(self._study.stack.own)[1]

    def _follow(self, driver: Process, log: Path, planned: float, on_load: OnLoad, pacer: Pacer | None) -> None:
        progress = ProgressLog(log)
        deadline = time.monotonic() + planned + _OVERTIME
        while driver.alive():
            _tell(progress, on_load)
            self._stack.check_alive()
            if stopped(self._host.files, [driver.pid]):
                end = held(driver.pid, Part.LOAD)
                raise blamed(end, f"the driver does not run: {end.how}", progress.last_words())
            if time.monotonic() > deadline:
                raise TrialFailure(
                    FailureClass.INFRASTRUCTURE, f"the driver did not end within {planned + _OVERTIME:.0f} s"
                )
            time.sleep(pacer.pace(_POLL) if pacer else _POLL)
        _tell(progress, on_load)
        if driver.exit_code() != 0:
            end = Evidence(Event.ENDED, Part.LOAD, driver.exit_code(), sender=LOG.sender([driver.pid]))
            raise blamed(end, f"the driver ended: {end.how}", progress.last_words())
        if pacer:
            pacer.check_complete()

    def beside(self, number: int) -> RealSystem:
        if number == 0:
            return self
        if number not in self._others:
            other = RealSystem(self._study, self._host, self._lab, number)
            other._stack.provision(lambda _: None)  # all is there
            other._side_by_side = self._side_by_side
            self._others[number] = other
        return self._others[number]

    def load_in_turns(
        self, instances: Sequence[InTurns], on_load: OnLoad, on_turn: OnSlot
    ) -> Sequence[LoadOutcome | TrialFailure]:
        turns = sorted(
            (turn for instance in instances for turn in instance.turns), key=lambda turn: turn.begin
        )  # stable
        ramp_up = max((turn.end for turn in turns if turn.warm_up), default=0.0)
        steady = max(turn.end for turn in turns) - ramp_up
        workload = self._study.workload.model_copy(update={"ramp_up": ramp_up, "steady": steady})
        pacer = Pacer(instances[0].directory / "driver", 0.0, turns, on_turn)
        systems = [_own(instance.system) for instance in instances]
        outcomes: dict[int, LoadOutcome | TrialFailure] = {}
        try:
            for system, instance in zip(systems, instances, strict=True):
                system._start_driver(workload, instance)
            begins = _begin_together(systems)
            pacer.begin_at(begins)
            deadline = time.monotonic() + ramp_up + steady + workload.ramp_down + _OVERTIME
            while len(outcomes) < len(instances):
                for at, (system, instance) in enumerate(zip(systems, instances, strict=True)):
                    if at not in outcomes:
                        look = system._look_at_turns(instance.directory, deadline, on_load)
                        if look is not None:
                            outcomes[at] = look
                time.sleep(pacer.pace(_POLL))
        finally:
            for system in systems:
                system._end_driver()
        return [outcomes[at] for at in range(len(instances))]

    def _start_driver(self, workload: Workload, one: InTurns) -> None:
        """It waits for its start."""
        workload = self._load_owner.at(workload)
        run = DriverRun(
            workload,
            self._stack.url(),
            one.seed,
            one.directory / "driver",
            sent_variables(workload),
            self._cpus,
            *self._trusted(one.directory),
            windows=stretches(one.turns),
            population_urls=self._stack.population_urls(),
            told=True,
            errors=self._study.limits.errors,
        )
        log = one.directory / "logs" / "driver.log"

        self._progress = ProgressLog(log)
        self._driver = self._roles["driver"] = self._host.start(run.spec(log))

    def _ready(self) -> bool:
        """Whether its driver waits for the start, or has ended, which is told later."""
        assert self._driver is not None
        assert self._progress is not None
        self._progress.read()
        return self._progress.ready or not self._driver.alive()

    def _look_at_turns(self, directory: Path, deadline: float, on_load: OnLoad) -> LoadOutcome | TrialFailure | None:
        """None while it is loaded."""
        assert self._driver is not None
        assert self._progress is not None
        for second in self._progress.take():
            if second.throughput > 0:  # it is the turn of this one
                on_load(second)
        try:
            if self._driver.alive():
                self._stack.check_alive()
                if time.monotonic() > deadline:
                    raise TrialFailure(FailureClass.INFRASTRUCTURE, "the driver did not end in time")
                return None
            if self._driver.exit_code() != 0:
                pid = self._driver.pid
                end = Evidence(Event.ENDED, Part.LOAD, self._driver.exit_code(), sender=LOG.sender([pid]))
                raise blamed(end, f"the driver ended: {end.how}", self._progress.last_words())
            return load_outcome(read_summary(directory / "driver"))
        except TrialFailure as failure:
            if failure.failure_class is FailureClass.INTERRUPTED:
                raise
            self._end_driver()
            return failure
        except LeadlineError as error:
            return TrialFailure(FailureClass.INFRASTRUCTURE, str(error))

    def _end_driver(self) -> None:
        if self._driver is not None:
            self._driver.stop(grace=5.0)
            self._driver = None
            self._roles.pop("driver", None)

    def restarts(self) -> int:
        return self._stack.restarts()

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]:
        self._stack.drain(directory / measure_module.FILE)
        # Another generator's requests have names of their own: its counts cannot be held against rows.
        is_driver = self._study.workload.generator is None
        load = asked_in(directory / "driver", self._study.workload.scenario) if is_driver else None
        audits = self._stack.audit(counts, directory / "logs" / "audit.log", load)
        return [
            AuditRecord(audit.name, audit.passed, audit.detail) for audit in audits if is_driver or not audit.counted
        ]

    def health(self) -> None:
        self._stack.check_alive()
        self._stack.check_members()
        self._stack.check_connections()
        self._stack.check_messages()

    def stop(self) -> Sequence[str]:
        self._observers.stop()
        if self._driver is not None:
            self._driver.stop(grace=1.0)
            self._driver = None
        try:
            return self._stack.down()
        except Exception as error:  # the journal ends what is left
            return [f"the stack did not stop in order: {error}"]

    def collect(self, directory: Path) -> Sequence[str]:
        before = set(self._observers.warnings)
        self._observers.collect_from(directory)
        return [warning for warning in self._observers.warnings if warning not in before]


class ServedSystem(RealSystem):
    """The same for a study of a server that runs already."""

    def _made_stack(self, instance: int) -> Services:  # noqa: ARG002 - it is the one server
        return Served(str(self._study.stack.url))

    def start_observers(self, directory: Path) -> None:
        files = self._host.files
        self._roles = {}  # the driver joins when it is started
        self._observers = ObserverSet([ProcessObserver(files), *([HostObserver(files)] if self._study.observe else [])])
        self._observers.start(ObserverContext(directory, self._roles, None))


def _begin_together(systems: Sequence[RealSystem]) -> int:
    """Tell all drivers the same start, once every one is ready for it; unix ns."""
    deadline = time.monotonic() + _READY
    while not all(system._ready() for system in systems):
        if time.monotonic() > deadline:
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"the drivers were not ready within {_READY:.0f} s")
        time.sleep(0.02)
    begins = time.time_ns() + round(_LEAD * 1e9)
    for system in systems:
        if system._driver is not None:
            system._driver.write(f"start {begins}\n".encode())
    return begins


def _own(system: System) -> RealSystem:
    assert isinstance(system, RealSystem)
    return system


def _tell(progress: ProgressLog, on_load: OnLoad) -> None:
    for second in progress.take():
        on_load(second)


def load_outcome(result: DriverResult) -> LoadOutcome:
    """Raises TrialFailure(infrastructure) for a driver that was ended."""
    if not result.completed:
        raise TrialFailure(FailureClass.INFRASTRUCTURE, "the driver was ended before its plan was")
    totals = result.total.items()
    counts = {name: {"ok": total.ok, "failed": total.failed, "skipped": total.skipped} for name, total in totals}
    losses = result.verdict.losses if result.verdict is not None else ()
    return LoadOutcome(counts, result.driver.limit, "\n".join(result.driver.evidence), checks_of(result), losses)


def checks_of(result: DriverResult) -> list[AuditRecord]:
    """What the driver's own figures must satisfy before anything is believed."""
    little = result.littles_law
    off = little.relative_error
    # Transactions that cross the window's edges count on one side only: of the order of response time by window.
    edges = 2 * (result.all.response_ms.mean or 0.0) / 1000 / result.steady_s if result.steady_s > 0 else 0.0
    checks = [
        AuditRecord(
            "littles-law",
            off is None or abs(off) <= min(0.1 + edges, 0.5),
            f"{little.concurrency_observed:.2f} transactions in flight, throughput x response time gives "
            f"{little.concurrency_expected:.2f}",
        )
    ]
    planned, actual = result.arrivals_planned, result.arrivals_actual
    if planned:
        # Four standard deviations of a Poisson count, and never less than one arrival in a hundred.
        allowed = max(0.01 * planned, 4 * planned**0.5)
        checks.append(
            AuditRecord(
                "arrivals", abs(actual - planned) <= allowed, f"{actual} of {planned} planned arrivals took place"
            )
        )
    checks.append(
        AuditRecord("no-drops", result.dropped == 0, f"{result.dropped} arrivals dropped at the cap on sessions")
    )
    return checks
