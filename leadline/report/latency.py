"""Latency by treatment and transaction: percentiles of merged histograms, with the range over trials.

Percentiles of several trials are read from the merged histogram; they are never averages of percentiles. Without a
histogram log the median trial's own percentiles stand in, and the page says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.load.series import ALL as EVERY
from leadline.load.series import unanswered_from
from leadline.model.result import AtLeast
from leadline.report import histograms
from leadline.report.files import TrialFiles
from leadline.report.histograms import Histogram

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
ALL = "all transactions"


@dataclass(frozen=True)
class Figure:
    """A percentile in ms with the smallest and largest of the trials."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One transaction under one treatment; ``figures`` by name of the percentile."""

    treatment: str
    transaction: str
    kind: str  # response, service
    trials: int
    count: int
    figures: Mapping[str, Figure]
    merged: bool  # from histograms; else from the median trial's summary


@dataclass(frozen=True)
class Latency:
    """``curves`` holds for each (treatment, kind) the histogram of all transactions of each trial."""

    rows: tuple[Row, ...]
    curves: Mapping[tuple[str, str], tuple[Histogram, ...]]

    def find(self, treatment: str, transaction: str = ALL, kind: str = "response") -> Row | None:
        for row in self.rows:
            if (row.treatment, row.transaction, row.kind) == (treatment, transaction, kind):
                return row
        return None

    def transactions(self) -> list[str]:
        return list(dict.fromkeys(row.transaction for row in self.rows if row.transaction != ALL))


def collect(groups: Mapping[str, Sequence[TrialFiles]]) -> Latency:
    """``groups``: treatment -> its finished trials, in the order of the page."""
    rows: list[Row] = []
    curves: dict[tuple[str, str], tuple[Histogram, ...]] = {}
    for treatment, trials in groups.items():
        unanswered = [_unanswered(trial) for trial in trials]
        for kind in ("response", "service"):
            logs = [log for log in (_log(trial, kind) for trial in trials) if log]
            if logs:
                rows += _merged(treatment, kind, logs, unanswered)
                curves[treatment, kind] = tuple(log[ALL] for log in logs)
            else:
                rows += _summaries(treatment, kind, trials)
    return Latency(tuple(rows), curves)


def _log(trial: TrialFiles, kind: str) -> dict[str, Histogram]:
    directory = trial.trial.directory
    if directory is None:
        return {}
    phases = trial.phases
    begin, end = (phases.steady_from, phases.steady_until) if phases else (None, None)
    tags = histograms.read(directory / "driver" / f"{kind}.hlog", begin, end)
    named = {tag: h for tag, h in tags.items() if tag and h.total}
    whole = histograms.merge(named.values() if named else tags.values())
    return {ALL: whole, **named} if whole.total else {}


def _unanswered(trial: TrialFiles) -> dict[str, float]:
    """By transaction the shortest time in ms, from its due moment, of one without an answer."""
    if trial.trial.directory is None:
        return {}
    phases = trial.phases
    window = (phases.steady_from, phases.steady_until) if phases else (-math.inf, math.inf)
    names = unanswered_from(trial.trial.directory / "driver", *window)
    return {ALL if name == EVERY else name: ms for name, ms in names.items()}


def _known(ms: float | None, from_ms: float) -> float | None:
    return AtLeast(ms) if ms is not None and ms >= from_ms else ms


def _merged(
    treatment: str, kind: str, logs: Sequence[Mapping[str, Histogram]], unanswered: Sequence[Mapping[str, float]]
) -> list[Row]:
    """``unanswered``: by transaction, of each trial."""
    rows = []
    for name in dict.fromkeys(name for log in logs for name in log):
        parts = [log[name] for log in logs if name in log]
        whole = histograms.merge(parts)
        from_ms = min((bounds.get(name, math.inf) for bounds in unanswered), default=math.inf)
        values = [_known(value, from_ms) for value in whole.quantiles(QUANTILES.values())]
        quantiles = [[_known(value, from_ms) for value in part.quantiles(QUANTILES.values())] for part in parts]
        figures = {}
        for index, quantile in enumerate(QUANTILES):
            of = [value[index] for value in quantiles]
            present = [value for value in of if value is not None]
            value = values[index]
            if value is not None and present:
                figures[quantile] = Figure(value, min(present), max(present))
        rows.append(Row(treatment, name, kind, len(parts), whole.total, figures, True))
    return rows


def _summaries(treatment: str, kind: str, trials: Sequence[TrialFiles]) -> list[Row]:
    rows = []
    names: dict[str, tuple[str, ...]] = {ALL: ("steady", "all")}
    for trial in trials:
        steady = trial.summary.get("steady")
        transactions = steady.get("transactions") if isinstance(steady, Mapping) else None
        if isinstance(transactions, Mapping):
            names |= {str(name): ("steady", "transactions", str(name)) for name in transactions}
    for name, path in names.items():
        figures = {}
        counted = 0
        for quantile in QUANTILES:
            figures_ = [_summary_figure(trial, path, kind, quantile) for trial in trials]
            values = sorted(value for value in figures_ if value is not None)
            counted = max(counted, len(values))
            if values:
                figures[quantile] = Figure(values[(len(values) - 1) // 2], values[0], values[-1])
        count = sum(int(trial.figure(*path, "ok") or 0) for trial in trials)
        if figures:
            rows.append(Row(treatment, name, kind, counted, count, figures, False))
    return rows


def _summary_figure(trial: TrialFiles, path: Sequence[str], kind: str, quantile: str) -> float | None:
    value = trial.figure(*path, f"{kind}_ms", quantile)
    if value is None:
        return None
    part: Any = trial.summary
    for key in path:
        part = part[key]
    return AtLeast(value) if quantile in (part.get("response_at_least") or ()) else value
