"""A table of results, systems x settings x repeats, of a study or from somebody else, and the fit of each system;
and how the sentences of the figures write numbers and lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.linear import fit
from leadline.analysis.table import Floats
from leadline.model.errors import UsageError
from leadline.model.result import Interval, ResponseKind
from leadline.model.units import rounded


def size(value: float) -> str:
    """Three significant digits or so, without exponents for common sizes."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}" if abs(value) >= 1e-4 else rounded(value, 2)


def between(interval: Interval | None) -> str:
    return "" if interval is None else f" [{size(interval.low)}, {size(interval.high)}]"


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(parts: Sequence[str], most: int = 4) -> str:
    """``a, b and c``; what is beyond ``most`` is counted."""
    first = list(parts[:most])
    if len(parts) > most:
        first.append(f"{len(parts) - most} more")
    return first[0] if len(first) == 1 else ", ".join(first[:-1]) + " and " + first[-1] if first else "none"


def chance(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


AT_DEFAULT = -1  # the level of a parameter that a run left alone, where the table does not name it


@dataclass(frozen=True)
class Parameter:
    """A factor with its levels as text. ``default``: index of the level the baseline has, None where unknown."""

    name: str
    levels: tuple[str, ...]
    default: int | None = None

    @property
    def changed(self) -> tuple[int, ...]:
        """Levels that are not the default."""
        return tuple(index for index in range(len(self.levels)) if index != self.default)


@dataclass(frozen=True)
class Setting:
    """One level of one parameter, by index into the table's parameters."""

    parameter: int
    level: int


@dataclass(frozen=True)
class Run:
    """One trial (or slot, or published mean) on one system.

    ``levels`` has one index for each parameter of the table, or ``AT_DEFAULT``. Either ``value`` is a finite number or
    ``failure`` names the class. ``blamed``: whether the failure may be the setting's doing.
    """

    system: int
    levels: tuple[int, ...]
    value: float | None
    failure: str = ""
    block: int = 0
    blamed: bool = True


@dataclass(frozen=True)
class ResultTable:
    """Runs of every setting on every system. Raises UsageError where there is nothing to make a figure of."""

    response: ResponseKind
    systems: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("the table has no finished run")
        if not any(parameter.changed for parameter in self.parameters):
            raise UsageError(
                "no parameter has a level besides its default, so there is no setting to compare; two levels are needed"
            )
        if all(run.value is None for run in self.runs):
            raise UsageError(f"all {len(self.runs)} runs failed, so there is no figure of {self.response.name}")

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every level that is not its parameter's default, in the table's order."""
        return tuple(
            Setting(number, level) for number, parameter in enumerate(self.parameters) for level in parameter.changed
        )

    def name(self, setting: Setting) -> str:
        parameter = self.parameters[setting.parameter]
        return f"{parameter.name}={parameter.levels[setting.level]}"

    def is_baseline(self, run: Run) -> bool:
        return all(level in (AT_DEFAULT, p.default) for level, p in zip(run.levels, self.parameters, strict=True))

    def of(self, system: int, setting: Setting | None = None) -> list[Run]:
        """Runs of a system that have the setting."""
        return [
            run
            for run in self.runs
            if run.system == system and (setting is None or run.levels[setting.parameter] == setting.level)
        ]

    @property
    def sign(self) -> float:
        """1 where more is better, else -1."""
        return 1.0 if self.response.higher_is_better else -1.0


def ordered(words: Iterable[str]) -> tuple[str, ...]:
    """Distinct words in the order they came."""
    return tuple(dict.fromkeys(words))


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
