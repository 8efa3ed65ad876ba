"""Latency histograms of trials: HdrHistogram interval logs (format 1.3), merged and never averaged.

Format and bucket layout: G. Tene, HdrHistogram, hdrhistogram.github.io/HdrHistogram.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leadline.host.received import lines_of
from leadline.load.series import decoded
from leadline.model.received import ReceivedError

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


def read(path: Path, begin: float | None = None, end: float | None = None) -> Mapping[str, Histogram]:
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
