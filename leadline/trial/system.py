"""What the life of a trial needs from the system under test, its driver and its observers.

``leadline.places.real`` joins the real parts; a simulated system implements the same in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from leadline.host.base import Host
from leadline.model.disturbance import MachineUse
from leadline.model.errors import TrialFailure
from leadline.model.knob import KnobOwner, Level
from leadline.model.plan import Slot, Turn
from leadline.model.record import AuditRecord, LoadSecond, Phases
from leadline.model.result import SteadyState
from leadline.observe.base import Observer
from leadline.observe.counters import CounterObserver, database_observer
from leadline.observe.gc import GcObserver
from leadline.observe.host import HostObserver
from leadline.observe.pools import PoolsObserver
from leadline.observe.processes import ProcessObserver
from leadline.stack.assembly import Stack
from leadline.stack.web.common import GAUGES as WEB_GAUGES

# Makes one for a trial; None where the stack has nothing of the kind.
OBSERVERS: tuple[Callable[[Host, Stack], Observer | None], ...] = (
    lambda host, _: HostObserver(host.files),
    lambda _host, _stack: GcObserver(),
    lambda host, stack: PoolsObserver(host) if stack.has_jvm else None,
    lambda _, stack: (
        database_observer(stack.database.stats, stack.database.gauges(), interval=1.0) if stack.database.runs else None
    ),
    lambda _, stack: (
        CounterObserver("statements", "database", stack.database.statements, interval=1.0)
        if stack.options.profile and stack.database.runs
        else None
    ),
    lambda _, stack: (
        None
        if (counters := stack.web_counters()) is None
        else CounterObserver("web", "web", counters, WEB_GAUGES, interval=1.0)
    ),
)


def observers_of(observe: bool, host: Host, stack: Stack) -> list[Observer]:
    """CPU per transaction is a response, so processes are observed always; the rest where ``observe`` says so."""
    observers = [make(host, stack) for make in OBSERVERS] if observe else []
    return [ProcessObserver(host.files), *(observer for observer in observers if observer is not None)]


Settings = Mapping[str, Level]
OnLoad = Callable[[LoadSecond], None]


@dataclass(frozen=True)
class LoadOutcome:
    """What the driver says of its own run."""

    counts: Mapping[str, Mapping[str, int]]  # transaction -> ok, failed; whole run, drain included
    driver_was_limit: bool
    evidence: str
    checks: Sequence[AuditRecord]  # arrivals against plan, Little's law
    losses: Sequence[str] = ()  # why its own verdict is that the run failed, limits of response times left out


@dataclass(frozen=True)
class Measured:
    """Responses of the steady state with the verdict on it."""

    responses: Mapping[str, float]
    steady: SteadyState
    phases: Phases


class LoadClock(Protocol):
    """Time while a load runs, real or virtual: unix nanoseconds that never go back."""

    def now_ns(self) -> int: ...
    def sleep_until(self, unix_ns: int) -> None:
        """Returns at that moment, at once if it has passed."""


OnSlot = Callable[[int, int, LoadClock], None]  # index of the slot, unix ns at which it is due, the load's clock
SLOT_LEAD = 0.3  # seconds before a slot is due at which ``OnSlot`` is called: time to write down what will be done


@dataclass(frozen=True)
class Window:
    """Unix seconds, from and until."""

    begin: float
    end: float


@dataclass(frozen=True)
class WindowMeasured:
    """Responses of one window; ``window`` is what was measured of it. ``reason``: why there are no responses."""

    window: Window
    responses: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Compiled:
    """What the compiler of a server's JVM did: seconds that its threads worked, and methods that still wait for it."""

    work: float
    waiting: float


@dataclass(frozen=True)
class SecondSeries:
    """Per-second values of a trial's load, ramps included.

    ``begins``: unix seconds at which each whole second starts, ascending. ``values``: response -> one value a second,
    NaN where none that was due in it is known. ``throughput``, ``mean``, ``p50`` and ``p99`` are always there.
    """

    begins: Sequence[float]
    values: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class InTurns:
    """One of the systems that are loaded in turns: a trial's directory, seed and turns."""

    system: System
    directory: Path
    seed: int
    turns: Sequence[Turn]


class Unobserved:
    """What systems share beside whose load nothing runs that could be observed: a program, a guest, a model."""

    def start_observers(self, directory: Path) -> None:
        """Nothing to start."""

    def profile(self, on: bool) -> None:
        """None is taken."""

    def compiled(self, directory: Path, from_s: float) -> Compiled | None:  # noqa: ARG002
        return None

    def cpu_seconds(self) -> float:
        return 0.0

    def stop_observers(self) -> Sequence[str]:
        return ()

    def restarts(self) -> int:
        return 0

    def health(self) -> None:
        """Nothing runs beside the load."""


def only_alone(*_: object, **__: object) -> NoReturn:
    """In place of what a trial that runs alone from start to end cannot do: its plan is refused before it is asked."""
    raise AssertionError("a trial that runs alone has no slots, no turns and no neighbours")


class RunsAlone(Unobserved):
    """A system whose trials run alone from start to end."""

    beside = load_in_slots = load_in_turns = only_alone


class Recording(Protocol):
    """What trials left in their directories, read from the files alone. Every method raises TrialFailure with its class
    where they do not tell.
    """

    def measure(self, directory: Path, startup: float) -> Measured: ...
    def measure_windows(self, directory: Path, windows: Sequence[Window]) -> Sequence[WindowMeasured]:
        """Responses of each window of the load, named as ``measure`` names them (``startup`` left out), in the order
        of ``windows``. A window without a successful transaction has none, and a reason.
        """

    def measure_turns(self, directory: Path, startup: float, windows: Sequence[tuple[float, float]]) -> Measured:
        """As ``measure``, over all of these windows of the load together, seconds from its start."""

    def idle_cpu(
        self, directory: Path, others: Sequence[Path], windows: Sequence[tuple[float, float]]
    ) -> Sequence[float | None]:
        """CPU that the services of the ``others``, which ran beside this one, used in each window of this one's load,
        all together, as a share of one CPU; None where one of them was not recorded.
        """

    def machine_use(
        self, directory: Path, stretches: Sequence[Sequence[tuple[float, float]]], beside: Sequence[Path] = ()
    ) -> Sequence[MachineUse | None]:
        """What else the machine did in each stretch of windows (unix seconds); None where it was not recorded.
        ``beside``: directories of trials that ran side by side with this one.
        """

    def seconds(self, directory: Path) -> SecondSeries:
        """The load second by second."""


class System(Protocol):
    """One stack on one host. Every method raises TrialFailure with its class when it cannot do its work."""

    def versions(self) -> Mapping[str, str]: ...
    def prepare(self, message: Callable[[str], None]) -> None:
        """Provision, build, load and snapshot the data: once a run, before the first trial."""

    def reset(self, directory: Path, seed: int) -> None:
        """Database from its snapshot, page cache and swap as the study says; nothing runs. ``seed``: of the trial."""

    def start_database(self, settings: Settings, directory: Path) -> None: ...
    def start_server(self, settings: Settings, directory: Path) -> float:
        """Seconds from the start to the first right answer."""

    def owners(self) -> Sequence[KnobOwner]:
        """Of the knobs of its services."""

    def start_observers(self, directory: Path) -> None: ...
    def profile(self, on: bool) -> None:
        """While observers record: take samples of the server's stacks from now on, or no more."""

    def compiled(self, directory: Path, from_s: float) -> Compiled | None:
        """Since that moment (unix seconds), while observers record; None where it is not known."""

    def cpu_seconds(self) -> float:
        """CPU that its services have used since they were started; 0 where that is not known."""

    def stop_observers(self) -> Sequence[str]:
        """Ends recording; returns warnings."""

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome: ...
    def load_in_slots(
        self, directory: Path, seed: int, on_load: OnLoad, slots: Sequence[Slot], on_slot: OnSlot
    ) -> LoadOutcome:
        """As ``load``, without interruption, with a steady state that ends with the last slot.

        Calls ``on_slot`` in this thread, once for each slot, in order, ``SLOT_LEAD`` seconds before it is due (at once
        when that has passed: the first slot of a load without ramp-up). A slot is due ``slot.begin`` seconds after the
        start of the steady state. ``on_slot`` sleeps on the clock it is given until the slot is due, sets host knobs
        and reads them back: the system takes its levels from the host, not from ``slots``. What ``on_slot`` raises
        ends the load.
        """

    def beside(self, number: int) -> System:
        """Another system of this study that can run at the same time, with services and data of its own; 0 is this one.
        The same number gives the same system.
        """

    def load_in_turns(
        self, instances: Sequence[InTurns], on_load: OnLoad, on_turn: OnSlot
    ) -> Sequence[LoadOutcome | TrialFailure]:
        """Load these systems, this one and some beside it, each in its own turns only; one outcome each, in order. An
        instance that fails leaves the others to go on.

        ``on_turn`` is called as ``on_slot`` of ``load_in_slots``, with the index of the turn among all of them by time,
        and of those that begin together in the order of ``instances``.
        """

    def restarts(self) -> int:
        """Times that the server stopped the application and started it anew within itself, by its own words."""

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]: ...
    def health(self) -> None:
        """Raises TrialFailure when a service died under the load."""

    def stop(self) -> Sequence[str]:
        """Stops whatever runs, in reverse order; returns warnings (killed, not clean). Never raises."""

    def collect(self, directory: Path) -> Sequence[str]:
        """Turn raw recordings into series; returns warnings. Works after a failure too."""

    @property
    def recording(self) -> Recording:
        """Reads what its trials left."""
