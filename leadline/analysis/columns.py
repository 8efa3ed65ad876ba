"""The model of a study as columns: blocks, levels, two-factor interactions, time; and the contrasts asked of it.

The k-th level of a factor has a column that is 1 where the factor has that level; baseline levels have none. So in a
one-at-a-time study a column's coefficient is the effect itself; where factors are crossed, products of columns are the
two-factor interactions and an effect is the coefficient plus the mean of its interactions over the other factors'
levels (marginal means with equal weights). Interactions of three and more factors go into the residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.linear import Fit, fit
from leadline.analysis.table import Cell, Floats, Sample, StudyTable

Main = tuple[int, int]  # factor, level
Pair = tuple[Main, Main]


@dataclass(frozen=True)
class Model:
    """Which columns there are: blocks first, then mains, pairs, and time (last) where it is used."""

    table: StudyTable
    blocks: tuple[int, ...]
    mains: tuple[Main, ...]
    pairs: tuple[Pair, ...]
    timed: bool

    @property
    def width(self) -> int:
        return len(self.blocks) + len(self.mains) + len(self.pairs) + self.timed

    def cell(self, cell: Cell) -> Floats:
        """Columns (p) of one treatment, without block and time."""
        row = np.zeros(self.width)
        offset = len(self.blocks)
        for number, (factor, level) in enumerate(self.mains):
            row[offset + number] = cell[factor] == level
        offset += len(self.mains)
        for number, ((f, a), (g, b)) in enumerate(self.pairs):
            row[offset + number] = cell[f] == a and cell[g] == b
        return row

    def rows(self, sample: Sample) -> Floats:
        """Columns (n, p) of a sample."""
        cells = np.array([self.cell(cell) for cell in self.table.cells])
        design = np.asarray(cells[sample.cells], dtype=np.float64)
        for number, block in enumerate(self.blocks):
            design[:, number] = sample.blocks == block
        if self.timed and sample.hours is not None:
            centred = sample.hours - sample.hours.mean()
            design[:, -1] = centred / np.abs(centred).max()
        return design

    def effect(self, main: Main) -> Floats:
        """Contrast (p) of a level against its baseline level, averaged over the other factors' levels."""
        row = np.zeros(self.width)
        row[len(self.blocks) + self.mains.index(main)] = 1.0
        for number, pair in enumerate(self.pairs):
            if main in pair:
                other = pair[0] if pair[1] == main else pair[1]
                weight = 1.0 / len(self.table.factors[other[0]].levels)
                row[len(self.blocks) + len(self.mains) + number] = weight
        return row

    def interaction(self, pair: Pair) -> Floats:
        """Contrast (p): how far two levels together differ from the sum of each alone."""
        row = np.zeros(self.width)
        row[len(self.blocks) + len(self.mains) + self.pairs.index(pair)] = 1.0
        return row

    def treatment(self, cell: Cell) -> Floats:
        """Contrast (p) of a treatment against the baseline treatment."""
        return self.cell(cell) - self.cell(self.table.cells[0])


def fitted(table: StudyTable, sample: Sample, values: Floats, timed: bool) -> tuple[Model, Fit]:
    """The widest model that leaves something to estimate the noise from.

    Interactions are dropped when they would leave no residual degrees of freedom, and time before them.
    """
    mains = tuple(table.comparisons())
    blocks = tuple(sorted({int(block) for block in sample.blocks}))
    pairs = _pairs(table, mains) if table.crossed else ()
    tries = [(pairs, timed), (pairs, False), ((), timed), ((), False)]
    for chosen, with_time in tries:
        model = Model(table, blocks, mains, chosen, with_time and sample.hours is not None)
        result = fit(model.rows(sample), values)
        if result.df > (2 if model.timed else 0):
            return model, result
    return model, result


def _pairs(table: StudyTable, mains: tuple[Main, ...]) -> tuple[Pair, ...]:
    return tuple(
        (one, other)
        for number, one in enumerate(mains)
        for other in mains[number + 1 :]
        if one[0] != other[0] and any(cell[one[0]] == one[1] and cell[other[0]] == other[1] for cell in table.cells)
    )
