"""Guests as a testbed: studies that run in virtual machines, with the plan, store and life cycle of all others."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned
from leadline.checks.subject import EMULATED
from leadline.host import here, kvm
from leadline.host.base import TrialHost
from leadline.host.knobs.files import memory_kib
from leadline.host.paths import cache_dir, exclusive
from leadline.host.received import json_object_file
from leadline.load.knobs import LoadOwner
from leadline.load.result import read_summary
from leadline.model.disturbance import MachineUse
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.guest import KERNEL, Guest, GuestKind
from leadline.model.knob import ApplyCost, AtStart, Knob, KnobOwner, Level, Owner
from leadline.model.plan import Plan
from leadline.model.received import ReceivedError, number
from leadline.model.record import AuditRecord, LoadSecond, StudyRecord
from leadline.model.units import format_size
from leadline.model.workload import is_load
from leadline.observe.gc import GcObserver
from leadline.places.guest import kernels
from leadline.places.guest.boot import QEMU
from leadline.places.guest.machine import INSTALL
from leadline.places.real import load_outcome
from leadline.places.testbed import MachineTestbed, RunOptions
from leadline.places.virtual import figures, instructions
from leadline.places.virtual.guests import DEFAULT_KERNEL, IMAGE, Guests, Order, Past, Worlds, levels_of, unpacked
from leadline.places.virtual.host import GuestHost, plan_guests
from leadline.places.virtual.job import MKFS, RecordingHost
from leadline.stack.running import require_none_running
from leadline.store.lab import Store
from leadline.trial.measure import DriverRecording, measure_turns
from leadline.trial.progress import Watcher
from leadline.trial.run import RunResult, StudyRun
from leadline.trial.system import LoadOutcome, Measured, OnLoad, RunsAlone, Settings

# The system under test in a guest, behind the lab's own protocol: a trial is a fork of a saved guest.


# ruff: noqa: ARG002 - the protocol tells more than a script needs


_FACTS = "logs/guest.json"
_BUSY = 0.9  # of a CPU, as the driver itself judges
_BOOT = (ApplyCost.REBOOT, ApplyCost.KERNEL)


class GuestRecording(DriverRecording):
    """What a guest gave back of its trial."""

    def measure(self, directory: Path, startup: float) -> Measured:
        """Over the whole steady state: where a cut begins would differ between forks of one world."""
        summary = read_summary(directory / "driver")
        measured = measure_turns(directory, startup, [summary.phases.steady])
        totals = figures.added(directory)
        transactions = sum(total.ok for total in summary.total.values())
        more = figures.responses(totals, transactions, summary.phases.drained)
        return replace(measured, responses={**measured.responses, **more})

    def machine_use(
        self, directory: Path, stretches: Sequence[Sequence[tuple[float, float]]], beside: Sequence[Path] = ()
    ) -> Sequence[MachineUse | None]:
        """Nothing else runs in a guest."""
        return [None for _ in stretches]


class GuestSystem(RunsAlone, AtStart):
    """Implements ``leadline.trial.system.System``. Levels are gathered until the server is to start; then the fork with
    these levels is run, or was run ahead, and the steps that follow tell what it did.

    ``knobs``: of the services. ``plan`` and ``settings``: what will be asked for.
    """

    def __init__(
        self, plan: Plan, settings: Settings, knobs: Sequence[Knob], host: GuestHost, guests: Guests, worlds: Worlds
    ) -> None:
        self.recording = GuestRecording()
        self._knobs = [knob for knob in knobs if knob.owner is not Owner.DRIVER]
        self._load = LoadOwner(guests.workload)
        self._host, self._guests, self._worlds = host, guests, worlds
        self._orders = [self._order(trial.seed, {**settings, **trial.treatment.as_dict()}) for trial in plan.trials]
        self._virtual = host.name == "virtual-time"  # so that guests at the same time do not disturb each other
        self.begun: set[str] = set()  # images of the trials of worlds that are done in part
        self._next = 0  # of the orders: those before it have been asked for
        self._seed = 0
        self._found: Mapping[str, Level] = {}

    def _order(self, seed: int, levels: Mapping[str, Level]) -> Order:
        """Names that nobody owns (pseudo-factors) change nothing."""
        of_host, of_services = ({knob.name: knob for knob in knobs} for knobs in (self._host.knobs(), self._knobs))
        host = {name: level for name, level in levels.items() if name in of_host}
        boot = {name: level for name, level in host.items() if of_host[name].apply_cost in _BOOT}
        services = {name: level for name, level in levels.items() if name in of_services}
        live = {name: level for name, level in host.items() if name not in boot}
        load = {name: level for name, level in levels.items() if is_load(name)}
        return Order(Past(seed, levels_of(boot), levels_of(services)), levels_of(live), levels_of(load))

    def versions(self) -> Mapping[str, str]:
        return self._guests.versions()

    def prepare(self, message: Callable[[str], None]) -> None:
        pasts = list(dict.fromkeys(order.past for order in self._orders))
        self._guests.prepare(pasts, message)
        if (image := self._host.about[IMAGE]) in self.begun or not self.begun:
            self.begun = {image}
        else:
            raise LeadlineError(
                "a world of this study is done in part, and its stack's files have changed since (driver, JDK, data, a"
                " port in use): its other forks would have another past; run the study anew with --new"
            )
        message("booting a guest, to see how its kernel is set")
        self._host.told(self._guests.defaults(pasts[0]), defaults=True)

    def reset(self, directory: Path, seed: int) -> None:
        self._seed = seed

    def start_database(self, settings: Settings, directory: Path) -> None:
        """It runs in the saved guest."""

    def start_server(self, settings: Settings, directory: Path) -> float:
        """The whole fork."""
        self._load.begin(settings, directory)
        order = self._order(self._seed, {**self._host.wanted, **settings})
        if order in self._orders[self._next :]:  # else it is measured again
            self._next = self._orders.index(order, self._next)
        ahead = self._orders[self._next :]
        self._worlds.keep_only([order.past, *(order_ahead.past for order_ahead in ahead)])
        if self._virtual:
            self._worlds.run_ahead([order, *ahead])
        saved, outcome = self._worlds.result(order)
        self._found = self._guests.captured(order.past.services)[1].found
        _take(outcome.files, directory)
        facts = {**saved.facts, **outcome.facts, "wall_seconds": f"{outcome.wall_seconds:.1f}"}
        self._host.told(directory / "raw" / "settings-before")
        details = {"guest": self._host.guest_facts(), "said": facts}
        (directory / _FACTS).write_text(json.dumps(details, indent=1, sort_keys=True), encoding="utf-8")
        return _startup(facts)

    def owners(self) -> Sequence[KnobOwner]:
        return [self, self._load]

    def knobs(self) -> Sequence[Knob]:
        return self._knobs

    def read_back(self, name: str) -> Level:
        """As the service told it when it ran on this host with the same files."""
        return self._found[name]

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        result = read_summary(directory / "driver")
        done = result.all
        on_load(LoadSecond(result.steady_s, "steady", done.per_second, done.response_ms.p99 or 0.0, done.failed))
        self._host.told(directory / "raw" / "settings-after")
        outcome = load_outcome(result)
        # Starts are late where the server has the guest's CPU, which is no limit of the driver's.
        return replace(outcome, driver_was_limit=outcome.driver_was_limit and result.driver.cpu_share > _BUSY)

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]:
        """The driver checked every response; the database is gone with the guest."""
        return ()

    def stop(self) -> Sequence[str]:
        return ()

    def collect(self, directory: Path) -> Sequence[str]:
        observer = GcObserver()
        observer.collect_from(directory)
        return observer.warnings


def images(record: StudyRecord) -> set[str]:
    """Of the guests of trials whose world has others left to run."""
    blocks_left = {trial.planned.block for trial in record.trials if trial.is_left}
    images = set()
    for trial in record.trials:
        if trial.planned.block in blocks_left and not trial.is_left and trial.directory is not None:
            with suppress(OSError, ReceivedError, LookupError, TypeError):  # it failed before its guest told anything
                images.add(json_object_file(trial.directory / _FACTS)["guest"][IMAGE])
    return images


def _startup(facts: Mapping[str, str]) -> float:
    """Seconds of the guest's time from the server's start to the first right answer."""
    what = "what the guest told of its start"
    last = max(number(facts, name, what) for name in ("server.answers", "web.answers") if name in facts)
    return last - number(facts, "server.began", what)


def _take(files: Path, directory: Path) -> None:
    """What a fork put, where a trial's files belong; archives unpacked."""
    for path in sorted(files.rglob("*")):
        if path.is_file():
            name = path.relative_to(files)
            if name.parts[0] not in ("driver", "logs"):
                name = Path("raw") / name
            elif name.name == "gc.log":
                name = Path("raw") / name.name
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, target)
            if target.suffix == ".tar":
                unpacked(target)


_BESIDE = 256 << 20  # bytes that QEMU needs beside the guest's memory
_EMULATED = {  # why guests in real time are counted as emulated
    "absent": "there is no /dev/kvm",
    "untried": "whether hardware virtualisation works has not been tried since this machine's start",
    "fails": "a test boot with hardware virtualisation failed",
}
_TIME = {
    "virtual-time": "virtual: counted instructions, 2 ns each; no caches, no disk, one CPU at a time",
    "vm": "real",
}


class GuestTestbed(MachineTestbed):
    """Guests of one kind."""

    def __init__(
        self,
        lab: Path,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
        kind: GuestKind = "virtual-time",
    ) -> None:
        super().__init__(lab, watcher, disposable, service_knobs)
        self._kind = kind
        self._local = RecordingHost(disposable=True)

    @property
    def host(self) -> TrialHost:
        """Of guests of the usual size."""
        return self._host(Guest())

    @cached_property
    def store(self) -> Store:
        require_none_running(self.directory, self._local)
        return Store(self.directory)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Also raises UsageError where this machine cannot run the guests, and for a kernel that it cannot have."""
        if shutil.which(QEMU) is None:
            raise UsageError(f"{file.where(('stack', 'host'))}: {QEMU} is not on the PATH; {INSTALL}")
        if file.study.guest and file.study.guest.disk and not MKFS.exists():
            raise UsageError(f"{file.where(('guest', 'disk'))}: {MKFS} is not there; install the package e2fsprogs")
        self._parallel(file)
        planned = plan_guests(file, self._kind, self.knobs(file), idle_settings)
        unchecked = [*planned.unchecked, *self._kernels_not_checked(file, planned)]
        if self._kind == "vm" and (why := _EMULATED.get(kvm.known())):
            note = f"{len(planned.plan.trials)} emulated boots and starts of about {EMULATED:g} s each: {why}."
            planned = replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, note)))
        return replace(planned, unchecked=tuple(unchecked))

    def _kernels_not_checked(self, file: StudyFile, planned: Planned) -> Iterator[str]:
        """Sentences about kernels that cannot be looked up. Raises UsageError for those that there are not."""
        factor = next(
            (level_factor.levels for level_factor in planned.plan.factors if level_factor.name == KERNEL), None
        )
        if factor is None:
            names = [planned.settings.get(KERNEL, DEFAULT_KERNEL)]
            path = ("settings", KERNEL) if KERNEL in file.study.settings else ("guest", "kernel")
        else:
            names, path = list(factor), ("factors", KERNEL)
        for name in names:
            try:
                kernels.require_known(str(name), self.watcher.message)
            except UsageError as error:
                raise UsageError(f"{file.where(path)}: {error}") from None
            except LeadlineError as error:
                yield f"that kernel {name} can be had: {error}"

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        """Waits while another run has the same directories: a guest's figures depend on its paths, so they are the same
        for every run of a stack, and are named after its content.
        """
        content = hashlib.sha256(json.dumps(file.study.model_dump(mode="json")["stack"], sort_keys=True).encode())
        name = f"{file.study.study}-{content.hexdigest()[:12]}"
        home, work = cache_dir() / "guests" / name, self.store.directory.absolute() / "guests" / name

        def waiting() -> None:
            self.watcher.message(f"another run makes guests of this stack in {home} or {work}: waiting for its end")

        with ExitStack() as held:
            for lock in (home.with_name(f"{name}.lock"), self.store.directory / ".in-use" / f"guests-{name}"):
                held.enter_context(exclusive(lock, waiting))
            shutil.rmtree(work, ignore_errors=True)  # of a leadline that was killed
            return self._run(file, planned, options, home, work)

    def _run(self, file: StudyFile, planned: Planned, options: RunOptions, home: Path, work: Path) -> RunResult:
        study = file.study
        host = self._host(study.guest or Guest())
        if self._kind == "virtual-time":
            plugin = instructions.plugin(study.observe)
            host.about["guest.instructions"] = f"not counted: {plugin}" if isinstance(plugin, str) else "counted"
        guests = Guests(study, host, self._local, home, work)
        worlds = Worlds(work / "worlds", self._parallel(file), guests.warm, guests.fork, guests.remove)

        def end() -> None:
            self._local.ending = True
            worlds.close()

        host.end = end
        system = GuestSystem(planned.plan, planned.settings, self.knobs(file), host, guests, worlds)

        def opened(study_id: int) -> None:
            system.begun = images(self.store.load(study_id))
            options.opened(study_id)

        run = StudyRun(
            *(file, planned, self.store, host, system, self.watcher, host.guard),
            budget=options.budget,
            give_up=options.give_up,
            opened=opened,
            part=options.part,
        )
        try:
            return run.execute(options.fresh, options.go_on)
        finally:
            worlds.close(wait=True)
            shutil.rmtree(work, ignore_errors=True)

    def _host(self, guest: Guest) -> GuestHost:
        about = {
            "guest.qemu": here.run([QEMU, "--version"], timeout=30.0).stdout.partition("\n")[0],
            "guest.time": _TIME[self._kind],
            "guest.memory": format_size(guest.memory),
            "guest.cpus": str(guest.cpus),
        }
        return GuestHost(self._kind, guest, self._local, about)

    def _parallel(self, file: StudyFile) -> int:
        """Guests that run at the same time. Raises UsageError where there is no memory for one."""
        memory = (file.study.guest or Guest()).machine_memory
        free = memory_kib(Path("/"), "MemAvailable") * 1024
        if free < memory + _BESIDE:
            need = f"a guest takes {format_size(memory)} and {_BESIDE >> 20} MiB beside it"
            raise UsageError(
                f"{file.where(('guest', 'memory'))}: {need}, this machine has {free >> 20} MiB free; lower guest.memory"
            )
        return max(1, min(len(self._local.cpus()), free // (memory + _BESIDE)))
