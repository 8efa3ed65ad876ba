"""What the lab keeps of a study, as values: the report, the exports and the analysis read these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadline.model.errors import FailureClass
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.result import Observation, SteadyState
from leadline.model.study import Study


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
class TrialRecord:
    """A row from the moment it was planned. ``state``: planned, running, done, failed."""

    id: int
    planned: PlannedTrial
    state: str
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
    directory: Path | None = None  # of the last attempt; layout in docs/architecture.md

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
        )


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
