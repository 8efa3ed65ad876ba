"""Throughput of every system under all settings, failed runs by class, and how far results deviate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.figures.table import ResultTable, SystemFit, count, size
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
    return Throughput(table.response.name, table.response.unit, systems, _throughput_sentence(table, systems))


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


def _throughput_sentence(table: ResultTable, rows: Sequence[SystemThroughput]) -> str:
    unit = f" {table.response.unit}" if table.response.unit else ""
    if not rows:
        return "No setting has a figure yet."
    if len(rows) == 1:
        row = rows[0]
        base = f" around a baseline of {size(row.baseline)}" if row.baseline is not None else ""
        if len(row.settings) < 2:
            return f"The mean of the only setting is {size(row.highest)}{unit}{base}."
        return (
            f"The means of {len(row.settings)} settings lie between {size(row.lowest)} and "
            f"{size(row.highest)}{unit}{base}."
        )
    pairs = [(row.baseline if row.baseline is not None else row.median, row.system) for row in rows]
    pairs.sort(reverse=table.response.higher_is_better)
    what = "baseline" if all(row.baseline is not None for row in rows) else "median setting"
    return (
        f"By {what}, {pairs[0][1]} is first of {len(pairs)} systems with {size(pairs[0][0])}{unit} and "
        f"{pairs[-1][1]} last with {size(pairs[-1][0])}{unit}."
    )


@dataclass(frozen=True)
class SystemFailures:
    """One system. ``interval``: Clopper and Pearson's for the share of failed runs.

    ``repeats``: standard deviation between runs of one setting, percent of the baseline (pooled over settings, blocks
    taken out). ``from_baseline``: mean absolute deviation of the settings' means from the baseline, percent. The
    paper's "mean deviation" may be either.
    """

    system: str
    runs: int
    failed: int
    classes: Mapping[str, int]
    interval: Interval
    repeats: float | None
    from_baseline: float | None
    worst_settings: tuple[str, ...]  # with the most failures, at most three


@dataclass(frozen=True)
class Failures:
    """Figure 3 of study A."""

    systems: tuple[SystemFailures, ...]
    classes: Mapping[str, int]
    settings: Mapping[str, int]  # setting -> failed runs over all systems, most first
    sentence: str


def failures(table: ResultTable, fits: Sequence[SystemFit], level: float = 0.95) -> Failures:
    """Counts of failed runs and mean deviations for every system that was run."""
    by_name = {fit.system: fit for fit in fits}
    rows = []
    for number, name in enumerate(table.systems):
        runs = table.of(number)
        if not runs:
            continue
        failed = [run for run in runs if run.value is None]
        blame = Counter(
            table.name(setting)
            for setting in table.settings
            for run in failed
            if run.levels[setting.parameter] == setting.level
        )
        fit = by_name.get(name)
        rows.append(
            SystemFailures(
                system=name,
                runs=len(runs),
                failed=len(failed),
                classes=_counted(Counter(run.failure for run in failed)),
                interval=_interval(len(failed), len(runs), level),
                repeats=fit.cv if fit else None,
                from_baseline=_from_baseline(fit) if fit else None,
                worst_settings=tuple(_counted(blame))[:3],
            )
        )
    failed_runs = [run for run in table.runs if run.value is None]
    settings = Counter(
        table.name(setting)
        for setting in table.settings
        for run in failed_runs
        if run.levels[setting.parameter] == setting.level
    )
    classes = _counted(Counter(run.failure for run in failed_runs))
    counted = _counted(settings)
    return Failures(tuple(rows), classes, counted, _sentence(table, rows, classes, counted))


def _counted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _interval(failed: int, runs: int, level: float) -> Interval:
    tail = (1 - level) / 2
    low = float(distributions.beta.ppf(tail, failed, runs - failed + 1)) if failed else 0.0
    high = float(distributions.beta.ppf(1 - tail, failed + 1, runs - failed)) if failed < runs else 1.0
    return Interval(low, high, level)


def _from_baseline(fit: SystemFit) -> float | None:
    base = fit.baseline
    mask = np.array(fit.known[:-1], dtype=bool)
    if base is None or base <= 0 or not mask.any():
        return None
    return float(np.mean(np.abs(100 * (fit.means[:-1][mask] / base - 1))))


def _sentence(
    table: ResultTable, rows: Sequence[SystemFailures], classes: Mapping[str, int], settings: Mapping[str, int]
) -> str:
    failed = sum(classes.values())
    if not failed:
        return f"None of {count(len(table.runs), 'run')} failed."
    text = f"{failed} of {count(len(table.runs), 'run')} failed ({_named(classes)})"
    if settings:
        name, number = next(iter(settings.items()))
        text += f"; {name} has {number} of the failures"
    if len(rows) > 1:
        most = max(rows, key=lambda row: row.failed / row.runs)
        text += f"; {most.system} failed most often ({most.failed} of {most.runs})"
    return text + "."


def _named(classes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in classes.items())
