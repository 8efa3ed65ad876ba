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
from leadline.analysis.table import StudyTable, sample_of
from leadline.analysis.within import Information
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
