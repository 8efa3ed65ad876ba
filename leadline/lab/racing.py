"""A race that runs: after each round levels may leave, and the trials left are planned again for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from leadline.analysis.table import Describe, StudyTable, plain_level
from leadline.analysis.wording import answer
from leadline.design.racing import rounds_of
from leadline.lab.looking import REPEATED, SKIPPED, Gate, finished, is_left, plan_that_ran, skip
from leadline.lab.store import Store
from leadline.model.plan import Plan, Treatment
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import StudyAnalysis
from leadline.planning.course import Course, course, with_rounds


def course_of(record: StudyRecord) -> Course:
    """Where the race of a stored study stands."""
    study = record.study
    return course(
        record.plan, finished(record), study.responses[0], rounds_of(study.design), margin=100 * study.equivalence
    )


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

    def before(self, trial: TrialRecord) -> str:
        self.replanned = False
        if trial.planned.position < self._next:
            return ""
        record = self.store.load(self.study_id)
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


def name(plan: Plan, treatment: Treatment, describe: Describe = plain_level) -> str:
    """``baseline``, or the level that differs from it."""
    baseline = plan.baseline.as_dict()
    changed = [f"{key}={describe(key, level)}" for key, level in treatment.levels if baseline[key] != level]
    return ", ".join(changed) or "the baseline"


def leavers(found: Course, describe: Describe = plain_level, since: int = 1) -> list[str]:
    """A sentence for each level that left after round ``since`` or later, in the order they did."""
    gone = [each for each in found.race.standings if each.left is not None and each.left >= since]
    gone.sort(key=lambda each: each.left or 0)
    return [f"{name(found.plan, each.treatment, describe)} left the race: {each.reason}" for each in gone]


def outcome(found: Course, describe: Describe = plain_level) -> str:
    """What the race has found so far: the best, or who cannot be told apart."""
    race = found.race
    if not race.rounds:
        return "no round is complete"
    running = [each for each in race.standings if each.treatment in race.running]
    names = [name(found.plan, each.treatment, describe) for each in running]
    rounds = f"after round {race.rounds}"
    if len(names) == 1:
        return f"{names[0]} is the best {rounds}; all others are shown to be worse"
    if found.over:
        return f"{', '.join(names)} are as good as each other within the margin {rounds}"
    reach = [each.at_most for each in running]
    far = max((each for each in reach if each is not None), default=None)
    said = "" if far is None else f"; none of them is more than {far:.2g} % behind the best"
    return f"undecided {rounds}: {', '.join(names)}{said}"


def with_race(record: StudyRecord, analysis: StudyAnalysis, describe: Describe) -> StudyAnalysis:
    """The analysis of a race: intervals that hold over all rounds, who left when and why, and what is undecided."""
    if record.plan.kind != "racing":
        return analysis
    found = course_of(record)
    plan, observations = plan_that_ran(record), finished(record)
    table = StudyTable.of(plan, observations, describe)
    complete = not any(is_left(trial) for trial in record.trials)
    result = with_rounds(
        analysis,
        found,
        plan,
        observations,
        rounds_of(record.study.design),
        complete,
        lambda responses: answer(table, responses),
    )
    said = outcome(found, describe)
    notes = [f"{line}." for line in leavers(found, describe)]
    notes += [
        f"Not needed, {sum(trial.state == SKIPPED for trial in record.trials)} of {len(record.trials)} trials."
    ] * any(trial.state == SKIPPED for trial in record.trials)
    notes.append(
        "The best level leaves in at most 5 % of such races (of several equally good ones, each), however the others "
        f"differ; over all rounds together {REPEATED}."
    )
    return replace(result, answer=f"Race: {said}. {result.answer}", warnings=(*notes, *result.warnings))
