"""Earlier studies of a lab as what planning learns from: their trials, seconds and times; layouts compared by them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from leadline.analysis.study import analyse
from leadline.analysis.table import Floats
from leadline.checks.machine import apart, room_for
from leadline.checks.plan import Planned
from leadline.checks.subject import subject_of
from leadline.layouts import layout_of
from leadline.load.series import SecondRow, steady_series
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.plan import Plan
from leadline.model.record import StudyRecord, TrialRecord, TrialState, covered
from leadline.model.result import Verdict
from leadline.model.study import Study
from leadline.planning.forecast import Hosting, differs_by
from leadline.planning.layouts import Compared, Question, compared
from leadline.planning.noise import WORLDS_CV, Noise, Past, assumed, measured, published
from leadline.store.files import bring
from leadline.store.lab import Store, UnreadableError
from leadline.store.labfile import FILE, SQLITE, is_lab

STUDIES = 3  # newest ones of the same stack and load that are taken together
_PER_SECOND = {
    "throughput": lambda row: row.ok_per_s,
    "mean": lambda row: row.response_mean_ms,
    "p50": lambda row: row.p50,
    "p99": lambda row: row.p99,
}


def noise_for(
    study: Study, lab: Path, cv: float | None = None, source: str | None = None, response: str | None = None
) -> Noise:
    """The noise that ``study`` will meet: ``cv`` percent if given, else from the lab's study ``source``, else from its
    newest studies of the same stack and load, else the published one. Raises UsageError for a ``source`` that is
    not in the lab or has no repeated trials.
    """
    name = response or study.responses[0]
    layout = layout_of(study.design)
    if cv is not None:
        return assumed(name, cv, "given", slots=layout.estimates_wash_out, words=layout.words)
    usual, whose = (WORLDS_CV, "that of a small Java service") if layout.exact else published(name)
    if not is_lab(lab):
        if source is not None:
            raise UsageError(f"{lab} is no lab (no {SQLITE} and no {FILE} in it); name one with --lab")
        return assumed(name, usual, f"assumed: {lab} holds no study; the noise is {whose}", words=layout.words)
    store = Store(lab, create=False)
    if source is not None:
        record = _with_files(store, store.find(source))
        _check_time(record.study, study, source)
        noise = measured(name, [past_of(record, name)])
        if noise is None:
            raise UsageError(
                f"study {source} has no repeated trials with figures for {name}, so its noise is not known"
            )
        return noise
    records = _related(store, study)
    noise = measured(name, [past_of(record, name) for record in records]) if records else None
    why = f"assumed: no finished study of this stack and load in {lab}; {whose}"
    return noise or assumed(name, usual, why, words=layout.words)


def hosting_for(
    study: Study, lab: Path, hosts: int, differ: float | None = None, source: str | None = None, response: str = ""
) -> Hosting | None:
    """``hosts`` hosts for planning, None for one. How effects differ between them: ``differ`` percent if given, else as
    the lab's study ``source`` found, or its newest studies of the same stack and load on several hosts, else assumed.
    """
    if hosts < 2:
        return None
    if differ is not None:
        return Hosting(hosts, differ, "given")
    if not is_lab(lab):
        return Hosting(hosts)
    store = Store(lab, create=False)
    for record in [store.load(store.find(source))] if source is not None else _related(store, study):
        name = response or study.responses[0]
        analysis = analyse(record.plan_that_ran, record.observations(), [name])
        differs = differs_by(analysis.responses[0])
        if differs is not None:
            return Hosting(hosts, differs, f"{record.study.study}@{record.id}")
    return Hosting(hosts)


def _check_time(past: Study, study: Study, source: str) -> None:
    """Raises UsageError where an earlier study says nothing of this one's noise."""
    if past.time != study.time:
        raise UsageError(
            f"study {source} was measured in {past.time} time and {study.study} is in {study.time} time: "
            "the noise of one says nothing of the other"
        )


def noise_beside(study: Study, lab: Path, response: str) -> Noise | None:
    """Noise of the lab's newest rotations of the same stack and load, for a rotation that of the other studies."""
    if not is_lab(lab):
        return None
    records = _related(Store(lab, create=False), study, other=True)
    return measured(response, [past_of(record, response) for record in records]) if records else None


def _related(store: Store, study: Study, other: bool = False) -> list[StudyRecord]:
    study_records: list[StudyRecord] = []
    for study_id in store.ids():
        if len(study_records) == STUDIES:
            break
        try:
            record = store.load(study_id)
        except UnreadableError:  # of another version
            continue
        done = sum(max(1, len(trial.slots)) for trial in record.trials if trial.state == TrialState.DONE)
        if _alike(record.study, study) and _same_layout(record.study, study) != other and done >= 3:
            bring(store, study_id)
            study_records.append(record)
    return study_records


def _with_files(store: Store, study_id: int) -> StudyRecord:
    bring(store, study_id)
    return store.load(study_id)


def _alike(one: Study, other: Study) -> bool:
    """Same stack under the same load; lengths may differ."""
    lengths = {"ramp_up", "warm_up", "steady", "ramp_down"}
    return (
        one.stack == other.stack
        and one.workload.model_dump(exclude=lengths) == other.workload.model_dump(exclude=lengths)
        and one.placement == other.placement
    )


def _same_layout(one: Study, other: Study) -> bool:
    return layout_of(one.design).side_by_side == layout_of(other.design).side_by_side


def past_of(record: StudyRecord, response: str) -> Past:
    """A stored study: its whole trials, and the slots of those that had any."""
    finished = [trial for trial in record.trials if trial.state in (TrialState.DONE, TrialState.FAILED)]
    observations = [trial.observation() for trial in finished if not trial.slots]
    analysis = analyse(record.plan, observations, [response]).responses[0] if observations else None
    done = [trial for trial in finished if trial.failure is None]
    lengths = [(trial.started, trial.ended) for trial in done if trial.ended and trial.started]
    steady = [(trial.phases.steady_from, trial.phases.steady_until) for trial in done if trial.phases]
    same = {
        (effect.factor, effect.level)
        for effect in (analysis.effects if analysis else ())
        if effect.verdict is Verdict.IDENTICAL
    }
    return Past(
        name=f"{record.study.study}@{record.id}",
        plan=record.plan,
        observations=[observation for observation in observations if same.isdisjoint(observation.treatment.levels)],
        series={
            trial.id: seconds
            for trial in done
            if record.plan.layout == "plain" and len(seconds := seconds_of(trial, response))
        },
        drift=analysis.drift if analysis else None,
        overhead=_overhead(lengths, steady),
        slots=[observation for trial in finished if trial.slots for observation in trial.observations()],
    )


def _overhead(lengths: Sequence[tuple[float, float]], steady: Sequence[tuple[float, float]]) -> float:
    """Of a trial; those side by side share theirs."""
    return max(0.0, covered(lengths) / len(lengths) - covered(steady) / len(steady)) if lengths and steady else 0.0


def seconds_of(trial: TrialRecord, response: str) -> Floats:
    """Per-second figures of a trial's steady state; empty where there are none (no such file, no such series)."""
    column = _PER_SECOND.get(response)
    if column is None or trial.directory is None or trial.phases is None:
        return np.zeros(0)
    try:
        rows: Sequence[SecondRow] = steady_series(trial.directory / "driver")
    except LeadlineError:
        return np.zeros(0)
    begin = trial.phases.steady_from - trial.phases.load_started
    end = trial.phases.steady_until - trial.phases.load_started
    values = np.array([column(row) for row in rows if begin - 0.5 <= row.second and row.second + 1 <= end + 0.5])
    return values if len(values) and bool(np.all(np.isfinite(values))) else np.zeros(0)


def overhead_for(study: Study, noise: Noise) -> float:
    """Seconds of a trial beside its load: as earlier trials took, else a first guess."""
    if noise.overhead is None:
        return subject_of(study).first_overhead()
    return max(1.0, noise.overhead - study.workload.before_steady - study.workload.ramp_down)


def compare_layouts(
    study: Study,
    planned: Planned,
    lab: Path,
    noise: Noise,
    overhead: float,
    effect: float | None = None,
    power: float = 0.8,
) -> Compared | None:
    """Plain trials, switchback and rotation on the study's question; None in guests and of commands, which have
    plain ones only.

    ``noise``: what its own layout meets; ``overhead``: seconds of a trial beside its load; ``effect`` in percent.
    """
    if study.stack.in_guest or not study.under_load:
        return None

    def room(plan: Plan) -> tuple[str, int]:
        if lack := apart(study):
            return lack[1], 0
        found = room_for(plan, planned.settings, planned.machine)
        return found.refused, found.fit

    question = Question(
        planned.plan.factors, planned.design, study.workload, overhead, planned.of_host, room, power=power
    )
    return compared(question, planned.plan, noise, noise_beside(study, lab, noise.response), effect)
