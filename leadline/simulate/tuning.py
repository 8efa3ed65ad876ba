"""A tuning on a simulated host: its real sequence, store and life cycles, in one virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from leadline.lab.planning import Planned
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.tuning.check import steps_left_out
from leadline.lab.tuning.file import TuningFile
from leadline.lab.tuning.records import TuningRecords
from leadline.lab.tuning.run import HostRunner, TuningResult, TuningRun
from leadline.model.knob import Knob
from leadline.simulate.clock import EPOCH, VirtualClock
from leadline.simulate.host import SimulatedHost
from leadline.simulate.model import bound
from leadline.simulate.study import check_simulated
from leadline.simulate.system import SimulatedSystem
from leadline.simulate.truth import Truth


@dataclass(frozen=True)
class SimulatedTuning:
    """A run that has ended. ``seconds``: virtual time it took."""

    result: TuningResult
    store: Store
    seconds: float


class SimulatedRunner(HostRunner):
    """Runs the comparisons one after the other on one clock; every attempt draws noise of its own."""

    def __init__(
        self,
        truth: Truth,
        store: Store,
        watcher: Watcher,
        clock: VirtualClock,
        host_knobs: Sequence[Knob],
        service_knobs: Sequence[Knob],
        *,
        source: str,
        lives: int,
        origin: float,
        disposable: bool,
    ) -> None:
        super().__init__(SimulatedHost(host_knobs, clock), service_knobs, disposable)
        self._truth = truth
        self._store = store
        self._watcher = watcher
        self._clock = clock
        self._host_knobs = host_knobs
        self._knobs = {knob.name: knob for knob in (*host_knobs, *service_knobs)}
        self._source = source
        self._lives = lives
        self._origin = origin

    def plan(self, file: StudyFile) -> Planned:
        check_simulated(file)
        return super().plan(file)

    def run(
        self,
        file: StudyFile,
        planned: Planned,
        *,
        go_on: int | None,
        opened: Callable[[int], None],
        budget: float | None,
        give_up: int,
    ) -> RunResult:
        held = bound(self._truth, planned.plan.factors, self._knobs, self._source)
        baseline = {factor.name: factor.baseline for factor in planned.plan.factors if not factor.pseudo}
        host = SimulatedHost(self._host_knobs, self._clock, held.silent, baseline)
        before = self._attempts(go_on)
        system = SimulatedSystem(
            file.study, held, host, self._knobs, kept=baseline, origin=self._origin, lives=self._lives
        )
        run = StudyRun(
            file,
            planned,
            self._store,
            host,
            system,
            self._watcher,
            lambda _seconds: nullcontext(),
            self._clock.now,
            budget=budget,
            give_up=give_up,
            opened=opened,
        )
        result = run.execute(fresh=True, go_on=go_on)
        self._lives += self._attempts(result.study_id) - before
        return result

    def _attempts(self, study_id: int | None) -> int:
        if study_id is None:
            return 0
        return sum(trial.attempt for trial in self._store.load(study_id).trials)


def simulate_tuning(
    file: TuningFile,
    truth: Truth,
    lab: Path,
    watcher: Watcher,
    *,
    host_knobs: Sequence[Knob],
    service_knobs: Sequence[Knob],
    source: str = "truth",
    fresh: bool = False,
    disposable: bool = False,
) -> SimulatedTuning:
    """Run what is left of the tuning in the lab directory ``lab``, which should hold simulated studies only."""
    clock = VirtualClock()
    store = Store(lab, now=clock.now)
    left_out = steps_left_out(file, SimulatedHost(host_knobs, clock), service_knobs, disposable)
    lives, origin = _earlier(store, file, fresh, clock)
    runner = SimulatedRunner(
        truth,
        store,
        watcher,
        clock,
        host_knobs,
        service_knobs,
        source=source,
        lives=lives,
        origin=origin,
        disposable=disposable,
    )
    begun = clock.now()
    result = TuningRun(file, left_out, store, runner, watcher.message, clock.now).execute(fresh)
    return SimulatedTuning(result, store, clock.now() - begun)


def _earlier(store: Store, file: TuningFile, fresh: bool, clock: VirtualClock) -> tuple[int, float]:
    """Attempts and beginning of an unfinished run of this tuning; sets the clock to where it left off."""
    records = TuningRecords(store)
    unfinished = None if fresh else records.unfinished(file.tuning)
    if unfinished is None:
        return 0, EPOCH
    record = records.load(unfinished)
    trials = [trial for study in record.parts.values() for trial in store.load(study).trials]
    moments = [moment for trial in trials for moment in (trial.started, trial.ended) if moment is not None]
    clock.sleep_until(round(max([record.created, *moments]) * 1e9))
    return sum(trial.attempt for trial in trials), record.created
