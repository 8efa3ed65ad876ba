"""Runs a search: probe after probe, each an ordinary study of the lab, until the largest load is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from leadline.lab.bisect.run import attempts, probes
from leadline.lab.knee.probe import Question, load_factor, measured_of, probe_file
from leadline.lab.knee.search import Limit, Measured, limits, next_of, result_of
from leadline.lab.planning import Planned
from leadline.lab.run import GIVE_UP
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import RunOptions, Testbed
from leadline.load.knee import Range
from leadline.load.scenario import limits_response_times
from leadline.model.errors import UsageError
from leadline.model.plan import Plan, Role
from leadline.model.record import StudyRecord

MOST = 200  # trials of a search


@dataclass(frozen=True)
class KneeResult:
    """Where a search stands. ``found``: one for each target; ``studies``: numbers of its probes; ``best``: the last
    trial at the highest load that kept the study's limits. ``stopped`` says why it ended before its end.
    """

    question: Question
    name: str
    found: tuple[Limit, ...]
    measured: tuple[Measured, ...]
    records: tuple[StudyRecord, ...]
    seconds: float  # of its trials
    complete: bool = False
    stopped: str = ""
    restored: tuple[str, ...] = ()


def question_of(
    file: StudyFile,
    factor: str | None = None,
    first: float | None = None,
    last: float | None = None,
    step_factor: float = 1.5,
    resolution: float = 0.05,
    repeats: int = 8,
    critical: bool = False,
) -> Question:
    """Between ``first`` and ``last``, or the lowest and highest level of the study's load. Raises UsageError for a
    study without a load to vary, or without limits.
    """
    study = file.study
    name, whole = load_factor(file, factor)
    levels = [float(level) for level in study.factors.get(name, ()) if isinstance(level, int | float)]
    if (first is None or last is None) and len(levels) < 2:
        raise UsageError(f"--from and --to are missing: {study.study} has no levels of {name} to begin and end with")
    low = min(levels) if first is None else first
    high = max(levels) if last is None else last
    if not 0 < low < high:
        raise UsageError(f"--from {low:g} --to {high:g}: the first load is above 0 and below the highest")
    for option, load in (("--from", low), ("--to", high)):
        if whole and load != int(load):
            raise UsageError(f"{option} {load:g}: {name} takes whole numbers; the nearest is {max(1, round(load))}")
    if study.limits.p90 is None and study.limits.p99 is None and not limits_response_times(study.workload):
        raise UsageError(
            f"{file.where(('limits',))}: nothing limits response times, so no load breaks a limit: "
            "write `limits: { p90: 2s }`, or limits in the scenario"
        )
    return Question(file, name, Range(low, high, step_factor, resolution, whole), critical, repeats)


@dataclass
class KneeRun:
    """One run of a search on a testbed."""

    question: Question
    testbed: Testbed
    budget: float | None = None
    _restored: list[str] = field(default_factory=list, init=False)

    @cached_property
    def _unset(self) -> frozenset[str]:
        """Factors of the study that this host cannot set: they stay as they are."""
        host = self.testbed.host
        own = {knob.name for knob in host.knobs()}
        return frozenset(name for name in self.question.study.factors if name in own and host.writable(name))

    def check(self) -> Planned:
        """The plan of a probe at both ends of the range, which are checked as every load is; nothing is changed.
        Raises UsageError.
        """
        loads = self.question.loads
        return self._plan((loads.first, loads.top), f"{self.question.name}-1-1")[1]

    def execute(self, fresh: bool = False) -> KneeResult:
        """Run what is left. Raises as ``StudyRun.execute``, LeadlineError for a trial that says nothing of its load."""
        with self.testbed.host.held():
            return self._probes(fresh)

    def _probes(self, fresh: bool) -> KneeResult:
        store, question = self.testbed.store, self.question
        name = f"{question.name}-{attempts(store, question.name) + fresh or 1}"
        begun = probes(store, name)
        kept = [store.load(study) for study in begun.values()]
        if kept:
            self.testbed.resume(kept[0].created, kept)
        targets, measured, done = limits(question.critical), list[Measured](), list[StudyRecord]()
        started, stopped = self.testbed.now(), ""
        while (pair := next_of(targets, measured, question.loads, question.repeats)) is not None:
            if len(measured) >= MOST:
                stopped = f"{MOST} trials have not been enough"
                break
            file, planned = self._plan(pair, f"{name}-{len(done) + 1}")
            study_id = begun.get(file.study.study)
            record = None if study_id is None else store.load(study_id)
            if record is None or any(trial.is_left for trial in record.trials):
                left = None if self.budget is None else self.budget - (self.testbed.now() - started)
                if left is not None and left < _least(planned, done):
                    stopped = "the budget is used up; run again to go on"
                    break
                self.testbed.watcher.message(f"probe {len(done) + 1}: {self._words(pair)}")
                record, stopped = self._probe(file, planned, study_id, left)
                if stopped:
                    break
            done.append(record)
            measured += measured_of(question, record)
        found = tuple(result_of(target, measured, question.loads) for target in targets) if measured else ()
        return KneeResult(
            *(question, name, found, tuple(measured), tuple(done), _seconds(done), not stopped, stopped),
            tuple(self._restored),
        )

    def _words(self, pair: Sequence[float]) -> str:
        return f"{self.question.factor} " + " and ".join(f"{self.question.level(load):g}" for load in pair)

    def _plan(self, pair: tuple[float, float], name: str) -> tuple[StudyFile, Planned]:
        file = probe_file(self.question, pair, name, self._unset)
        planned = self.testbed.plan(file, idle_settings=True)
        return file, replace(planned, plan=_without_sentinels(planned.plan))

    def _probe(
        self, file: StudyFile, planned: Planned, go_on: int | None, left: float | None
    ) -> tuple[StudyRecord, str]:
        give_up = max(GIVE_UP, len(planned.plan.trials))  # beyond the limit every trial may fail
        run = self.testbed.run(file, planned, RunOptions(fresh=True, go_on=go_on, budget=left, give_up=give_up))
        self._restored += [line for line in run.restored if line not in self._restored]
        stopped = "" if run.complete else run.stopped or "trials are left to run; run again to go on"
        return self.testbed.store.load(run.study_id), stopped


def _without_sentinels(plan: Plan) -> Plan:
    """A probe compares nothing inside itself: drift is taken from all probes together."""
    trials = [trial for trial in plan.trials if trial.role is not Role.SENTINEL]
    return replace(plan, trials=tuple(replace(trial, position=at) for at, trial in enumerate(trials)))


def _least(planned: Planned, done: Sequence[StudyRecord]) -> float:
    """Seconds that a probe takes, by those before it; the first is always begun."""
    times = [record.seconds_per_trial for record in done if record.seconds_per_trial]
    return len(planned.plan.trials) * sum(times) / len(times) if times else 0.0


def _seconds(records: Sequence[StudyRecord]) -> float:
    trials = [trial for record in records for trial in record.trials]
    return sum((trial.ended or 0.0) - (trial.started or 0.0) for trial in trials if trial.ended)
