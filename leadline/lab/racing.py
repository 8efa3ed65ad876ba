"""A race that runs: after each round levels may leave, and the trials left are planned again for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from leadline.conclude.stopping import course_of, leavers, outcome
from leadline.lab.looking import Gate, skip
from leadline.lab.store import Store
from leadline.model.record import TrialRecord


@dataclass
class Racing(Gate):
    """Decides a round before the first trial after it. Deciding again after an interruption gives the same answer,
    since a round depends on the stored observations of its blocks and earlier ones alone.
    """

    store: Store
    study_id: int
    message: Callable[[str], None]
    skipped: set[int] = field(default_factory=set)
    replanned: bool = False
    _next: int = 0

    def looks_before(self, trial: TrialRecord) -> bool:
        return trial.planned.position >= self._next

    def before(self, trial: TrialRecord) -> str:
        self.replanned = False
        if not self.looks_before(trial):
            return ""
        record = self.store.load(self.study_id, evidence=False)
        found = course_of(record)
        self._next = len(record.trials) if found.next_position is None else found.next_position
        if found.plan != record.plan:
            self.store.replan(self.study_id, found.plan)
            self.replanned = True
        if not found.race.rounds:
            return ""
        decided = found.ends[found.race.rounds - 1]
        if trial.planned.position == sum(each.block < decided for each in record.plan.trials):
            for line in leavers(found, since=found.race.rounds):
                self.message(line)
            self.message(outcome(found))
        if found.over:
            self.skipped |= skip(self.store, record, lambda _: True, found.reason)
            return f"the race is over: {outcome(found)}"
        return ""
