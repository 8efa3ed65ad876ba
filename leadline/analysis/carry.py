"""Carry-over: does a slot still feel the level of the slot before?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from leadline.analysis.columns import Main, fitted_with_strata
from leadline.analysis.linear import Fit
from leadline.analysis.mixed import MixedFit
from leadline.analysis.scale import Scale
from leadline.analysis.table import Floats, Sample, StudyTable

ALPHA = 0.05


@dataclass(frozen=True)
class CarryOver:
    """Wald F test of all effects of the slot before, in the mixed model with its variances integrated out.
    ``percent`` is the largest of them.
    """

    mains: tuple[Main, ...]
    p_value: float | None
    percent: float | None
    detected: bool
    sentence: str


def carry_over(table: StudyTable, sample: Sample, scale: Scale, timed: bool) -> CarryOver:
    """First-order carry-over: a column for each level of the slot before (Jones and Kenward, Design and Analysis of
    Cross-Over Trials, 2014, chapter 5), for factors that change between slots.
    """
    changing = changing_factors(table, sample)
    mains = tuple(main for main in table.comparisons() if main[0] in changing)
    nothing = CarryOver(mains, None, None, False, "Carry-over between slots cannot be tested: there are too few slots.")
    if not mains:
        return nothing
    model, fit, _ = fitted_with_strata(table, sample, scale.into(sample.values), timed, mains)
    if fit.df <= 0 or fit.sigma == 0:
        return nothing
    rows = np.array([model.after(main) for main in mains])
    known = np.array(fit.estimable(rows), dtype=bool)
    if not known.any():
        return nothing
    rows = rows[known]
    values = fit.estimates(rows)
    p_value = _f_test(fit, rows, values)
    largest = scale.percent(float(values[int(np.argmax(np.abs(values)))]))
    size = "" if largest is None else f", at most {abs(largest):.2g} %"
    if p_value < ALPHA:
        text = f"Slots feel the level of the slot before (p = {p_value:.2g}{size}): a longer wash-out is needed."
    else:
        text = f"No carry-over from the slot before can be seen (p = {p_value:.2g}{size})."
    return CarryOver(mains, p_value, largest, p_value < ALPHA, text)


def _f_test(fit: Fit, rows: Floats, values: Floats) -> float:
    if isinstance(fit, MixedFit) and fit.mixture is not None:
        return fit.mixture.f_test(rows, values)
    scatter = fit.scatter(rows)
    covariance = fit.sigma**2 * (scatter @ scatter.T)
    rank = int(np.linalg.matrix_rank(covariance, hermitian=True))
    statistic = float(values @ np.linalg.pinv(covariance, hermitian=True) @ values) / rank
    return float(stats.f.sf(statistic, rank, fit.df))


def changing_factors(table: StudyTable, sample: Sample) -> set[int]:
    after = sample.previous >= 0
    codes = np.array(table.cells)
    changed = codes[sample.cells[after]] != codes[sample.previous[after]]
    return {int(factor) for factor in np.flatnonzero(changed.any(axis=0))} if changed.size else set()
