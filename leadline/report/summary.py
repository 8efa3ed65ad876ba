"""The answer, comparisons, checks and failures of a study: what ``show`` prints, for other programs.

``leadline.report.ci`` writes it as Markdown, JUnit XML and JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leadline.model.judgement import Judgement
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Interval, StudyAnalysis, Verdict
from leadline.report import files as trial_files
from leadline.report import health, words


class Outcome(StrEnum):
    """What a comparison or a check is to a build."""

    PASSED = "passed"
    FAILED = "failed"  # harm is shown, or a check failed
    ERROR = "error"  # every trial of a level failed, or there is no answer
    SKIPPED = "skipped"  # inconclusive, or not recorded: neither passed nor failed


_OUTCOMES = {
    Verdict.WORSE: Outcome.FAILED,
    Verdict.FAILED: Outcome.ERROR,
    Verdict.UNDETERMINED: Outcome.SKIPPED,
}
_OF_CHECKS = {health.BAD: Outcome.FAILED, health.UNKNOWN: Outcome.SKIPPED}


@dataclass(frozen=True)
class Comparison:
    """A level against the baseline, for one response; percent, positive where the response grows."""

    response: str
    unit: str
    higher_is_better: bool
    factor: str
    level: str
    baseline: str
    setting: str
    verdict: Verdict
    outcome: Outcome
    percent: float | None
    interval: Interval | None
    simultaneous: Interval | None
    trials: int
    failures: int
    reason: str


@dataclass(frozen=True)
class Check:
    """An item of the report's strip. ``state``: good, warn, bad or unknown."""

    name: str
    state: str
    outcome: Outcome
    value: str
    detail: str


@dataclass(frozen=True)
class FailedTrial:
    trial: int
    treatment: str
    failure: str
    message: str


@dataclass(frozen=True)
class Summary:
    """``run``: ``name@number``. ``interactions``: a sentence for each that is distinguishable from none."""

    study: str
    run: str
    question: str
    simulated: bool
    time: str
    answer: str
    judgement: Judgement
    comparisons: tuple[Comparison, ...]
    interactions: tuple[str, ...]
    checks: tuple[Check, ...]
    failures: tuple[FailedTrial, ...]
    warnings: tuple[str, ...]
    digits: int = 1  # after the point, of changes in percent

    @property
    def outcome(self) -> Outcome:
        """An error before a failure, a failure before passed; what is skipped alone decides nothing."""
        return next(
            (outcome for outcome in (Outcome.ERROR, Outcome.FAILED) if outcome in self.outcomes), Outcome.PASSED
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """Of every comparison and check, in their order."""
        return [comparison.outcome for comparison in self.comparisons] + [check.outcome for check in self.checks]


def summary(record: StudyRecord, analysis: StudyAnalysis) -> Summary:
    """Reads the files of the trials for the checks; those that are missing leave a check *not recorded*."""
    study, files = record.study, [trial_files.read(trial) for trial in record.trials]
    sentences = [
        (response.response, pair) for response in analysis.responses for pair in response.interactions if pair.sentence
    ]
    return Summary(
        study=study.study,
        run=f"{study.study}@{record.id}",
        question=study.question,
        simulated=analysis.simulated,
        time=study.time,
        answer=analysis.answer,
        judgement=analysis.judgement,
        comparisons=tuple(_comparisons(record, analysis)),
        interactions=tuple(pair.sentence for _, pair in sentences),
        checks=tuple(_check(item, analysis.judgement) for item in health.health(record, analysis, files)),
        failures=tuple(
            FailedTrial(
                trial.id,
                words.trial_text(study, record.plan, trial.planned),
                trial.failure.value if trial.failure else "failed",
                trial.failure_message,
            )
            for trial in record.trials
            if trial.state == TrialState.FAILED and not trial.is_left
        ),
        warnings=(*analysis.warnings, *(f"Left out: {reason}" for reason in record.skipped)),
        digits=words.decimals(study),
    )


def _comparisons(record: StudyRecord, analysis: StudyAnalysis) -> list[Comparison]:
    comparisons = []
    for response in analysis.responses:
        kind = words.kind_of(response.response)
        for effect in response.effects:
            comparisons.append(
                Comparison(
                    response=response.response,
                    unit=kind.unit,
                    higher_is_better=kind.higher_is_better,
                    factor=effect.factor,
                    level=words.level_text(record.study, effect.factor, effect.level),
                    baseline=words.level_text(record.study, effect.factor, effect.baseline),
                    setting=words.setting(record.study, effect.factor, effect.level),
                    verdict=effect.verdict,
                    outcome=_OUTCOMES.get(effect.verdict, Outcome.PASSED),
                    percent=effect.percent,
                    interval=effect.interval,
                    simultaneous=effect.simultaneous,
                    trials=effect.trials,
                    failures=effect.failures,
                    reason=effect.reason,
                )
            )
    return comparisons


def _check(item: health.Item, judgement: Judgement) -> Check:
    outcome = _OF_CHECKS.get(item.state, Outcome.PASSED)
    if item.title == health.ANSWER and not judgement.answered:
        outcome = Outcome.ERROR
    return Check(item.title, item.state, outcome, item.value, item.detail)
