"""Interim analyses as levels: how strictly each look judges, so that all together keep the error rate.

A boundary is that of the family's largest statistic under known noise. Its bound at a look is a level, at which the
study's own analysis judges (``leadline.analysis.sequential``), with noise by level, correlated slots, or whatever model
the data have. Intervals are then repeated confidence intervals, which do not depend on the rule that ended the study
(Jennison and Turnbull 1989). Adjusted p values are the levels at which they reach zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.comparisons import KNOWN
from leadline.analysis.sequential import FEWEST, Interim, bounds
from leadline.analysis.study import analyse
from leadline.analysis.table import Floats, StudyTable, as_one_factor, sample_of
from leadline.analysis.within import Information, planned_sample
from leadline.model.conditions import Condition, Judged, changes_of_study, judge
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Observation
from leadline.planning.paths import Paths, simulate

_SMALLEST = 1e-15  # p value that a quantile can be told for


@dataclass(frozen=True)
class Boundary:
    """The boundary of a family over looks. ``fractions``: share of the error rate's clock at each of them."""

    paths: Paths
    fractions: tuple[float, ...]

    def bound(self, number: int, level: float = 0.95) -> float:
        """Critical value of the look ``number`` (from 1), infinite where nothing can be said yet."""
        return self.paths.bounds(self.fractions[:number], 1 - level)[-1]

    def interim(self, number: int, level: float = 0.95) -> Interim | None:
        """How the look judges; None where its trials tell nothing."""
        if not len(self.paths.known[number - 1].known):
            return None
        law = self.paths.law(number - 1)

        def repeated(p_value: float) -> float:
            statistic = law.quantile(1 - max(p_value, _SMALLEST), KNOWN)
            return self.paths.repeated_p(self.fractions[:number], number - 1, statistic)

        return Interim(1 - law.sf(self.bound(number, level), KNOWN), repeated)


def boundary_of(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    blocks: Sequence[int],
    number: int,
    ahead: Sequence[Information] = (),
) -> Boundary:
    """The boundary of a response over looks after ``blocks``, from the trials that ran until look ``number``.
    ``ahead``: what each later look would add; it does not change the bounds of earlier ones.
    """
    plan, observations = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations, plain_level)
    sample, _ = sample_of(table, response)
    ends = [*blocks[: number - 1], max(blocks[number - 1], 1 + int(sample.blocks.max(initial=0)))]
    parts = [
        Information.of(table, sample.only((low <= sample.blocks) & (sample.blocks < high)))
        for low, high in zip([0, *ends[:-1]], ends, strict=True)
    ]
    nothing = Information(np.zeros_like(parts[0].matrix), 0)
    paths = simulate([*parts, *(ahead or [nothing] * (len(blocks) - number))])
    return Boundary(paths, tuple(share / blocks[-1] for share in blocks))


NOTHING = Interim(1.0, lambda _: 1.0)  # too early to judge


def shares_of(plan: Plan, observations: Sequence[Observation], response: str) -> Floats | None:
    """(k) The information that each comparison has, of the whole plan's; None where the trials tell nothing yet."""
    plan, observations_ = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations_, plain_level)
    sample, _ = sample_of(table, response)
    if len(np.unique(sample.blocks)) < min(FEWEST, blocks_of(plan)):
        return None
    now, end = Information.of(table, sample), Information.of(*planned_sample(plan))
    if not len(now.known):
        return None
    determined = now.known.any(axis=0) & end.known.any(axis=0)
    sizes = (np.where(determined, np.linalg.norm(information.fit.half, axis=1), 1.0) for information in (now, end))
    return np.where(determined, 1 / np.divide(*sizes) ** 2, 0.0)


def blocks_of(plan: Plan) -> int:
    """How many blocks it has."""
    return 1 + max(trial.block for trial in plan.trials)


def interim_at(plan: Plan, shares: Floats | None, level: float = 0.95) -> Interim:
    """How an analysis judges where comparisons have these shares, strictly by the least of them; ``level`` holds over
    all blocks together.
    """
    if shares is None:
        return NOTHING
    share, law = min(float(shares[shares > 0].min(initial=1.0)), 1.0), bounds(blocks_of(plan))
    return Interim(1 - law.nominal(share, 1 - level), lambda p_value: law.overall(p_value, share))


def interim_of(plan: Plan, observations: Sequence[Observation], response: str, level: float = 0.95) -> Interim:
    """How the analysis of these trials judges a response."""
    return interim_at(plan, shares_of(plan, observations, response), level)


def judged(
    plan: Plan, observations: Sequence[Observation], conditions: Sequence[Condition], level: float = 0.95
) -> tuple[Judged, ...]:
    """The conditions held against the trials that ran so far, as the study would conclude if it ended now."""
    plan, observations = as_one_factor(plan, observations)
    analysis = analyse(
        plan,
        observations,
        [condition.response for condition in conditions],
        verdicts_only=True,
        interim=lambda response: interim_of(plan, observations, response, level),
    )
    return judge(conditions, changes_of_study(analysis))
