"""A system under test in virtual time: the model behind the lab's own protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from leadline.analysis.steady import steady_state, steady_verdict
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.guest import FORKS
from leadline.model.knob import ApplyCost, AtStart, Knob, KnobOwner, Level
from leadline.model.plan import Slot
from leadline.model.record import AuditRecord, Phases
from leadline.model.result import SteadyState
from leadline.model.study import Study
from leadline.model.tuning import MODE
from leadline.model.workload import Workload, load_at
from leadline.places.simulated.host import (
    TRANSACTION,
    SimulatedHost,
    known_levels,
    read_load,
    told_seconds,
    usual_level,
    write_load,
)
from leadline.places.simulated.model import Failure, Model, Truth
from leadline.places.simulated.observations import DEAR
from leadline.places.simulated.timing import after_load, before_load
from leadline.places.simulated.trial import Instance, changes_of, failure_of, plot_key, startup_of, trial_series
from leadline.trial.measure import worst
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
    System,
    Unobserved,
    Window,
    WindowMeasured,
)

_AUDIT = "simulated-ledger"
_ROWS = {"throughput": 0, "mean": 1, "p50": 2, "p99": 5}  # of a series' logs


class SimulatedRecording:
    """Reads the series of simulated trials."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def measure(self, directory: Path, startup: float) -> Measured:
        """As the real lab does it: warm-up cut first. Raises TrialFailure(workload) where no whole second is left."""
        series, started_ns = read_load(directory)
        started = started_ns / 1e9
        begin, end = series.steady
        values = np.exp(series.logs[:, int(np.ceil(begin - 1e-6)) : int(np.floor(end + 1e-6))])
        rate, mean, tail = ([float(value) for value in values[_ROWS[name]]] for name in ("throughput", "mean", "p99"))
        verdict: SteadyState = worst(steady_verdict(rate, tail), steady_state(mean, higher_is_better=False))
        cut = verdict.cut or 0.0
        if end - (begin + cut) < 1.0:
            cut = 0.0
        responses = series.window(begin + cut, end)
        if responses is None:
            raise TrialFailure(FailureClass.WORKLOAD, "the steady state holds no whole second")
        drained = started + series.logs.shape[1]
        phases = Phases(started, started + begin + cut, started + end, drained)
        return Measured(responses | {"startup": startup}, verdict, phases)

    def measure_turns(self, directory: Path, startup: float, windows: Sequence[tuple[float, float]]) -> Measured:
        series, started_ns = read_load(directory)
        responses = series.over(windows)
        if responses is None:
            raise TrialFailure(FailureClass.WORKLOAD, "its turns hold no whole second")
        seconds = [at for begin, end in windows for at in range(round(begin), round(end))]
        values = np.exp(series.logs[:, seconds])
        rate, mean, tail = ([float(value) for value in values[_ROWS[name]]] for name in ("throughput", "mean", "p99"))
        verdict: SteadyState = worst(steady_verdict(rate, tail), steady_state(mean, higher_is_better=False))
        started = started_ns / 1e9
        begin, end = series.steady
        phases = Phases(started, started + begin, started + end, started + series.logs.shape[1])
        return Measured(responses | {"startup": startup}, verdict, phases)

    def idle_cpu(
        self,
        directory: Path,  # noqa: ARG002
        others: Sequence[Path],  # noqa: ARG002
        windows: Sequence[tuple[float, float]],
    ) -> Sequence[float | None]:
        """Nothing: simulated services use no CPU when there is no load."""
        return [0.0 for _ in windows]

    def machine_use(
        self,
        directory: Path,
        stretches: Sequence[Sequence[tuple[float, float]]],
        beside: Sequence[Path] = (),  # noqa: ARG002 - its neighbour is known
    ) -> Sequence[MachineUse | None]:
        series, started_ns = read_load(directory)
        started, neighbour = started_ns / 1e9, self._truth.neighbour
        name = neighbour.name if neighbour else ""
        since = [
            [(round(begin - started, 4), round(end - started, 4)) for begin, end in stretch] for stretch in stretches
        ]
        return [series.machine(windows, name) for windows in since]

    def measure_windows(self, directory: Path, windows: Sequence[Window]) -> Sequence[WindowMeasured]:
        series, started_ns = read_load(directory)
        started = started_ns / 1e9
        windows_measured = []
        for window in windows:
            # Unix seconds as floats are good to a microsecond.
            begin, end = round(window.begin - started, 4), round(window.end - started, 4)
            responses = series.window(begin, end)
            if responses is None:
                windows_measured.append(WindowMeasured(window, reason="it holds no whole second"))
                continue
            inside = Window(started + float(np.ceil(begin - 1e-6)), started + float(np.floor(end + 1e-6)))
            windows_measured.append(WindowMeasured(inside, responses))
        return windows_measured

    def seconds(self, directory: Path) -> SecondSeries:
        series, started_ns = read_load(directory)
        values = np.exp(series.logs)
        begins = [started_ns / 1e9 + second for second in range(values.shape[1])]
        return SecondSeries(begins, {name: [float(v) for v in values[row]] for name, row in _ROWS.items()})


class SimulatedSystem(Unobserved, AtStart):
    """Implements ``leadline.trial.system.System``; all time is the host's virtual clock.

    ``truth`` names levels as the study does. ``kept``: levels that silent knobs of the services keep. ``origin``: unix
    seconds at which the study began, from which drift is counted. ``attempts``: those of this study that were made
    before, so that a run that goes on draws new noise.
    """

    def __init__(
        self,
        study: Study,
        truth: Truth,
        host: SimulatedHost,
        knobs: Mapping[str, Knob],
        *,
        kept: Mapping[str, Level] | None = None,
        origin: float | None = None,
        attempts: int = 0,
        hosts: Mapping[int, int] | None = None,
    ) -> None:
        self._hosts = dict(hosts or {})  # by the seed of their blocks
        self._study = study
        self._truth = truth
        self.recording = SimulatedRecording(truth)
        self._host = host
        self._knobs = knobs
        self._model = Model(truth, study.workload)
        self._clock = host.clock
        self._origin = host.clock.now() if origin is None else origin
        self._begun = [attempts]  # attempts, of all instances together
        self._attempts = attempts
        self._beside: dict[int, SimulatedSystem] = {}
        self._warmed = 0.0  # seconds of load since the server started
        self._kept = dict(kept or {})
        self._settings: dict[str, Level] = {}
        self._failure: Failure | None = None
        self._running = False

    def versions(self) -> Mapping[str, str]:
        digest = hashlib.sha256(self._truth.model_dump_json().encode()).hexdigest()
        return {"simulated": f"truth {digest[:12]}, seed {self._truth.seed}"}

    def prepare(self, message: Callable[[str], None]) -> None:
        message("SIMULATED: nothing is installed, started or loaded; time is virtual")

    def reset(self, directory: Path, seed: int) -> None:  # noqa: ARG002 - nothing to put back
        self._begun[0] += 1
        self._attempts = self._begun[0]
        self._running = True
        self._settings = {}
        self._failure = None  # known when all levels are: when the database starts

    def start_database(self, settings: Settings, directory: Path) -> None:  # noqa: ARG002
        self._settings = {name: self._in_force(name, level) for name, level in settings.items()}
        self._failure = failure_of(self._truth, self._instance(), self._levels())
        self._fail_at("reset", "the host failed while the database was put back")
        self._clock.advance(before_load(self._truth))

    def start_server(self, settings: Settings, directory: Path) -> float:  # noqa: ARG002
        self._warmed = 0.0
        self._fail_at("start-server", "the server did not start with this configuration")
        startup = startup_of(self._model, self._instance(), self._levels())
        self._clock.advance(startup)
        (directory / "logs" / "server.log").write_text("simulated: ready\n", encoding="utf-8")
        return startup

    def owners(self) -> Sequence[KnobOwner]:
        return [self]

    def knobs(self) -> Sequence[Knob]:
        return [knob for name, knob in self._knobs.items() if name not in self._host.levels()]

    def apply(self, levels: Mapping[str, Level]) -> None:
        if fixed := {name: at for name, at in levels.items() if self._knobs[name].apply_cost is not ApplyCost.LIVE}:
            super().apply(fixed)
        self._settings |= {name: self._in_force(name, level) for name, level in levels.items()}

    def read_back(self, knob: str) -> Level:
        """The level in force in the simulated services. Raises LookupError for a knob they were not given."""
        return self._settings[knob]

    def compiled(self, directory: Path, from_s: float) -> Compiled:  # noqa: ARG002
        """Nothing: a simulated server's warm-up is in its speed alone."""
        return Compiled(0.0, 0.0)

    def load(self, directory: Path, seed: int, on_load: OnLoad) -> LoadOutcome:
        return self._load(directory, seed, on_load, self._study.workload.steady, (), None)

    def load_in_slots(
        self, directory: Path, seed: int, on_load: OnLoad, slots: Sequence[Slot], on_slot: OnSlot
    ) -> LoadOutcome:
        return self._load(directory, seed, on_load, slots[-1].begin + slots[-1].seconds, slots, on_slot)

    def _load(
        self,
        directory: Path,
        seed: int,
        on_load: OnLoad,
        steady: float,
        slots: Sequence[Slot],
        on_slot: OnSlot | None,
    ) -> LoadOutcome:
        started_ns = self._clock.now_ns()
        schedule: list[tuple[float, Mapping[str, Level]]] = [(0.0, self._levels())]
        instance = self._instance(seed, (started_ns / 1e9 - self._origin) / 3600)
        for slot in slots if on_slot else ():
            due = started_ns + round((self._study.workload.ramp_up + slot.begin) * 1e9)
            self._clock.sleep_until(due - round(SLOT_LEAD * 1e9))
            assert on_slot is not None
            on_slot(slot.index, due, self._clock)
            schedule.append(((self._clock.now_ns() - started_ns) / 1e9, self._levels()))
        self._fail_unless_seen_later()
        series = trial_series(self._model, instance, schedule, steady, self._failure)
        counts = write_load(directory, series, started_ns, self._loaded(self._study.workload), seed)
        self._clock.sleep_until(started_ns + round(self._length(steady) * 1e9))
        for second in told_seconds(series):
            on_load(second)
        return LoadOutcome(counts, series.driver_was_limit, series.evidence, self._checks(counts))

    def beside(self, number: int) -> SimulatedSystem:
        if number == 0:
            return self
        if number not in self._beside:
            other = SimulatedSystem(
                *(self._study, self._truth, self._host, self._knobs),
                kept=self._kept,
                origin=self._origin,
                hosts=self._hosts,
            )
            other._begun = self._begun
            self._beside[number] = other
        return self._beside[number]

    def load_in_turns(
        self, instances: Sequence[InTurns], on_load: OnLoad, on_turn: OnSlot
    ) -> Sequence[LoadOutcome | TrialFailure]:
        started_ns = self._clock.now_ns()
        hours = (started_ns / 1e9 - self._origin) / 3600
        turns = [turn for instance in instances for turn in instance.turns]
        ramp_up = max((turn.end for turn in turns if turn.warm_up), default=0.0)
        end = max(turn.end for turn in turns)
        side = self._study.workload.model_copy(update={"ramp_up": ramp_up, "steady": end - ramp_up})
        systems = [_own(instance.system) for instance in instances]
        schedules: list[list[tuple[float, Mapping[str, Level]]]] = [[] for _ in instances]
        ordered = sorted((turn.begin, at) for at, instance in enumerate(instances) for turn in instance.turns)
        for index, (begin, at) in enumerate(ordered):
            due = started_ns + round(begin * 1e9)
            self._clock.sleep_until(due - round(SLOT_LEAD * 1e9))
            on_turn(index, due, self._clock)
            schedules[at].append((begin, systems[at]._levels()))
        self._clock.sleep_until(started_ns + round((end + side.ramp_down) * 1e9))
        model = Model(self._truth, side)
        return [
            system._turns_of(model, instance, hours, schedule, started_ns, on_load)
            for system, instance, schedule in zip(systems, instances, schedules, strict=True)
        ]

    def _turns_of(
        self,
        model: Model,
        one: InTurns,
        hours: float,
        schedule: Sequence[tuple[float, Mapping[str, Level]]],
        started_ns: int,
        on_load: OnLoad,
    ) -> LoadOutcome | TrialFailure:
        try:
            self._fail_unless_seen_later()
        except TrialFailure as failure:
            return failure
        instance = replace(self._instance(one.seed, hours), turns=tuple(one.turns))
        whole = [(0.0, schedule[0][1]), *schedule[1:]]
        series = trial_series(model, instance, whole, model.workload.steady, self._failure)
        counts = write_load(one.directory, series, started_ns, self._loaded(model.workload), one.seed)
        self._warmed += sum(turn.seconds for turn in one.turns)
        for second in told_seconds(series):
            on_load(second)
        return LoadOutcome(counts, series.driver_was_limit, series.evidence, self._checks(counts))

    def _loaded(self, workload: Workload) -> Workload:
        return load_at(workload, self._settings, self._knobs.values())

    def _length(self, steady: float) -> float:
        return self._study.workload.ramp_up + steady + self._study.workload.ramp_down

    def _checks(self, counts: Mapping[str, Mapping[str, int]]) -> list[AuditRecord]:
        lost = self._model.lost(self._levels())
        done = counts[TRANSACTION]["ok"]
        return [AuditRecord("no-drops", lost * done < 1, f"{lost:.2%} of the arrivals dropped at the cap on sessions")]

    def audit(self, directory: Path, counts: Mapping[str, Mapping[str, int]]) -> Sequence[AuditRecord]:  # noqa: ARG002
        damaged = self._failure is not None and self._failure.at == "audit"
        done = counts[TRANSACTION]["ok"]
        detail = f"{done} transactions, {done - 1 if damaged else done} in the ledger"
        return [AuditRecord(_AUDIT, not damaged, detail)]

    def stop(self) -> Sequence[str]:
        if self._running:
            self._running = False
            self._clock.advance(after_load(self._truth))
        return ()

    def collect(self, directory: Path) -> Sequence[str]:  # noqa: ARG002
        return ()

    def _in_force(self, name: str, wanted: Level) -> Level:
        if name not in self._truth.silent:
            return wanted
        return self._kept.get(name, usual_level(self._knobs[name]))

    def _levels(self) -> dict[str, Level]:
        """All in force; the mode is a level like any other, that of the stack where no study sets it."""
        return {MODE: self._study.stack.mode, **known_levels(self._host, self._settings)}

    def _instance(self, block_seed: int = 0, hours: float = 0.0) -> Instance:
        dear = {
            name: level
            for name, level in self._levels().items()
            if name in self._study.factors and name in self._knobs and self._knobs[name].apply_cost in DEAR
        }
        changes = changes_of(self._model, self._levels(), self._kept) if self._study.design.kind == FORKS else None
        return Instance(
            *(self._truth.seed, self._attempts - 1, block_seed, plot_key(dear), hours),
            warmed=self._warmed,
            changes=changes,
            host=self._hosts.get(block_seed),
            usual=self._kept,
        )

    def _fail_at(self, step: str, usual: str) -> None:
        if self._failure is not None and self._failure.at == step:
            self._fail(self._failure, usual)

    def _fail_unless_seen_later(self) -> None:
        """A load that ends early; errors and a busy driver show in its figures instead."""
        failure = self._failure
        shown_later = (FailureClass.WORKLOAD, FailureClass.BOTTLENECK)
        if failure is not None and failure.at == "load" and failure.failure_class not in shown_later:
            self._fail(failure, "the load was cut off")

    @staticmethod
    def _fail(failure: Failure, usual: str) -> NoReturn:
        raise TrialFailure(failure.failure_class, failure.message or f"simulated: {usual}", "as the truth file says")


def _own(system: System) -> SimulatedSystem:
    assert isinstance(system, SimulatedSystem)
    return system
