"""The question of a search for the largest load, its probes, what it would take, and what it
says, as sentences and as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from leadline.checks.files.study import StudyFile, study_of
from leadline.checks.plan import Planned, load_seconds
from leadline.conclude.wording import loaded
from leadline.experiments import probes
from leadline.experiments.confirm import kept_keys
from leadline.experiments.knee.search import (
    BESIDES,
    CRITICAL_MS,
    KneeLimit,
    KneeTrial,
    LoadInterval,
    Range,
    critical,
    limits,
    next_of,
    result_of,
    steps_at_most,
)
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.experiments.probes import NO_SENTINEL_INSIDE, SearchResult, SearchRun, search_name, seed_of, settings_of
from leadline.load.knobs import load_knobs, why_not
from leadline.load.result import read_summary
from leadline.load.scenario import limits_response_times
from leadline.load.series import WORST, TypeWithin, limit_set, within_limits
from leadline.model.errors import FailureClass, LeadlineError, UsageError
from leadline.model.knob import Kind
from leadline.model.plan import Plan, Role
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.study import Study
from leadline.model.units import format_duration, rounded
from leadline.model.workload import RATE, USERS, is_load
from leadline.places.testbed import Testbed

_NUMBERS = (Kind.INTEGER, Kind.NUMBER)
_RESPONSES = ["throughput", "mean", "p90", "p99", "errors"]


@dataclass(frozen=True)
class KneeQuestion(probes.SearchQuestion):
    """The study whose stack and load are used, the load that is varied, between what, to what resolution."""

    factor: str
    loads: Range
    critical: bool = False
    repeats: int = 8

    @property
    def name(self) -> str:
        loads = (self.loads.first, self.loads.highest, self.loads.factor, self.loads.resolution)
        return search_name(self.study, "knee", self.factor, self.critical, self.repeats, *loads)

    def level(self, load: float) -> float | int:
        """A load as its knob has it."""
        return int(load) if self.loads.whole else float(f"{load:.6g}")


def load_factor(file: StudyFile, named: str | None) -> tuple[str, bool]:
    """The knob of the load that a search varies, and whether it takes whole numbers only. Raises UsageError."""
    study = file.study
    knobs = {knob.name: knob for knob in load_knobs(study.workload) if knob.kind in _NUMBERS}
    loads = [name for name in study.factors if is_load(name) and name in knobs]
    usual = USERS if study.workload.arrivals == "closed" else RATE
    name = named or (loads[0] if loads else usual)
    if name not in knobs:
        why = why_not(name, study.workload) or "it is no number of this load"
        raise UsageError(f"--factor {name}: {why}")
    return name, knobs[name].kind is Kind.INTEGER


def probe_file(question: KneeQuestion, pair: tuple[float, float], name: str, unset: Collection[str] = ()) -> StudyFile:
    """The study that runs two loads, in an order of its own."""
    study, factor = question.study, question.factor
    one, other = (question.level(load) for load in pair)
    settings = settings_of(study, {factor}, unset)
    document: dict[str, Any] = {
        "study": name,
        "question": f"What does {study.study} do at {factor} = {one} and {other}?",
        **kept_keys(study),
        "factors": {factor: [one, other]},
        "settings": {name: level for name, level in settings.items() if name != factor},
        "design": {
            "kind": "configurations",
            "configurations": {"one": {}, "other": {factor: other}},
            "replicates": 1,
            "sentinels": NO_SENTINEL_INSIDE,
            "seed": seed_of(study, name),
        },
        "responses": list(dict.fromkeys([*_RESPONSES, *study.responses])),
    }
    return study_of(document)


def measured_of(question: KneeQuestion, record: StudyRecord) -> list[KneeTrial]:
    """What the trials of a probe gave, in the order in which they ran. Raises LeadlineError for one that says nothing
    of the load.
    """
    return [_measured(question, trial) for trial in sorted(record.trials, key=lambda each: each.planned.position)]


def types_of(trial: TrialRecord) -> list[TypeWithin]:
    """What the scenario's limits say of each type in the steady state; nothing where its files are gone."""
    if trial.directory is None or trial.phases is None:
        return []
    try:
        summary = read_summary(trial.directory / "driver")
    except LeadlineError:
        return []
    zero = trial.phases.load_started
    begin, end = (round(at - zero, 4) for at in (trial.phases.steady_from, trial.phases.steady_until))
    return within_limits(trial.directory / "driver", begin, end, summary.limits)


def _measured(question: KneeQuestion, trial: TrialRecord) -> KneeTrial:
    load = float(trial.planned.treatment.as_dict()[question.factor])
    if trial.failure is FailureClass.WORKLOAD:
        return KneeTrial(load, {}, failed=trial.failure_message)
    if trial.failure is FailureClass.BOTTLENECK:
        return KneeTrial(load, {}, driver_limit=True)
    if trial.failure is not None:
        raise LeadlineError(f"the trial at {question.factor} = {load:g} failed: {trial.failure_message}")
    responses, limits = trial.responses, question.study.limits
    stated = {"p90": limits.p90, "p99": limits.p99}
    uses = {
        name: responses[name] / 1000 / limit
        for name, limit in stated.items()
        if limit is not None and name in responses
    }
    if limits.errors > 0 and "errors" in responses:
        uses["errors"] = responses["errors"] / limits.errors
    by_type = {f"{type_.transaction} {name}": use for type_ in types_of(trial) for name, use in type_.uses.items()}
    if not by_type and WORST in responses:
        by_type = {"limits of the scenario": responses[WORST]}
    return KneeTrial(load, uses | by_type, responses.get("throughput"), responses.get("mean"), responses.get("p99"))


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


def limit_overrides(study: Study, name: str) -> list[str]:
    """Overrides of a study that put a named set of limits of its scenario in the place of its own percentiles. Raises
    UsageError for an unknown one.
    """
    levels = limit_set(name, study.workload.scenario)
    replaced = [percentile for percentile in ("p90", "p99") if getattr(study.limits, percentile) is not None]
    variables = [f"workload.variables.{parameter}={level}" for parameter, level in levels.items()]
    return [*variables, *(f"limits.{percentile}=null" for percentile in replaced)]


@dataclass(frozen=True)
class KneeOutline:
    """What a search would take at most; ``seconds_per_trial`` by earlier trials where there are any."""

    question: KneeQuestion
    trials: int
    seconds_per_trial: float
    budget: float | None

    @property
    def seconds(self) -> float:
        return self.trials * self.seconds_per_trial

    def lines(self) -> list[str]:
        """Plain lines of text."""
        question, loads = self.question, self.question.loads
        over = "; longer than the budget" if self.budget is not None and self.seconds > self.budget else ""
        lines = [
            f"{question.factor} from {loads.first:g} to {loads.top:g}, steps of {loads.factor:g}, then to "
            f"{loads.resolution:.1%}; two loads in each probe",
            f"about {self.trials} trials of {format_duration(self.seconds_per_trial)}, "
            f"{format_duration(self.seconds)}{over}",
        ]
        if question.critical:
            lines.append(f"critical throughput over 99 % within {', '.join(f'{ms:g}' for ms in CRITICAL_MS)} ms")
        return lines

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "study": self.question.study.study,
            "load": self.question.factor,
            "from": self.question.loads.first,
            "to": self.question.loads.top,
            "trials": self.trials,
            "seconds_per_trial": self.seconds_per_trial,
            "seconds": self.seconds,
        }


def outline(asked: KneeQuestion, place: Testbed, budget: float | None = None) -> KneeOutline:
    """Nothing is changed. Raises UsageError for a load of the range that cannot be run."""
    KneeRun(asked, place).check()
    study = asked.study
    overhead = overhead_for(study, noise_for(study, place.directory, response=study.responses[0]))
    steps = steps_at_most(asked.loads)
    near = BESIDES + asked.repeats
    searches = 1 + len(CRITICAL_MS) * asked.critical
    most_trials = steps + near + 2
    trials = 2 * math.ceil((most_trials + (searches - 1) * (most_trials - steps // 2)) / 2)
    return KneeOutline(asked, min(trials, MOST), load_seconds(study) + overhead, budget)


def knee(asked: KneeQuestion, place: Testbed, *, budget: float | None = None, fresh: bool = False) -> Knee:
    """Run what is left of a search, or all of it anew (``fresh``). Raises as a study's run does."""
    run = KneeRun(asked, place, budget)
    run.check()
    return Knee(run.execute(fresh))


@dataclass(frozen=True)
class Knee:
    """A search as it stands."""

    result: KneeResult

    @property
    def kept(self) -> bool:
        """Whether some load kept the limits."""
        return bool(self.result.found) and self.result.found[0].found.highest is not None

    @cached_property
    def types(self) -> list[TypeWithin]:
        """Types of transactions in the last trial at the highest load that kept the limits; real ones only."""
        highest, factor = self.result.found[0].found.highest if self.result.found else None, self.result.question.factor
        trials = [trial for record in self.result.records for trial in record.trials if trial.failure is None]
        trials_at_highest = [trial for trial in trials if trial.planned.treatment.as_dict()[factor] == highest]
        return types_of(trials_at_highest[-1]) if trials_at_highest else []

    @property
    def answered(self) -> bool:
        return self.result.complete and self.kept

    @property
    def answer(self) -> str:
        """The conclusion in one sentence."""
        return self._conclusion if self.result.complete else f"So far: {self._conclusion}"

    @property
    def _conclusion(self) -> str:
        question = self.result.question
        if not self.kept:
            why = self.result.found[0].found.reason if self.result.found else self.result.stopped
            return f"Not known: how much load keeps the limits: {why}."
        limit = self.result.found[0]
        if limit.found.limited_by != "server":
            if limit.load.value is None:
                return f"Not known: how much load keeps the limits: {limit.found.reason}."
            least = loaded(question.factor, f"{limit.load.value:g}")
            return f"The system carries at least {least} within the limits: {limit.found.reason}."
        first = f"; {limit.found.gave_out} is broken first" if limit.found.gave_out else ""
        return (
            f"The system carries {loaded(question.factor, _bounded(limit.load))} within the limits, "
            f"{_bounded(limit.throughput)} transactions/s{first}."
        )

    def lines(self) -> list[str]:
        """Trials, limits and types, in lines, without the answer."""
        result, factor = self.result, self.result.question.factor
        lines = [f"trials by {factor}"]
        for trial in sorted(result.measured, key=lambda one: one.load):
            rate = "" if trial.throughput is None else f"{rounded(trial.throughput, 4)} transactions/s, "
            lines.append(f"  {trial.load:8.4g}  {rate}{_said(trial)}")
        for limit in result.found:
            lines += _limit_lines(limit)
        if (at := self.critical) is not None:
            lines.append(f"critical throughput: {_bounded(at)} transactions/s, the geometric mean over these limits")
        elif result.question.critical:
            lines.append("critical throughput: unknown, as some limit is kept at no load that was tried")
        if self.types:
            lines.append(f"at {factor} {result.found[0].found.highest:g}, by type")
        for type_ in self.types:
            uses = ", ".join(f"{name} at {use:.0%} of its limit" for name, use in type_.uses.items())
            verdict = "broken" if any(use > 1 for use in type_.uses.values()) else "kept" if type_.uses else "no limit"
            lines.append(
                f"  {type_.transaction}  {rounded(type_.throughput, 4)} transactions/s, {rounded(type_.within, 4)} "
                f"within the limit; {uses + ', ' if uses else ''}{verdict}"
            )
        return lines

    @property
    def critical(self) -> LoadInterval | None:
        """Of a search that asked for it, where every limit is known."""
        if not self.result.question.critical:
            return None
        estimate = critical(self.result.found)
        return None if estimate.value is None else estimate

    def document(self) -> dict[str, Any]:
        """As JSON types: ``leadline-knee-trials/1`` (docs/guides/limits.md)."""
        result, question = self.result, self.result.question
        at = self.critical
        return {
            "format": "leadline-knee-trials/1",
            "search": result.name,
            "study": question.study.study,
            "load": question.factor,
            "limits": [
                {
                    "name": limit.target.name,
                    "load": _ends(limit.load),
                    "throughput": _ends(limit.throughput),
                    "highest": limit.found.highest,
                    "lowest_failed": limit.found.lowest_failed,
                    "limited_by": limit.found.limited_by,
                    "reason": limit.found.reason,
                    "gave_out": limit.found.gave_out,
                    "interval_from": None if limit.found.limit is None else limit.found.limit.probes,
                }
                for limit in result.found
            ],
            "critical_throughput": None if at is None else _ends(at),
            "trials": [
                {
                    "load": trial.load,
                    "throughput": trial.throughput,
                    "p99_ms": trial.p99_ms,
                    "uses": dict(trial.uses),
                    "failed": trial.failed,
                    "driver_limit": trial.driver_limit,
                }
                for trial in result.measured
            ],
            "types": [
                {
                    "transaction": type_.transaction,
                    "throughput": type_.throughput,
                    "within": type_.within,
                    "uses": type_.uses,
                }
                for type_ in self.types
            ],
            "seconds": result.seconds,
            "studies": [record.id for record in result.records],
            "complete": result.complete,
            "stopped": result.stopped,
            "restored": list(result.restored),
            "answer": self.answer,
        }


def _said(trial: KneeTrial) -> str:
    if trial.driver_limit:
        return "the driver was the limit"
    if trial.failed:
        return trial.failed.splitlines()[0]
    worst = max(trial.uses, key=lambda name: trial.uses[name])
    return f"{worst} at {trial.uses[worst]:.0%} of its limit"


def _limit_lines(limit: KneeLimit) -> list[str]:
    estimate = limit.found
    if estimate.highest is None:
        return [f"{limit.target.name}: {estimate.reason}"]
    below = "" if estimate.lowest_failed is None else f", broken at {rounded(estimate.lowest_failed, 4)}"
    line = f"{limit.target.name}: kept at {rounded(estimate.highest, 4)}{below}"
    if estimate.limit is None:
        return [f"{line}; {estimate.reason}"]
    drift = estimate.limit
    drifted = drift.drift_p is not None and drift.drift_p < 0.05 and drift.drift is not None
    drift_text = (
        f"; the system drifted, by {drift.drift:+.1%} of this load from the first to the last" if drifted else ""
    )
    return [f"{line}; limit at {_bounded(limit.load)} from {drift.probes} trials near it{drift_text}"]


def _bounded(found: LoadInterval) -> str:
    value, low, high = ("?" if end is None else rounded(end, 4) for end in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _ends(found: LoadInterval) -> dict[str, float | None]:
    return {"value": found.value, "low": found.low, "high": found.high}
