"""Each system's own fit: adjusted means of every setting, their covariance, the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leadline.analysis.linear import fit
from leadline.analysis.table import Floats
from leadline.figures.table import ResultTable

KNOWN_DF = 10**7  # degrees of freedom of a noise that was given, not estimated


@dataclass(frozen=True)
class SystemFit:
    """Least squares of the response on block + levels, for one system.

    The s settings of the table come first and the baseline last in ``means`` (s + 1), NaN where ``known`` (s + 1) is
    False. ``scatter`` (s + 1, r) times its transpose times ``sigma`` squared is the covariance of the means. ``df`` is
    0 where the noise is not known.
    """

    system: str
    means: Floats
    known: tuple[bool, ...]
    scatter: Floats
    sigma: float
    df: int

    @property
    def baseline(self) -> float | None:
        return float(self.means[-1]) if self.known[-1] else None

    @property
    def centre(self) -> float:
        """The baseline, or the mean over settings where there is none: what percentages refer to."""
        return float(self.means[-1]) if self.known[-1] else float(np.mean(self.means[list(self.known)]))

    @property
    def cv(self) -> float | None:
        """Noise of one run in percent of the centre."""
        return 100 * self.sigma / self.centre if self.df > 0 and self.centre > 0 else None

    def error(self, row: Floats) -> float:
        """Standard error of the combination ``row`` (s + 1) of the means."""
        return float(self.sigma * np.linalg.norm(row @ self.scatter))


def fit_systems(table: ResultTable, cv: float | None = None) -> tuple[SystemFit, ...]:
    """A fit for every system that has a figure.

    ``cv``: the noise of one row of the table in percent, used where a system has no repeats to estimate it from.
    """
    fits = []
    for number, name in enumerate(table.systems):
        runs = [run for run in table.runs if run.system == number and run.value is not None]
        if not runs:
            continue
        settings = table.settings
        blocks = sorted({run.block for run in runs})
        width = len(blocks) + len(settings)
        design = np.zeros((len(runs), width))
        for row, run in enumerate(runs):
            design[row, blocks.index(run.block)] = 1.0
            for column, setting in enumerate(settings):
                design[row, len(blocks) + column] = run.levels[setting.parameter] == setting.level
        values = np.array([run.value for run in runs], dtype=np.float64)
        result = fit(design, values)
        contrasts = np.zeros((len(settings) + 1, width))
        contrasts[:, : len(blocks)] = 1.0 / len(blocks)
        contrasts[:-1, len(blocks) :] = np.eye(len(settings))
        estimable = result.estimable(contrasts)
        means = np.where(estimable, result.estimates(contrasts), math.nan)
        sigma, df = result.sigma, result.df
        if df == 0 and cv is not None:
            sigma, df = abs(cv / 100 * float(values.mean())), KNOWN_DF
        scatter = np.where(np.array(estimable)[:, None], result.scatter(contrasts), 0.0)
        fits.append(SystemFit(name, means, tuple(estimable), scatter, sigma, df))
    return tuple(fits)
