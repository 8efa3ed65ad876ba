"""Responses of which some trials know only a lower bound: what then still holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leadline.model.plan import Role
from leadline.model.result import AtLeast, Effect, Observation, ResponseAnalysis, Verdict


def with_bounds(analysis: ResponseAnalysis, observations: Sequence[Observation]) -> ResponseAnalysis:
    """The analysis, without verdicts that more than the bounds would be needed for: where the level's figures are
    bounds it may be worse than it looks, where the baseline's are it may be better.
    """
    response = analysis.response
    measured = [one for one in observations if one.failure is None and response in one.responses]
    bounds = [one for one in measured if isinstance(one.responses[response], AtLeast)]
    if not bounds:
        return analysis
    counted = f"{len(bounds)} of {len(measured)} figures are lower bounds, as transactions got no answer in time"
    mean = analysis.baseline_mean
    baseline_bound = mean is not None and any(one.role is not Role.TREATMENT for one in bounds)
    return replace(
        analysis,
        baseline_mean=AtLeast(mean) if baseline_bound and mean is not None else mean,
        baseline_interval=None if baseline_bound else analysis.baseline_interval,
        effects=tuple(_known(effect, bounds) for effect in analysis.effects),
        interactions=(),
        notes=(*analysis.notes, f"{response}: {counted}."),
    )


def _known(effect: Effect, bounds: Sequence[Observation]) -> Effect:
    levels = {one.treatment.as_dict().get(effect.factor, effect.baseline) for one in bounds}
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
