"""From the record of a study to its conclusion."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from leadline.analysis.carry import HIDDEN
from leadline.analysis.returns import FEWEST, Returns, diminishing_returns
from leadline.analysis.sequential import Interim
from leadline.analysis.study import analyse, quantile_effects
from leadline.analysis.table import as_one_factor, inside, response_kind
from leadline.conclude.answer import Facts, answer
from leadline.conclude.confirmation import confirmations_of
from leadline.conclude.disturbance import disturbance_of, width_cost
from leadline.conclude.explanation import ProfiledPart, Stacks, Statements, explain
from leadline.conclude.judgement import judged
from leadline.conclude.waiting import Served, explain_waits
from leadline.conclude.washout import SlotSeconds, settled_wash_out
from leadline.conclude.wording import configuration_names, signed
from leadline.design.profiling import Place
from leadline.model.disturbance import OTHERS
from leadline.model.knob import Level
from leadline.model.naming import Describe, describing
from leadline.model.plan import Plan
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import (
    Disturbance,
    Effect,
    Interaction,
    Observation,
    ResponseAnalysis,
    StudyAnalysis,
    Verdict,
)
from leadline.model.study import PROFILE_MS
from leadline.model.workload import is_load
from leadline.planning.boundary import boundary_of, interim_of
from leadline.planning.looks import due, schedule

# When a study stops, and what that does to its intervals: fixed, or interim analyses. The comparisons of a tuning are
# studies of fixed size; what its steps keep is ``leadline.planning.sequence``.


REPEATED = (
    "simultaneous intervals, adjusted p and q hold; plain intervals and p, the p of "
    "equivalence, and rank intervals are those of a single analysis"
)
WATCHED = "The study may be watched at any moment: after all blocks together"


@dataclass(frozen=True)
class StoppingRule:
    """When the trials of a study end: all of them run, or interim analyses may end it early (repeated intervals)."""

    record: StudyRecord

    def interim(self, response: str) -> Interim | None:
        """How the analysis of the trials that ran must judge a response so that its intervals hold under the rule."""
        if not self.record.study.design.looked_at:
            return None
        record, observations = self.record, self.record.observations()
        if record.study.design.looks == "watched":
            return interim_of(record.plan, observations, response, 1 - record.study.design.alpha)
        blocks = schedule(record.plan, record.study.design.looks)
        blocks_left = [trial.planned.block for trial in record.trials if trial.is_left]
        number = max(due(record.plan, blocks_left, blocks), 1)
        if not blocks_left and any(trial.state == TrialState.SKIPPED for trial in record.trials):
            number = next(
                k
                for k, end in enumerate(blocks, 1)
                if end >= 1 + max(observation.block for observation in observations)
            )
        return boundary_of(record.plan_that_ran, observations, response, blocks, number).interim(number)

    def notes(self) -> tuple[str, ...]:
        """What the rule has to say of itself."""
        record = self.record
        if not record.study.design.looked_at:
            return ()
        skipped = [trial for trial in record.trials if trial.state == TrialState.SKIPPED]
        reasons: dict[str, int] = {}
        for trial in skipped:
            reasons[trial.failure_message] = reasons.get(trial.failure_message, 0) + 1
        notes = [f"Not needed, {count} of {len(record.trials)} trials: {why}." for why, count in reasons.items()]
        if record.study.design.looks == "watched":
            return (*notes, f"{WATCHED} {REPEATED}.")
        notes.append(
            f"The study was planned with {record.study.design.looks} interim analyses; over all of them together "
            f"{REPEATED}."
        )
        return tuple(notes)


# What is better or worse by less than the margin is equivalent, on every page that prints a verdict.


E = TypeVar("E", bound=Effect)


def within_margin(one: ResponseAnalysis) -> ResponseAnalysis:
    """The analysis whose effects, those on hosts too, and interactions are equivalent where their simultaneous
    intervals lie inside the margin, whether zero is among them or not; ``reason`` tells which. The analysis tells what
    is distinguishable, which is what stopping rules go by; this is done after them.
    """
    across = one.across_hosts
    if across is not None:
        across = replace(across, effects=tuple(_settled(effect, one.margin) for effect in across.effects))
    return replace(
        one,
        across_hosts=across,
        effects=tuple(_settled(effect, one.margin) for effect in one.effects),
        interactions=tuple(_settled(pair, one.margin) for pair in one.interactions),
    )


def _settled(effect: E, margin: float | None) -> E:
    is_told = effect.verdict in (Verdict.BETTER, Verdict.WORSE)
    if not is_told or not inside(effect.simultaneous, margin) or HIDDEN in effect.reason:
        return effect
    small, rest = f"but less than {margin:g} %", f"{effect.verdict.value}, but by less than {margin:g} %"
    return replace(effect, verdict=Verdict.EQUIVALENT, reason=effect.reason.replace(small, rest, 1))


# Interactions in words: which level helps only with which.


SHOWN = (Verdict.BETTER, Verdict.WORSE)


def in_words(one: ResponseAnalysis, describe: Describe) -> ResponseAnalysis:
    """The analysis with a sentence for each interaction that is distinguishable from none."""
    sentences = tuple(
        replace(pair, sentence=_sentence(one, pair, describe)) if pair.verdict in SHOWN else pair
        for pair in one.interactions
    )
    return replace(one, interactions=sentences)


def _sentence(one: ResponseAnalysis, pair: Interaction, describe: Describe) -> str:
    """Told of the level whose effect the other switches on or off, of the first where neither does."""
    sentences = [_of(one, pair, describe, side) for side in (0, 1)]
    return next((text for only, text in sentences if only), sentences[0][1])


def _of(one: ResponseAnalysis, pair: Interaction, describe: Describe, side: int) -> tuple[bool, str]:
    """Whether one level works only beside one level of the other factor, and the sentence. ``side``: which of both."""
    other = 1 - side
    level = f"{pair.factors[side]}={describe(pair.factors[side], pair.levels[side])}"
    beside, without = (
        f"{pair.factors[other]}={describe(pair.factors[other], found)}"
        for found in (pair.levels[other], pair.baselines[other])
    )
    with_it, alone = (_change(one, pair, side, cell) for cell in (pair.levels[other], pair.baselines[other]))
    noun = one.response.replace("_", " ")
    if with_it is None or alone is None:
        return False, f"the effects of {level} and {beside} on {noun} depend on each other"
    figures = f"({noun} {signed(with_it)} % against {signed(alone)} %)"
    sign = 1.0 if response_kind(one.response).higher_is_better else -1.0
    small = max(one.margin or 0.0, abs(pair.percent or 0.0) / 4)
    if abs(alone) <= small < abs(with_it):
        return True, f"{level} {_verb(sign * with_it)} only with {beside} {figures}"
    if abs(with_it) <= small < abs(alone):
        return True, f"{level} {_verb(sign * alone)} only with {without}, not with {beside} {figures}"
    if (with_it > 0) != (alone > 0):
        return True, f"{level} {_verb(sign * with_it)} with {beside} and {_verb(sign * alone)} with {without} {figures}"
    more = "more" if abs(with_it) > abs(alone) else "less"
    return False, f"{level} {_verb(sign * with_it)} {more} with {beside} than with {without} {figures}"


def _verb(gain: float) -> str:
    return "helps" if gain > 0 else "hurts"


def _change(one: ResponseAnalysis, pair: Interaction, side: int, beside: Level) -> float | None:
    """Percent by which the level of ``side`` changes the mean beside a level of the other factor."""

    def mean(level: Level) -> float | None:
        wanted = (level, beside) if side == 0 else (beside, level)
        cells = (cell for cell in one.cells if cell.factors == pair.factors and cell.levels == wanted)
        return next((cell.mean for cell in cells), None)

    base, changed = mean(pair.baselines[side]), mean(pair.levels[side])
    if base is None or changed is None or base <= 0 or not math.isfinite(changed / base):
        return None
    return 100 * (changed / base - 1)


@dataclass(frozen=True)
class Series:
    """What the conclusion needs of the trials' series, by trial: seconds of slots; and samples by stack of those slots,
    and trials without slots, that have a profile, ``cpu_time`` where these are of CPU time, their requests, the
    database's statements, and which part of a trial has a profile.
    """

    slots: Mapping[int, Sequence[SlotSeconds]] = field(default_factory=dict)
    profiles: Mapping[Place, Stacks] = field(default_factory=dict)
    cpu_time: bool = True
    served: Mapping[Place, Served] = field(default_factory=dict)
    statements: Mapping[Place, Statements] = field(default_factory=dict)
    parts: Mapping[Place, ProfiledPart] = field(default_factory=dict)


def conclude(record: StudyRecord, series: Series | None = None) -> StudyAnalysis:
    """What the trials that have run so far say, under the stopping rule of the study's file."""
    series_, rule = series or Series(), StoppingRule(record)
    study, ran = record.study, record.plan_that_ran
    describe = describing(study)
    plan, observations = as_one_factor(ran, record.observations(), describe, configuration_names(study, ran))
    analysis = analyse(
        plan,
        observations,
        study.responses,
        describe=describe,
        equivalence_margin=100 * study.equivalence,
        covariates=study.covariates,
        interim=rule.interim,
    )
    settled = settled_wash_out(record, series_.slots)
    noted = [settled.sentence] if settled is not None else []
    analysis = replace(
        analysis,
        responses=tuple(in_words(within_margin(response), describe) for response in analysis.responses),
        failures=_failures(record),
        warnings=(*rule.notes(), *analysis.warnings, *noted),
        simulated=record.simulated,
        disturbance=_disturbance(record, plan, observations, analysis),
        quantiles=quantile_effects(
            plan,
            observations,
            interim=rule.interim,
            describe=describe,
            margin=100 * study.equivalence,
            covariates=study.covariates,
        ),
    )
    analysis = replace(analysis, confirmations=confirmations_of(record, analysis))
    analysis = judged(record, plan, observations, analysis, describe)
    returns = _returns(record, plan, observations, describe)
    analysis = replace(
        analysis,
        profile=explain(
            plan,
            observations,
            series_.profiles,
            describe,
            PROFILE_MS.get(study.profiling, 0) if series_.cpu_time else None,
            series_.statements,
            series_.parts,
        ),
        waits=explain_waits(plan, observations, series_.served, describe, series_.statements),
    )
    answer_ = answer(analysis, Facts.of(record, analysis.judgement, describe, plan.factors, returns))
    return replace(analysis, answer=answer_.text, headline=answer_.head, caveats=answer_.caveats)


def _returns(record: StudyRecord, plan: Plan, observations: Sequence[Observation], describe: Describe) -> list[Returns]:
    """All levels of factors with three or more against each other, held together over factors and responses. None of a
    study that is analysed more than once: intervals for one analysis would be too narrow.
    """
    study = record.study
    factors = [factor.name for factor in plan.factors if len(factor.levels) >= FEWEST and not is_load(factor.name)]
    if study.design.looked_at or not factors:
        return []
    level = 1 - 0.05 / (len(factors) * len(study.responses))
    return [
        diminishing_return
        for response in study.responses
        for diminishing_return in diminishing_returns(
            plan,
            observations,
            response,
            level,
            describe,
            100 * study.equivalence,
            lambda factor: factor.name in factors,
        )
        if not diminishing_return.under
    ]


def _disturbance(
    record: StudyRecord,
    plan: Plan,
    observations: Sequence[Observation],
    analysis: StudyAnalysis,
) -> Disturbance | None:
    disturbance = disturbance_of([record])
    if disturbance is None or not disturbance.found:
        return disturbance
    covariates = analysis.responses[0].covariates if analysis.responses else ()
    used = any(covariate.used and covariate.name == OTHERS for covariate in covariates)
    return disturbance_of([record], width_cost(plan, observations, analysis), used)


def _failures(record: StudyRecord) -> dict[str, int]:
    """Failure class -> trials and slots, most frequent first; interrupted trials are counted, and judge no setting."""
    kinds = [slot.failure for trial in record.trials if trial.state == TrialState.DONE for slot in trial.slots]
    kinds += [trial.failure for trial in record.trials if trial.state == TrialState.FAILED]
    counts = Counter(kind.value for kind in kinds if kind is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
