"""A probe of a search as a study file: two loads, one trial each; and what its trials gave."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from leadline.checks.files.study import StudyFile, study_of
from leadline.experiments import probes
from leadline.experiments.confirm import kept_keys
from leadline.experiments.knee.search import KneeTrial
from leadline.experiments.probes import NO_SENTINEL_INSIDE, search_name, seed_of, settings_of
from leadline.load.knee import Range
from leadline.load.knobs import load_knobs, why_not
from leadline.load.result import read_summary
from leadline.load.within import WORST, TypeWithin, within_limits
from leadline.model.errors import FailureClass, LeadlineError, UsageError
from leadline.model.knob import Kind
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.workload import RATE, USERS, is_load

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
