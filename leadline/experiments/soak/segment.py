"""A segment of a soak: the raw files of the load between two checkpoints, and what is kept of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from leadline.conclude.soak import METRICS
from leadline.experiments.soak.record import interval_of
from leadline.load.series import ALL, last_second, outcomes_in, started_unix_ns, whole_seconds
from leadline.model.soak import Gauge, Interval
from leadline.observe.base import Observer, ObserverSet
from leadline.observe.table import read_series

HOLDINGS = "holdings"  # name of the counters of leadline.experiments.soak.holdings


@dataclass(frozen=True)
class Segment:
    """``directory`` holds driver, raw, series and logs as a trial's does."""

    directory: Path
    stretch: int
    number: int

    @property
    def driver(self) -> Path:
        return self.directory / "driver"


def segment_of(attempt: Path, stretch: int, number: int) -> Segment:
    return Segment(attempt / "segments" / f"{number:06d}", stretch, number)


def left_of(attempt: Path, stretch: int) -> list[Segment]:
    """Segments of an attempt whose raw files are still there, in order."""
    folder = attempt / "segments"
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    return [segment_of(attempt, stretch, number) for number in numbers]


def condensed(segment: Segment, interval: float, observers: Sequence[Observer], whole: float | None) -> list[Interval]:
    """The whole intervals of a segment. ``whole``: its seconds, where its driver came to its end."""
    started, last = started_unix_ns(segment.driver), last_second(segment.driver)
    if started is None or last is None:
        return []
    ObserverSet(observers).collect_from(segment.directory)
    count = math.floor((whole if whole is not None else last + 1) / interval + 1e-6)
    windows = [whole_seconds(at * interval, (at + 1) * interval) for at in range(count)]
    begin = started / 1e9
    gauges = _gauges(segment.directory / "series", begin, interval, count)
    return [
        interval_of(begin + at * interval, interval, segment.stretch, named[ALL], gauges.get(at, {}))
        for at, named in enumerate(outcomes_in(segment.driver, windows))
        if windows[at]
    ]


def _gauges(series: Path, begin: float, interval: float, count: int) -> dict[int, dict[str, Gauge]]:
    """By number of the interval and "metric/subject": least, mean and most."""
    gauges: dict[int, dict[str, Gauge]] = {}
    for path in sorted(series.glob("*.parquet")):
        for at, name, low, mean, high in _rows(path, begin, interval):
            if 0 <= at < count:
                gauges.setdefault(at, {})[name] = (low, mean, high)
    return gauges


def _rows(path: Path, begin: float, interval: float) -> Iterator[tuple[int, str, float, float, float]]:
    holdings = path.stem == HOLDINGS
    at = ((pl.col("time_ns") / 1e9 - begin) / interval).floor().cast(pl.Int64).alias("at")
    metric = pl.col("metric").str.split("/").list.first() if holdings else pl.col("metric")
    value = pl.col("value")
    rows = (
        read_series(path)
        .filter(metric.is_in(list(METRICS)) & ~pl.col("metric").str.ends_with(".per_s") & value.is_finite())
        .group_by(at, "metric", "subject")
        .agg(value.min().alias("low"), value.mean().alias("mean"), value.max().alias("high"))
    )
    for number, name, subject, low, mean, high in rows.iter_rows():
        yield number, name if holdings else f"{name}/{subject}", low, mean, high
