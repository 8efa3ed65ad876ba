"""Interim analyses as levels: how strictly each look judges, so that all together keep the error rate.

A boundary is that of the family's largest statistic under known noise. Its bound at a look is a level, at which the
study's own analysis judges (``leadline.analysis.interim``), with noise by level, correlated slots, or whatever model
the data have. Intervals are then repeated confidence intervals, which do not depend on the rule that ended the study
(Jennison and Turnbull 1989). Adjusted p values are the levels at which they reach zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.comparisons import KNOWN
from leadline.analysis.composite import as_one_factor
from leadline.analysis.interim import Interim
from leadline.analysis.maxt import MaxT, max_t
from leadline.model.plan import Plan
from leadline.model.result import Observation
from leadline.planning.data import readings_of
from leadline.planning.paths import Paths, simulate
from leadline.planning.sequential import Spending, obrien_fleming_spending
from leadline.planning.shape import Information, information

_SMALLEST = 1e-15  # p value that a quantile can be told for


@dataclass(frozen=True)
class Boundary:
    """The boundary of a family over looks. ``fractions``: share of the error rate's clock at each of them."""

    paths: Paths
    fractions: tuple[float, ...]
    spending: Spending = obrien_fleming_spending

    def bound(self, number: int, level: float = 0.95) -> float:
        """Critical value of the look ``number`` (from 1), infinite where nothing can be said yet."""
        return self.paths.bounds(self.fractions[:number], 1 - level, self.spending)[-1]

    def interim(self, number: int, level: float = 0.95) -> Interim | None:
        """How the look judges; None where its trials tell nothing."""
        solution = self.paths.solutions[number - 1]
        if solution.df <= 0 or not solution.known[: self.paths.count].any():
            return None
        law = self._law(number)

        def repeated(p_value: float) -> float:
            statistic = law.quantile(1 - max(p_value, _SMALLEST), KNOWN)
            return self.paths.repeated_p(self.fractions[:number], number - 1, statistic, self.spending)

        return Interim(1 - law.sf(self.bound(number, level), KNOWN), repeated)

    def _law(self, number: int) -> MaxT:
        return max_t(self.paths.solutions[number - 1].scatter(self.paths.count))


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
    readings = readings_of(plan, observations, response)
    ends = [*blocks[: number - 1], max(blocks[number - 1], 1 + max(readings.blocks, default=0))]
    parts = []
    for low, high in zip([0, *ends[:-1]], ends, strict=True):
        chosen = np.array([low <= block < high for block in readings.blocks], dtype=bool)
        parts.append(information(readings.rows.pick(chosen)))
    nothing = Information(np.zeros((0, readings.rows.columns.shape[1])), 0)
    paths = simulate([*parts, *(ahead or [nothing] * (len(blocks) - number))], len(readings.rows.comparisons))
    return Boundary(paths, tuple(each / blocks[-1] for each in blocks))
