"""What a set of trials can tell about every comparison, before or after they were run.

A model of nuisance effects (blocks; for slots the trials they lie in), one column for every level that is not its
factor's baseline, and, where factors are fully crossed, two-factor interactions in centred coding, so that the
coefficient of a level is its effect averaged over the other factors' levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.model.knob import Level
from leadline.model.plan import Plan, Treatment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_RANK = 1e-9


@dataclass(frozen=True)
class Comparison:
    """A level against its factor's baseline level."""

    factor: str
    level: Level
    baseline: Level

    def __str__(self) -> str:
        return f"{self.factor}={self.level}"


@dataclass(frozen=True)
class Rows:
    """Trials (or slots) as model rows. ``columns`` (n, p): the comparisons' columns first, then interactions;
    ``groups`` (n): the nuisance effect each row has.
    """

    comparisons: tuple[Comparison, ...]
    columns: Floats
    groups: Ints

    def pick(self, chosen: NDArray[np.bool_]) -> Rows:
        """The rows where ``chosen`` (n) is true."""
        return Rows(self.comparisons, self.columns[chosen], self.groups[chosen])


def comparisons_of(plan: Plan) -> tuple[Comparison, ...]:
    """Every level that is not its factor's baseline, in plan order."""
    return tuple(
        Comparison(factor.name, level, factor.baseline)
        for factor in plan.factors
        for level in factor.levels
        if level != factor.baseline
    )


def rows_of(plan: Plan, units: Sequence[tuple[Treatment, int]]) -> Rows:
    """Model rows of (treatment, nuisance group) pairs."""
    comparisons = comparisons_of(plan)
    encode = _encoder(plan, comparisons)
    cache = {treatment: encode(treatment) for treatment in {treatment for treatment, _ in units}}
    width = len(encode(plan.baseline))
    columns = np.array([cache[treatment] for treatment, _ in units], dtype=np.float64).reshape(len(units), width)
    return Rows(comparisons, columns, np.array([group for _, group in units], dtype=np.int64))


def planned_rows(plan: Plan) -> Rows:
    """Rows of a whole plan: of its slots, inside trials, where it has slots, else of its trials, inside blocks."""
    return rows_of(plan, planned_units(plan))


def planned_units(plan: Plan) -> list[tuple[Treatment, int]]:
    """(treatment, nuisance group) of every slot or trial; trials of a whole plot share the plot's effect."""
    units: list[tuple[Treatment, int]] = []
    for trial in plan.trials:
        if trial.slots:
            units += [(slot.treatment, trial.position) for slot in trial.slots]
        else:
            units.append((trial.treatment, trial.block if trial.plot is None else trial.plot))
    return units


def _encoder(plan: Plan, comparisons: Iterable[Comparison]) -> Callable[[Treatment], list[float]]:
    mains = list(comparisons)
    centre = {factor.name: 1.0 / len(factor.levels) for factor in plan.factors}
    crossed = plan.kind == "full-factorial"
    pairs = [(i, j) for i in range(len(mains)) for j in range(i + 1, len(mains)) if mains[i].factor != mains[j].factor]

    def encode(treatment: Treatment) -> list[float]:
        levels = treatment.as_dict()
        main = [1.0 if levels[item.factor] == item.level else 0.0 for item in mains]
        if not crossed:
            return main
        middle = [value - centre[item.factor] for value, item in zip(main, mains, strict=True)]
        return main + [middle[i] * middle[j] for i, j in pairs]

    return encode


@dataclass(frozen=True)
class Information:
    """What rows say about the columns once the nuisance effects are gone.

    ``root`` (r, p) has root' root = the information matrix for unit noise; ``df`` are the degrees of freedom left for
    the noise. Informations of disjoint nuisance groups add up: stack the roots.
    """

    root: Floats
    df: int


@dataclass(frozen=True)
class Evidence:
    """Information with data: ``scores`` (r) are unit-variance (times the noise) readings of root @ effects, and ``rss``
    is the residual sum of squares on ``information.df``.
    """

    information: Information
    scores: Floats
    rss: float


def within(rows: Rows) -> tuple[Floats, int]:
    """Columns with every nuisance group's mean taken out (n, p), and the number of groups."""
    columns = rows.columns.copy()
    names = np.unique(rows.groups)
    for name in names:
        chosen = rows.groups == name
        columns[chosen] -= columns[chosen].mean(axis=0)
    return columns, len(names)


def information(rows: Rows) -> Information:
    """The information in planned rows."""
    return evidence(rows, np.zeros(len(rows.groups))).information


def evidence(rows: Rows, values: Floats) -> Evidence:
    """The information in rows with their ``values`` (n), by an orthogonal reduction of the rows."""
    columns, groups = within(rows)
    centred = np.asarray(values, dtype=np.float64).copy()
    for name in np.unique(rows.groups):
        chosen = rows.groups == name
        centred[chosen] -= centred[chosen].mean()
    if not len(columns):
        return Evidence(Information(np.zeros((0, rows.columns.shape[1])), 0), np.zeros(0), 0.0)
    left, singular, right = np.linalg.svd(columns, full_matrices=False)
    rank = int(np.sum(singular > _RANK * max(1.0, float(singular.max(initial=0.0)))))
    scores = left[:, :rank].T @ centred
    root = singular[:rank, None] * right[:rank]
    rss = max(0.0, float(centred @ centred - scores @ scores))
    return Evidence(Information(root, len(values) - groups - rank), scores, rss)


@dataclass(frozen=True)
class Solution:
    """Several informations taken together. ``inverse`` (p, p) is the covariance of the estimates for unit noise,
    ``known`` (p) tells which columns the rows determine, ``df`` the degrees of freedom of the noise.
    """

    inverse: Floats
    known: NDArray[np.bool_]
    df: int

    def errors(self, count: int) -> Floats:
        """Standard errors of the first ``count`` columns for unit noise; 0 where not determined."""
        return np.sqrt(np.where(self.known, np.diag(self.inverse), 0.0))[:count]

    def scatter(self, count: int) -> Floats:
        """(k, p): rows of the known ones among the first ``count`` columns; times its transpose: their covariance."""
        values, vectors = np.linalg.eigh(self.inverse)
        half = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(half[:count][self.known[:count]], dtype=np.float64)


def solve(parts: Sequence[Information]) -> Solution:
    """All parts together. Their nuisance groups must be disjoint."""
    stacked = np.vstack([part.root for part in parts])
    width = stacked.shape[1]
    _, singular, right = np.linalg.svd(stacked, full_matrices=False)
    rank = int(np.sum(singular > _RANK * max(1.0, float(singular.max(initial=0.0)))))
    basis, singular = right[:rank], singular[:rank]
    half = basis.T / singular
    known = np.abs(basis.T @ basis - np.eye(width)).max(axis=1, initial=0.0) < 1e-7
    df = sum(part.df + len(part.root) for part in parts) - rank
    return Solution(half @ half.T, known, df)
