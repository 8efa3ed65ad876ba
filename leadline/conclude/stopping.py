"""When a study stops, and what that does to its intervals: fixed, or interim analyses.

The comparisons of a tuning are studies of fixed size; what its steps keep is ``leadline.planning.sequence``.
"""

from __future__ import annotations

from dataclasses import dataclass

from leadline.analysis.interim import Interim
from leadline.model.record import StudyRecord, TrialState
from leadline.planning.boundary import boundary_of
from leadline.planning.looks import due, schedule
from leadline.planning.watched import NOTHING, watched

REPEATED = (
    "simultaneous intervals, adjusted p and q hold; plain intervals and p, the p of "
    "equivalence, and rank intervals are those of a single analysis"
)
WATCHED = "The study may be watched at any moment (confidence sequences): at all moments together"


@dataclass(frozen=True)
class StoppingRule:
    """When the trials of a study end: all of them run, or interim analyses may end it early (repeated intervals)."""

    record: StudyRecord

    def interim(self, response: str) -> Interim | None:
        """How the analysis of the trials that ran must judge a response so that its intervals hold under the rule."""
        if not self.record.study.design.looked_at:
            return None
        record, observations = self.record, self.record.observations()
        if record.study.design.looks == "watched":
            found = watched(record.plan_that_ran, observations, response)
            return NOTHING if found is None else found.interim()
        blocks = schedule(record.plan, record.study.design.looks)
        left = [trial.planned.block for trial in record.trials if trial.is_left]
        number = max(due(record.plan, left, blocks), 1)
        if not left and any(trial.state == TrialState.SKIPPED for trial in record.trials):
            number = next(k for k, end in enumerate(blocks, 1) if end >= 1 + max(each.block for each in observations))
        return boundary_of(record.plan_that_ran, observations, response, blocks, number).interim(number)

    def notes(self) -> tuple[str, ...]:
        """What the rule has to say of itself."""
        record = self.record
        if not record.study.design.looked_at:
            return ()
        skipped = [trial for trial in record.trials if trial.state == TrialState.SKIPPED]
        reasons: dict[str, int] = {}
        for trial in skipped:
            reasons[trial.failure_message] = reasons.get(trial.failure_message, 0) + 1
        notes = [f"Not needed, {count} of {len(record.trials)} trials: {why}." for why, count in reasons.items()]
        if record.study.design.looks == "watched":
            return (*notes, f"{WATCHED} {REPEATED}.")
        notes.append(
            f"The study was planned with {record.study.design.looks} interim analyses; over all of them together "
            f"{REPEATED}."
        )
        return tuple(notes)
