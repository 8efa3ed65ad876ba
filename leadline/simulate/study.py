"""A study file run on a simulated host: the real plan, store and life cycle, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from leadline.host.base import TrialHost
from leadline.lab.planning import Planned, plan_study
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.model.errors import UsageError
from leadline.model.knob import Knob
from leadline.simulate.clock import EPOCH, VirtualClock
from leadline.simulate.host import SimulatedHost
from leadline.simulate.model import bound
from leadline.simulate.system import SimulatedSystem
from leadline.simulate.truth import Truth


@dataclass(frozen=True)
class SimulatedRun:
    """A run that has ended. ``seconds``: virtual time it took."""

    result: RunResult
    store: Store
    seconds: float


# Keys of the workload that change what arrives when, and why the model has nothing to offer for them.
_NOT_SIMULATED = {
    "generator": "no other load generator runs in a simulation: leave it out, and write `users` or `rate`",
    "replay": "the simulated server has one load throughout, no recording: write `arrivals: poisson` and `rate`",
    "profile": "the simulated server has one load throughout, no profile: write `users` or `rate`",
    "bursts": "the simulated server has one load throughout, no bursts: leave it out; `rate` is then that of all time",
}


def check_simulated(file: StudyFile) -> None:
    """Raises UsageError for a load that the model cannot bear, at its line."""
    workload = file.study.workload
    for key, why in _NOT_SIMULATED.items():
        if getattr(workload, key) is not None:
            raise UsageError(f"{file.where(('workload', key))}: workload.{key}: {why}")
    if workload.arrivals == "replay":
        raise UsageError(f"{file.where(('workload', 'arrivals'))}: {_NOT_SIMULATED['replay']}")
    if file.study.drivers:
        raise UsageError(
            f"{file.where(('drivers',))}: a simulation has one driver (`driver.capacity` of the truth file says what "
            "it can do): leave `drivers` out"
        )


def plan_simulated(
    file: StudyFile, host_knobs: Sequence[Knob], service_knobs: Sequence[Knob], disposable: bool = False
) -> Planned:
    """The plan on a host where every knob can be set. Raises UsageError as planning on a real host does, and for a load
    that is not simulated.
    """
    check_simulated(file)
    host: TrialHost = SimulatedHost(host_knobs, VirtualClock())
    return plan_study(file, host, list(service_knobs), disposable)


def simulate_study(
    file: StudyFile,
    planned: Planned,
    truth: Truth,
    lab: Path,
    watcher: Watcher,
    *,
    host_knobs: Sequence[Knob],
    service_knobs: Sequence[Knob],
    source: str = "truth",
    fresh: bool = False,
) -> SimulatedRun:
    """Run what is left of the study in the lab directory ``lab``, which should hold simulated studies only.

    Raises UsageError for a truth that names what the study or the catalogue (the two lists of knobs) does not know, and
    for a load that is not simulated.
    """
    check_simulated(file)
    knobs = {knob.name: knob for knob in (*host_knobs, *service_knobs)}
    held = bound(truth, planned.plan.factors, knobs, source)
    clock = VirtualClock()
    store = Store(lab, now=clock.now)
    origin, lives = _earlier(store, file, fresh, clock)
    begun = clock.now()
    baseline = {factor.name: factor.baseline for factor in planned.plan.factors if not factor.pseudo}
    host = SimulatedHost(host_knobs, clock, held.silent, baseline)
    system = SimulatedSystem(file.study, held, host, knobs, kept=baseline, origin=origin, lives=lives)
    run = StudyRun(file, planned, store, host, system, watcher, lambda _seconds: nullcontext(), clock.now)
    result = run.execute(fresh)
    return SimulatedRun(result, store, clock.now() - begun)


def _earlier(store: Store, file: StudyFile, fresh: bool, clock: VirtualClock) -> tuple[float, int]:
    """Where an unfinished run of this study left off: its beginning, and the attempts it made; sets the clock."""
    unfinished = None if fresh else store.unfinished(file.study)
    if unfinished is None:
        return EPOCH, 0
    record = store.load(unfinished)
    moments = [moment for trial in record.trials for moment in (trial.started, trial.ended) if moment is not None]
    clock.sleep_until(round(max([record.created, *moments]) * 1e9))
    return record.created, sum(trial.attempt for trial in record.trials)
