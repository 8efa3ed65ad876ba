"""The answer, comparisons, checks and failures of a study: what ``show`` prints, for other programs.

``leadline.report.ci`` writes it as Markdown, JUnit XML and JSON.

``health`` is the strip at the top of the page: may the figures be believed?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.conclude.disturbance import clock_times, measures
from leadline.layouts import layout_of
from leadline.model.errors import FailureClass
from leadline.model.judgement import ANSWERED, LIMITED, NO_ANSWER, UNFINISHED, Judgement
from leadline.model.places import IN_MEMORY, PLACES
from leadline.model.record import NOT_SETTLED, WARM_UP, StudyRecord, TrialState
from leadline.model.result import DriftVerdict, Interval, StudyAnalysis, Verdict
from leadline.report import files as trial_files
from leadline.report import words
from leadline.report.files import TrialFiles

GOOD, WARN, BAD, UNKNOWN = "good", "warn", "bad", "unknown"
_TEMPORARY = (("mount", "mount", "gone"), ("directory", "private folder", "gone"), ("swap", "swap area", "on again"))
ANSWER = "Answer"
_LITTLE = 0.10  # relative error of Little's law from which the driver's own books do not balance


@dataclass(frozen=True)
class Item:
    title: str
    state: str  # good, warn, bad, unknown
    value: str
    detail: str = ""


def health(record: StudyRecord, analysis: StudyAnalysis, files: Sequence[TrialFiles]) -> list[Item]:
    virtual = record.study.time == "virtual"
    return [
        _answer(analysis.judgement),
        Item("Other programs", GOOD, "cannot disturb virtual time") if virtual else _others(analysis),
        _audits(record),
        _steady(record),
        *_warm_up(record),
        _driver(files, virtual),
        _little(files),
        *([] if layout_of(record.plan).exact else [_drift(analysis)]),
        _restored(record),
    ]


def _answer(judgement: Judgement) -> Item:
    """The first tile: may the study be believed to have an answer?"""
    states = {ANSWERED: GOOD, LIMITED: WARN, UNFINISHED: WARN, NO_ANSWER: BAD}
    measured = "nothing measured"
    if judgement.asked:
        measured = f"{judgement.measured} of {words.plural(judgement.asked, judgement.unit)} measured"
    value = measured if judgement.answered else f"{judgement.standing}: {measured}"
    details = [f"{judgement.done} of {words.plural(judgement.trials, 'trial')} done"]
    details += [f"{count} {cause}" for cause, count in judgement.lost.items()]
    if judgement.left:
        cut = f" ({judgement.interrupted} interrupted)" if judgement.interrupted else ""
        details.append(f"{judgement.left} not finished{cut}")
    details += ["no baseline"] if judgement.baseline == 0 else []
    details += ["nothing distinguishable"] if judgement.underpowered else []
    details += ["simulated"] if judgement.simulated else []
    details += [judgement.remedy] if judgement.remedy and not judgement.answered else []
    return Item(ANSWER, states[judgement.standing], value, ", ".join(details))


def _audits(record: StudyRecord) -> Item:
    audits = [(trial.id, audit) for trial in record.trials for audit in trial.audits]
    if not audits:
        return Item("Audits", UNKNOWN, "none recorded")
    failed = [(trial, audit) for trial, audit in audits if not audit.passed]
    value = f"{len(audits) - len(failed)} of {len(audits)} passed"
    detail = f"first to fail: {failed[0][1].name} in trial {failed[0][0]}" if failed else ""
    return Item("Audits", BAD if failed else GOOD, value, detail)


def _steady(record: StudyRecord) -> Item:
    verdicts = Counter(trial.steady.verdict for trial in record.trials if trial.steady)
    total = sum(verdicts.values())
    if not total:
        return Item("Steady state", UNKNOWN, "not judged")
    other = [f"{count} {name}" for name, count in verdicts.most_common() if name != "steady"]
    value = f"{verdicts['steady']} of {total} trials"
    return Item("Steady state", WARN if other else GOOD, value, ", ".join(other))


def _warm_up(record: StudyRecord) -> list[Item]:
    """Of studies that have one before the load."""
    details = Counter(step.detail for trial in record.trials for step in trial.steps if step.name == WARM_UP)
    if not details:
        return []
    late = sum(count for detail, count in details.items() if detail.startswith(NOT_SETTLED))
    value = f"over in {details.total() - late} of {details.total()} trials"
    return [Item("Warm-up", WARN if late else GOOD, value, "; ".join(detail for detail, _ in details.most_common(2)))]


def _driver(files: Sequence[TrialFiles], virtual: bool) -> Item:
    """In virtual time it shares the guest's CPU: starts that are late for that are the server's doing."""
    drivers = [
        (file.trial.id, file.summary["driver"]) for file in files if isinstance(file.summary.get("driver"), dict)
    ]
    if not drivers:
        return Item("Driver", UNKNOWN, words.NOT_RECORDED)
    limited = [trial for trial, driver in drivers if driver.get("limit")]
    if virtual:
        limited = [file.trial.id for file in files if file.trial.failure is FailureClass.BOTTLENECK]
    shares = [share for file in files if (share := file.figure("driver", "cpu_share")) is not None]
    busiest = f"busiest: {words.share(max(shares))} of its CPU" if shares else ""
    notes = [note for file in files if isinstance(note := file.summary.get("generator"), dict)]
    sentences = sorted({str(note["sentence"]) for note in notes})
    missing = [str(note["missing"]) for note in notes if note.get("missing")]
    if missing:
        others = " (the others likewise)" if len(set(missing)) > 1 else ""
        sentences.append(f"{words.plural(len(missing), 'trial')}: {missing[0]}{others}")
    detail = "; ".join(filter(None, [busiest, *sentences]))
    if limited:
        return Item("Driver", BAD, f"the limit in {words.plural(len(limited), 'trial')}", detail)
    return Item("Driver", GOOD, "not the limit", detail)


def _little(files: Sequence[TrialFiles]) -> Item:
    errors = [abs(e) for file in files if (e := file.figure("littles_law", "relative_error")) is not None]
    dropped = sum(file.figure("dropped") or 0 for file in files)
    if not errors:
        return Item("Little's law", UNKNOWN, words.NOT_RECORDED)
    worst = max(errors)
    detail = f"{words.number(dropped)} arrivals dropped" if dropped else "no arrival dropped"
    state = WARN if worst > _LITTLE or dropped else GOOD
    return Item("Little's law", state, f"within {words.share(worst)}", detail)


def _drift(analysis: StudyAnalysis) -> Item:
    """The worst verdict of all responses, as their own sentences have it."""
    states = {
        DriftVerdict.DETECTED: WARN,
        DriftVerdict.INCONCLUSIVE: WARN,
        DriftVerdict.NONE_DETECTED: GOOD,
        DriftVerdict.NOT_ESTIMATED: UNKNOWN,
    }
    for verdict, state in states.items():
        responses = [response for response in analysis.responses if response.drift.verdict is verdict]
        if not responses:
            continue
        first = responses[0].drift
        detail = f"in {', '.join(one.response for one in responses)}"
        if state is WARN and first.percent is not None:
            detail += f"; {words.signed(first.percent)} % {words.change_interval(first.interval)}"
        return Item("Drift", state, verdict.value, "" if state is UNKNOWN else detail)
    return Item("Drift", UNKNOWN, DriftVerdict.NOT_ESTIMATED.value)


def _others(analysis: StudyAnalysis) -> Item:
    """CPU of programs that are none of the study's."""
    disturbance = analysis.disturbance
    if disturbance is None:
        return Item("Other programs", UNKNOWN, words.NOT_RECORDED)
    most = f"up to {100 * max(disturbance.shares.values()):.0f} % of the CPUs"
    if not disturbance.found:
        return Item("Other programs", GOOD, most, measures(disturbance))
    parts = [f"{len(disturbance.trials)} of {len(disturbance.shares)} trials disturbed"]
    if disturbance.when is not None:
        parts[0] += f", {clock_times(disturbance.when)}"
    parts.append(", ".join(f"{name} {100 * share:.0f} %" for name, share in disturbance.used.items()))
    if disturbance.wider is not None:
        parts.append(
            f"intervals {disturbance.wider:.1f} times as wide" + (", taken out" if disturbance.taken_out else "")
        )
    state = WARN if disturbance.taken_out or disturbance.slight else BAD
    return Item("Other programs", state, most, "; ".join(filter(None, [*parts, measures(disturbance)])))


def _restored(record: StudyRecord) -> Item:
    readings = [reading for trial in record.trials for reading in trial.readings]
    undone = [reading for reading in readings if reading.phase == "undone"]
    changed = {reading.knob for reading in readings if reading.phase == "original"}
    stores = {
        r.knob for r in readings if r.phase == "before" and r.matches and r.knob in PLACES and r.wanted in IN_MEMORY
    }
    wrong = sorted({reading.knob for reading in undone if not reading.matches})
    if wrong:
        return Item("Host", BAD, "not put back", ", ".join(wrong))
    if undone:
        return Item("Host", GOOD, "put back", _put_back({reading.knob for reading in undone}))
    parts = [words.plural(len(changed), "setting") + " changed"] if changed else []
    parts += [words.plural(len(stores), "store") + " placed in memory"] if stores else []
    if parts:
        return Item("Host", UNKNOWN, "not read again", ", ".join(parts))
    return Item("Host", GOOD, "nothing was changed")


def _put_back(undone: Collection[str]) -> str:
    """Settings by their names, the rest as ``leadline.host.base.Host.temporary`` names it."""
    kinds = Counter(kind if blank else "" for kind, blank, _ in (name.partition(" ") for name in undone))
    parts = [f"{words.plural(kinds[''], 'setting')} read again"] if kinds[""] else []
    for kind, noun, now in _TEMPORARY:
        if kinds[kind]:
            parts.append(f"{words.plural(kinds[kind], noun)} {now}")
    return ", ".join(parts)


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
_OF_CHECKS = {BAD: Outcome.FAILED, UNKNOWN: Outcome.SKIPPED}


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
        checks=tuple(_check(item, analysis.judgement) for item in health(record, analysis, files)),
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


def _check(item: Item, judgement: Judgement) -> Check:
    outcome = _OF_CHECKS.get(item.state, Outcome.PASSED)
    if item.title == ANSWER and not judgement.answered:
        outcome = Outcome.ERROR
    return Check(item.title, item.state, outcome, item.value, item.detail)
