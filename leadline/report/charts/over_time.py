"""One load over time: throughput, percentiles, and a heat map of the response time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from leadline.report.charts.theme import BLUE, VERMILLION, DataSets, Figure, figure, log_ticks
from leadline.report.histograms import Histogram, merge

Floats = NDArray[np.float64]

_COLUMNS = 150  # spans of time at most
_ROWS = 48  # spans of response time
_WIDTH = 1020
_LATE = 0.0015  # seconds: a log's stamps are rounded to milliseconds
_SECONDS = "seconds since the start of the load"


def throughput(seconds: pl.DataFrame) -> Figure | None:
    """Transactions a second, and those that failed; None where there are none."""
    rows: list[dict[str, Any]] = []
    for row in seconds.iter_rows(named=True):
        for kind, column in (("succeeded", "ok"), ("failed", "failed")):
            if kind == "succeeded" or row[column]:
                rows.append({"second": row["second"], "what": kind, "rate": row[column] or 0, "phase": row["phase"]})
    if not rows:
        return None
    sets = DataSets()
    chart = (
        sets.chart(rows)
        .mark_line(strokeWidth=1.6, point=alt.OverlayMarkDef(size=9))
        .encode(
            x=alt.X("second:Q", title=_SECONDS, scale=alt.Scale(nice=False)),
            y=alt.Y("rate:Q", title="transactions/s", scale=alt.Scale(zero=True)),
            color=_two("what", "succeeded", "failed"),
            tooltip=["second:Q", "phase:N", "what:N", "rate:Q"],
        )
        .properties(width=_WIDTH, height=180)
    )
    caption = "Transactions that ended in each second."
    return figure("throughput", "Throughput over time", caption, chart, sets=sets)


def percentiles(seconds: pl.DataFrame) -> Figure | None:
    """Median and 99th percentile of each second; None where there are none."""
    rows = [
        {
            "second": row["second"],
            "percentile": name,
            "ms": _positive(row[f"response_{name}_ms"]),
            "phase": row["phase"],
        }
        for row in seconds.iter_rows(named=True)
        for name in ("p50", "p99")
    ]
    values = [row["ms"] for row in rows if row["ms"] is not None]
    if not values:
        return None
    sets = DataSets()
    bounds = (min(values), max(values))
    chart = (
        sets.chart(rows)
        .mark_line(strokeWidth=1.6, point=alt.OverlayMarkDef(size=9))
        .encode(
            x=alt.X("second:Q", title=_SECONDS, scale=alt.Scale(nice=False)),
            y=alt.Y(
                "ms:Q",
                title="response time, ms (log)",
                scale=alt.Scale(type="log", domain=list(bounds), nice=False, padding=6),
                axis=alt.Axis(values=log_ticks(*bounds), format=",~r"),
            ),
            color=_two("percentile", "p50", "p99"),
            tooltip=["second:Q", "phase:N", "percentile:N", "ms:Q"],
        )
        .properties(width=_WIDTH, height=200)
    )
    caption = "Percentiles of the transactions that ended in each second; time counts from the moment each was due."
    return figure("percentiles", "Response time over time", caption, chart, sets=sets)


def _positive(value: float | None) -> float | None:
    """For a log axis; None breaks the line."""
    return None if value is None or value <= 0 else float(f"{value:.4g}")


def _two(field: str, first: str, second: str) -> alt.Color:
    scale = alt.Scale(domain=[first, second], range=[BLUE, VERMILLION])
    return alt.Color(f"{field}:N", scale=scale, legend=alt.Legend(orient="top", title=None))


@dataclass(frozen=True)
class Load:
    """One load for a heat map. ``intervals``: unix seconds of the start and histogram; ``started``: of the load."""

    label: str
    started: float
    intervals: Sequence[tuple[float, Histogram]]


def heat_map(loads: Sequence[Load]) -> Figure | None:
    """How many responses took how long, over time: a second mode or a pause is seen that no percentile tells. Several
    loads stand below each other with the same axes and colours. None without histograms.
    """
    intervals_of = {
        load.label: [(at - load.started, interval) for at, interval in load.intervals if interval.total]
        for load in loads
    }
    every = [interval for intervals in intervals_of.values() for interval in intervals]
    if not every:
        return None
    whole = merge(interval for _, interval in every)
    low, high = max(float(whole.values[0]), 1e-3), float(whole.values[-1])
    if high / low < 2:
        low, high = low / 1.5, high * 1.5
    edges = np.geomspace(low, high * 1.0001, _ROWS + 1)
    span = max(1, math.ceil((max(at for at, _ in every) + 1) / _COLUMNS))
    rows = [
        {"load": label, **row} for label, intervals in intervals_of.items() for row in _cells(intervals, edges, span)
    ]
    sets = DataSets()
    chart = (
        sets.chart(rows)
        .mark_rect()
        .encode(
            x=alt.X("from:Q", title=_SECONDS, scale=alt.Scale(nice=False)),
            x2="until:Q",
            y=alt.Y(
                "low:Q",
                title="response time, ms (log)",
                scale=alt.Scale(type="log", domain=[low, high], nice=False),
                axis=alt.Axis(values=log_ticks(low, high), format=",~r"),
            ),
            y2="high:Q",
            color=alt.Color(
                "responses:Q",
                scale=alt.Scale(type="log", scheme="viridis"),
                legend=alt.Legend(orient="top", title="responses", gradientLength=220),
            ),
            tooltip=["from:Q", "until:Q", "low:Q", "high:Q", "responses:Q"],
        )
        .properties(width=_WIDTH, height=300 if len(loads) == 1 else 200)
    )
    if len(loads) > 1:
        head = alt.Header(orient="top", labelAnchor="start", title=None)
        chart = chart.facet(row=alt.Row("load:N", sort=[load.label for load in loads], header=head))
    caption = f"Responses by the time they took, in spans of {span} s; the colour is their number, on a log scale."
    return figure("heat-map", "Where the response times lie", caption, chart, sets=sets)


def _cells(intervals: Sequence[tuple[float, Histogram]], edges: Floats, span: int) -> Iterator[dict[str, float]]:
    """The spans of time and of response time that have responses."""
    cells: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}
    for at, histogram in intervals:
        row = np.clip(np.searchsorted(edges, histogram.values, side="right") - 1, 0, _ROWS - 1)
        counts = cells.setdefault(math.floor((at + _LATE) / span), np.zeros(_ROWS, dtype=np.int64))
        np.add.at(counts, row, histogram.counts)
    for column, counts in sorted(cells.items()):
        for place in np.flatnonzero(counts):
            yield {
                "from": column * span,
                "until": (column + 1) * span,
                "low": float(f"{edges[place]:.4g}"),
                "high": float(f"{edges[place + 1]:.4g}"),
                "responses": int(counts[place]),
            }
