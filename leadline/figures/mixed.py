"""The model's side of the ranking: settings fixed, systems random, contrasts with simultaneous intervals.

Settings are held against their middle half (the mean of the settings left when a quarter is dropped at either end): one
setting that does great harm would pull the mean of all away from where most settings are, and make them look good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.linear import Fit, fit
from leadline.analysis.maxt import max_t
from leadline.analysis.scale import Scale
from leadline.analysis.table import Floats
from leadline.figures.fits import SystemFit
from leadline.figures.table import ResultTable
from leadline.model.result import Interval


@dataclass(frozen=True)
class ModelContrast:
    """Percent, with the interval that holds for all settings at once (None where there is no error to judge by)."""

    percent: float
    interval: Interval | None
    p_adjusted: float | None


Contrasts = list[ModelContrast | None]


def judged(
    table: ResultTable, fits: Sequence[SystemFit], chosen: Sequence[int], level: float
) -> tuple[Contrasts, Contrasts]:
    """Each of the ``chosen`` settings against their middle half, and against the baseline: two families."""
    places = [*chosen, len(table.settings)]  # the baseline last
    count = len(places)
    base = np.hstack([np.eye(count - 1), -np.ones((count - 1, 1))])
    if len(fits) == 1:
        fit = fits[0]
        mask = np.array([fit.known[place] for place in places])
        means = _Means(fit.means[places], fit.scatter[places], mask, fit.sigma, fit.df, Scale(False, fit.centre))
    else:
        means = _over_systems(fits, places)
    middle = np.eye(count)[:-1] - _middle_half(means.values[:-1], means.known[:-1], count)
    return means.contrasts(middle, level), means.contrasts(base, level)


def _middle_half(values: Floats, known: Floats, width: int) -> Floats:
    """Weights (width) of the mean of the middle half of the known values."""
    weights = np.zeros(width)
    order = [int(place) for place in np.argsort(values, kind="stable") if known[place]]
    drop = len(order) // 4
    middle = order[drop : len(order) - drop]
    if middle:
        weights[middle] = 1.0 / len(middle)
    return weights


@dataclass(frozen=True)
class _Means:
    """Means of settings with their covariance ``sigma``^2 scatter scatter', on ``scale``."""

    values: Floats
    scatter: Floats
    known: Floats
    sigma: float
    df: int
    scale: Scale

    def contrasts(self, rows: Floats, level: float) -> Contrasts:
        good = [not np.any(np.abs(row[~self.known.astype(bool)]) > 1e-12) for row in rows]
        chosen = rows[good]
        if not len(chosen):
            return [None] * len(rows)
        values = chosen @ np.where(self.known, self.values, 0.0)
        scatter = chosen @ self.scatter
        errors = self.sigma * np.linalg.norm(scatter, axis=1)
        law = max_t(scatter) if self.df > 0 and self.sigma > 0 and np.all(errors > 0) else None
        critical = law.quantile(level, self.df) if law else 0.0
        estimates: list[ModelContrast | None] = []
        for value, error in zip(values, errors, strict=True):
            percent = self.scale.percent(float(value))
            if percent is None:
                estimates.append(None)
                continue
            interval = self.scale.interval(float(value), critical * float(error), level) if law else None
            p_value = law.sf(abs(float(value) / float(error)), self.df) if law and interval else None
            estimates.append(ModelContrast(percent, interval, p_value))
        every = iter(estimates)
        return [next(every) if ok else None for ok in good]


def _over_systems(fits: Sequence[SystemFit], places: Sequence[int]) -> _Means:
    """The two-way table of means, settings x systems, fitted without interaction: what is left is the error."""
    cells = [(row, column) for row, fit in enumerate(fits) for column, place in enumerate(places) if fit.known[place]]
    figures = np.array([fits[row].means[places[column]] for row, column in cells])
    log = bool(np.all(figures > 0))
    design = np.zeros((len(cells), len(fits) + len(places)))
    for number, (row, column) in enumerate(cells):
        design[number, row] = 1.0
        design[number, len(fits) + column] = 1.0
    result: Fit = fit(design, np.log(figures) if log else figures)
    wanted = np.zeros((len(places), design.shape[1]))
    wanted[:, : len(fits)] = 1.0 / len(fits)
    wanted[:, len(fits) :] = np.eye(len(places))
    mask = np.array(result.estimable(wanted))
    base = float(np.mean([fit.centre for fit in fits]))
    return _Means(result.estimates(wanted), result.scatter(wanted), mask, result.sigma, result.df, Scale(log, base))
