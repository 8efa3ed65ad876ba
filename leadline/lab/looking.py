"""Looks at a study that runs, between its blocks; what they decide is stored with the trials that need not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from leadline.analysis.equivalence import MARGIN
from leadline.analysis.table import Describe, StudyTable
from leadline.analysis.wording import answer
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.model.errors import FailureClass, UsageError
from leadline.model.plan import Plan, Role
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import Observation, StudyAnalysis
from leadline.planning.adjust import adjusted
from leadline.planning.looks import due, look, schedule
from leadline.planning.slotlooks import look_at_slots

SKIPPED = "skipped"  # state of a trial that a look made superfluous
REPEATED = (
    "simultaneous intervals, adjusted p and q hold; plain intervals and p, the p of "
    "equivalence, and rank and bootstrap intervals are those of a single analysis"
)


def is_left(trial: TrialRecord) -> bool:
    """Whether a trial is still to run."""
    if trial.state == SKIPPED:
        return False
    return trial.state in ("planned", "running") or trial.failure is FailureClass.INTERRUPTED


def check_looks(file: StudyFile, plan: Plan) -> None:
    """Raises UsageError with file and line where the plan has no room for the looks that are asked for."""
    if plan.kind == "racing":  # its rounds are its own
        return
    try:
        schedule(plan, file.study.design.looks)
    except UsageError as error:
        raise UsageError(f"{file.where(('design', 'looks'))}: {error}") from None


class Gate(Protocol):
    """Asked before every trial that is still to run whether the study goes on. ``skipped``: positions that need not
    run; ``replanned``: the call just made gave the trials left other treatments.
    """

    skipped: set[int]
    replanned: bool

    def before(self, trial: TrialRecord) -> str:
        """Why the study ends here, empty to go on. Raises UsageError where the plan has no room for the looks."""


def skip(store: Store, record: StudyRecord, which: Callable[[TrialRecord], bool], why: str) -> set[int]:
    """Marks trials left to run as not needed; returns their positions."""
    gone = [trial for trial in record.trials if is_left(trial) and which(trial)]
    store.skip([trial.id for trial in gone], why)
    return {trial.planned.position for trial in gone}


@dataclass
class Looking(Gate):
    """Asks after complete blocks whether a study goes on. Deciding again after an interruption gives the same answer,
    since a look depends on the stored observations of its blocks alone.
    """

    store: Store
    study_id: int
    plan: Plan
    looks: int
    response: str
    message: Callable[[str], None]
    margin: float = MARGIN
    skipped: set[int] = field(default_factory=set)
    replanned: bool = False
    _done: int = 0

    def before(self, trial: TrialRecord) -> str:
        blocks = schedule(self.plan, self.looks)
        number = due(self.plan, [trial.planned.block], blocks)
        if self.looks == 1 or number <= self._done or number == len(blocks):
            return ""
        self._done = number
        record = self.store.load(self.study_id)
        done = [
            each for each in finished(record) if each.block < blocks[number - 1]
        ]  # a later block can hold a trial of an attempt before an interruption
        slots = any(each.slots for each in self.plan.trials)
        decide = look_at_slots if slots else look
        found = decide(self.plan, done, self.response, blocks, number, margin=self.margin)
        if found.stop:
            self.skipped |= skip(self.store, record, lambda _: True, found.reason)
            return found.reason
        self.message(found.reason)
        for treatment, why in found.drop.items():
            self.skipped |= skip(
                self.store,
                record,
                lambda each, gone=treatment: (  # type: ignore[misc]
                    each.planned.treatment == gone and each.planned.role is Role.TREATMENT
                ),
                why,
            )
        return ""


def finished(record: StudyRecord) -> list[Observation]:
    """Observations of the trials that ran, slot by slot where they have slots."""
    ran = [trial for trial in record.trials if trial.state in ("done", "failed")]
    return [one for trial in ran for one in trial.observations()]


def plan_that_ran(record: StudyRecord) -> Plan:
    """The plan without the trials that looks made superfluous."""
    gone = {trial.planned.position for trial in record.trials if trial.state == SKIPPED}
    return replace(record.plan, trials=tuple(t for t in record.plan.trials if t.position not in gone))


def with_looks(record: StudyRecord, analysis: StudyAnalysis, describe: Describe) -> StudyAnalysis:
    """The analysis of a study that is looked at more than once: repeated intervals, and notes on what the looks did."""
    if record.study.design.looks < 2 or record.plan.kind == "racing":
        return analysis
    plan = plan_that_ran(record)
    observations = finished(record)
    blocks = schedule(record.plan, record.study.design.looks)
    left = [trial.planned.block for trial in record.trials if is_left(trial)]
    number = due(record.plan, left, blocks)
    skipped = [trial for trial in record.trials if trial.state == SKIPPED]
    if not left and skipped:
        number = next(k for k, end in enumerate(blocks, 1) if end >= 1 + max(each.block for each in observations))
    table = StudyTable.of(plan, observations, describe)
    found = adjusted(analysis, plan, observations, blocks, max(number, 1), lambda responses: answer(table, responses))
    return replace(found, warnings=(*_notes(skipped, len(record.trials), len(blocks)), *found.warnings))


def _notes(skipped: list[TrialRecord], trials: int, looks: int) -> list[str]:
    reasons: dict[str, int] = {}
    for trial in skipped:
        reasons[trial.failure_message] = reasons.get(trial.failure_message, 0) + 1
    notes = [f"Not needed, {count} of {trials} trials: {reason}." for reason, count in reasons.items()]
    return [*notes, f"The study was planned with {looks} looks; over all of them together {REPEATED}."]
