"""Sensitivity of a parameter: the sum over systems of the standard deviation of the response over its levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadline.analysis.discovery import holm
from leadline.figures import words
from leadline.figures.fits import SystemFit
from leadline.figures.inversion import Part, corrected_sum
from leadline.figures.table import Parameter, ResultTable, Setting
from leadline.model.result import Interval

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
            f"{words.listed([row.parameter for row in first])} lead by the plain formula, which noise inflates; "
            f"{measured[0].reason}."
        )
    share = "" if noise is None else f" Of the plain formula's sum {100 * noise:.0f} % is noise."
    if not distinguishable:
        return f"No parameter changes {table.response.name} by more than noise does.{share}"
    parts = [
        f"{row.parameter} ({words.size(row.corrected or 0.0)} {table.response.unit}".rstrip()
        + f"{words.between(row.interval)})"
        for row in distinguishable
    ]
    verb = "matters" if len(distinguishable) == 1 else "matter"
    rest = len(measured) - len(distinguishable)
    rest_text = f"; {words.count(rest, 'other parameter')} not distinguishable from noise" if rest else ""
    return f"{words.listed(parts, 3)} {verb} beyond noise{rest_text}.{share}"
