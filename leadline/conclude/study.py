"""From the record of a study to its conclusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.analysis import analyse
from leadline.analysis.composite import as_one_factor
from leadline.analysis.quantiles import quantile_effects
from leadline.analysis.returns import FEWEST, Returns, diminishing_returns
from leadline.conclude.answer import Facts, answer
from leadline.conclude.configurations import configuration_names
from leadline.conclude.confirmation import confirmations_of
from leadline.conclude.disturbance import disturbance_of, width_cost
from leadline.conclude.interactions import in_words
from leadline.conclude.judgement import judged
from leadline.conclude.margin import within_margin
from leadline.conclude.stopping import StoppingRule
from leadline.conclude.washout import SlotSeconds, settled_wash_out
from leadline.model.disturbance import OTHERS
from leadline.model.load import is_load
from leadline.model.naming import Describe, describing
from leadline.model.plan import Plan
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import Disturbance, Observation, StudyAnalysis


@dataclass(frozen=True)
class Series:
    """What the conclusion needs of the trials' series, by trial: seconds of slots."""

    slots: Mapping[int, Sequence[SlotSeconds]] = field(default_factory=dict)


def conclude(record: StudyRecord, series: Series | None = None) -> StudyAnalysis:
    """What the trials that have run so far say, under the stopping rule of the study's file."""
    seen, rule = series or Series(), StoppingRule(record)
    study, ran = record.study, record.plan_that_ran
    describe = describing(study)
    plan, observations = as_one_factor(ran, record.observations(), describe, configuration_names(study, ran))
    found = analyse(
        plan,
        observations,
        study.responses,
        describe=describe,
        equivalence_margin=100 * study.equivalence,
        covariates=study.covariates,
        interim=rule.interim,
    )
    settled = settled_wash_out(record, seen.slots)
    noted = [settled.sentence] if settled is not None else []
    found = replace(
        found,
        responses=tuple(in_words(within_margin(one), describe) for one in found.responses),
        failures=_failures(record),
        warnings=(*rule.notes(), *found.warnings, *noted),
        simulated=record.simulated,
        disturbance=_disturbance(record, plan, observations, found),
        quantiles=quantile_effects(
            plan,
            observations,
            interim=rule.interim,
            describe=describe,
            margin=100 * study.equivalence,
            covariates=study.covariates,
        ),
    )
    found = replace(found, confirmations=confirmations_of(record, found))
    found = judged(record, plan, observations, found, describe)
    returns = _returns(record, plan, observations, describe)
    told = answer(found, Facts.of(record, found.judgement, describe, plan.factors, returns))
    return replace(found, answer=told.text, headline=told.head, caveats=told.caveats)


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
        one
        for response in study.responses
        for one in diminishing_returns(
            plan,
            observations,
            response,
            level,
            describe,
            100 * study.equivalence,
            lambda factor: factor.name in factors,
        )
        if not one.under
    ]


def _disturbance(
    record: StudyRecord,
    plan: Plan,
    observations: Sequence[Observation],
    analysis: StudyAnalysis,
) -> Disturbance | None:
    found = disturbance_of([record])
    if found is None or not found.found:
        return found
    told = analysis.responses[0].covariates if analysis.responses else ()
    used = any(one.used and one.name == OTHERS for one in told)
    return disturbance_of([record], width_cost(plan, observations, analysis), used)


def _failures(record: StudyRecord) -> dict[str, int]:
    """Failure class -> trials and slots, most frequent first; interrupted trials are counted, and judge no setting."""
    kinds = [slot.failure for trial in record.trials if trial.state == TrialState.DONE for slot in trial.slots]
    kinds += [trial.failure for trial in record.trials if trial.state == TrialState.FAILED]
    counts = Counter(kind.value for kind in kinds if kind is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
