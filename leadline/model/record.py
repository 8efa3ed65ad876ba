"""What the lab keeps of a study, as values: the report, the exports and the analysis read these."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass
from leadline.model.knob import Level
from leadline.model.plan import Plan, PlannedTrial, Role, Treatment
from leadline.model.result import AtLeast, Observation, SteadyState
from leadline.model.study import Study

QUIET = "wait-quiet"  # a step of studies that wait, before all others
NOT_QUIET = "not quiet"  # its detail begins with this where it ended in vain
WARM_UP = "warm-up"  # a step of studies with a warm-up, before the load; its detail tells how it ended
STUDY_FILE = "study.file"  # in the environment: the file that the study was read from, as the user named it
WARMING = "the system was still warming up"  # why a slot is left out
CAME_LATE = "live levels come late: "  # a failure begins with this where the run ended for it
NOT_SETTLED = "not settled"  # it begins with this where it went to its bound


class TrialState(StrEnum):
    """What became of a row of a plan. A skipped trial is one that a stopping rule made superfluous."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class LoadSecond:
    """One second of a load as it goes, by the drivers' progress. ``second`` since its start; the highest percentiles
    where there are several drivers.
    """

    second: float
    phase: str
    throughput: float  # transactions a second
    p99_ms: float
    errors: int
    p50_ms: float = 0.0
    in_flight: int = 0
    unanswered_from_ms: float | None = None  # times from here on are lower bounds: transactions got no answer

    def known(self, ms: float) -> float:
        """A time, ``AtLeast`` where it is a lower bound."""
        return ms if self.unanswered_from_ms is None or ms < self.unanswered_from_ms else AtLeast(ms)


@dataclass(frozen=True)
class AuditRecord:
    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Reading:
    """One look at a knob. ``phase``: original, before, after, undone. ``wanted`` is None where nothing was set."""

    knob: str
    phase: str
    wanted: str | None
    found: str
    matches: bool


@dataclass(frozen=True)
class Step:
    """One step of a trial's life, written before it was acted on. Times are unix seconds."""

    name: str
    started: float
    ended: float | None
    detail: str = ""


@dataclass(frozen=True)
class Phases:
    """Unix seconds of a trial's load; ``steady_from`` is after the ramp-up and the detected warm-up cut."""

    load_started: float
    steady_from: float
    steady_until: float
    load_ended: float


@dataclass(frozen=True)
class SlotRecord:
    """One slot of a switchback trial, a row from just before its levels were set. Times are unix seconds.

    ``begin`` and ``seconds`` as planned, from the start of the steady state; ``due`` the same moment by the driver's
    clock. ``set_from`` and ``set_at``: before the first level was set, after the last was read back; both are ``due``
    where no level had to change. ``found``: the levels of the live knobs read then; ``matches`` whether they were the
    slot's. ``measured_from`` and ``measured_until``: the whole seconds behind ``responses``, wash-out left out.
    ``left_out`` says why a slot without failure has no part in the analysis (the system was still warming up).
    """

    index: int
    begin: float
    seconds: float
    treatment: Treatment
    role: Role = Role.TREATMENT
    due: float | None = None
    set_from: float | None = None
    set_at: float | None = None
    found: Mapping[str, Level] = field(default_factory=dict)
    matches: bool | None = None
    failure: FailureClass | None = None
    failure_message: str = ""
    measured_from: float | None = None
    measured_until: float | None = None
    responses: Mapping[str, float] = field(default_factory=dict)
    left_out: str = ""
    machine: MachineUse | None = None  # what else the machine did in the seconds behind ``responses``


@dataclass(frozen=True)
class TrialRecord:
    """A row from the moment it was planned."""

    id: int
    planned: PlannedTrial
    state: TrialState
    attempt: int = 0
    started: float | None = None
    ended: float | None = None
    failure: FailureClass | None = None
    failure_message: str = ""
    evidence: str = ""
    responses: Mapping[str, float] = field(default_factory=dict)
    audits: tuple[AuditRecord, ...] = ()
    readings: tuple[Reading, ...] = ()
    steps: tuple[Step, ...] = ()
    steady: SteadyState | None = None
    phases: Phases | None = None
    directory: Path | None = None  # of the last attempt; layout in docs/concepts/architecture.md
    slots: tuple[SlotRecord, ...] = ()  # of the last attempt, as far as it came
    machine: MachineUse | None = None  # what else the machine did under the measured load
    repeats: int = 0  # earlier attempts that others disturbed, by the study's rule
    host: str = ""  # of the last attempt; empty where the study ran on one host

    @property
    def under_load(self) -> tuple[tuple[float, float], ...]:
        """:func:`under_load`; empty where there was none."""
        return () if self.phases is None else under_load(self.planned, self.phases)

    @property
    def is_left(self) -> bool:
        """Whether it is still to run: an interrupted or disturbed trial says nothing of its setting and runs again."""
        again = (FailureClass.INTERRUPTED, FailureClass.DISTURBED)
        return self.state in (TrialState.PLANNED, TrialState.RUNNING) or (
            self.state != TrialState.SKIPPED and self.failure in again
        )

    def observation(self) -> Observation:
        """As the analysis sees it. A failed trial has no responses, whatever was measured."""
        return Observation(
            trial=self.id,
            position=self.planned.position,
            block=self.planned.block,
            replicate=self.planned.replicate,
            role=self.planned.role,
            treatment=self.planned.treatment,
            started=self.started or 0.0,
            responses={} if self.failure else dict(self.responses),
            failure=self.failure,
            plot=self.planned.plot,
            machine=figures_of(self.machine),
            host=self.host,
        )

    def observations(self) -> tuple[Observation, ...]:
        """One a slot where the trial has slots, else one.

        Slots of the warm-up are left out; a failed slot has its own class and no responses. A trial with slots that
        failed as a whole is one observation, of the treatment that was in force when it failed; of the trial's own, the
        first slot's, where it failed as workload.
        """
        whole = self.observation()
        if not self.planned.slots:
            return (whole,)
        if self.failure:
            # Errors and audits are of all slots together: they tell of none of them.
            last = self.slots[-1] if self.slots and self.failure is not FailureClass.WORKLOAD else None
            return (replace(whole, treatment=last.treatment, role=last.role, slot=last.index) if last else whole,)
        return tuple(
            replace(
                whole,
                treatment=slot.treatment,
                role=slot.role,
                started=slot.set_at or slot.due or whole.started,
                responses={} if slot.failure else dict(slot.responses),
                failure=slot.failure,
                slot=slot.index,
                machine=figures_of(slot.machine),
                seconds=(slot.measured_until or 0.0) - (slot.measured_from or 0.0),
            )
            for slot in self.slots
            if not slot.left_out
        )


def under_load(planned: PlannedTrial, phases: Phases) -> tuple[tuple[float, float], ...]:
    """From and until (unix seconds) of the load that was measured: the steady state, of an instance in a rotation its
    turns without their first second, as samples tell of the second before them.
    """
    zero = phases.load_started
    turns = tuple((zero + turn.begin + 1, zero + turn.end) for turn in planned.turns if not turn.warm_up)
    return turns or ((phases.steady_from, phases.steady_until),)


def figures_of(use: MachineUse | None) -> Mapping[str, float]:
    """Figures of the machine, none where nothing was recorded."""
    return {} if use is None else use.figures


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of what the spans (from, until) cover together."""
    length, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        length += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return length


@dataclass(frozen=True)
class StudyRecord:
    """A study with its plan and trials; ``environment`` holds versions, hashes, host facts."""

    id: int
    study: Study
    document: str  # the study file's text
    plan: Plan
    created: float
    environment: Mapping[str, str]
    trials: tuple[TrialRecord, ...]
    skipped: tuple[str, ...] = ()  # factors left out, each with its reason

    def observations(self) -> list[Observation]:
        """What the analysis sees of the trials that have ended, slot by slot where they have slots."""
        over = (TrialState.DONE, TrialState.FAILED)
        ended = [trial for trial in self.trials if trial.state in over and not trial.is_left]
        return [observation for trial in ended for observation in trial.observations()]

    @property
    def failed(self) -> bool:
        """Whether there is no answer: trials are left, or every trial failed."""
        ran = [trial for trial in self.trials if trial.state != TrialState.SKIPPED]
        return any(trial.is_left for trial in ran) or all(trial.failure for trial in ran)

    @property
    def seconds_per_trial(self) -> float | None:
        """Wall time of a finished trial; trials side by side share theirs. None before the first."""
        spans = [(t.started, t.ended) for t in self.trials if t.state == TrialState.DONE and t.started and t.ended]
        return covered(spans) / len(spans) if spans else None

    @property
    def repeats(self) -> int:
        """Trials, or blocks of a rotation, that were measured again because others disturbed them."""
        repeats = {trial.planned.position: trial.repeats for trial in self.trials}
        return sum(max(repeats.get(trial.position, 0) for trial in trials) for trials in self.plan.together)

    @property
    def plan_that_ran(self) -> Plan:
        """The plan without the trials that a stopping rule made superfluous."""
        gone = {trial.planned.position for trial in self.trials if trial.state == TrialState.SKIPPED}
        return replace(self.plan, trials=tuple(t for t in self.plan.trials if t.position not in gone))

    @property
    def reference(self) -> str:
        """What commands call the study: its file as the user named it, quoted for a shell, or its name."""
        return shlex.quote(self.environment.get(STUDY_FILE, self.study.study))

    @property
    def simulated(self) -> bool:
        """Whether its figures come from a simulated host."""
        return "host.SIMULATED" in self.environment
