"""Latency by treatment and transaction: percentiles of merged histograms, with the range over trials.

Percentiles of several trials are read from the merged histogram; they are never averages of percentiles. Without a
histogram log the median trial's own percentiles stand in, and the page says so.

Histograms of trials are HdrHistogram interval logs (format 1.3). Format and bucket layout: G. Tene, HdrHistogram,
hdrhistogram.github.io/HdrHistogram.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadline.host.received import lines_of
from leadline.load.series import ALL as EVERY
from leadline.load.series import decoded, unanswered_from
from leadline.model.received import ReceivedError
from leadline.model.result import AtLeast
from leadline.report.files import TrialFiles

UNITS_PER_MS = 1e6  # the driver counts nanoseconds (docs/reference/load.md)
_LINE = re.compile(r"(?:Tag=([^,]*),)?(\d+(?:\.\d+)?),([\d.]+),([\d.eE+-]+),(\S+)")
_COUNTS = 8 << 20  # of a histogram: five digits over 64 bits have fewer
_Layout = tuple[int, int]  # unit and half count of a histogram, as magnitudes
_BASE = re.compile(r"#\[(BaseTime|StartTime): *(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Histogram:
    """Counts by value in ms, ascending. Values are the largest that fall into their bucket."""

    values: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def quantile(self, q: float) -> float | None:
        """The smallest value that at least the share ``q`` of the counts does not exceed."""
        return self.quantiles([q])[0]

    def quantiles(self, qs: Iterable[float]) -> list[float | None]:
        wanted = np.asarray(list(qs), dtype=np.float64)
        total = self.total
        if not total:
            return [None] * len(wanted)
        cumulated = np.cumsum(self.counts)
        targets = np.maximum(1, np.ceil(wanted * total - 1e-9))
        return [float(self.values[i]) for i in np.minimum(np.searchsorted(cumulated, targets), len(self.values) - 1)]


def counted(values: Iterable[float]) -> Histogram:
    """Of single values, in ms."""
    return Histogram(*np.unique(np.fromiter(values, dtype=np.float64), return_counts=True))


EMPTY = Histogram(np.empty(0), np.empty(0, dtype=np.int64))


def merge(histograms: Iterable[Histogram]) -> Histogram:
    parts = [h for h in histograms if h.total]
    if not parts:
        return EMPTY
    values, inverse = np.unique(np.concatenate([h.values for h in parts]), return_inverse=True)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, inverse, np.concatenate([h.counts for h in parts]))
    return Histogram(values, counts)


def read_histograms(path: Path, begin: float | None = None, end: float | None = None) -> Mapping[str, Histogram]:
    """Histograms by tag of the intervals that start within [begin, end) unix seconds.

    An unreadable line is left out; a missing file gives no histograms.
    """
    sums: dict[str, dict[_Layout, NDArray[np.int64]]] = {}
    for interval in _intervals(path):
        if (begin is not None and interval.at < begin - 0.5) or (end is not None and interval.at >= end - 0.5):
            continue
        table = sums.setdefault(interval.tag, {})
        table[interval.layout] = _add(table.get(interval.layout), interval.counts)
    return {
        tag: merge(_expand(counts, *layout) for layout, counts in table.items()) for tag, table in sorted(sums.items())
    }


def over_time(path: Path) -> list[tuple[float, Histogram]]:
    """Unix seconds of each interval's start, ascending, with the histogram of all tags. Empty without the file."""
    histograms: dict[float, list[Histogram]] = {}
    for interval in _intervals(path):
        histograms.setdefault(interval.at, []).append(_expand(interval.counts, *interval.layout))
    return [(at, merge(parts)) for at, parts in sorted(histograms.items())]


@dataclass(frozen=True)
class _Interval:
    """One line of a log. ``at``: unix seconds of its start."""

    tag: str
    at: float
    layout: _Layout
    counts: NDArray[np.int64]


def _intervals(path: Path) -> Iterator[_Interval]:
    """What can be read of a log."""
    start = base = 0.0
    for line in _lines(path):
        stamp = _BASE.match(line)
        if stamp:
            if stamp[1] == "BaseTime":
                base = float(stamp[2])
            else:
                start = float(stamp[2])
            continue
        match = _LINE.match(line)
        if not match:
            continue
        at = float(match[2])
        # stamps more than a year before the start are relative to it
        at += base or (start if at < start - 365 * 86400 else 0.0)
        try:
            histogram = decoded(match[5], path.name, _COUNTS)
        except ReceivedError:
            continue
        counts = np.ctypeslib.as_array(histogram.encoder.payload.counts).astype(np.int64)
        layout = (histogram.unit_magnitude, histogram.sub_bucket_half_count_magnitude)
        yield _Interval(match[1] or "", at, layout, counts)


def _lines(path: Path) -> Iterator[str]:
    with suppress(OSError, ReceivedError):
        yield from lines_of(path)


def _add(left: NDArray[np.int64] | None, right: NDArray[np.int64]) -> NDArray[np.int64]:
    if left is None:
        return right
    if len(left) < len(right):
        left, right = right, left
    total = left.copy()
    total[: len(right)] += right
    return total


def _expand(counts: NDArray[np.int64], unit_magnitude: int, half_magnitude: int) -> Histogram:
    """Index of the counts array -> highest equivalent value, vectorised."""
    index = np.flatnonzero(counts)
    half = 1 << half_magnitude
    bucket = (index >> half_magnitude) - 1
    sub = (index & (half - 1)) + half
    sub = np.where(bucket < 0, sub - half, sub)
    shift = np.maximum(bucket, 0) + unit_magnitude
    highest = (sub << shift) + (1 << shift) - 1
    return Histogram(highest / UNITS_PER_MS, counts[index].astype(np.int64))


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
    tags = read_histograms(directory / "driver" / f"{kind}.hlog", begin, end)
    named = {tag: h for tag, h in tags.items() if tag and h.total}
    whole = merge(named.values() if named else tags.values())
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
        whole = merge(parts)
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
