"""The model inside the smallest groups of figures: what forecasts, interim analyses and estimates of noise rest on.

What the trials of a block, those of a whole plot, or the slots of a trial have in common is taken out, so that one
source of noise is left, and what disjoint groups say adds up. Before there are data, every figure of a plan is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.linear import Fit, centred, fit, innermost
from leadline.analysis.table import Floats, Sample, StudyTable, sample_of
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Observation

_PLANNED = "planned"
_RANK = 1e-9


def planned_sample(plan: Plan) -> tuple[StudyTable, Sample]:
    """The sample that a whole plan will give, with figures of 0."""
    rows: list[Observation] = []
    for trial in plan.trials:
        place = (trial.position, trial.position, trial.block, trial.replicate, trial.role)
        whole = Observation(*place, trial.treatment, 0.0, {_PLANNED: 0.0}, plot=trial.plot)
        rows += [replace(whole, treatment=slot.treatment, slot=slot.index) for slot in trial.slots] or [whole]
    table = StudyTable.of(plan, rows, plain_level)
    return table, sample_of(table, _PLANNED)[0]


def within(model: Model, sample: Sample, values: Floats | None = None) -> Fit:
    """The fit of ``values`` (n), 0 before there are data, inside groups: its noise is that of trials, or of slots."""
    order, starts = innermost(sample)
    figures = np.zeros(sample.size) if values is None else values[order]
    return fit(
        centred(model.rows(sample)[order], starts),
        centred(figures[:, None], starts)[:, 0],
        len(starts),
        float(np.linalg.norm(figures - figures.mean())),
    )


@dataclass(frozen=True)
class Information:
    """What figures say about the comparisons (k) for noise of size 1: ``matrix`` (k, k), and ``df``, the number of
    figures less that of their groups. Those of disjoint groups add up.
    """

    matrix: Floats
    df: int

    @classmethod
    def of(cls, table: StudyTable, sample: Sample) -> Information:
        """Of all figures of a sample. Interactions are left out: in complete blocks they take nothing away."""
        model = Model(table, (), tuple(table.comparisons()), (), False, "swept")
        order, starts = innermost(sample)
        rows = centred(model.rows(sample)[order], starts)
        return cls(rows.T @ rows, len(rows) - len(starts))

    @cached_property
    def root(self) -> Floats:
        """(r, k): root' root is the matrix. By Cholesky in the order of the comparisons, without those that others
        determine: eigenvectors of equal eigenvalues turn as each processor likes, and draws along them with it.
        """
        rest, rows = self.matrix.copy(), []
        for at, size in enumerate(np.diag(self.matrix)):
            if rest[at, at] > _RANK * max(size, _RANK):
                rows.append(rest[at] / np.sqrt(rest[at, at]))
                rest -= np.outer(rows[-1], rows[-1])
        return np.array(rows).reshape(len(rows), len(rest))

    @cached_property
    def fit(self) -> Fit:
        """The comparisons as coefficients, each 0, with the degrees of freedom that are left for the noise."""
        return fit(self.root, np.zeros(len(self.root)), len(self.root) - self.df, 1.0)

    @cached_property
    def known(self) -> Floats:
        """(j, k): contrasts of the comparisons that the figures determine; none without a degree of freedom."""
        identity = np.eye(len(self.matrix))
        return identity[self.fit.estimable(identity)] if self.fit.df > 0 else identity[:0]

    def __add__(self, other: Information) -> Information:
        return Information(self.matrix + other.matrix, self.df + other.df)
