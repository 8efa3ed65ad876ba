"""A study that may be watched: intervals that hold after every block of the plan together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.analysis.composite import as_one_factor
from leadline.analysis.interim import Interim
from leadline.analysis.sequential import FEWEST, bounds
from leadline.analysis.study import analyse
from leadline.analysis.table import Floats, StudyTable, sample_of
from leadline.analysis.within import Information, planned_sample
from leadline.model.conditions import Condition, Judged, changes_of_study, judge
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Observation

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
