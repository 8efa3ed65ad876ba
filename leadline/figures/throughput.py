"""Throughput of every system under all settings, with the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.figures import words
from leadline.figures.fits import SystemFit
from leadline.figures.table import ResultTable
from leadline.model import distributions
from leadline.model.result import Interval


@dataclass(frozen=True)
class SettingMean:
    """Mean of one setting on one system, in the response's unit."""

    setting: str
    mean: float
    runs: int


@dataclass(frozen=True)
class SystemThroughput:
    """One system: its baseline with the t interval, and the spread of its settings' means."""

    system: str
    baseline: float | None
    interval: Interval | None
    baseline_runs: int
    settings: tuple[SettingMean, ...]
    lowest: float
    median: float
    highest: float
    cv: float | None  # noise of one run, percent


@dataclass(frozen=True)
class Throughput:
    """Figure 1 of study A."""

    response: str
    unit: str
    systems: tuple[SystemThroughput, ...]
    sentence: str


def throughput(table: ResultTable, fits: Sequence[SystemFit], level: float = 0.95) -> Throughput:
    """Means of every setting and of the baseline, for each system."""
    rows = [_system(table, fit, level) for fit in fits]
    systems = tuple(row for row in rows if row is not None)
    return Throughput(table.response.name, table.response.unit, systems, _sentence(table, systems))


def _system(table: ResultTable, fit: SystemFit, level: float) -> SystemThroughput | None:
    system = table.systems.index(fit.system)
    means = [
        SettingMean(
            table.name(setting),
            float(fit.means[number]),
            sum(run.value is not None for run in table.of(system, setting)),
        )
        for number, setting in enumerate(table.settings)
        if fit.known[number]
    ]
    if not means and fit.baseline is None:
        return None
    values = [mean.mean for mean in means] or [fit.baseline or 0.0]
    interval = None
    if fit.baseline is not None and fit.df > 0:
        row = np.zeros(len(fit.means))
        row[-1] = 1.0
        reach = float(distributions.t.ppf((1 + level) / 2, fit.df)) * fit.error(row)
        interval = Interval(fit.baseline - reach, fit.baseline + reach, level)
    return SystemThroughput(
        system=fit.system,
        baseline=fit.baseline,
        interval=interval,
        baseline_runs=sum(run.value is not None and table.is_baseline(run) for run in table.of(system)),
        settings=tuple(means),
        lowest=min(values),
        median=float(np.median(values)),
        highest=max(values),
        cv=fit.cv,
    )


def _sentence(table: ResultTable, rows: Sequence[SystemThroughput]) -> str:
    unit = f" {table.response.unit}" if table.response.unit else ""
    if not rows:
        return "No setting has a figure yet."
    if len(rows) == 1:
        row = rows[0]
        base = f" around a baseline of {words.size(row.baseline)}" if row.baseline is not None else ""
        if len(row.settings) < 2:
            return f"The mean of the only setting is {words.size(row.highest)}{unit}{base}."
        return (
            f"The means of {len(row.settings)} settings lie between {words.size(row.lowest)} and "
            f"{words.size(row.highest)}{unit}{base}."
        )
    pairs = [(row.baseline if row.baseline is not None else row.median, row.system) for row in rows]
    pairs.sort(reverse=table.response.higher_is_better)
    what = "baseline" if all(row.baseline is not None for row in rows) else "median setting"
    return (
        f"By {what}, {pairs[0][1]} is first of {len(pairs)} systems with {words.size(pairs[0][0])}{unit} and "
        f"{pairs[-1][1]} last with {words.size(pairs[-1][0])}{unit}."
    )
