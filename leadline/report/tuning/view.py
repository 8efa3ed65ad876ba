"""Everything that page, text and JSON say of a tuning, gathered once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.contrasts import Change
from leadline.conclude.disturbance import disturbance_of
from leadline.conclude.tuning import Averages, Gains, OverModes, Tried, conclude_tuning
from leadline.experiments.tuning import SKIPPED, progress_of, study_name
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Verdict
from leadline.model.tuning import Tuning
from leadline.planning.sequence import Decision, Measured, Progress, Stage, decision_levels
from leadline.planning.sequence.compare import UNTRIED, product
from leadline.report import words
from leadline.store.lab import Store
from leadline.store.tunings import TuningRecord


@dataclass(frozen=True)
class StepBar:
    """A kept step as the waterfall shows it: from and to relative to the mode untuned (1), with the step's change."""

    mode: str
    step: str
    setting: str
    begin: float
    end: float
    change: Change
    fresh: str  # which trials the change is from


@dataclass(frozen=True)
class Spread:
    """Mean over the trials with the smallest and the largest, in the response's unit."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Measurement:
    """What a configuration of the last comparison did. ``responses``: those that any of its trials gave."""

    configuration: str
    trials: int
    failed: int
    responses: Mapping[str, Spread]


@dataclass(frozen=True)
class TuningView:
    """``studies``: name and number of each comparison's study, in order. ``sums``: mode -> percent of the kept steps
    one after the other, None where a figure is missing. ``measured``: the last comparison's configurations, in order.
    ``gains``: response -> mode -> tuned against untuned. ``tried``: response -> step, mode, candidate -> change.
    """

    record: TuningRecord
    progress: Progress
    studies: tuple[tuple[str, int], ...]
    trials: int
    done: int
    failures: tuple[tuple[str, int, str], ...]  # class and message, how often, in which study first
    warnings: tuple[str, ...]
    environment: Mapping[str, str]
    bars: Mapping[str, tuple[StepBar, ...]]
    sums: Mapping[str, float | None]
    measured: tuple[Measurement, ...]
    gains: Gains
    tried: Tried
    averages: Averages  # response -> steps over all their modes
    answer: str
    notes: tuple[str, ...]

    @property
    def response(self) -> str:
        return self.record.tuning.responses[0]

    @property
    def over_modes(self) -> Sequence[OverModes]:
        """Of the first response."""
        return self.averages.get(self.response, ())

    @property
    def simulated(self) -> bool:
        return "host.SIMULATED" in self.environment

    @property
    def step_level(self) -> float:
        """Confidence of the intervals by which steps are chosen, percent."""
        tuning = self.record.tuning
        return 100 * decision_levels(tuning, len(tuning.steps) - len(self.record.left_out))[0]


def gather(store: Store, record: TuningRecord) -> TuningView:
    """Read the tuning's studies and conclude."""
    progress, comparison, results = progress_of(store, record)
    parts = {part.key: part for part in (*progress.done, *([progress.next] if progress.next else []))}
    studies = tuple((study_name(record.tuning, parts[key]), study) for key, study in comparison.items() if key in parts)
    records = [store.load(study) for _, study in studies]
    bars: dict[str, tuple[StepBar, ...]] = {mode: tuple(_bars(progress, mode)) for mode in record.tuning.modes}
    sums: dict[str, float | None] = {mode: product([bar.change for bar in bars[mode]]) for mode in record.tuning.modes}
    concluded = conclude_tuning(
        record.tuning,
        progress,
        results,
        disturbance_of(records),
        any(record.simulated for record in records),
    )
    return TuningView(
        record=record,
        progress=progress,
        studies=studies,
        trials=sum(len(record.trials) for record in records),
        done=sum(
            trial.state in (TrialState.DONE, TrialState.FAILED) for record_ in records for trial in record_.trials
        ),
        failures=_failures(records),
        warnings=tuple(dict.fromkeys(line for record in records for line in record.skipped)),
        environment=records[0].environment if records else {},
        bars=bars,
        sums=sums,
        measured=tuple(_measured(record.tuning, progress, results)),
        gains=concluded.gains,
        tried=concluded.tried,
        averages=concluded.over_modes,
        answer=concluded.answer,
        notes=tuple(_notes(progress, bars, sums)),
    )


def _bars(progress: Progress, mode: str) -> list[StepBar]:
    decisions = [decision for decision in progress.of(mode) if decision.kept]
    ladder = progress.comparison.of(mode) if progress.comparison else []
    bars = []
    level = 1.0
    for decision in decisions:
        change, fresh = decision.confirmed, "its confirmation"
        if change is None:
            rung = next((rung for rung in ladder if rung.steps and rung.steps[-1] == decision.step), None)
            change, fresh = (rung.change if rung else None), "the comparison"
        if change is None:
            change, fresh = decision.tried[decision.candidate - 1], "the step itself, which chose it"
        end = level * (1 + (change.percent or 0.0) / 100)
        bars.append(StepBar(mode, decision.step, decision.setting, level, end, change, fresh))
        level = end
    return bars


def _measured(tuning: Tuning, progress: Progress, results: Mapping[str, Measured]) -> Iterator[Measurement]:
    part = next((part for part in progress.done if part.stage is Stage.COMPARE), None)
    if part is None or progress.comparison is None:
        return
    study = results[part.key]
    for rung in progress.comparison.rungs:
        mine = [
            observation for observation in study.observations if observation.treatment == study.treatments[rung.name]
        ]
        spreads = {}
        for response in tuning.responses:
            values = [
                observation.responses[response]
                for observation in mine
                if response in observation.responses and observation.failure is None
            ]
            if values:
                spreads[response] = Spread(sum(values) / len(values), min(values), max(values))
        yield Measurement(rung.name, len(mine), sum(observation.failure is not None for observation in mine), spreads)


def spread_text(response: str, found: Spread | None) -> str:
    """``803 [785 to 821]``; shares in percent."""
    if found is None:
        return "–"
    write = words.share if words.kind_of(response).unit == "share" else words.number
    return f"{write(found.mean)} [{write(found.low)} to {write(found.high)}]"


def _failures(records: Sequence[StudyRecord]) -> tuple[tuple[str, int, str], ...]:
    counted: Counter[str] = Counter()
    first: dict[str, str] = {}
    for record in records:
        for trial in record.trials:
            if trial.state == TrialState.FAILED and trial.failure:
                text = f"{trial.failure.value}: {trial.failure_message}"
                counted[text] += 1
                first.setdefault(text, f"{record.study.study}@{record.id}")
    return tuple((text, count, first[text]) for text, count in counted.items())


def change_text(change: Change | None) -> str:
    """``+12.3 % [8.1, 16.9]``, the interval of all comparisons together."""
    if change is None or change.percent is None:
        return "–"
    return f"{words.signed(change.percent)} % {words.change_interval(change.simultaneous)}"


def _notes(
    progress: Progress,
    bars: Mapping[str, Sequence[StepBar]],
    sums: Mapping[str, float | None],
) -> list[str]:
    notes = []
    comparison = progress.comparison
    for mode, gain in comparison.gains.items() if comparison else ():
        total = sums[mode]
        if total is None or gain.percent is None or len(bars[mode]) < 2 or (comparison and comparison.every):
            continue
        notes.append(
            f"{mode}: the kept steps one after the other give {words.signed(total)} %, measured together against "
            f"untuned they give {words.signed(gain.percent)} %. Steps do not add up exactly: each was measured in "
            "trials of its own, against what was kept before it."
        )
    if comparison and comparison.every:
        notes.append(
            "Each step's change is between neighbouring rungs of the last comparison; it holds for the order in "
            "which the steps were tried, and in percent of the rung before, so that percentages multiply."
        )
        lost = [
            f"{decision.step} ({decision.mode})"
            for decision in progress.decisions
            if decision.kept and not _holds(progress, decision)
        ]
        if lost:
            notes.append(f"Kept on its own trials, but not confirmed by those of the comparison: {', '.join(lost)}.")
    untried = [
        decision for decision in progress.decisions if not decision.tried and decision.reason not in (UNTRIED, SKIPPED)
    ]
    reasons: dict[tuple[str, str], list[str]] = {}
    for decision in untried:
        reasons.setdefault((decision.step, decision.reason), []).append(decision.mode)
    notes += [f"Step {step} ({', '.join(modes)}): {reason}." for (step, reason), modes in reasons.items()]
    if progress.factorials:
        pairs = [
            f"{factorial.mode}: {effect.factor} {words.signed(effect.percent)} %"
            for factorial in progress.factorials
            for effect in factorial.analysis.interactions
            if effect.verdict in (Verdict.BETTER, Verdict.WORSE)
        ]
        interactions = "; ".join(pairs) if pairs else "none that is distinguishable from noise"
        notes.append(f"Interactions in the factorials: {interactions}.")
    return notes


def _holds(progress: Progress, one: Decision) -> bool:
    ladder = progress.comparison.of(one.mode) if progress.comparison else []
    return any(
        rung.steps and rung.steps[-1] == one.step and rung.change is not None and rung.change.better for rung in ladder
    )
