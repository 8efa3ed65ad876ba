"""Rank intervals beside the model's, for responses with heavy tails, and where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leadline.analysis.columns import Main, Model
from leadline.analysis.comparisons import Family
from leadline.analysis.lenth import LenthFit
from leadline.analysis.linear import Fit
from leadline.analysis.robust import HEAVY, Shift, shift
from leadline.analysis.scale import Scale
from leadline.analysis.selection import key, places
from leadline.analysis.table import Sample, StudyTable
from leadline.model import distributions
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
    if kind.name not in HEAVY or family.law is None or not _exact(table, sample, model, fit):
        return list(effects), []
    where = places(table, model, family)
    mains = {key(table.factors[f].name, table.factors[f].levels[k]): (f, k) for f, k in model.mains}
    scaled = scale.into(sample.values)
    ranked, apart = [], []
    for effect in effects:
        name = key(effect.factor, effect.level)
        if name not in where:
            ranked.append(effect)
            continue
        place = where[name]
        strict = float(1 - 2 * distributions.t.sf(family.critical[place], family.degrees[place]))
        alone = _alone(table, mains[name])
        treated = np.where(sample.cells == alone, 1, np.where(sample.cells == 0, 0, -1)).astype(np.int64)
        moved = shift(scaled, treated, sample.blocks, (level, strict))
        robust = _robust(scale, moved, level) if moved else None
        ranked.append(replace(effect, robust=robust))
        if robust is not None and robust.simultaneous is not None:
            decided = effect.verdict in (Verdict.BETTER, Verdict.WORSE)
            if decided == robust.simultaneous.contains(0.0):
                apart.append(f"{effect.factor}={table.describe(effect.factor, effect.level)}")
    return ranked, _disagreement(apart)


def _exact(table: StudyTable, sample: Sample, model: Model, fit: Fit) -> bool:
    """Whether trials of a level and of the baseline lie in random order in blocks, and nothing else moves them."""
    plain = not (table.crossed or model.places or model.covariates or sample.slotted or (sample.plots >= 0).any())
    plain = plain and len(np.unique(sample.hosts)) < 2  # hosts are exchanged by no permutation inside blocks
    return plain and not isinstance(fit, LenthFit) and sample.size <= _LARGEST


def _alone(table: StudyTable, main: Main) -> int:
    """The cell that differs from the baseline in this level alone."""
    factor, level = main
    cell = (*table.cells[0][:factor], level, *table.cells[0][factor + 1 :])
    return table.cells.index(cell)


def _robust(scale: Scale, moved: Shift, level: float) -> Robust | None:
    percent = scale.percent(moved.estimate)
    if percent is None:
        return None
    ends = [None if pair is None else (scale.percent(pair[0]), scale.percent(pair[1])) for pair in moved.intervals]
    intervals = [
        None if pair is None or pair[0] is None or pair[1] is None else Interval(pair[0], pair[1], level)
        for pair in ends
    ]
    return Robust(percent, intervals[0], intervals[1])


def _disagreement(apart: list[str]) -> list[str]:
    if not apart:
        return []
    rest = len(apart) - _NAMED
    names = ", ".join(apart[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    return [f"ranks and model disagree about {names}: single extreme figures may decide, so look at both intervals."]
