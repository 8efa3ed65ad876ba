"""Sensitivity of a parameter: the sum over systems of the standard deviation of the response over its levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.selection import holm
from leadline.analysis.table import Floats
from leadline.figures.table import Parameter, ResultTable, Setting, SystemFit, between, count, listed, size
from leadline.model.result import Interval

# What a sum of standard deviations says about the truth when noise inflates it. A standard deviation of level means
# grows with the noise of the means even if no level differs. The truth is sought along one line: a pattern of
# deviations times c. For each c the sum is simulated with the design's own noise (its variance drawn too, sigma^2 df /
# chi^2(df)), and c is chosen so that the sum that was found is the simulated median (estimate: below the truth as often
# as above) or an upper or lower percentile (interval). This is a parametric bootstrap by test inversion, Carpenter,
# Test inversion bootstrap confidence intervals (1999). The pattern is the one found, the variances of three systems or
# more drawn together as far as noise explains their differences (method of moments, as in Efron and Morris, Stein's
# estimation rule and its competitors, 1973). The upper end is made safe where the sum is smaller than noise alone would
# give, by Read's ratio (Presentation of search results: the CL_s technique, 2002), so that an interval is never empty.


SEED = 20_062
DRAWS = 4000


@dataclass(frozen=True)
class Part:
    """One system's level means (L), with L at least 2.

    ``scatter`` (L, r) times its transpose times ``sigma`` squared is their covariance, ``df`` what sigma rests on.
    """

    means: Floats
    scatter: Floats
    sigma: float
    df: int

    @property
    def sd(self) -> float:
        return float(np.std(self.means, ddof=1))


@dataclass(frozen=True)
class Corrected:
    """The sum without what noise adds, its interval, and how often noise alone gives as much (p)."""

    value: float
    interval: Interval
    p_value: float


def corrected_sum(parts: Sequence[Part], level: float = 0.95) -> Corrected | None:
    """The sum of the parts' standard deviations, corrected. None where some part's noise is not known (df 0).

    The same input gives the same result.
    """
    if not parts or any(part.df < 1 for part in parts):
        return None
    total = sum(part.sd for part in parts)
    shape = _pattern(parts)
    size = sum(part.sd for part in shape)
    squares, cross, noise = _draws(shape, np.random.default_rng(SEED))

    def simulated(c: float) -> Floats:
        inside = np.maximum(c * c * squares + 2 * c * cross + noise, 0.0)
        return np.asarray(np.sqrt(inside).sum(axis=1), dtype=np.float64)

    tail = (1 - level) / 2
    tolerance = 1e-9 * total
    null = simulated(0.0)
    null_below = float(np.mean(null <= total + tolerance))
    low = _solve(lambda c: float(np.quantile(simulated(c), 1 - tail)) - total)
    high = _solve(lambda c: float(np.quantile(simulated(c), tail * max(null_below, 1 / DRAWS))) - total)
    middle = _solve(lambda c: float(np.median(simulated(c))) - total)
    p_value = (1 + float(np.sum(null >= total - tolerance))) / (1 + DRAWS)
    return Corrected(middle * size, Interval(low * size, max(high, middle) * size, level), p_value)


def _pattern(parts: Sequence[Part]) -> list[Part]:
    """The parts with their deviations scaled to variances without noise, drawn together where noise explains them."""
    variances = np.array([part.sd**2 for part in parts])
    if len(parts) < 3 or not variances.any():
        return list(parts)
    bases = np.array([abs(float(part.means.mean())) or 1.0 for part in parts])
    noise = np.array([_noise_variance(part) for part in parts])
    ratios, noise = variances / bases**2, noise / bases**2
    extra = np.array([len(part.means) - 1 for part in parts])
    mean = float(np.mean(ratios - noise))
    expected = float(np.mean((2 * noise**2 + 4 * noise * max(0.0, mean)) / extra))
    spread = float(np.var(ratios, ddof=1))
    weight = max(0.0, 1 - expected / spread) if spread > 0 else 0.0
    wanted = np.maximum(0.0, mean + weight * (ratios - noise - mean))
    if not wanted.any():
        wanted = np.full(len(parts), float(ratios.mean()))
    return [
        replace(part, means=_scaled(part.means, math.sqrt(one) * base / part.sd if part.sd > 0 else 0.0))
        for part, one, base in zip(parts, wanted, bases, strict=True)
    ]


def _noise_variance(part: Part) -> float:
    """What noise adds to the variance of the level means, on average."""
    scatter = part.scatter - part.scatter.mean(axis=0)
    return float(part.sigma**2 * np.sum(scatter**2) / (len(part.means) - 1))


def _scaled(means: Floats, factor: float) -> Floats:
    return np.asarray(means.mean() + factor * (means - means.mean()), dtype=np.float64)


def _draws(parts: Sequence[Part], rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Of each part the deviations' variance (parts), and per draw their covariance with the noise and its variance."""
    squares = np.empty(len(parts))
    cross, noise = np.empty((DRAWS, len(parts))), np.empty((DRAWS, len(parts)))
    for number, part in enumerate(parts):
        count = len(part.means)
        centred = part.means - part.means.mean()
        scatter = part.scatter - part.scatter.mean(axis=0)
        values, vectors = np.linalg.eigh(scatter @ scatter.T)
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T  # the only symmetric one: alike on every CPU
        sigma = part.sigma * np.sqrt(part.df / rng.chisquare(part.df, DRAWS))
        errors = (rng.standard_normal((DRAWS, count)) @ root.T) * sigma[:, None]
        squares[number] = float(centred @ centred) / (count - 1)
        cross[:, number] = errors @ centred / (count - 1)
        noise[:, number] = np.sum(errors**2, axis=1) / (count - 1)
    return squares, cross, noise


def _solve(excess: Callable[[float], float]) -> float:
    """The c >= 0 at which the increasing function crosses zero; 0 where it is never below."""
    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > 1e6 or not math.isfinite(high):
            return high
    return float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-6, rtol=1e-6))


ALPHA = 0.05
NO_REPEATS = "no run is repeated, so what noise adds is not known; give two replicates, or the noise by --cv"
ONE_LEVEL = "fewer than two of its levels have a figure"


@dataclass(frozen=True)
class SensitivityCell:
    """One parameter on one system.

    ``plain``: standard deviation over the levels' means, in the response's unit; ``percent`` the same of the system's
    baseline. ``corrected`` is without what noise adds, ``p_value`` how often noise alone gives as much. None where
    there is nothing to compute them from, with ``reason``.
    """

    parameter: str
    system: str
    levels: int
    plain: float | None
    percent: float | None
    corrected: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class ParameterSensitivity:
    """One parameter over all systems: sums of the cells. ``share``: of the sum of all parameters' plain figures.

    ``p_adjusted`` is Holm's over the parameters; ``told`` where it is below 5 %: more than noise.
    """

    parameter: str
    systems: int
    plain: float | None
    share: float | None
    corrected: float | None = None
    corrected_share: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    told: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Sensitivities:
    """Ranked by the corrected figure, else by the plain one. ``cells`` is the map parameter x system."""

    response: str
    unit: str
    rows: tuple[ParameterSensitivity, ...]
    cells: tuple[SensitivityCell, ...]
    noise_share: float | None  # of the plain figures' sum that is noise
    sentence: str


def sensitivities(table: ResultTable, fits: Sequence[SystemFit], level: float = 0.95) -> Sensitivities:
    """Figures 4 and 5 of study A for every parameter of the table.

    The baseline counts as a level where the table says which level it is.
    """
    cells, rows = [], []
    for number, parameter in enumerate(table.parameters):
        parts = [level_means(table, fit, number) for fit in fits]
        cells += [_cell(parameter, fit, part, level) for fit, part in zip(fits, parts, strict=True)]
        rows.append(_row(parameter, [part for part in parts if part is not None], level))
    rows = _shared(rows)
    adjusted = holm([row.p_value for row in rows])
    rows = [replace(row, p_adjusted=p, told=p is not None and p < ALPHA) for row, p in zip(rows, adjusted, strict=True)]
    rows.sort(key=lambda row: (row.plain is None, -(row.corrected or 0.0), -(row.plain or 0.0)))
    plain = sum(row.plain or 0.0 for row in rows)
    sds = [row.corrected for row in rows if row.corrected is not None]
    noise = 1 - sum(sds) / plain if len(sds) == sum(r.plain is not None for r in rows) and plain > 0 else None
    noise = None if noise is None else max(0.0, noise)
    return Sensitivities(
        table.response.name, table.response.unit, tuple(rows), tuple(cells), noise, _sentence(table, rows, noise)
    )


def level_means(table: ResultTable, fit: SystemFit, number: int) -> Part | None:
    """The means of parameter ``number``'s levels on one system, the default's among them; None with fewer than two."""
    parameter = table.parameters[number]
    settings = table.settings
    rows = [settings.index(Setting(number, level)) for level in parameter.changed]
    if parameter.default is not None:
        rows.append(len(settings))
    rows = [row for row in rows if fit.known[row]]
    if len(rows) < 2:
        return None
    return Part(fit.means[rows], fit.scatter[rows], fit.sigma, fit.df)


def _cell(parameter: Parameter, fit: SystemFit, part: Part | None, level: float) -> SensitivityCell:
    if part is None:
        return SensitivityCell(parameter.name, fit.system, 0, None, None, reason=ONE_LEVEL)
    percent = 100 * part.sd / fit.centre if fit.centre > 0 else None
    corrected = corrected_sum([part], level)
    if corrected is None:
        return SensitivityCell(parameter.name, fit.system, len(part.means), part.sd, percent, reason=NO_REPEATS)
    return SensitivityCell(
        parameter.name,
        fit.system,
        len(part.means),
        part.sd,
        percent,
        corrected.value,
        corrected.interval,
        corrected.p_value,
    )


def _row(parameter: Parameter, parts: Sequence[Part], level: float) -> ParameterSensitivity:
    if not parts:
        return ParameterSensitivity(parameter.name, 0, None, None, reason=ONE_LEVEL)
    plain = sum(part.sd for part in parts)
    corrected = corrected_sum(parts, level)
    if corrected is None:
        return ParameterSensitivity(parameter.name, len(parts), plain, None, reason=NO_REPEATS)
    return ParameterSensitivity(
        parameter.name,
        len(parts),
        plain,
        None,
        corrected=corrected.value,
        interval=corrected.interval,
        p_value=corrected.p_value,
    )


def _shared(rows: Sequence[ParameterSensitivity]) -> list[ParameterSensitivity]:
    plain = sum(row.plain or 0.0 for row in rows)
    corrected = sum(row.corrected or 0.0 for row in rows)
    return [
        replace(
            row,
            share=row.plain / plain if row.plain is not None and plain > 0 else None,
            corrected_share=row.corrected / corrected if row.corrected is not None and corrected > 0 else None,
        )
        for row in rows
    ]


def _sentence(table: ResultTable, rows: Sequence[ParameterSensitivity], noise: float | None) -> str:
    measured = [row for row in rows if row.plain is not None]
    if not measured:
        return f"No parameter has two levels with a figure of {table.response.name}, so there is no sensitivity."
    distinguishable = [row for row in measured if row.told]
    if all(row.corrected is None for row in measured):
        first = sorted(measured, key=lambda row: -(row.plain or 0.0))[:2]
        return (
            f"{listed([row.parameter for row in first])} lead by the plain formula, which noise inflates; "
            f"{measured[0].reason}."
        )
    share = "" if noise is None else f" Of the plain formula's sum {100 * noise:.0f} % is noise."
    if not distinguishable:
        return f"No parameter changes {table.response.name} by more than noise does.{share}"
    parts = [
        f"{row.parameter} ({size(row.corrected or 0.0)} {table.response.unit}".rstrip() + f"{between(row.interval)})"
        for row in distinguishable
    ]
    verb = "matters" if len(distinguishable) == 1 else "matter"
    rest = len(measured) - len(distinguishable)
    rest_text = f"; {count(rest, 'other parameter')} not distinguishable from noise" if rest else ""
    return f"{listed(parts, 3)} {verb} beyond noise{rest_text}.{share}"
