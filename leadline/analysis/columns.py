"""The model of a study as columns: blocks, levels, two-factor interactions, time; and the contrasts asked of it.

The k-th level of a factor has a column that is 1 where the factor has that level; baseline levels have none. A product
of two such columns, each less its mean over the factor's levels with equal weights, is a two-factor interaction
(effects coding). So a level's coefficient is its effect against its baseline level averaged over the other factors'
levels, with interactions in the model and without. Interactions of three and more factors go into the residual.

Of forks the worlds are the blocks of a randomised complete block design. Inside a world there is no noise. What is left
of a difference after its mean over worlds is how it varies from world to world, and that is another thing for every
setting: one touches nothing, another the whole course of a run. Where factors are crossed a level varies with the world
in all its treatments together, too. So the noise of a contrast is that of its own values in the worlds, which are
independent whatever is inside them, and nothing is borrowed from other contrasts. In complete worlds that is the paired
t test (Scheffe, The Analysis of Variance, 1959, chapter 8: treatments x random blocks); where trials are missing, the
clustered sandwich with as many degrees of freedom as worlds, less one (Bell and McCaffrey 2002, Survey Methodology 28,
169-181).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.linear import Fit, Strata, Stratum, block_columns, centred, fit, in_groups, innermost, strata_of
from leadline.analysis.mixed import MixedFit, mixed_fit
from leadline.analysis.table import Cell, Floats, Ints, Sample, StudyTable
from leadline.analysis.unequal import UnequalFit, two_strata, unequal
from leadline.model import distributions

_ROUNDING = 1e-9  # of the standard error that the residuals of all figures give: less is none


@dataclass(frozen=True)
class WorldsFit(Fit):
    """A fit of n figures whose contrasts have the noise of their values in the worlds. ``basis`` (n, r) spans the
    columns; ``residuals`` (n); ``worlds`` (n) counts from 0; ``varying`` (p, worlds) tells in which a column varies.
    """

    basis: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    residuals: Floats = field(default_factory=lambda: np.zeros(0))
    worlds: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    varying: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))

    @property
    def separate(self) -> bool:
        return True

    def errors(self, contrasts: Floats) -> Floats:
        scatter = self.sigma * np.linalg.norm(self.scatter(contrasts), axis=1)
        return np.asarray(np.maximum(scatter, _ROUNDING * self._usual(contrasts)), dtype=np.float64)

    def constant(self, contrasts: Floats) -> NDArray[np.bool_]:
        """(k): whether a contrast is the same in every world that tells of it: nothing is known of its noise."""
        same = self.errors(contrasts) <= 2 * _ROUNDING * self._usual(contrasts)
        return np.asarray(same | (self._used(contrasts).sum(axis=1) < 2), dtype=np.bool_)

    def degrees(self, contrasts: Floats) -> Floats:
        return np.asarray(np.maximum(self._used(contrasts).sum(axis=1) - 1.0, 1.0), dtype=np.float64)

    def scatter(self, contrasts: Floats) -> Floats:
        """(k, worlds): what each world adds to the contrasts beyond its share, in units of sigma."""
        moved = self._in_worlds(self._weights(contrasts) * self.residuals) / self.sigma
        used = self._used(contrasts).sum(axis=1, keepdims=True)
        return np.asarray(moved * np.sqrt(used / np.maximum(used - 1, 1)), dtype=np.float64)

    def _usual(self, contrasts: Floats) -> Floats:
        """Standard errors (k) from the residuals of all figures."""
        return np.asarray(self.sigma * np.linalg.norm(contrasts @ self.half, axis=1), dtype=np.float64)

    def _weights(self, contrasts: Floats) -> Floats:
        """(k, n): contrasts as sums of figures."""
        return np.asarray(contrasts @ self.half @ self.basis.T, dtype=np.float64)

    def _used(self, contrasts: Floats) -> NDArray[np.bool_]:
        """(k, worlds): the worlds that tell of a contrast: one of its columns varies there."""
        uses = np.abs(contrasts) > 1e-12
        return np.asarray(uses.astype(np.int64) @ self.varying.astype(np.int64) > 0, dtype=np.bool_)

    def _in_worlds(self, figures: Floats) -> Floats:
        member = np.asarray(self.worlds[:, None] == np.arange(int(self.worlds.max()) + 1), dtype=np.float64)
        products: Floats = figures @ member
        return products


def worlds_fit(fit: Fit, design: Floats, values: Floats, swept: Stratum | None, blocks: Ints) -> WorldsFit:
    """The least squares ``fit`` of ``values`` (n) on ``design`` (n, p), judged by how it varies between ``blocks`` (n).
    Rows in the order of blocks.
    """
    worlds = np.unique(blocks, return_inverse=True)[1].astype(np.int64)
    inside = [design[worlds == world] for world in range(int(worlds.max()) + 1)]
    varying = np.column_stack([np.ptp(rows, axis=0) > 1e-12 for rows in inside])
    if swept is not None:
        design, values = centred(design, swept.starts), centred(values[:, None], swept.starts)[:, 0]
    residuals = values - design @ fit.beta
    return WorldsFit(fit.beta, fit.half, fit.rows, fit.df, fit.sigma, design @ fit.half, residuals, worlds, varying)


Main = tuple[int, int]  # factor, level
Pair = tuple[Main, Main]
FEW_LEFT = 3  # degrees of freedom that must be exceeded for places in a block to enter
ALIKE = 0.25  # level of the test by which the numbers of slots enter


@dataclass(frozen=True)
class Model:
    """Which columns there are: blocks first, then mains, pairs, ``places`` in a block beyond its first (-1 for
    sentinels; of slots, their numbers), ``covariates`` by their number in the table and time (last) where it is used.
    ``kept`` is the share of mains and pairs that a slot still has of how it began, on average. ``entry`` says how
    blocks enter (``strata.block_columns``); without columns of their own, and unless they are swept out, there is a
    constant in their place.
    """

    table: StudyTable
    blocks: tuple[int, ...]
    mains: tuple[Main, ...]
    pairs: tuple[Pair, ...]
    timed: bool
    entry: str = "columns"
    places: tuple[int, ...] = ()
    kept: float = 0.0
    covariates: tuple[int, ...] = ()

    @property
    def leading(self) -> int:
        """Columns before the mains: blocks, or the constant."""
        return len(self.blocks) if self.entry == "columns" else int(self.entry == "random")

    @property
    def width(self) -> int:
        return self.leading + len(self.mains) + len(self.pairs) + len(self.places) + len(self.covariates) + self.timed

    def cell(self, cell: Cell) -> Floats:
        """Columns (p) of one treatment, without block, carry-over and time."""
        row = np.zeros(self.width)
        offset = self.leading
        for number, (factor, level) in enumerate(self.mains):
            row[offset + number] = cell[factor] == level
        offset += len(self.mains)
        for number, ((f, a), (g, b)) in enumerate(self.pairs):
            first, other = self.table.factors[f], self.table.factors[g]
            row[offset + number] = ((cell[f] == a) - 1 / len(first.levels)) * ((cell[g] == b) - 1 / len(other.levels))
        return row

    def rows(self, sample: Sample) -> Floats:
        """Columns (n, p) of a sample."""
        cells = np.array([self.cell(cell) for cell in self.table.cells])
        design = np.asarray(cells[sample.cells], dtype=np.float64)
        if self.entry == "random":
            design[:, 0] = 1.0
        for number, block in enumerate(self.blocks):
            design[:, number] = sample.blocks == block
        offset = self.leading + len(self.mains) + len(self.pairs)
        if self.kept:
            design[:, self.leading : offset] = _smoothed(
                design[:, self.leading : offset], sample, self.kept, self.table.washed
            )
        for number, place in enumerate(self.places):
            design[:, offset + number] = sample.places == place
        for number in self.covariates:
            column = sample.machine[:, number]
            design[:, self.covariate(number)] = column - column.mean()
        if self.timed and sample.hours is not None:
            centred = sample.hours - sample.hours.mean()
            design[:, -1] = centred / np.abs(centred).max()
        return design

    def effect(self, main: Main) -> Floats:
        """Contrast (p) of a level against its baseline level, averaged over the other factors' levels."""
        return self._unit(self.leading + self.mains.index(main))

    def interaction(self, pair: Pair) -> Floats:
        """Contrast (p): how far two levels together differ from the sum of each alone."""
        return self._unit(self.leading + len(self.mains) + self.pairs.index(pair))

    def covariate(self, number: int) -> int:
        """Column of one of the table's covariates."""
        before = self.leading + len(self.mains) + len(self.pairs) + len(self.places)
        return before + self.covariates.index(number)

    def treatment(self, cell: Cell) -> Floats:
        """Contrast (p) of a treatment against the baseline treatment."""
        return self.cell(cell) - self.cell(self.table.cells[0])

    def _unit(self, place: int) -> Floats:
        row = np.zeros(self.width)
        row[place] = 1.0
        return row


@lru_cache(maxsize=64)
def at_end(share: float, washed: float) -> float:
    """What is left at the end of a slot of a change at its start, where the change fades exponentially and ``share``
    of it (0 to 1) is left on average over what is measured: all but the first ``washed`` of the slot.
    """
    low, high = 1e-9, 700.0  # lengths of a slot in time constants
    for _ in range(60):
        middle = math.sqrt(low * high)
        mean = (math.exp(-washed * middle) - math.exp(-middle)) / (middle * (1 - washed))
        low, high = (middle, high) if mean > share else (low, middle)
    return math.exp(-low)


def _smoothed(columns: Floats, sample: Sample, kept: float, washed: float) -> Floats:
    """Columns (n, m) in which slots on average still have the share ``kept`` of the state in which they began, which
    they approach their levels from exponentially (:func:`at_end`); a trial begins settled.
    """
    order = np.lexsort((sample.slots, sample.trials))
    first = np.r_[True, np.diff(sample.trials[order]) != 0]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.arange(len(order)) - starts
    smoothed, ends, left = columns.copy(), columns.copy(), at_end(kept, washed)
    for number in range(1, int(rank.max()) + 1):
        at = np.flatnonzero(rank == number)
        now, before = order[at], order[at - 1]
        between = (sample.slots[now] - sample.slots[before] - 1)[:, None]
        change = left**between * (ends[before] - columns[now])
        smoothed[now] += kept * change
        ends[now] += left * change
    return smoothed


def fitted_with_strata(
    table: StudyTable,
    sample: Sample,
    values: Floats,
    timed: bool,
    kept: float = 0.0,
    *,
    saturated: bool = False,
    covariates: tuple[int, ...] = (),
) -> tuple[Model, Fit, Strata]:
    """The widest model that leaves something to estimate the noise from, its fit, and the strata of its errors.

    Interactions are dropped when they would leave no residual degrees of freedom, and time before them. In screening
    designs only those interactions enter that their runs can tell apart from everything else of first and second order.
    ``kept`` as ``Model`` has it. ``saturated``: the widest model, even if nothing is left. ``covariates``: numbers of
    those that enter it. Where there are one or two sources of noise, every level has its own, of forks every contrast,
    unless the table says otherwise.
    """
    mains = tuple(table.comparisons())
    entry, blocks = block_columns(table, sample)
    pairs = possible_pairs(table, mains) if table.crossed else ()
    widest = Model(table, blocks, mains, pairs, False, entry, kept=kept, covariates=covariates)
    if table.screening and pairs:
        widest = replace(widest, pairs=estimable_pairs(widest, sample))
    with_time = timed and sample.hours is not None
    places = () if sample.places is None else tuple(int(place) for place in np.unique(sample.places) if place != 0)
    tries = [(widest.pairs, with_time), (widest.pairs, False), ((), with_time), ((), False)]
    every = [(*attempt, places) for attempt in tries] if places else []
    if sample.slotted and places:  # a slot's number is its time
        alike = _alike(replace(widest, places=places, kept=0.0), sample, values)
        every = [(widest.pairs, False, places), ((), False, places)] if alike else []
    for chosen, time, used in dict.fromkeys([*every, *((*attempt, ()) for attempt in tries)]):
        model = replace(widest, pairs=chosen, timed=time, places=used)
        design = model.rows(sample)
        strata = strata_of(sample, design, entry, model.leading)
        result = mixed_fit(design, values, strata)
        if saturated or result.df > (2 if model.timed else FEW_LEFT if used else 0):
            break
    if not table.equal_noise and not strata.mixed and result.df > 0 and result.sigma > 0:
        if table.exact:
            order = strata.order
            result = worlds_fit(result, design[order], values[order], strata.swept, sample.blocks[order])
        else:
            result = own_noise(model, sample, values, strata, result)
    elif not table.equal_noise and isinstance(result, MixedFit) and strata.in_two:
        result = _in_two_strata(model, sample, values, strata, result)
    return model, result, strata


def _alike(model: Model, sample: Sample, values: Floats) -> bool:
    """Whether slots of one number, which meet the same arrivals in all trials of a block, have something in common: by
    an F test inside trials, at a level at which pooling costs no error rates (Bancroft 1964; Bozivich et al. 1956).
    Each trial has its own effects of levels in it: what these differ by would be taken for something in common.
    """
    order, starts = innermost(sample)
    figures = centred(values[order][:, None], starts)[:, 0]
    mains = slice(model.leading, model.leading + len(model.mains))
    own = in_groups(centred(model.rows(sample)[order][:, mains], starts), starts)
    plain, wide = (
        fit(np.column_stack([centred(each.rows(sample)[order], starts), own]), figures, len(starts))
        for each in (replace(model, places=()), model)
    )
    gained = plain.df - wide.df
    if wide.df <= FEW_LEFT or gained <= 0:
        return False
    if wide.sigma == 0:
        return plain.sigma > 0
    ratio = (plain.df * plain.sigma**2 - wide.df * wide.sigma**2) / gained / wide.sigma**2
    return bool(distributions.f.sf(ratio, gained, wide.df) < ALIKE)


def own_noise(model: Model, sample: Sample, values: Floats, strata: Strata, fitted: Fit) -> UnequalFit:
    """The fit of ``values`` (n) in which every level has a noise of its own."""
    order = strata.order
    divisions = _divisions(model, sample.cells[order])
    return unequal(fitted, model.rows(sample)[order], values[order], strata.swept, divisions, _crossed(model))


def _in_two_strata(model: Model, sample: Sample, values: Floats, strata: Strata, fitted: MixedFit) -> MixedFit:
    order, first, mains = strata.order, model.leading, len(model.mains)
    judged = slice(first, first + mains + len(model.pairs))
    divisions = _divisions(model, sample.cells[order])
    rows = (model.rows(sample)[order], values[order], strata.random[0])
    return two_strata(fitted, *rows, judged, slice(first, first + mains), divisions, _crossed(model))


def _crossed(model: Model) -> tuple[int, ...]:
    """Columns of one level of each factor, where factors are crossed."""
    firsts = {main[0]: int(np.argmax(model.effect(main))) for main in reversed(model.mains)}
    return tuple(firsts.values()) if model.table.crossed else ()


def _divisions(model: Model, cells: Ints) -> dict[int | None, Ints]:
    """By column: the figures whose noise it rests on. Crossed: those of each level of its factors, since a treatment
    has few; else, and for all other contrasts, those of each treatment.
    """
    divisions: dict[int | None, Ints] = {None: cells}
    if model.table.crossed:
        codes = np.array(model.table.cells)[cells]
        for main in model.mains:
            divisions[int(np.argmax(model.effect(main)))] = codes[:, main[0]]
        for pair in model.pairs:
            (f, _), (g, _) = pair
            divisions[int(np.argmax(model.interaction(pair)))] = (
                codes[:, f] * (1 + int(codes[:, g].max())) + codes[:, g]
            )
    return divisions


def possible_pairs(table: StudyTable, mains: tuple[Main, ...]) -> tuple[Pair, ...]:
    """Pairs of levels of two factors that some treatment has."""
    return tuple(
        (one, other)
        for number, one in enumerate(mains)
        for other in mains[number + 1 :]
        if one[0] != other[0] and any(cell[one[0]] == one[1] and cell[other[0]] == other[1] for cell in table.cells)
    )


def estimable_pairs(model: Model, sample: Sample) -> tuple[Pair, ...]:
    """The interactions that are determined when all mains and all pairs are in the model, if mains stay so too."""
    rows, names = model.rows(sample), model.pairs
    if model.entry == "swept":
        rows = np.column_stack([rows, np.ones(len(rows))])
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    space = right[singular > 1e-9 * max(1.0, float(singular[0]))].T
    free = 1 - np.sum(space**2, axis=1)  # squared distance of each unit contrast from the row space
    offset = model.leading + len(model.mains)
    return tuple(pair for number, pair in enumerate(names) if free[offset + number] < 1e-9)
