"""Runs a search: probe after probe, each an ordinary study of the lab, until the largest load is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned
from leadline.experiments.knee.probe import KneeQuestion, load_factor, measured_of, probe_file
from leadline.experiments.knee.search import KneeLimit, KneeTrial, limits, next_of, result_of
from leadline.experiments.probes import SearchResult, SearchRun
from leadline.load.knee import Range
from leadline.load.scenario import limits_response_times
from leadline.model.errors import UsageError
from leadline.model.plan import Plan, Role

MOST = 200  # trials of a search


@dataclass(frozen=True)
class KneeResult(SearchResult):
    """``found``: one for each target; ``measured``: trials in the order in which they ran."""

    question: KneeQuestion
    found: tuple[KneeLimit, ...]
    measured: tuple[KneeTrial, ...]


def question_of(
    file: StudyFile,
    factor: str | None = None,
    first: float | None = None,
    last: float | None = None,
    step_factor: float = 1.5,
    resolution: float = 0.05,
    repeats: int = 8,
    critical: bool = False,
) -> KneeQuestion:
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
    return KneeQuestion(file, name, Range(low, high, step_factor, resolution, whole), critical, repeats)


@dataclass
class KneeRun(SearchRun):
    """One run of a search for the largest load."""

    question: KneeQuestion

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
        self.open(fresh)
        question, targets, measured = self.question, limits(self.question.critical), list[KneeTrial]()
        while (pair := next_of(targets, measured, question.loads, question.repeats)) is not None:
            if len(measured) >= MOST:
                self.stopped = f"{MOST} trials have not been enough"
                break
            file, planned = self._plan(pair, f"{self.name}-{len(self.records) + 1}")
            record = self.probe(file, planned, self._words(pair))
            if record is None:
                break
            measured += measured_of(question, record)
        limits_ = tuple(result_of(target, measured, question.loads) for target in targets) if measured else ()
        return KneeResult(*self.ended(), question, limits_, tuple(measured))

    def _words(self, pair: Sequence[float]) -> str:
        return f"{self.question.factor} " + " and ".join(f"{self.question.level(load):g}" for load in pair)

    def _plan(self, pair: tuple[float, float], name: str) -> tuple[StudyFile, Planned]:
        file = probe_file(self.question, pair, name, self.unset)
        planned = self.testbed.plan(file, idle_settings=True)
        return file, replace(planned, plan=_without_sentinels(planned.plan))


def _without_sentinels(plan: Plan) -> Plan:
    """A probe compares nothing inside itself: drift is taken from all probes together."""
    trials = [trial for trial in plan.trials if trial.role is not Role.SENTINEL]
    return replace(plan, trials=tuple(replace(trial, position=at) for at, trial in enumerate(trials)))
