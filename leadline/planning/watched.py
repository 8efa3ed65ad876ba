"""A study that may be watched at any moment: confidence sequences, intervals that hold at all times together.

The boundary is Robbins' normal mixture (Annals of Mathematical Statistics 41, 1970), in the form of Howard, Ramdas,
McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49 (2021),
equation 14, shared by the comparisons of a family (Bonferroni). As in asymptotic confidence sequences (Waudby-Smith et
al., Annals of Statistics 52, 2024) it is met by the study's own estimates and standard errors: its value is a level, at
which the analysis judges with its own model and degrees of freedom (``leadline.analysis.interim``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from leadline.analysis import analyse
from leadline.analysis.comparisons import KNOWN
from leadline.analysis.composite import as_one_factor
from leadline.analysis.interim import Interim
from leadline.analysis.maxt import MaxT, max_t
from leadline.analysis.table import Floats, StudyTable, sample_of
from leadline.analysis.within import Information, planned_sample
from leadline.model.conditions import Condition, Judged, changes_of_study, judge
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Observation

FEWEST = 3  # complete blocks before a verdict: fewer say too little of the noise
_TIGHT = 0.5  # share of the plan at which intervals are narrowest for the trials at hand
_ALPHA = 0.05  # for which they are


NOTHING = Interim(1.0, lambda _: 1.0)  # too early to judge


@dataclass(frozen=True)
class Watched:
    """``shares`` (k): the information that each comparison has, of the whole plan's; ``law``: of the largest statistic
    of those that have any.
    """

    shares: Floats
    law: MaxT

    @property
    def share(self) -> float:
        """The least that any comparison has: bounds fall with it until the plan is complete."""
        positive = self.shares[self.shares > 0]
        return min(float(positive.min(initial=1.0)), 1.0)

    def bound(self, share: float, level: float = 0.95) -> float:
        """Critical value of each statistic at a share of the plan's information."""
        ratio = self._ratio(share)
        tail = math.log1p(1 / ratio) + 2 * math.log(len(self.shares) / (1 - level))
        return math.sqrt((1 + ratio) * tail)

    def interim(self, level: float = 0.95) -> Interim:
        """How the analysis judges at this moment."""
        ratio = self._ratio(self.share)

        def repeated(p_value: float) -> float:
            statistic = self.law.quantile(1 - max(p_value, 1e-15), KNOWN)
            size = math.sqrt(1 + 1 / ratio) * math.exp(-(statistic**2) / (2 * (1 + ratio)))
            return min(1.0, len(self.shares) * size)

        return Interim(1 - self.law.sf(self.bound(self.share, level), KNOWN), repeated)

    def _ratio(self, share: float) -> float:
        """The mixture's variance parameter over the information so far."""
        alpha = _ALPHA / len(self.shares)
        width = -1 - float(special.lambertw(-(alpha**2) / math.e, -1).real)
        return _TIGHT / width / share


def watched(plan: Plan, observations: Sequence[Observation], response: str) -> Watched | None:
    """Where the trials that ran stand in the plan; None where they tell nothing yet."""
    plan, observations_ = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations_, plain_level)
    sample, _ = sample_of(table, response)
    if len(np.unique(sample.blocks)) < min(FEWEST, 1 + max(trial.block for trial in plan.trials)):
        return None
    now, end = Information.of(table, sample), Information.of(*planned_sample(plan))
    if not len(now.known):
        return None
    determined = now.known.any(axis=0) & end.known.any(axis=0)
    sizes = (np.where(determined, np.linalg.norm(information.fit.half, axis=1), 1.0) for information in (now, end))
    shares = np.where(determined, 1 / np.divide(*sizes) ** 2, 0.0)
    return Watched(shares, max_t(now.fit.scatter(now.known)))


def interim_of(plan: Plan, observations: Sequence[Observation], response: str, level: float = 0.95) -> Interim:
    """How the analysis of these trials judges a response."""
    state = watched(plan, observations, response)
    return NOTHING if state is None else state.interim(level)


def judged(plan: Plan, observations: Sequence[Observation], conditions: Sequence[Condition]) -> tuple[Judged, ...]:
    """The conditions held against the trials that ran so far, as the study would conclude if it ended now."""
    plan, observations = as_one_factor(plan, observations)
    analysis = analyse(
        plan,
        observations,
        [condition.response for condition in conditions],
        verdicts_only=True,
        interim=lambda response: interim_of(plan, observations, response),
    )
    return judge(conditions, changes_of_study(analysis))
