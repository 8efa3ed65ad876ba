"""The analysis of a whole study: its responses, and what a level does to each quantile of the response time.

Quantile treatment effects are judged together. A trial's quantile comes from the histogram of all its requests, a
slot's from those of the slot. These figures, one a trial or slot, are compared as any response is, so that trials,
server instances and neighbouring slots are the units of noise, never single requests (Liu et al., "Large-scale online
experimentation with quantile metrics", 2019, on what goes wrong else). The quantiles share the error rate (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.effects import analyse_response, measured
from leadline.analysis.failures import failure_rates, failure_warnings, failures_by_class
from leadline.analysis.sequential import Interim
from leadline.analysis.table import MARGIN, StudyTable
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Plan, Role
from leadline.model.result import AtLeast, Effect, Observation, ResponseAnalysis, StudyAnalysis, Verdict

# Responses of which some trials know only a lower bound: what then still holds.


def with_bounds(analysis: ResponseAnalysis, observations: Sequence[Observation]) -> ResponseAnalysis:
    """The analysis, without verdicts that more than the bounds would be needed for: where the level's figures are
    bounds it may be worse than it looks, where the baseline's are it may be better.
    """
    response = analysis.response
    measured = [
        observation for observation in observations if observation.failure is None and response in observation.responses
    ]
    bounds = [one for one in measured if isinstance(one.responses[response], AtLeast)]
    if not bounds:
        return analysis
    counted = f"{len(bounds)} of {len(measured)} figures are lower bounds, as transactions got no answer in time"
    mean = analysis.baseline_mean
    baseline_bound = mean is not None and any(bound.role is not Role.TREATMENT for bound in bounds)
    return replace(
        analysis,
        baseline_mean=AtLeast(mean) if baseline_bound and mean is not None else mean,
        baseline_interval=None if baseline_bound else analysis.baseline_interval,
        effects=tuple(_known(effect, bounds) for effect in analysis.effects),
        interactions=(),
        notes=(*analysis.notes, f"{response}: {counted}."),
    )


def _known(effect: Effect, bounds: Sequence[Observation]) -> Effect:
    levels = {bound.treatment.as_dict().get(effect.factor, effect.baseline) for bound in bounds}
    if not levels & {effect.level, effect.baseline}:
        return effect
    doubted = {Verdict.EQUIVALENT, Verdict.IDENTICAL}
    doubted |= {Verdict.BETTER} if effect.level in levels else set()
    doubted |= {Verdict.WORSE} if effect.baseline in levels else set()
    if effect.percent is not None and effect.baseline not in levels:
        effect = replace(effect, percent=AtLeast(effect.percent))
    if effect.verdict not in doubted:
        return effect
    reason = "; ".join(filter(None, (effect.reason, "some of its figures are only lower bounds")))
    return replace(effect, verdict=Verdict.UNDETERMINED, reason=reason)


def analyse(
    plan: Plan,
    observations: Sequence[Observation],
    responses: Sequence[str],
    level: float = 0.95,
    describe: Describe = plain_level,
    equivalence_margin: float | None = MARGIN,
    verdicts_only: bool = False,
    equal_noise: bool = False,
    covariates: Sequence[str] = (),
    interim: Callable[[str], Interim | None] | None = None,
) -> StudyAnalysis:
    """What the finished trials of a plan say about each response.

    ``observations`` may be fewer than the plan has trials, in any order. ``level`` is the confidence level of all
    intervals. ``describe`` writes a factor's level with its unit. A level whose simultaneous interval lies within
    ``equivalence_margin`` percent is told to make no difference; None asks nothing of the kind. The answer is
    left to ``leadline.conclude``. ``verdicts_only`` leaves out what no verdict on a level rests on, which takes most
    of the time: interactions, ranks, luck, shrinkage, groups, variance components. Nothing in the result
    is NaN or infinite: what cannot be estimated is None, with a reason.
    ``covariates``: figures of the machine, by their names in ``model.result.FIGURES``, for the model.
    ``equal_noise``: all levels are taken to have the same noise. ``interim``: how the family of a response is judged
    where this is one of several analyses of the study; plain intervals stay those of a single one.
    Raises ValueError for a level outside (0.5, 1) or a margin outside (0, 100).
    """
    if not 0.5 < level < 1:
        raise ValueError(f"confidence level {level} is not between 0.5 and 1")
    if equivalence_margin is not None and not 0 < equivalence_margin < 100:
        raise ValueError(f"equivalence margin {equivalence_margin} is not between 0 and 100 percent")
    names = list(dict.fromkeys(responses))
    table = replace(
        StudyTable.of(plan, observations, describe),
        equal_noise=equal_noise,
        covariates=tuple(covariates),
        responses=len(names),
    )
    warnings: list[str] = []
    finished = len({observation.trial for observation in table.observations})
    missing = len(plan.trials) - finished
    if missing > 0:
        warnings.append(f"{missing} of {len(plan.trials)} planned trials have not finished: the study is not balanced.")
    if table.strangers:
        warnings.append(f"{table.strangers} trials have a treatment that the plan does not have; they are left out.")
    analyses = []
    for figures in measured(table, names, level):
        strict = interim(figures.response) if interim is not None else None
        analysis, lost = analyse_response(table, figures, level, equivalence_margin, verdicts_only, strict)
        analyses.append(with_bounds(analysis, table.observations))
        warnings += lost
    warnings += _drifts(analyses)
    rates = failure_rates(table, level)
    warnings += failure_warnings(table, rates)
    return StudyAnalysis(
        responses=tuple(analyses),
        trials=finished,
        failures=failures_by_class(table),
        warnings=tuple(warnings),
        failing=rates,
    )


def _drifts(analyses: Sequence[ResponseAnalysis]) -> Iterator[str]:
    """A sentence for responses that drift and of which the same was taken out: the surest one's figures."""
    drifting = [analysis for analysis in analyses if analysis.drift.detected]
    for remedy in dict.fromkeys(analysis.drift.remedy for analysis in drifting):
        alike = [analysis for analysis in drifting if analysis.drift.remedy == remedy]
        surest = min(alike, key=lambda analysis: analysis.drift.p_adjusted or 0.0)
        others = ", ".join(analysis.response for analysis in alike if analysis is not surest)
        also = f" The same holds for {others}." if others else ""
        yield f"{surest.response}: {surest.drift.sentence} {remedy}{also}"


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
BEYOND = 2  # requests of a slot beyond a quantile, with fewer of which it is hardly more than the slowest one


def quantile_effects(
    plan: Plan,
    observations: Sequence[Observation],
    level: float = 0.95,
    interim: Callable[[str], Interim | None] = lambda _: None,
    describe: Describe = plain_level,
    margin: float | None = MARGIN,
    covariates: Sequence[str] = (),
) -> tuple[Effect, ...]:
    """The effects of every level on every quantile that the observations have, simultaneous over both; by quantile,
    then as ranked. Empty where fewer than two quantiles were measured.
    """
    names = [name for name, share in QUANTILES.items() if _measured(observations, name, share)]
    if len(names) < 2:
        return ()

    def shared(response: str) -> Interim:
        return _shared(interim(response), level, len(names))

    analysis = analyse(
        plan, observations, names, level, describe, margin, verdicts_only=True, interim=shared, covariates=covariates
    )
    return tuple(effect for response in analysis.responses for effect in response.effects)


def _measured(observations: Sequence[Observation], name: str, share: float) -> bool:
    """Whether the observations have figures of a quantile, with requests enough beyond it in a slot."""
    having = [
        observation.responses
        for observation in observations
        if observation.failure is None and name in observation.responses
    ]
    counts = [
        observation.responses["throughput"] * observation.seconds
        for observation in observations
        if observation.failure is None and observation.seconds is not None and "throughput" in observation.responses
    ]
    return bool(having) and (not counts or float(np.median(counts)) * (1 - share) >= BEYOND)


def _shared(inner: Interim | None, level: float, count: int) -> Interim:
    """How one of ``count`` families judges that share the error rate; ``inner``: one alone, at an interim analysis."""
    alpha = (1 - level) / count
    if inner is None:
        return Interim(1 - alpha, lambda p_value: min(1.0, count * p_value))
    if inner.level >= 1:
        return inner
    repeated = inner.repeated
    nominal = scipy.optimize.brentq(
        lambda power: repeated(math.exp(power)) - alpha, math.log(1e-14), math.log(1 - inner.level)
    )
    return Interim(1 - math.exp(nominal), lambda p_value: min(1.0, count * repeated(p_value)))
