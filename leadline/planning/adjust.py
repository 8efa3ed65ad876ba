"""Intervals of a study that is looked at more than once: the analysis's own, widened to repeated confidence intervals.

Whatever model the analysis used, its simultaneous intervals are multiplied by the ratio of the look's bound to the
bound of a single analysis of the same trials. They then hold over all looks together, for every response, as repeated
confidence intervals do not depend on the rule that ended the study (Jennison and Turnbull 1989). Adjusted p values are
those at which the repeated intervals reach zero; they serve as q values, too, as the false discovery rate is never
above the family-wise error rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from leadline.analysis.carry import HIDDEN
from leadline.analysis.equivalence import inside
from leadline.analysis.maxt import max_t
from leadline.model.plan import Plan
from leadline.model.result import Effect, Interaction, Interval, Observation, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.planning.data import readings_of
from leadline.planning.paths import Paths, simulate
from leadline.planning.sequential import Spending, obrien_fleming_spending
from leadline.planning.shape import Information, evidence

_E = TypeVar("_E", bound=Effect)


@dataclass(frozen=True)
class Boundary:
    """The boundary of a family over looks. ``fractions``: share of the error rate's clock at each of them."""

    paths: Paths
    fractions: tuple[float, ...]
    spending: Spending = obrien_fleming_spending

    def bound(self, number: int, level: float) -> float:
        """Critical value of the look ``number`` (from 1), infinite where nothing can be said yet."""
        return self.paths.bounds(self.fractions[:number], 1 - level, self.spending)[-1]

    def single(self, number: int, level: float) -> float:
        """Critical value of a single analysis of the same trials."""
        solution = self.paths.solutions[number - 1]
        return max_t(solution.scatter(self.paths.count)).quantile(level, solution.df)

    def p_value(self, number: int, statistic: float) -> float:
        """Smallest family level at which the look lets ``statistic`` through."""
        return self.paths.repeated_p(self.fractions[:number], number - 1, statistic, self.spending)

    def knows(self, number: int) -> bool:
        """Whether the trials of the look leave a degree of freedom and tell anything."""
        solution = self.paths.solutions[number - 1]
        return solution.df > 0 and bool(solution.known[: self.paths.count].any())


TOO_EARLY = "this interim analysis has too little of the error rate to conclude; later ones have more"


def adjusted(
    analysis: StudyAnalysis,
    plan: Plan,
    observations: Sequence[Observation],
    blocks: Sequence[int],
    number: int,
    level: float = 0.95,
    boundary: Boundary | None = None,
) -> StudyAnalysis:
    """The analysis as it stands after look ``number`` (from 1) of ``blocks``.

    ``boundary``: one that was fixed before the study, for all responses; else that of the trials that ran.
    """
    if len(blocks) < 2 or not analysis.responses:
        return analysis
    responses = tuple(
        _response(one, boundary or _boundary(one, plan, observations, blocks, number), number, level)
        for one in analysis.responses
    )
    return replace(analysis, responses=responses)


def _boundary(
    one: ResponseAnalysis, plan: Plan, observations: Sequence[Observation], blocks: Sequence[int], number: int
) -> Boundary:
    readings = readings_of(plan, observations, one.response)
    ends = [*blocks[: number - 1], max(blocks[number - 1], 1 + max(readings.blocks, default=0))]
    parts = []
    for low, high in zip([0, *ends[:-1]], ends, strict=True):
        chosen = np.array([low <= block < high for block in readings.blocks], dtype=bool)
        parts.append(evidence(readings.rows.pick(chosen), readings.values[chosen]).information)
    nothing = Information(np.zeros((0, readings.rows.columns.shape[1])), 0)
    paths = simulate([*parts, *[nothing] * (len(blocks) - number)], len(readings.rows.comparisons))
    return Boundary(paths, tuple(each / blocks[-1] for each in blocks))


def _response(one: ResponseAnalysis, boundary: Boundary, number: int, level: float) -> ResponseAnalysis:
    if not boundary.knows(number):
        return one

    def widen(effects: Sequence[_E]) -> tuple[_E, ...]:
        return tuple(_effect(effect, boundary, number, level, one.margin) for effect in effects)

    return replace(one, effects=widen(one.effects), interactions=widen(one.interactions))


def _effect(effect: _E, boundary: Boundary, number: int, level: float, margin: float | None) -> _E:
    if effect.simultaneous is None or effect.percent is None or effect.verdict is Verdict.FAILED:
        return effect
    bound, single = boundary.bound(number, level), boundary.single(number, level)
    if math.isinf(bound):
        reason = f"{effect.reason}; {TOO_EARLY}" if effect.reason else TOO_EARLY
        verdict = Verdict.UNDETERMINED
        return replace(
            effect, simultaneous=None, verdict=verdict, p_adjusted=1.0, q_value=_q(effect, 1.0), reason=reason
        )
    wide = widened(effect.percent, effect.simultaneous, max(1.0, bound / single))
    if wide is None:
        return effect
    interval, reach = wide
    zero = interval.contains(0.0)
    verdict, reason = effect.verdict, effect.reason
    if inside(effect.simultaneous, margin) and not inside(interval, margin):
        reason = ""  # it told that the difference is within the margin
        verdict = Verdict.UNDETERMINED if verdict is Verdict.EQUIVALENT else verdict
    if zero and verdict in (Verdict.BETTER, Verdict.WORSE):
        same = inside(interval, margin) and HIDDEN not in effect.reason
        verdict = Verdict.EQUIVALENT if same else Verdict.UNDETERMINED
    p_value = effect.p_adjusted
    if p_value is not None and reach > 0:
        repeated = boundary.p_value(number, single * reach)
        # Interactions are a family of their own, whose bound is widened by the same ratio as that of the levels.
        p_value = max(p_value, repeated) if isinstance(effect, Interaction) else repeated
        p_value = min(p_value, 1 - level) if not zero else max(p_value, 1 - level)
    q_value = _q(effect, p_value)
    return replace(effect, simultaneous=interval, verdict=verdict, p_adjusted=p_value, q_value=q_value, reason=reason)


def _q(effect: Effect, p_value: float | None) -> float | None:
    return None if effect.q_value is None else p_value


def widened(percent: float, interval: Interval, factor: float) -> tuple[Interval, float] | None:
    """An interval ``factor`` times as wide on the scale it was made on (ratios where it lies unevenly about its
    estimate), and the size of the estimate in units of its old half width. None where it has no width.
    """
    low, high = percent - interval.low, interval.high - percent
    if low <= 0 or high <= 0:
        return None
    if abs(high - low) <= 1e-9 * max(abs(percent), high) or interval.low <= -100:
        return Interval(percent - factor * low, percent + factor * high, interval.level), abs(percent) / high
    middle = math.log1p(percent / 100)
    half = (math.log1p(interval.high / 100) - math.log1p(interval.low / 100)) / 2
    below, above = (100 * math.expm1(min(middle + sign * factor * half, 20.0)) for sign in (-1, 1))
    return Interval(below, above, interval.level), abs(middle) / half
