"""The one judgement of a study: can it be answered? Pages, terminal, JSON, JUnit and exit codes take it from here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from leadline.analysis.comparisons import TOO_NOISY
from leadline.conclude.loads import load_of
from leadline.conclude.wording import listed, noun
from leadline.layouts import latest_change, wash_out_of
from leadline.model.errors import FailureClass
from leadline.model.judgement import UNFINISHED, Judgement
from leadline.model.naming import Describe
from leadline.model.plan import Plan, Treatment
from leadline.model.record import CAME_LATE, WARMING, SlotRecord, StudyRecord, TrialRecord, TrialState
from leadline.model.result import Effect, Interaction, Interval, Observation, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.model.workload import is_load

ENOUGH = 0.5  # of what was asked of a level, and of its baseline, must be measured for a figure
MOST = 0.75  # of what was asked: where less was measured the answer begins with it
LOOK_AFTER = 60.0  # seconds of slots
WOULD_WORK = (
    "What would work: a quieter machine (`wait: quiet`), longer slots, fewer instances, or virtual time "
    "(`--host virtual-time`)"
)
TOO_WIDE = Interval(-90.0, 900.0, 0.95)  # percent: an interval that is no verdict and leaves this is no figure
LATE, LEFT_OUT = "late", "left out"  # causes of lost slots beside the classes of failure
_LONGEST = 160  # characters of a message that is quoted

E = TypeVar("E", bound=Effect)


@dataclass(frozen=True)
class _Count:
    """Units of the trials that have ended, by treatment."""

    asked: Mapping[Treatment, int]
    measured: Mapping[Treatment, int]

    def of(self, holds: Callable[[Treatment], bool]) -> tuple[int, int]:
        """Measured and asked of the treatments for which this holds."""
        return (
            sum(number for treatment, number in self.measured.items() if holds(treatment)),
            sum(number for treatment, number in self.asked.items() if holds(treatment)),
        )


def too_late(begun: int, late: int, seconds: float) -> bool:
    """Whether to end a run: after a minute (``seconds`` of slots that have begun) more than half of them came late."""
    return seconds >= LOOK_AFTER and late > (1 - ENOUGH) * begun


def judged(
    record: StudyRecord, plan: Plan, observations: Sequence[Observation], analysis: StudyAnalysis, describe: Describe
) -> StudyAnalysis:
    """The analysis with its judgement, and without figures of which too little was measured. ``plan`` and
    ``observations`` as they were analysed.
    """
    count = _count(record, plan, observations)
    unit = "slot" if any(trial.slots for trial in plan.trials) else "trial"
    few = _few(plan, count, unit)

    def why(effect: Effect) -> str:
        """Empty for an effect that keeps its figures, and for one that needs none."""
        if effect.verdict is Verdict.FAILED:
            return ""
        return few(effect) or (TOO_NOISY if effect.percent is not None and _too_wide(effect) else "")

    withheld = [
        (f"{effect.factor}={describe(effect.factor, effect.level)}", response.response, reason)
        for response in analysis.responses
        for effect in response.effects
        if (reason := why(effect))
    ]
    responses = tuple(
        replace(
            one,
            effects=tuple(_without_figures(effect, why(effect)) for effect in one.effects),
            interactions=tuple(
                replace(_without_figures(pair, told), sentence="") if (told := why(pair)) else pair
                for pair in one.interactions
            ),
        )
        for one in analysis.responses
    )
    figures = _has_figures(record, plan, count, responses)
    if not figures:
        responses = tuple(
            replace(response, groups=(), luck=None, detectable=None, notes=(), cells=()) for response in responses
        )
    quantiles = tuple(_without_figures(effect, why(effect)) for effect in analysis.quantiles)
    analysis_ = replace(analysis, responses=responses, quantiles=quantiles)
    return replace(analysis_, judgement=_judgement(record, count, unit, analysis_, plan, withheld, figures))


def _count(record: StudyRecord, plan: Plan, observations: Sequence[Observation]) -> _Count:
    over = {
        trial.planned.position
        for trial in record.trials
        if trial.state in (TrialState.DONE, TrialState.FAILED) and not trial.is_left
    }
    wanted = Counter[Treatment]()
    for trial in plan.trials:
        if trial.position in over:
            wanted.update([slot.treatment for slot in trial.slots] or [trial.treatment])
    return _Count(
        wanted,
        Counter(
            observation.treatment for observation in observations if observation.responses and not observation.failure
        ),
    )


def _few(plan: Plan, count: _Count, unit: str) -> Callable[[Effect], str]:
    """Why an effect has no figure: too little of its level or of what it is compared with was measured. Empty where
    there is enough. Where no trial differs from the baseline in two factors a level is held against the baseline, else
    against all that has its factor's baseline level.
    """
    base = plan.baseline
    alone = all(sum(base[name] != level for name, level in treatment.levels) <= 1 for treatment in count.asked)

    def short(measured: int, asked: int, what: str) -> str:
        return f"{measured} of {asked} {unit}s of {what} measured" if measured < ENOUGH * asked else ""

    def why(effect: Effect) -> str:
        pairs = {effect.factor: (effect.level, effect.baseline)}
        if isinstance(effect, Interaction):
            levels = zip(effect.factors, effect.levels, effect.baselines, strict=True)
            pairs = {factor: (level, baseline) for factor, level, baseline in levels}
        pair = count.of(lambda one: all(one[name] == level for name, (level, _) in pairs.items()))
        if reason := short(*pair, "this level"):
            return reason
        if alone:
            return short(*count.of(lambda one: one == base), "the baseline")
        return short(
            *count.of(lambda one: any(one[name] == level for name, (_, level) in pairs.items())), "its baseline"
        )

    return why


def _too_wide(effect: Effect) -> bool:
    wide = effect.simultaneous or effect.interval
    return TOO_NOISY in effect.reason or (
        effect.verdict is Verdict.UNDETERMINED
        and wide is not None
        and (wide.low < TOO_WIDE.low or wide.high > TOO_WIDE.high)
    )


def _without_figures(effect: E, reason: str) -> E:
    """The effect itself where there is no reason to keep its figures back, or where it has none."""
    if not reason or effect.percent is None:
        return effect
    return replace(
        effect,
        verdict=Verdict.UNDETERMINED,
        percent=None,
        interval=None,
        simultaneous=None,
        p_value=None,
        p_adjusted=None,
        q_value=None,
        equivalence_p=None,
        shrunken=None,
        robust=None,
        reason=reason,
    )


def _has_figures(record: StudyRecord, plan: Plan, count: _Count, responses: Sequence[ResponseAnalysis]) -> bool:
    """Whether some comparison has a figure, or a level failed by its own doing while the baseline ran."""
    measured, wanted = count.of(lambda _: True)
    if not measured:
        return False
    if len(plan.factors) == 1 and load_of(record) is not None:
        return True  # how far it goes is told load by load
    effects = [effect for response in responses for effect in response.effects]
    if not effects:
        return measured >= ENOUGH * wanted
    return any(effect.percent is not None or effect.verdict is Verdict.FAILED for effect in effects)


def _judgement(
    record: StudyRecord,
    count: _Count,
    unit: str,
    analysis: StudyAnalysis,
    plan: Plan,
    withheld: Sequence[tuple[str, str, str]],
    figures: bool,
) -> Judgement:
    ran = [trial for trial in record.trials if trial.state == TrialState.DONE]
    measured, wanted = count.of(lambda _: True)
    base = count.of(lambda one: one == plan.baseline)
    disturbed = sum(trial.is_left and trial.failure is FailureClass.DISTURBED for trial in record.trials)
    verdicts = {
        effect.verdict for response in analysis.responses for effect in response.effects if not is_load(effect.factor)
    }
    judgement = Judgement(
        unit=unit,
        asked=wanted,
        measured=measured,
        lost=_lost(record, wanted - measured),
        trials=sum(trial.state != TrialState.SKIPPED for trial in record.trials),
        done=len(ran),
        left=sum(trial.is_left for trial in record.trials),
        interrupted=sum(
            trial.failure is FailureClass.INTERRUPTED and trial.state != TrialState.SKIPPED for trial in record.trials
        ),
        baseline=base[0] if base[1] else None,
        disturbed=max(disturbed, len(analysis.disturbance.trials) if analysis.disturbance is not None else 0),
        cold=sum(trial.steady is not None and trial.steady.cold for trial in ran),
        underpowered=figures and not analysis.confirmations and verdicts == {Verdict.UNDETERMINED},
        simulated=record.simulated,
        withheld=tuple(dict.fromkeys(name for name, _, _ in withheld)),
        figures=figures,
    )
    judgement = replace(judgement, remedy=_remedy(record, judgement))
    judgement = replace(judgement, limits=tuple(_limits(analysis, judgement, withheld)))
    effects = [effect for response in analysis.responses for effect in response.effects]
    faulty = {(effect.factor, effect.level) for effect in effects if effect.verdict is Verdict.FAILED}
    whole = count.of(lambda one: not faulty.intersection(one.levels))
    return replace(judgement, sentence=_sentence(record, analysis, judgement, whole))


def _lost(record: StudyRecord, total: int) -> dict[str, int]:
    """Units of ended trials that were not measured, by cause: a class of failure, ``LATE`` or ``LEFT_OUT``."""
    causes = Counter[str]()
    for trial, slot in _failures(record):
        number = 1 if slot is not None else len(trial.planned.slots) or 1
        causes[_cause(record, trial, slot)] += number
    if (rest := total - causes.total()) > 0:
        causes[LEFT_OUT] += rest
    return dict(causes.most_common())


def _failures(record: StudyRecord) -> list[tuple[TrialRecord, SlotRecord | None]]:
    """What was lost of the trials that have ended: whole trials, and slots of those that were done."""
    over = [trial for trial in record.trials if trial.state in (TrialState.DONE, TrialState.FAILED)]
    whole = [(trial, None) for trial in over if trial.failure and not trial.is_left]
    return whole + [
        (trial, slot) for trial in over if trial.state == TrialState.DONE for slot in trial.slots if slot.failure
    ]


def _cause(record: StudyRecord, trial: TrialRecord, slot: SlotRecord | None) -> str:
    failure = trial.failure if slot is None else slot.failure
    if (
        slot is not None
        and failure is FailureClass.INFRASTRUCTURE
        and _delay(slot) > latest_change(slot.seconds, wash_out_of(record.study.design))
    ):
        return LATE
    return failure.value if failure is not None else LEFT_OUT


def _delay(slot: SlotRecord) -> float:
    return slot.set_at - slot.due if slot.set_at is not None and slot.due is not None else 0.0


def _words(record: StudyRecord, found: Judgement) -> str:
    """What lost most, in words: ``57 lost (52 late, 5 workload): levels came up to 4.2 s after ...``."""
    if not found.lost:
        return ""
    first = next(iter(found.lost))
    lost = [(trial, slot) for trial, slot in _failures(record) if _cause(record, trial, slot) == first]
    if first == LATE:
        said = f"levels were in force up to {max(_delay(slot) for _, slot in lost if slot):.1f} s after a slot began"
    elif lost:
        trial, slot = lost[0]
        message = " ".join((slot.failure_message if slot is not None else trial.failure_message).split())
        said = message if len(message) <= _LONGEST else f"{message[: _LONGEST - 3]}..."
    else:
        said = next((slot.left_out for trial in record.trials for slot in trial.slots if slot.left_out), "")
    return f"{sum(found.lost.values())} lost ({_kinds(found)})" + (f": {said.rstrip('.')}" if said else "")


def _kinds(found: Judgement) -> str:
    return ", ".join(f"{number} {cause}" for cause, number in found.lost.items())


def _sentence(record: StudyRecord, analysis: StudyAnalysis, found: Judgement, whole: tuple[int, int]) -> str:
    """Empty for a study that is answered. ``whole``: measured and asked, without levels that failed by their doing."""
    if found.answered:
        if whole[0] >= MOST * whole[1]:
            return ""
        return f"Only {found.measured} of {_plural(found.asked, found.unit)} were measured ({_kinds(found)})"
    if found.standing == UNFINISHED:
        left = Counter(trial.failure for trial in record.trials if trial.is_left and trial.failure)
        cut = "".join(f"; {_plural(number, 'trial')} {failure}" for failure, number in left.items())
        return f"Not finished: {found.done} of {found.trials} trials done{cut}"
    if not found.measured:
        head = f"none of {_plural(found.asked or found.trials, found.unit if found.asked else 'trial')} was measured"
    elif found.baseline == 0:
        head = f"no {found.unit} of the baseline was measured"
    elif found.measured < ENOUGH * found.asked:
        head = f"{found.measured} of {_plural(found.asked, found.unit)} were measured"
    else:
        reasons = [effect.reason for response in analysis.responses for effect in response.effects if effect.reason]
        reasons += [response.reason for response in analysis.responses if response.reason]
        head = (reasons or ["nothing can be compared"])[0].rstrip(".")
    parts = ["; ".join(filter(None, [f"No answer: {head}", _words(record, found)]))]
    if found.left:
        cut, unfinished = _cut(record), f"{found.left} of {_plural(found.trials, 'trial')} not finished"
        alone = cut[:1].upper() + cut[1:] if found.left == found.trials else ""
        parts.append(alone or "; ".join(filter(None, [unfinished, cut])))
    others = analysis.disturbance
    if others is not None and others.found:
        most = 100 * max(others.shares.values())
        parts.append(f"Other programs used up to {most:.0f} % of the CPUs")
    if found.remedy:
        parts.append(f"What helps: {found.remedy}")
    return ". ".join(parts)


def _cut(record: StudyRecord) -> str:
    """What ended the last trial that was cut short, in its own words, without what helps."""
    cut = [trial for trial in record.trials if trial.is_left and trial.failure_message]
    return " ".join(cut[-1].failure_message.split()).rstrip(".").removesuffix(WOULD_WORK).rstrip(". ") if cut else ""


def _remedy(record: StudyRecord, found: Judgement) -> str:
    """The one command that helps where there is no answer, or an uncertain one; empty where none does."""
    study, run = record.reference, f"{record.study.study}@{record.id}"
    if found.standing == UNFINISHED:
        return f"leadline run {study}"
    if found.figures and not found.underpowered:
        return ""
    came_late = any(trial.is_left and trial.failure_message.startswith(CAME_LATE) for trial in record.trials)
    cause = LATE if came_late else next(iter(found.lost), "")
    if not came_late and found.left and not found.measured and not found.disturbed:
        return f"leadline run {study}"
    if found.measured >= ENOUGH * found.asked and found.measured and found.baseline != 0:
        return f"leadline power {study}"
    if cause == LATE and not found.disturbed and record.study.wait is not None:
        return f"leadline run {study} --set design.{_longer_slots(record)}"
    if cause == LEFT_OUT and any(slot.left_out == WARMING for trial in record.trials for slot in trial.slots):
        return f"leadline run {study} --set workload.ramp_up={2 * record.study.workload.ramp_up or 10:g}s"
    if cause == LATE or found.disturbed:
        return "leadline doctor" if record.study.wait is not None else f"leadline run {study} --set wait=quiet"
    if cause == FailureClass.INFRASTRUCTURE.value:
        return "leadline doctor"
    return f"leadline report {run}"


def _longer_slots(record: StudyRecord) -> str:
    longest = max((slot.seconds for trial in record.plan.trials for slot in trial.slots), default=4.0)
    return f"{record.study.design.layout}.slot={2 * longest:g}s"


def _limits(analysis: StudyAnalysis, found: Judgement, withheld: Sequence[tuple[str, str, str]]) -> Iterable[str]:
    """What limits the answer, the most important first. ``withheld``: setting, response and why it has no figure."""
    if found.simulated:
        yield "Simulated: no server ran, every figure is made up."
    if found.left:
        yield f"Not finished: {found.done} of {found.trials} trials done."
    if found.lost:
        yield f"{found.measured} of {_plural(found.asked, found.unit)} measured ({_kinds(found)})."
    for noisy, sentence in ((False, "Too little was measured"), (True, "The noise is too large")):
        responses: dict[str, list[str]] = {}
        for name, response, reason in withheld:
            if (reason == TOO_NOISY) is noisy:
                responses.setdefault(name, []).append(response)
        parts = [
            name if len(count) == len(analysis.responses) else f"{listed(map(noun, count))} of {name}"
            for name, count in responses.items()
        ]
        if parts:
            yield f"{sentence} for a figure of {listed(parts)}."
    others = analysis.disturbance
    if others is not None and others.found:
        yield others.sentence
    if 2 * found.cold >= found.done > 0 and found.cold:
        yield f"In {found.cold} of {_plural(found.done, 'trial')} the server was still warming up."
    if found.underpowered:
        yield f"Underpowered: nothing is distinguishable from noise; `{found.remedy}` tells what an answer takes."


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
