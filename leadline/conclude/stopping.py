"""When a study stops, and what that does to its intervals: fixed, interim analyses, a race.

The comparisons of a tuning are studies of fixed size; what its steps keep is ``leadline.planning.sequence``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from leadline.analysis.interim import Interim
from leadline.design.racing import rounds_of
from leadline.model.naming import Describe, describing, plain_level, treatment_name
from leadline.model.plan import Plan, Treatment
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import StudyAnalysis
from leadline.planning.boundary import boundary_of
from leadline.planning.course import Course, course, interim_of
from leadline.planning.looks import due, schedule
from leadline.planning.watched import NOTHING, watched

REPEATED = (
    "simultaneous intervals, adjusted p and q hold; plain intervals and p, the p of "
    "equivalence, and rank intervals are those of a single analysis"
)
WATCHED = "The study may be watched at any moment (confidence sequences): at all moments together"


@dataclass(frozen=True)
class Stopped:
    """An analysis under a stopping rule. ``outcome``: what the rule itself found, in words, empty for most."""

    analysis: StudyAnalysis
    notes: tuple[str, ...] = ()
    outcome: str = ""


class StoppingRule(Protocol):
    """``interim``: how the analysis of the trials that ran must judge a response so that its intervals hold under the
    rule; ``applied`` adds what the rule has to say.
    """

    def interim(self, response: str, /) -> Interim | None: ...

    def applied(self, analysis: StudyAnalysis) -> Stopped: ...


class Fixed:
    """All planned trials run."""

    def interim(self, _response: str, /) -> None:
        return None

    def applied(self, analysis: StudyAnalysis) -> Stopped:
        return Stopped(analysis)


@dataclass(frozen=True)
class InterimAnalyses:
    """The study is looked at several times and may end early: repeated confidence intervals."""

    record: StudyRecord

    def interim(self, response: str, /) -> Interim | None:
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

    def applied(self, analysis: StudyAnalysis) -> Stopped:
        record = self.record
        skipped = [trial for trial in record.trials if trial.state == TrialState.SKIPPED]
        reasons: dict[str, int] = {}
        for trial in skipped:
            reasons[trial.failure_message] = reasons.get(trial.failure_message, 0) + 1
        notes = [f"Not needed, {count} of {len(record.trials)} trials: {why}." for why, count in reasons.items()]
        if record.study.design.looks == "watched":
            return Stopped(analysis, (*notes, f"{WATCHED} {REPEATED}."))
        notes.append(
            f"The study was planned with {record.study.design.looks} interim analyses; over all of them together "
            f"{REPEATED}."
        )
        return Stopped(analysis, tuple(notes))


@dataclass(frozen=True)
class RaceRule:
    """Levels that are shown worse than the best leave after each round."""

    record: StudyRecord
    describe: Describe = field(default=plain_level)

    @cached_property
    def _course(self) -> Course:
        return course_of(self.record)

    def interim(self, _response: str, /) -> Interim | None:
        complete = not any(trial.is_left for trial in self.record.trials)
        return interim_of(self._course, rounds_of(self.record.study.design), complete)

    def applied(self, analysis: StudyAnalysis) -> Stopped:
        record, found = self.record, self._course
        notes = [f"{line}." for line in leavers(found, self.describe)]
        skipped = sum(trial.state == TrialState.SKIPPED for trial in record.trials)
        if skipped:
            notes.append(f"Not needed, {skipped} of {len(record.trials)} trials.")
        notes.append(
            "The best level leaves in at most 5 % of such races (of several equally good ones, each), however the "
            f"others differ; over all rounds together {REPEATED}."
        )
        return Stopped(analysis, tuple(notes), f"Race: {outcome(found, self.describe)}")


def rule_of(record: StudyRecord) -> StoppingRule:
    """The rule that the study's design asks for."""
    if record.plan.kind == "racing":
        return RaceRule(record, describing(record.study))
    return Fixed() if not record.study.design.looked_at else InterimAnalyses(record)


def course_of(record: StudyRecord) -> Course:
    """Where the race of a stored study stands."""
    study = record.study
    rounds, margin = rounds_of(study.design), 100 * study.equivalence
    return course(record.plan, record.observations(), study.responses[0], rounds, margin=margin)


def leavers(found: Course, describe: Describe = plain_level, since: int = 1) -> list[str]:
    """A sentence for each level that left after round ``since`` or later, in the order they did."""
    gone = [each for each in found.race.standings if each.left is not None and each.left >= since]
    gone.sort(key=lambda each: each.left or 0)
    return [f"{_name(found.plan, each.treatment, describe)} left the race: {each.reason}" for each in gone]


def outcome(found: Course, describe: Describe = plain_level) -> str:
    """What the race has found so far: the best, or who is not distinguishable."""
    race = found.race
    if not race.rounds:
        return "no round is complete"
    running = [each for each in race.standings if each.treatment in race.running]
    names = [_name(found.plan, each.treatment, describe) for each in running]
    rounds = f"after round {race.rounds}"
    if len(names) == 1:
        return f"{names[0]} is the best {rounds}; all others are shown to be worse"
    if found.over:
        return f"{', '.join(names)} are as good as each other within the margin {rounds}"
    reach = [each.at_most for each in running]
    far = max((each for each in reach if each is not None), default=None)
    said = "" if far is None else f"; none of them is more than {far:.2g} % behind the best"
    return f"undecided {rounds}: {', '.join(names)}{said}"


def _name(plan: Plan, treatment: Treatment, describe: Describe) -> str:
    return treatment_name(plan, treatment, describe, baseline="the baseline")
