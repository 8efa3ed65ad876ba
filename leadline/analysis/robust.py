"""Levels against their baseline level by ranks: for responses with heavy tails, such as percentiles.

Within strata (blocks; for slots, the stretches in which every treatment comes once) all differences between a figure
of the level and one of the baseline level are taken. Their median is the Hodges-Lehmann estimate. The number of them
above zero is a sum of Mann-Whitney statistics, whose law under permutation inside strata is known exactly, and order
statistics of the differences are the ends of intervals that hold whatever the distribution of the noise (Hodges and
Lehmann 1963; Lehmann, Nonparametrics, 1975, chapter 3). Other effects are first taken out as the model estimates them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from leadline.analysis.columns import Main, Model
from leadline.analysis.comparisons import Family, LenthFit
from leadline.analysis.linear import Fit
from leadline.analysis.selection import key, places
from leadline.analysis.table import Floats, Ints, Sample, Scale, StudyTable
from leadline.model import distributions
from leadline.model.result import Effect, Interval, ResponseKind, Robust, Verdict

HEAVY = ("p90", "p95", "p99", "p999", "max")
FAR = 6.0  # standard deviations by the median absolute deviation beyond which a figure is an outlier
_SAME = 1e-3  # of a logarithm: no smaller deviation makes an outlier
_EXACT = 4000  # differences; beyond, the normal law of their count is used


@dataclass(frozen=True)
class Shift:
    """Hodges-Lehmann estimate with an interval at each asked level; None where no interval has that level."""

    estimate: float
    intervals: tuple[tuple[float, float] | None, ...]


def shift(values: Floats, treated: Ints, strata: Ints, levels: tuple[float, ...]) -> Shift | None:
    """How far figures (n) with ``treated`` 1 lie above those with 0 in the same stratum; others (-1) are ignored.

    None where no stratum holds both.
    """
    differences: list[Floats] = []
    sizes: list[tuple[int, int]] = []
    chosen = np.flatnonzero(treated >= 0)
    chosen = chosen[np.argsort(strata[chosen], kind="stable")]
    ends = np.flatnonzero(np.diff(strata[chosen])) + 1
    for members in np.split(chosen, ends):
        treated_values, other = (values[members[treated[members] == side]] for side in (1, 0))
        if len(treated_values) and len(other):
            differences.append(np.subtract.outer(treated_values, other).ravel())
            sizes.append((min(len(treated_values), len(other)), max(len(treated_values), len(other))))
    if not differences:
        return None
    ordered = np.sort(np.concatenate(differences))
    count = len(ordered)
    intervals: list[tuple[float, float] | None] = []
    for level in levels:
        rank = _rank(tuple(sorted(sizes)), (1 - level) / 2)
        intervals.append((float(ordered[rank - 1]), float(ordered[count - rank])) if rank > 0 else None)
    return Shift(float(np.median(ordered)), tuple(intervals))


def against_first(logs: Floats, levels: Ints, strata: Ints) -> dict[int, Robust]:
    """Each level but level 0 against it by ranks, from logarithms of figures (n), in percent; the intervals hold at
    95 % together. ``strata`` (n): what figures are compared within.
    """
    others = [int(level) for level in np.unique(levels) if level > 0]
    robust: dict[int, Robust] = {}
    for level in others:
        treated = np.select([levels == 0, levels == level], [0, 1], -1)
        if moved := shift(logs, treated, strata, (1 - 0.05 / len(others),)):
            (ends,) = moved.intervals
            interval = Interval(100 * math.expm1(ends[0]), 100 * math.expm1(ends[1])) if ends else None
            robust[level] = Robust(100 * math.expm1(moved.estimate), interval)
    return robust


def outliers(logs: Floats) -> Ints:
    """Places of the values that lie more than ``FAR`` standard deviations from the median; of fewer than 5, none."""
    if len(logs) < 5:
        return np.zeros(0, dtype=np.int64)
    distance = np.abs(logs - np.median(logs))
    return np.flatnonzero(distance > FAR * max(_SAME, 1.4826 * float(np.median(distance))))


def _rank(sizes: tuple[tuple[int, int], ...], tail: float) -> int:
    """The largest k with P(count of differences below zero <= k - 1) <= tail; 0 where there is none."""
    if tail <= 0:
        return 0
    total = sum(first * other for first, other in sizes)
    if total <= _EXACT:
        below = np.cumsum(_law(sizes))
        return int(np.searchsorted(below, tail * (1 + 1e-12), side="right"))
    variance = sum(first * other * (first + other + 1) / 12 for first, other in sizes)
    return max(0, int(np.floor(total / 2 - 0.5 + distributions.norm.ppf(tail) * np.sqrt(variance))))


@lru_cache(maxsize=256)
def _law(sizes: tuple[tuple[int, int], ...]) -> Floats:
    """Probabilities of 0, 1, 2, ... of the sum of independent Mann-Whitney statistics."""
    law = np.ones(1)
    for first, other in sizes:
        law = np.convolve(law, _mann_whitney(first, other))
    return law


@lru_cache(maxsize=256)
def _mann_whitney(one: int, other: int) -> Floats:
    """Gaussian binomial coefficients over their sum: product of (1 - x^(other + i)) / (1 - x^i)."""
    law = np.zeros(one * other + 1)
    law[0] = 1.0
    for i in range(1, one + 1):
        step = other + i
        if step < len(law):
            law[step:] -= law[:-step].copy()
        for place in range(i, len(law)):
            law[place] += law[place - i]
        law /= law.sum() if law.sum() > 1e12 else 1.0
    return np.asarray(law / law.sum(), dtype=np.float64)


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
