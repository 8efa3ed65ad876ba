"""Stand-ins for a host and a system under test: unit tests of the lab only."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, NotInPlay, TrialFailure
from leadline.model.knob import ApplyCost, AtStart, Kind, Knob, KnobOwner, Level, Limit, Machine, Owner
from leadline.model.plan import Slot, Treatment
from leadline.model.record import AuditRecord, LoadSecond, Phases
from leadline.model.result import SteadyState
from leadline.trial.system import (
    SLOT_LEAD,
    Compiled,
    InTurns,
    LoadOutcome,
    Measured,
    OnLoad,
    OnSlot,
    SecondSeries,
    Settings,
    Window,
    WindowMeasured,
)

LIVE = Knob(
    "vm.fake_live", Kind.INTEGER, ApplyCost.LIVE, "a live knob", default=10, minimum=0, maximum=100, owner=Owner.HOST
)
DANGEROUS = Knob(
    "vm.fake_dangerous",
    Kind.INTEGER,
    ApplyCost.LIVE,
    "hangs",
    dangerous_above=Limit(50, "it hangs"),
    minimum=0,
    owner=Owner.HOST,
)
POOL = Knob("server.pool", Kind.INTEGER, ApplyCost.RESTART, "a restart knob", default=10, minimum=1)
HEAP = Knob("jvm.heap", Kind.SIZE, ApplyCost.RESTART, "a heap", owner=Owner.JVM)
STATEMENTS = Knob("server.statements", Kind.INTEGER, ApplyCost.LIVE, "a live knob", default=10, minimum=0)
CACHE = Knob("server.cache", Kind.BOOLEAN, ApplyCost.RESTART, "a switch", default=True)


class FakeHost:
    """Knobs in a dictionary; remembers every write."""

    name = "fake"

    def __init__(self, forbidden: str = "") -> None:
        self.values: dict[str, Level] = {"vm.fake_live": 10, "vm.fake_dangerous": 1}
        self.originals: dict[str, Level] = {}
        self.writes: list[tuple[str, Level]] = []
        self.forbidden = forbidden
        self.made: dict[str, tuple[str, str]] = {}

    def held(self) -> AbstractContextManager[object]:
        return nullcontext()

    def knobs(self) -> Sequence[Knob]:
        return (LIVE, DANGEROUS)

    def machine(self) -> Machine:
        return Machine(memory=8 << 30)

    def cpus(self) -> Sequence[int]:
        return range(4)

    def read_back(self, name: str) -> Level:
        return self.values[name]

    def apply(self, levels: Mapping[str, Level]) -> None:
        for name, level in levels.items():
            self.set_knob(name, level)

    def set_knob(self, name: str, level: Level) -> None:
        self.originals.setdefault(name, self.values[name])
        self.values[name] = level
        self.writes.append((name, level))

    def writable(self, name: str) -> str:
        return self.forbidden if name == "vm.fake_live" else ""

    def restore(self) -> Sequence[str]:
        lines = [f"{name} is {value} again" for name, value in self.originals.items()]
        self.values.update(self.originals)
        self.originals.clear()
        return lines

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        made, self.made = self.made, {}
        return made

    def facts(self) -> Mapping[str, str]:
        return {"kernel": "fake"}

    def busy(self, seconds: float) -> float:
        return 0.0

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the lab asked the fake host for {name}")


class FakeClock:
    """Time that passes only when it is slept through; ``oversleep`` seconds too long at the given calls."""

    START = 1_700_000_000_000_000_000

    def __init__(self, oversleep: Mapping[int, float]) -> None:
        self.now = self.START
        self.oversleep = oversleep
        self.sleeps = 0

    def now_ns(self) -> int:
        return self.now

    def sleep_until(self, unix_ns: int) -> None:
        self.now = max(self.now, unix_ns) + round(self.oversleep.get(self.sleeps, 0.0) * 1e9)
        self.sleeps += 1


@dataclass(eq=False)
class FakeSystem(AtStart):
    """A system whose throughput is a function of its settings; ``fail`` maps a step to a failure."""

    host: FakeHost
    effect: Callable[[Settings, Mapping[str, Level]], float] = lambda _s, _h: 100.0
    fail: Callable[[str, Settings], TrialFailure | None] = lambda _step, _settings: None
    at_step: Callable[[str], None] = lambda _step: None
    audits: Sequence[AuditRecord] = (AuditRecord("ledger", True, "0"),)
    errors: float = 0.0
    driver_was_limit: bool = False
    read_wrong: str = ""
    left_out: str = ""  # a knob of a part that these levels leave out
    deaf: bool = False  # takes no live level
    stops: int = 0
    calls: list[str] = field(default_factory=list)
    settings: Settings = field(default_factory=dict)
    oversleep: Mapping[int, float] = field(default_factory=dict)  # slot: seconds that leadline comes too late
    failing_slots: Mapping[int, float] = field(default_factory=dict)  # slot: share of failed transactions
    restarted: int = 0  # times that the application was started anew
    silent_slots: Sequence[int] = ()  # in which no transaction ends
    held: list[float] = field(default_factory=list)  # throughput in each slot, by the levels at its end
    slots: Sequence[Slot] = ()
    others: dict[int, FakeSystem] = field(default_factory=dict)  # beside this one
    measured: list[tuple[float, float]] = field(default_factory=list)  # windows of the last trial of a rotation
    cpu_each: float = 0.0  # of each instance in the first ``busy_slots`` slots of another one
    busy_slots: int = 0
    use: MachineUse | None = None  # what else the machine does
    profiles: list[bool] = field(default_factory=list)  # begun and ended
    told: int = 1  # seconds of the load
    ramp_up: int = 0  # of them
    profiled_at: list[float] = field(default_factory=list)  # seconds of the load in which profiles begin and end
    compiling: list[Compiled] = field(default_factory=list)  # what the compiler did, each time it is asked
    resting: list[float] = field(default_factory=list)  # CPU seconds since it was last asked, each time it is
    cpu_used: float = 0.0
    beside_it: list[tuple[Path, list[Path]]] = field(default_factory=list)  # trials, and whose idle CPU was asked for

    def _call(self, step: str) -> None:
        self.calls.append(step)
        self.at_step(step)
        failure = self.fail(step, self.settings)
        if failure:
            raise failure

    def versions(self) -> Mapping[str, str]:
        return {"fake": "1"}

    def prepare(self, message: Callable[[str], None]) -> None:
        message("prepared")

    def reset(self, directory: Path, seed: int) -> None:
        assert directory.is_dir()
        self._call("reset")

    def start_database(self, settings: Settings, directory: Path) -> None:
        self.settings = settings
        self._call("start-database")

    def start_server(self, settings: Settings, directory: Path) -> float:
        self._call("start-server")
        (directory / "logs" / "server.log").write_text("started\n")
        return 1.5

    def owners(self) -> Sequence[KnobOwner]:
        return [self]

    def knobs(self) -> Sequence[Knob]:
        return (POOL, CACHE, HEAP, STATEMENTS)

    def apply(self, levels: Settings) -> None:
        assert set(levels) == {STATEMENTS.name}
        if self.deaf:
            raise TrialFailure(FailureClass.CONFIGURATION, "the server refuses it")
        self.settings = {**self.settings, **levels}

    def read_back(self, knob: str) -> Level:
        if knob == self.read_wrong:
            return 999
        if knob == self.left_out:
            raise NotInPlay("no such part")
        return self.settings[knob]

    def start_observers(self, directory: Path) -> None:
        self._call("start-observers")
        self.recorded = directory / "recording"
        self.recorded.touch()

    def profile(self, on: bool) -> None:
        self.profiles.append(on)

    def compiled(self, directory: Path, from_s: float) -> Compiled | None:
        return self.compiling.pop(0) if self.compiling else None

    def cpu_seconds(self) -> float:
        self.cpu_used += self.resting.pop(0) if self.resting else 0.0
        return self.cpu_used

    def stop_observers(self) -> Sequence[str]:
        self._call("stop-observers")
        self.recorded.unlink()
        return ()

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        for second in range(self.told):
            at, before = len(self.profiles), second < self.ramp_up
            on_load(LoadSecond(second + 1.0, "ramp-up" if before else "steady", 100.0, 3.0, 0))
            self.profiled_at += [second + 1.0] * (len(self.profiles) - at)
        (directory / "driver" / "seconds.csv").write_text("one,two\n")
        self._call("load")
        counts = {"buy": {"ok": 1, "failed": 0}}
        return LoadOutcome(counts, self.driver_was_limit, "its core was busy", ())

    def load_in_slots(
        self, directory: Path, seed: int, on_load: OnLoad, slots: Sequence[Slot], on_slot: OnSlot
    ) -> LoadOutcome:
        clock = FakeClock(self.oversleep)
        self.held, self.slots = [], slots
        for slot in slots:
            due = clock.START + round(slot.begin * 1e9)
            clock.now = max(clock.now, due - round(SLOT_LEAD * 1e9))
            if slot.index:
                self._hold()
            self.at_step(f"before slot {slot.index}")
            on_slot(slot.index, due, clock)
        clock.now += round(slots[-1].seconds * 1e9)
        self._hold()
        return self.load(directory, seed, on_load)

    def _hold(self) -> None:
        self.held.append(self.effect(self.settings, getattr(self.host, "values", {})))

    def beside(self, number: int) -> FakeSystem:
        if number == 0:
            return self
        if number not in self.others:
            self.others[number] = copy.copy(self)
        return self.others[number]

    def load_in_turns(
        self, instances: Sequence[InTurns], on_load: OnLoad, on_turn: OnSlot
    ) -> Sequence[LoadOutcome | TrialFailure]:
        clock = FakeClock(self.oversleep)
        turns = sorted((turn.begin, at, turn) for at, one in enumerate(instances) for turn in one.turns)
        systems = [one.system for one in instances]
        for system in systems:
            assert isinstance(system, FakeSystem)
            system.held, system.slots = [], []
        for index, (begin, at, turn) in enumerate(turns):
            self.at_step(f"before turn {index}")
            on_turn(index, clock.START + round(begin * 1e9), clock)
            if not turn.warm_up:
                system = systems[at]
                assert isinstance(system, FakeSystem)
                system.slots = [*system.slots, Slot(len(system.slots), begin, turn.seconds, Treatment(()))]
                system._hold()
        found: list[LoadOutcome | TrialFailure] = []
        for one in instances:
            try:
                found.append(one.system.load(one.directory, one.seed, on_load))
            except TrialFailure as failure:
                if failure.failure_class is FailureClass.INTERRUPTED:
                    raise
                found.append(failure)
        return found

    @property
    def recording(self) -> FakeSystem:
        return self

    def measure_turns(self, directory: Path, startup: float, windows: Sequence[tuple[float, float]]) -> Measured:
        self.measured = list(windows)
        return self.measure(directory, startup)

    def idle_cpu(
        self, directory: Path, others: Sequence[Path], windows: Sequence[tuple[float, float]]
    ) -> Sequence[float | None]:
        assert all(not (other / "recording").exists() for other in others), "a recording that goes on has no series"
        self.beside_it.append((directory, list(others)))
        return [len(others) * (self.cpu_each if at < self.busy_slots else 0.01) for at in range(len(windows))]

    def machine_use(
        self, directory: Path, stretches: Sequence[Sequence[tuple[float, float]]], beside: Sequence[Path] = ()
    ) -> Sequence[MachineUse | None]:
        return [self.use for _ in stretches]

    def measure_windows(self, directory: Path, windows: Sequence[Window]) -> Sequence[WindowMeasured]:
        found = []
        for window in windows:
            middle = (window.begin + window.end) / 2 - FakeClock.START / 1e9
            index = next((one.index for one in self.slots if one.begin <= middle < one.begin + one.seconds), -1)
            if index in self.silent_slots:
                found.append(WindowMeasured(window, reason="no transaction succeeded"))
            else:
                errors, value = self.failing_slots.get(index, 0.0), self.held[max(index, 0)]
                found.append(WindowMeasured(window, {"throughput": value, "p99": 1000 / value, "errors": errors}))
        return found

    def seconds(self, directory: Path) -> SecondSeries:
        begins, throughput = [], []
        for slot, value in zip(self.slots, self.held, strict=True):
            for second in range(int(slot.seconds)):
                begins.append(FakeClock.START / 1e9 + slot.begin + second)
                throughput.append(value + 0.01 * (len(begins) % 3))
        latency = [1000 / value for value in throughput]
        return SecondSeries(begins, {"throughput": throughput, "mean": latency, "p50": latency, "p99": latency})

    def restarts(self) -> int:
        return self.restarted

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]:
        self._call("audit")
        return self.audits

    def health(self) -> None:
        self._call("health")

    def stop(self) -> Sequence[str]:
        self.stops += 1
        return ()

    def collect(self, directory: Path) -> Sequence[str]:
        self.calls.append("collect")
        return ()

    def measure(self, directory: Path, startup: float) -> Measured:
        self._call("measure")
        value = self.effect(self.settings, getattr(self.host, "values", {}))
        return Measured(
            {"throughput": value, "p99": 1000 / value, "errors": self.errors, "startup": startup},
            SteadyState("steady", 0.0, "steady from the first second"),
            Phases(0.0, 1.0, 2.0, 3.0),
        )


def failing(step: str, failure_class: FailureClass, when: Callable[[Settings], bool] = lambda _s: True) -> Any:
    """A ``fail`` function: that step fails with that class where ``when`` holds."""

    def fail(at: str, settings: Settings) -> TrialFailure | None:
        return (
            TrialFailure(failure_class, f"planted at {at}", "the server's words")
            if at == step and when(settings)
            else None
        )

    return fail
