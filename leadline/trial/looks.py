"""Looks at a study that runs, between its blocks; what they decide is stored with the trials that need not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from leadline.analysis.table import MARGIN
from leadline.checks.files.study import StudyFile
from leadline.model.conditions import Condition, State
from leadline.model.design import Looks
from leadline.model.errors import UsageError
from leadline.model.plan import Plan, Role
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import Observation
from leadline.model.study import Study
from leadline.planning.boundary import judged
from leadline.planning.looks import due, look, schedule
from leadline.store.lab import Store


def check_looks(file: StudyFile, plan: Plan) -> None:
    """Raises UsageError with file and line where the plan has no room for the looks that are asked for."""
    try:
        schedule(plan, file.study.design.looks)
    except UsageError as error:
        raise UsageError(f"{file.where(('design', 'looks'))}: {error}") from None


def skip(store: Store, record: StudyRecord, which: Callable[[TrialRecord], bool], why: str) -> set[int]:
    """Marks trials left to run as not needed; returns their positions."""
    gone = [trial for trial in record.trials if trial.is_left and which(trial)]
    store.skip([trial.id for trial in gone], why)
    return {trial.planned.position for trial in gone}


@dataclass
class Looking:
    """Asked before every trial that is still to run whether a study goes on: it looks after complete blocks, never with
    one look. ``skipped``: positions that need not run. Deciding again after an interruption gives the same answer,
    since a look depends on the stored observations of its blocks alone.
    """

    store: Store
    study_id: int
    plan: Plan
    looks: Looks
    response: str
    message: Callable[[str], None]
    margin: float = MARGIN
    conditions: Sequence[Condition] = ()
    level: float = 0.95
    skipped: set[int] = field(default_factory=set)
    _done: int = 0
    _open: Sequence[str] = ()  # conditions, as last told

    @classmethod
    def at(
        cls, study: Study, store: Store, record: StudyRecord, message: Callable[[str], None], looks: Looks | None = None
    ) -> Looking:
        """As the study says, or with other ``looks``."""
        looks, margin = study.design.looks if looks is None else looks, 100 * study.equivalence
        conditions = study.conditions if looks == "watched" else ()
        fields = (store, record.id, record.plan, looks, study.responses[0], message, margin, conditions)
        return cls(*fields, 1 - study.design.alpha)

    def looks_before(self, trial: TrialRecord) -> bool:
        """Whether it would look at all trials before this one now."""
        return self.looks != 1 and self._done < self._due(trial) < len(schedule(self.plan, self.looks))

    def _due(self, trial: TrialRecord) -> int:
        return due(self.plan, [trial.planned.block], schedule(self.plan, self.looks))

    def before(self, trial: TrialRecord) -> str:
        """Why the study ends here, empty to go on. Raises UsageError where the plan has no room for the looks."""
        if not self.looks_before(trial):
            return ""
        blocks = schedule(self.plan, self.looks)
        self._done = number = self._due(trial)
        record = self.store.load(self.study_id, evidence=False)
        done = [
            observation for observation in record.observations() if observation.block < blocks[number - 1]
        ]  # a later block can hold a trial of an attempt before an interruption
        if self.conditions:
            return self._decided(record, done, number, len(blocks))
        watch = self.looks == "watched"
        look_ = look(self.plan, done, self.response, blocks, number, self.level, self.margin, watch)
        if look_.stop:
            self.skipped |= skip(self.store, record, lambda _: True, look_.reason)
            return look_.reason
        self.message(look_.reason)
        for treatment, why in look_.drop.items():
            self.skipped |= skip(
                self.store,
                record,
                lambda each, gone=treatment: (  # type: ignore[misc]
                    each.planned.treatment == gone and each.planned.role is Role.TREATMENT
                ),
                why,
            )
        return ""

    def _decided(self, record: StudyRecord, done: Sequence[Observation], number: int, of: int) -> str:
        """Why the study ends, once the intervals say that a condition is broken or that all are kept."""
        states = judged(self.plan, done, self.conditions, self.level)
        undecided = [row.condition.text for row in states if row.state is State.UNDECIDED]
        broken = [row.condition.text for row in states if row.state is State.BROKEN]
        head = f"at interim analysis {number} of {of}"
        if undecided and not broken:
            if undecided != self._open:
                self.message(f"{head}: {len(undecided)} of {len(states)} conditions are open ({', '.join(undecided)})")
            self._open = undecided
            return ""
        reason = f"{head}: broken: {', '.join(broken)}" if broken else f"{head}: every condition is kept"
        self.skipped |= skip(self.store, record, lambda _: True, reason)
        return reason

    def out_of_budget(self, trials_left: int) -> str:
        """Why the study ends as its budget is used up. One that may end at any moment on its conditions is complete."""
        if not self.conditions:
            return f"the budget is used up with {trials_left} trials left; run again to go on"
        reason = "the budget is used up"
        self.skipped |= skip(self.store, self.store.load(self.study_id, evidence=False), lambda _: True, reason)
        return reason
