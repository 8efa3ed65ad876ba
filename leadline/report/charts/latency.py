"""Charts of one load: percentiles by transaction, the percentile curve, throughput and a heat map over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from leadline.gcanalysis.summary import Utilisation
from leadline.report import latency, words
from leadline.report.charts import theme
from leadline.report.latency import ALL, Histogram, Latency, merge

Floats = NDArray[np.float64]

_COLUMNS = 150  # spans of time at most
_ROWS = 48  # spans of response time
_WIDTH = 1020
_LATE = 0.0015  # seconds: a log's stamps are rounded to milliseconds
_SECONDS = "seconds since the start of the load"


def throughput(seconds: pl.DataFrame) -> theme.Figure | None:
    """Transactions a second, and those that failed; None where there are none."""
    rows: list[dict[str, Any]] = []
    for row in seconds.iter_rows(named=True):
        for kind, column in (("succeeded", "ok"), ("failed", "failed")):
            if kind == "succeeded" or row[column]:
                rows.append({"second": row["second"], "what": kind, "rate": row[column] or 0, "phase": row["phase"]})
    if not rows:
        return None
    sets = theme.DataSets()
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
    return theme.figure("throughput", "Throughput over time", caption, chart, sets=sets)


def percentiles(seconds: pl.DataFrame) -> theme.Figure | None:
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
    sets = theme.DataSets()
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
                axis=alt.Axis(values=theme.log_ticks(*bounds), format=",~r"),
            ),
            color=_two("percentile", "p50", "p99"),
            tooltip=["second:Q", "phase:N", "percentile:N", "ms:Q"],
        )
        .properties(width=_WIDTH, height=200)
    )
    caption = "Percentiles of the transactions that ended in each second; time counts from the moment each was due."
    return theme.figure("percentiles", "Response time over time", caption, chart, sets=sets)


def _positive(value: float | None) -> float | None:
    """For a log axis; None breaks the line."""
    return None if value is None or value <= 0 else float(f"{value:.4g}")


def _two(field: str, first: str, second: str) -> alt.Color:
    return theme.coloured(field, {first: theme.BLUE, second: theme.VERMILLION}, alt.Legend(orient="top", title=None))


@dataclass(frozen=True)
class Load:
    """One load for a heat map. ``intervals``: unix seconds of the start and histogram; ``started``: of the load."""

    label: str
    started: float
    intervals: Sequence[tuple[float, Histogram]]


def heat_map(loads: Sequence[Load]) -> theme.Figure | None:
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
    sets = theme.DataSets()
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
                axis=alt.Axis(values=theme.log_ticks(low, high), format=",~r"),
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
    return theme.figure("heat-map", "Where the response times lie", caption, chart, sets=sets)


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


_FIRST = 1 / 0.9  # the curve begins at the 10th percentile
_NINES = (2, 10, 100, 1000, 10_000, 100_000, 1_000_000)


def by_transaction(latency: Latency, treatments: list[str], colours: Mapping[str, str]) -> theme.Figure | None:
    """Median and 99th percentile of the response time; None when nothing was recorded."""
    rows: list[dict[str, Any]] = []
    for row in latency.rows:
        if row.kind != "response" or row.treatment not in treatments:
            continue
        for name in ("p50", "p99"):
            figures = row.figures.get(name)
            if figures and figures.value > 0:
                rows.append(
                    {
                        "treatment": row.treatment,
                        "transaction": row.transaction,
                        "percentile": name,
                        "ms": figures.value,
                        "low": max(figures.low, 1e-3),
                        "high": figures.high,
                        "trials": row.trials,
                    }
                )
    if not rows:
        return None
    names = [name for name in treatments if any(row["treatment"] == name for row in rows)]
    order = [ALL, *latency.transactions()]
    bounds = (min(row["low"] for row in rows), max(row["high"] for row in rows))
    charts = []
    sets = theme.DataSets()
    for index, name in enumerate(("p50", "p99")):
        some = sets.chart([row for row in rows if row["percentile"] == name])
        x, x_low = (
            alt.X(
                f"{field}:Q",
                scale=alt.Scale(type="log", domain=list(bounds), nice=False, padding=6),
                axis=alt.Axis(values=theme.log_ticks(*bounds), format=",~r"),
                title=f"{name} response time, ms (log)",
            )
            for field in ("ms", "low")
        )
        y = alt.Y(
            "transaction:N",
            sort=order,
            title=None,
            axis=alt.Axis(grid=True, ticks=False, domain=False, labels=index == 0, labelLimit=180),
        )
        offset = alt.YOffset("treatment:N", sort=names, scale=alt.Scale(paddingInner=0.2, paddingOuter=0.6))
        colour = theme.treatment_colour(names, colours)
        tip = [
            "transaction:N",
            "treatment:N",
            alt.Tooltip("ms:Q", format=",.3~r", title=f"{name}, ms"),
            alt.Tooltip("low:Q", format=",.3~r", title="smallest of the trials"),
            alt.Tooltip("high:Q", format=",.3~r", title="largest of the trials"),
            "trials:Q",
        ]
        charts.append(
            alt.layer(
                some.mark_rule(strokeWidth=1.6).encode(x=x_low, x2="high:Q", y=y, yOffset=offset, color=colour),
                some.mark_point(size=34, filled=True, opacity=1).encode(
                    x=x, y=y, yOffset=offset, color=colour, tooltip=tip
                ),
            ).properties(width=460, height=alt.Step(max(5, min(9, 40 / max(1, len(names)))), **{"for": "offset"}))
        )
    counts = sorted({row["trials"] for row in rows})
    caption = (
        "Response time in the steady state, counted from the moment a transaction was due. Point: percentile of the "
        f"merged histograms; line: smallest to largest of the trials ({_count(counts)} a treatment)."
    )
    chart = alt.hconcat(*charts, spacing=18)
    return theme.figure("latency-by-transaction", "Latency by transaction", caption, chart, sets=sets)


def _count(counts: list[int]) -> str:
    return words.plural(counts[0], "trial") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} trials"


def _curve_rows(histograms_of_trials: Sequence[Histogram]) -> Iterator[dict[str, Any]]:
    """One row per percentile: its value in the trials together, and the smallest and largest of one trial, in ms."""
    whole = latency.merge(histograms_of_trials)
    grid = np.geomspace(_FIRST, whole.total + 1, 60)  # the last is the largest
    shares = (1 - 1 / grid).tolist()
    by_trial = [histogram.quantiles(shares) for histogram in histograms_of_trials]
    for index, value in enumerate(whole.quantiles(shares)):
        present = [ms for quantiles in by_trial if (ms := quantiles[index]) is not None and ms > 0]
        if value is not None and value > 0 and present:
            yield {
                "nines": float(f"{grid[index]:.5g}"),
                "share": f"{100 * shares[index]:.6g} %",
                "ms": float(f"{value:.5g}"),
                "low": float(f"{min(present):.5g}"),
                "high": float(f"{max(present):.5g}"),
            }


def curve(latency: Latency, treatments: list[str], colours: Mapping[str, str]) -> theme.Figure | None:
    """Response and service time over the number of nines; None without histograms."""
    trials = {treatment: len(latency.curves.get((treatment, "response"), ())) for treatment in treatments}
    names = [treatment for treatment, count in trials.items() if count]
    rows = [
        {**row, "treatment": treatment, "kind": f"{kind} time"}
        for treatment in treatments
        for kind in ("response", "service")
        if (curves := latency.curves.get((treatment, kind)))
        for row in _curve_rows(curves)
    ]
    if not rows:
        return None
    caption = (
        "All transactions of the steady state, histograms of the trials merged. Response time (solid) counts from the "
        "moment a transaction was due, service time (dashed) from the moment it was sent. Shaded: smallest to largest "
        f"of the trials ({_count(sorted({trials[name] for name in names}))} a treatment)."
    )
    return _drawn(
        "latency-curve", "The whole percentile curve", caption, rows, theme.treatment_colour(names, colours, "stroke")
    )


def pause_curve(pauses: Mapping[str, Histogram], span: str = "all of the log") -> theme.Figure | None:
    """Pauses of each log over the number of nines; None without a pause."""
    rows = [
        {**row, "treatment": log, "kind": "pause"}
        for log, histogram in pauses.items()
        for row in _curve_rows([histogram])
    ]
    if not rows:
        return None
    caption = f"How long the longest pauses were, in {span}: at 99 % one of a hundred pauses was longer."
    return _drawn("pause-curve", "Pauses by percentile", caption, rows, log_colour(pauses, "stroke"), "log")


def mutator_utilisation(shares: Mapping[str, Sequence[Utilisation]]) -> theme.Figure | None:
    """Minimum mutator utilisation of each log by the length of the window; None without one."""
    rows: list[dict[str, Any]] = [
        {"treatment": log, "ms": window.window_ms, "left": 100 * window.share}
        for log, windows in shares.items()
        for window in windows
        if window.share is not None
    ]
    if not rows:
        return None
    last = max(row["ms"] for row in rows)
    x = alt.X(
        "ms:Q",
        scale=alt.Scale(type="log", domain=[1, max(10, last)], nice=False),
        axis=alt.Axis(values=theme.log_ticks(1, last), format=",~r"),
        title="window, ms (log)",
    )
    y = alt.Y("left:Q", scale=alt.Scale(domain=[0, 100]), title="% left to the application")
    tip = [
        alt.Tooltip("treatment:N", title="log"),
        alt.Tooltip("ms:Q", title="window, ms"),
        alt.Tooltip("left:Q", format=".1f", title="% left"),
    ]
    sets = theme.DataSets()
    points = alt.OverlayMarkDef(size=24)
    chart = sets.chart(rows).mark_line(strokeWidth=1.8, point=points)
    chart = chart.encode(x=x, y=y, color=log_colour(shares, "stroke"), tooltip=tip)
    caption = "The smallest share of any window of this length that pauses left to the application."
    return theme.figure(
        "mmu", "Minimum mutator utilisation", caption, chart.properties(width=1020, height=200), sets=sets
    )


def log_colour(logs: Iterable[str], symbol: str) -> alt.Color:
    """The colour channel of charts that compare logs; none of them is a baseline."""
    names = list(logs)
    return theme.treatment_colour(
        names, {name: theme.TREATMENTS[at % len(theme.TREATMENTS)] for at, name in enumerate(names)}, symbol
    )


def _drawn(
    name: str, title: str, caption: str, rows: list[dict[str, Any]], colour: alt.Color, what: str = "treatment"
) -> theme.Figure:
    """Percentiles over the number of nines, by treatment and kind; the smallest and largest of ``rows`` as a band."""
    last = max(row["nines"] for row in rows)
    x = alt.X(
        "nines:Q",
        scale=alt.Scale(type="log", domain=[_FIRST, last], nice=False),
        axis=alt.Axis(
            values=[nine for nine in _NINES if nine <= last],
            labelExpr="format(100 - 100 / datum.value, '~r') + ' %'",
            labelOverlap=False,
        ),
        title="percentile (log scale of nines)",
    )
    bounds = (min(row["low"] for row in rows), max(row["high"] for row in rows))
    bounds = bounds if bounds[1] > bounds[0] else (bounds[0] / 1.5, bounds[1] * 1.5)
    y_scale = alt.Scale(type="log", domain=list(bounds), nice=False, padding=6)
    y_axis = alt.Axis(values=theme.log_ticks(*bounds), format=",~r")
    sets = theme.DataSets()
    kinds = [kind for kind in ("response time", "service time") if any(row["kind"] == kind for row in rows)]
    band = (
        sets.chart([row for row in rows if row["kind"] == "response time"])
        .mark_area(opacity=0.13)
        .encode(x=x, y=alt.Y("low:Q", scale=y_scale, axis=y_axis, title="ms (log)"), y2="high:Q", color=colour)
    )
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=["response time", "service time"], range=[[1, 0], [5, 3]]),
        legend=alt.Legend(orient="top", title=None, symbolStrokeColor="#353b43"),
    )
    lines = (
        sets.chart(rows)
        .mark_line(strokeWidth=1.8)
        .encode(
            x=x,
            y=alt.Y("ms:Q", scale=y_scale, axis=y_axis, title="ms (log)"),
            color=colour,
            **({"strokeDash": dash} if kinds else {}),
            tooltip=[
                alt.Tooltip("treatment:N", title=what),
                "kind:N",
                alt.Tooltip("share:N", title="percentile"),
                alt.Tooltip("ms:Q", format=",.4~r"),
            ],
        )
    )
    chart = alt.layer(band, lines).properties(width=1020, height=330)
    return theme.figure(name, title, caption, chart, sets=sets)
