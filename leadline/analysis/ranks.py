"""Rank and bootstrap intervals beside the model's, for responses with heavy tails, and where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from leadline.analysis.bootstrap import Resampled, of_pairs, of_two
from leadline.analysis.columns import Main, Model
from leadline.analysis.comparisons import Family
from leadline.analysis.lenth import LenthFit
from leadline.analysis.linear import Fit
from leadline.analysis.robust import HEAVY, Shift, shift
from leadline.analysis.scale import Scale
from leadline.analysis.selection import key, places
from leadline.analysis.table import Floats, Ints, Sample, StudyTable
from leadline.model.result import Effect, Interval, ResponseKind, Robust, Verdict

_NAMED = 3
_LARGEST = 20_000  # figures; beyond, every mean is as good as normal


def with_ranks(
    effects: Sequence[Effect],
    table: StudyTable,
    sample: Sample,
    kind: ResponseKind,
    scale: Scale,
    model: Model,
    family: Family,
    fit: Fit,
    level: float,
) -> tuple[list[Effect], list[str]]:
    """The effects with ``robust``, and a sentence where ranks and model come to different verdicts."""
    usable = family.law is not None and not isinstance(fit, LenthFit) and sample.size <= _LARGEST
    if kind.name not in HEAVY or not usable:
        return list(effects), []
    where = places(table, model, family)
    mains = {key(table.factors[f].name, table.factors[f].levels[k]): (f, k) for f, k in model.mains}
    scaled = scale.into(sample.values)
    design = model.rows(sample)
    fitted = design @ fit.beta
    found, apart = [], []
    for effect in effects:
        name = key(effect.factor, effect.level)
        if name not in where:
            found.append(effect)
            continue
        place = where[name]
        strict = float(1 - 2 * stats.t.sf(family.critical[place], family.degrees[place]))
        main = mains[name]
        own = design @ (model.effect(main) * fit.beta)
        compared = _Compared.of(table, sample, scaled - fitted + own, main)
        moved = shift(compared.values, compared.treated, compared.strata, (level, strict))
        drawn = compared.resampled(level, sample.size / max(fit.df, 1))
        robust = _robust(scale, moved, drawn, level) if moved else None
        found.append(replace(effect, robust=robust))
        if robust is not None and robust.simultaneous is not None:
            told = effect.verdict in (Verdict.BETTER, Verdict.WORSE)
            if told == robust.simultaneous.contains(0.0):
                apart.append(f"{effect.factor}={table.describe(effect.factor, effect.level)}")
    return found, _disagreement(apart)


@dataclass(frozen=True)
class _Compared:
    """Figures (n) freed of all other effects, in the units in which a level was assigned, and the strata inside which
    that was random. ``treated`` is 1 for the level, 0 for its baseline level, -1 for others. ``paired`` (n) are what
    figures share where units lie closer inside: lives or whole plots, called ``name``; None where they do not.
    """

    values: Floats
    treated: Ints
    strata: Ints
    paired: Ints | None
    name: str

    @classmethod
    def of(cls, table: StudyTable, sample: Sample, values: Floats, main: Main) -> _Compared:
        factor, level = main
        codes = np.array(table.cells)[sample.cells, factor]
        treated = np.where(codes == level, 1, np.where(codes == table.cells[0][factor], 0, -1)).astype(np.int64)
        unit, strata = _units(table, sample, codes)
        if unit is None:
            plots = bool((sample.plots >= 0).any())
            paired = sample.trials if sample.slotted else sample.plots if plots else None
            name = "lives of the server" if sample.slotted else "whole plots" if plots else "trials"
            return cls(values, treated, strata, paired, name)
        _, first, member = np.unique(unit, return_index=True, return_inverse=True)
        means = np.bincount(member, values) / np.bincount(member)
        name = "whole plots" if (sample.plots >= 0).any() else "lives of the server"
        return cls(means, treated[first], strata[first], None, name)

    def resampled(self, level: float, ratio: float) -> Resampled:
        if self.paired is not None:
            return of_pairs(self.values, self.treated, self.paired, level, self.name)
        one, other = (self.values[self.treated == side] for side in (1, 0))
        return of_two(one, other, level, ratio, self.name)


def _units(table: StudyTable, sample: Sample, codes: Ints) -> tuple[Ints | None, Ints]:
    """What the factor was assigned to (None: each figure), and the strata inside which that was random."""
    for unit in (sample.plots, sample.trials):
        if (unit >= 0).all() and len(np.unique(unit)) < sample.size:
            pairs = np.unique(np.column_stack([unit, codes]), axis=0)
            if len(pairs) == len(np.unique(unit)):
                return unit, sample.blocks
    if sample.slotted:
        stretch = sample.slots // table.slots_in_block
        return None, sample.trials * (int(stretch.max()) + 1) + stretch
    return None, sample.blocks if not (sample.plots >= 0).any() else sample.plots


def _robust(scale: Scale, moved: Shift, drawn: Resampled, level: float) -> Robust | None:
    percent = scale.percent(moved.estimate)
    if percent is None:
        return None
    pairs = (*moved.intervals, drawn.interval)
    ends = [None if pair is None else (scale.percent(pair[0]), scale.percent(pair[1])) for pair in pairs]
    intervals = [
        None if pair is None or pair[0] is None or pair[1] is None else Interval(pair[0], pair[1], level)
        for pair in ends
    ]
    return Robust(percent, intervals[0], intervals[1], intervals[2], drawn.reason)


def _disagreement(apart: list[str]) -> list[str]:
    if not apart:
        return []
    rest = len(apart) - _NAMED
    names = ", ".join(apart[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return [f"ranks and model disagree about {names}: single extreme figures may decide, so look at both intervals."]
