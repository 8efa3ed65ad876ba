"""Least squares with what inference needs: estimable contrasts, covariance, noise, the smallest effect found.

``Strata`` says which figures of a sample share a block, a whole plot or a server instance, or follow in time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.table import Floats, Ints, Sample, StudyTable
from leadline.model import distributions

_RANK = 1e-9


@dataclass(frozen=True)
class Fit:
    """A fitted model with n rows, p columns and rank r.

    ``beta`` (p) is the solution of smallest norm; ``half`` (p, r) times its transpose is the generalised inverse of
    X'X; ``rows`` (p, r) spans the row space; ``sigma`` is the residual standard deviation, 0 where ``df`` is 0.
    """

    beta: Floats
    half: Floats
    rows: Floats
    df: int
    sigma: float

    @property
    def separate(self) -> bool:
        """Whether each contrast has a noise of its own, with which no other has anything in common."""
        return False

    def degrees(self, contrasts: Floats) -> Floats:
        """Degrees of freedom (k) of the contrasts' standard errors."""
        return np.full(len(contrasts), float(self.df))

    def estimable(self, contrasts: Floats) -> list[bool]:
        """For each row of ``contrasts`` (k, p): whether the data determine it."""
        rest = contrasts - (contrasts @ self.rows) @ self.rows.T
        return [bool(size <= 1e-6) for size in np.max(np.abs(rest), axis=1, initial=0.0)]

    def estimates(self, contrasts: Floats) -> Floats:
        """Values of the contrasts (k)."""
        return np.asarray(contrasts @ self.beta, dtype=np.float64)

    def scatter(self, contrasts: Floats) -> Floats:
        """(k, r): times its transpose, times sigma squared, is the covariance of the contrasts."""
        return np.asarray(contrasts @ self.half, dtype=np.float64)

    def errors(self, contrasts: Floats) -> Floats:
        """Standard errors of the contrasts (k)."""
        return np.asarray(self.sigma * np.linalg.norm(self.scatter(contrasts), axis=1), dtype=np.float64)


def fit(design: Floats, values: Floats, lost: int = 0, size: float | None = None) -> Fit:
    """Ordinary least squares of ``values`` (n) on ``design`` (n, p), whatever its rank.

    ``lost`` degrees of freedom were spent on what both are already free of; ``size`` is the norm of the values before
    (around their mean): residuals much smaller than it are rounding.
    """
    left_vectors, singular, right = np.linalg.svd(design, full_matrices=False)
    rank = int(np.sum(singular > _RANK * max(1.0, float(singular.max(initial=0.0)))))
    left_vectors, singular, right = left_vectors[:, :rank], singular[:rank], right[:rank]
    half = right.T / singular
    beta = half @ (left_vectors.T @ values)
    residuals = values - design @ beta
    df = len(values) - rank - lost
    left_over = float(np.linalg.norm(residuals))
    size = size or float(np.linalg.norm(values - np.mean(values)) or np.linalg.norm(values))
    exact = left_over <= 1e-10 * max(1e-300, size)
    sigma = 0.0 if df <= 0 or exact else left_over / float(np.sqrt(df))
    return Fit(beta, half, right.T, df, sigma)


ALIKE = 0.5  # level of the test by which the noise of others is not used


@dataclass(frozen=True)
class Residual:
    """``variance`` of the logarithms of one trial's figures, with its degrees of freedom."""

    df: int
    variance: float


def pooled(fit: Fit, others: Sequence[Residual]) -> Fit:
    """``fit`` with its noise and that of ``others`` as one, as a plain fit; ``fit`` itself where its own is larger.

    A comparison of two blocks has few degrees of freedom of its own. Those of others are added where its own noise is
    not the larger one by an F test before pooling (Bozivich, Bancroft and Hartley 1956). The test is one-sided, and at
    ``ALIKE``: at the usual 0.25 a step with 1.5 to 2 times the noise of the others errs three times too often at the
    levels by which a tuning decides; at 0.5 it is 1.7 times, and steps of equal noise err half as often as they may.
    """
    df = sum(other.df for other in others)
    if df <= 0 or fit.df <= 0 or fit.sigma <= 0:
        return fit
    variance = sum(other.df * other.variance for other in others) / df
    if variance <= 0 or distributions.f.sf(fit.sigma**2 / variance, fit.df, df) < ALIKE:
        return fit
    every = fit.df + df
    sigma = float((fit.df * fit.sigma**2 + df * variance) / every) ** 0.5
    return Fit(fit.beta, fit.half, fit.rows, every, sigma)


POWER = 0.8


def detectable(critical: float, error: float, df: float, power: float = POWER) -> float:
    """Smallest contrast found with probability ``power`` when |t| > ``critical`` counts as found.

    From the noncentral t distribution; where that cannot be evaluated, (critical + t(power, df)) standard errors,
    which is a little larger.
    """
    plain = critical + float(distributions.t.ppf(power, df))
    if df > 10_000:
        return plain * error

    def shortfall(shift: float) -> float:
        return float(distributions.nct.sf(critical, df, shift)) - power

    ends = shortfall(0.0), shortfall(2 * plain)
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < 0 < ends[1]):
        return plain * error
    shift = float(scipy.optimize.brentq(shortfall, 0.0, 2 * plain, xtol=1e-6))
    return shift * error if math.isfinite(shift) else plain * error


MANY_BLOCKS = 40  # beyond, fixed blocks are swept out instead of having columns
FEW_SLOTS = 8  # beyond the first of each trial; with fewer no autocorrelation is estimated


@dataclass(frozen=True)
class Stratum:
    """A grouping. ``starts`` (g) are the first rows of its groups in the sorted order; ``df`` its error's degrees."""

    name: str
    starts: Ints
    df: int = 0

    @property
    def groups(self) -> int:
        return len(self.starts)


@dataclass(frozen=True)
class Strata:
    """How the errors of a sample hang together.

    ``order`` (n) sorts the rows so that every group is one stretch. ``random`` strata run from the innermost outwards.
    ``swept`` is taken as fixed, by projection. ``lags`` (n) count slots since the one before in the same trial, 0 for
    a trial's first; None without autocorrelation. Between the groups of the stratum called ``unjudged`` differences
    cannot be told from noise, because nothing is left to measure its noise by.
    """

    order: Ints
    random: tuple[Stratum, ...] = ()
    swept: Stratum | None = None
    lags: Ints | None = None
    unjudged: str = ""

    @property
    def mixed(self) -> bool:
        """Whether there is more than one source of noise."""
        return bool(self.random) or self.lags is not None

    @property
    def in_two(self) -> bool:
        """Whether there are two sources of noise, between groups and inside them, and nothing else."""
        return len(self.random) == 1 and self.lags is None and self.swept is None


def block_columns(table: StudyTable, sample: Sample) -> tuple[str, tuple[int, ...]]:
    """How blocks enter (``columns``, ``swept`` or ``random``), and those that have a column. They are random only where
    a factor changes between them and nowhere else. Of other incomplete blocks what is known between them is given up:
    its weight rests on one noise for all levels.
    """
    blocks = tuple(sorted({int(block) for block in sample.blocks}))
    nested = all(_nested(inner, sample.blocks) for inner in (sample.plots, sample.trials))
    if nested and table.between_blocks:
        return "random", ()
    return ("swept", ()) if nested and len(blocks) > MANY_BLOCKS else ("columns", blocks)


def strata_of(sample: Sample, design: Floats, blocks: str, leading: int) -> Strata:
    """The strata that can be estimated beside the fixed columns ``design`` (n, p), of which the first ``leading`` are
    blocks or the constant. ``blocks`` as :func:`block_columns` says.
    """
    slotted, order = sample.slotted, _order(sample)
    labels = {"trial": sample.trials[order], "plot": sample.plots[order], "block": sample.blocks[order]}
    starts = {name: _starts(label) for name, label in labels.items()}
    names = [*(["trial"] if slotted else []), *(["plot"] if np.any(sample.plots >= 0) else [])]
    names += ["block"] if blocks == "random" else []
    outside = Stratum("block", starts["block"]) if blocks == "swept" else None
    random, swept, unjudged = _choose(names, starts, design[order], leading, outside)
    lags = _lags(sample.slots[order], starts["trial"]) if slotted else None
    return Strata(order, tuple(random), swept, lags, unjudged)


def innermost(sample: Sample) -> tuple[Ints, Ints]:
    """The order of the rows, as ``Strata`` has it, and the first rows (g) in it of the smallest groups of which some
    hold more than one figure: trials of slots, whole plots, else blocks.
    """
    order = _order(sample)
    if not len(order):
        return order, order
    for labels in (sample.trials, sample.plots, sample.blocks):
        starts = _starts(labels[order])
        if labels is sample.blocks or (np.any(labels >= 0) and len(starts) < len(order)):
            break
    return order, starts


def _order(sample: Sample) -> Ints:
    return np.lexsort((sample.slots, sample.trials, sample.plots, sample.blocks)).astype(np.int64)


def _choose(
    names: list[str], starts: Mapping[str, Ints], design: Floats, leading: int, outside: Stratum | None
) -> tuple[list[Stratum], Stratum | None, str]:
    count = len(design)
    chosen: list[tuple[str, Ints]] = []
    for name in names:  # a stratum whose groups are those below it adds nothing
        if len(starts[name]) < (len(chosen[-1][1]) if chosen else count) and count > _joint(design, starts[name]):
            chosen.append((name, starts[name]))
    random: list[Stratum] = []
    for index, (name, groups) in enumerate(chosen):
        around = chosen[index + 1][1] if index + 1 < len(chosen) else outside.starts if outside else None
        df = _joint(design, groups) - _joint(design, around)
        if df > 0:
            random.append(Stratum(name, groups, df))
            continue
        lost = _treatments(design, leading, groups) < _treatments(design, leading, outside.starts if outside else None)
        return random, Stratum(name, groups), name if lost else ""
    return random, outside, ""


def _treatments(design: Floats, leading: int, starts: Ints | None) -> int:
    """Rank that the treatments have beyond blocks and groups."""
    return _joint(design, starts) - _joint(design[:, :leading], starts)


def _joint(design: Floats, starts: Ints | None) -> int:
    """Rank of the columns together with the groups' indicators."""
    return _rank(design, starts) + (0 if starts is None else len(starts))


def _rank(columns: Floats, starts: Ints | None) -> int:
    """Rank of the columns, inside groups where these are given."""
    if not columns.shape[1]:
        return 0
    inside = columns if starts is None else centred(columns, starts)
    scale = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    values = np.linalg.eigvalsh((inside / scale).T @ (inside / scale))
    return int(np.sum(values > 1e-9))


def centred(columns: Floats, starts: Ints) -> Floats:
    """Columns (n, p) less their group means."""
    if not len(columns):
        return columns
    sizes = np.diff(np.append(starts, len(columns)))
    means = np.add.reduceat(columns, starts, axis=0) / sizes[:, None]
    return np.asarray(columns - np.repeat(means, sizes, axis=0), dtype=np.float64)


def in_groups(columns: Floats, starts: Ints) -> Floats:
    """(n, g * m): the columns (n, m) of each group by itself, without empty ones."""
    crossed = np.zeros((len(columns), len(starts), columns.shape[1]))
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(columns)], strict=True)):
        crossed[start:end, number] = columns[start:end]
    flat = crossed.reshape(len(columns), -1)
    return np.asarray(flat[:, np.any(flat != 0, axis=0)], dtype=np.float64)


def _starts(label: Ints) -> Ints:
    return np.flatnonzero(np.r_[True, label[1:] != label[:-1]]).astype(np.int64)


def _nested(inner: Ints, outer: Ints) -> bool:
    inside = inner >= 0
    pairs = np.unique(np.column_stack([inner[inside], outer[inside]]), axis=0)
    return len(pairs) == len(np.unique(inner[inside]))


def _lags(slots: Ints, starts: Ints) -> Ints | None:
    if len(slots) - len(starts) < FEW_SLOTS:
        return None
    lags = np.maximum(1, np.diff(slots, prepend=0))
    lags[starts] = 0
    return np.asarray(lags, dtype=np.int64)
