"""What a confirmation study says: the fresh figures beside those of the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.conclude.wording import signed
from leadline.model.bounds import RawLevel
from leadline.model.knob import Level
from leadline.model.plan import Factor
from leadline.model.record import StudyRecord
from leadline.model.result import Confirmation, Effect, Interval, StudyAnalysis, Verdict
from leadline.model.study import FirstEstimate, Study

_WORDS = {
    Verdict.BETTER: "Confirmed",
    Verdict.WORSE: "Refuted",
    Verdict.EQUIVALENT: "Refuted: it makes no difference that matters",
    Verdict.IDENTICAL: "Refuted: it changes nothing",
    Verdict.FAILED: "Not confirmed: every trial failed",
    Verdict.UNDETERMINED: "Not confirmed",
}


def confirmations_of(record: StudyRecord, analysis: StudyAnalysis) -> tuple[Confirmation, ...]:
    """One for each setting that the study confirms; none for a study of another kind."""
    confirmed = record.study.confirms
    of_response = next(
        (response for response in analysis.responses if confirmed and response.response == confirmed.response), None
    )
    if confirmed is None or of_response is None:
        return ()
    confirmations = []
    for first in confirmed.settings:
        single = len(confirmed.settings) == 1 and len(of_response.effects) == 1
        effect = of_response.effects[0] if single else _of(first, of_response.effects, record)
        if effect is not None:
            confirmations.append(_confirmation(effect, first, confirmed.run, of_response.baseline_trials))
    return tuple(confirmations)


def _of(first: FirstEstimate, effects: Sequence[Effect], record: StudyRecord) -> Effect | None:
    factors = {factor.name: factor for factor in record.plan.factors}
    for effect in effects:
        raw = first.levels.get(effect.factor)
        if raw is not None and raw_level(record.study, factors[effect.factor], effect.level) == raw:
            return effect
    return None


def _confirmation(effect: Effect, first: FirstEstimate, run: str, baseline_trials: int) -> Confirmation:
    interval = None
    if first.low is not None and first.high is not None:
        interval = Interval(first.low, first.high)
    fresh = effect.simultaneous
    figure = "no figure" if effect.percent is None else f"{signed(effect.percent)} %"
    if fresh is not None:
        figure += f" [{signed(fresh.low)}, {signed(fresh.high)}]"
    before = f"{signed(first.percent)} %" + (f" [{signed(interval.low)}, {signed(interval.high)}]" if interval else "")
    without = "" if first.shrunken is None else f", {signed(first.shrunken)} % without its luck"
    sentence = (
        f"{_WORDS[effect.verdict]}: {said(first.levels)} changes {effect.response} by {figure} in {effect.trials} "
        "fresh "
        f"trials against {baseline_trials} of the baseline; {run}, on which it was chosen, had {before}{without}."
    )
    if effect.reason and effect.verdict is not Verdict.EQUIVALENT:
        sentence += f" {effect.reason[0].upper()}{effect.reason[1:]}."
    return Confirmation(
        effect.response,
        effect.verdict,
        effect.percent,
        fresh,
        effect.p_adjusted,
        effect.trials,
        baseline_trials,
        sentence,
        said(first.levels),
        first.percent,
        interval,
        first.shrunken,
    )


def raw_level(study: Study, factor: Factor, level: Level) -> RawLevel:
    """The level as the study file wrote it."""
    written: Sequence[RawLevel] = study.pseudo_factors.get(factor.name, study.factors.get(factor.name, []))
    return written[factor.levels.index(level)]


def said(levels: Mapping[str, object]) -> str:
    return " with ".join(f"{name}={level}" for name, level in levels.items())
