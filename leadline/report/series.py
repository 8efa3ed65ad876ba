"""Series of a trial in the compact form the page carries: thinned, rounded, seconds since the load began."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from leadline.observe.window import services_among
from leadline.report.charts.trial import MARGIN, PANELS, SERVICES, WIDTH, Panel, Source
from leadline.report.files import TrialFiles

POINTS = 240  # at most so many points a line; longer series are thinned, by bins of neighbours
BYTES = 500_000  # of all trials together; where they would take more, every line has fewer points
LINES = 7  # kinds of one metric; what is beyond them is drawn as one, "others"
_FEWEST = 16

Key = TypeVar("Key", bound=Hashable)
Floats = NDArray[np.float64]
RowsOf = Callable[[Source], pl.DataFrame | None]


def of_trials(trials: Sequence[TrialFiles]) -> dict[int, dict[str, Any]]:
    """``compact`` of each trial, by its number, with so many points a line that the page stays small."""
    by_number = {trial.trial.id: trial for trial in trials}
    return within(list(by_number), lambda number, points: compact(by_number[number], points))


def within(keys: Sequence[Key], series_of: Callable[[Key, int], dict[str, Any]], most: int = POINTS) -> dict[Key, Any]:
    """The series of each key with ``most`` points a line, or with fewer where all would take more than ``BYTES``."""
    series = {key: series_of(key, most) for key in keys}
    size = sum(len(json.dumps(document)) for document in series.values())
    if size <= BYTES:
        return series
    longest = max((len(times) for document in series.values() for times in _times(document)), default=0)
    points = max(_FEWEST, int(longest * BYTES / size))
    return {key: series_of(key, points) for key in keys}


def _times(found: dict[str, Any]) -> list[list[float]]:
    tracks = [track for panel in found["panels"].values() for track in panel["tracks"]]
    return [line["t"] for track in tracks for line in track]


def compact(files: TrialFiles, points: int = POINTS) -> dict[str, Any]:
    """``{"span", "phases", "panels": {name: {"tracks": [[{"s", "t", "v"}]], "peaks": [..]}}}``.

    A panel whose metrics were not recorded is absent.
    """

    def rows_of(source: Source) -> pl.DataFrame | None:
        driver = source.observer == "driver"
        return _driver(files, source.metric) if driver else files.points(source.observer, source.metric)

    return compact_rows(rows_of, _bounds(files), points, PANELS, _phases(files))


def compact_rows(
    rows_of: RowsOf,
    bounds: tuple[float, float],
    points: int,
    panels: Sequence[Panel],
    phases: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """As ``compact``, of any rows between ``bounds`` (seconds)."""
    drawn: dict[str, Any] = {}
    for panel in panels:
        tracks = [
            [line for source in track.sources for line in _lines(rows_of(source), source, bounds, points, track.mark)]
            for track in panel.tracks
        ]
        if any(tracks):
            drawn[panel.name] = {"tracks": tracks, "peaks": [_peak(panel, i, lines) for i, lines in enumerate(tracks)]}
    return {"span": round(max(1.0, bounds[1] - bounds[0]), 1), "phases": list(phases), "panels": drawn}


def _bounds(files: TrialFiles) -> tuple[float, float]:
    if files.phases:
        return files.phases.load_started, files.phases.load_ended
    tables = [table["time_ns"] for table in files.series.values()]
    if files.seconds is not None:
        tables.append(files.seconds["time_ns"])
    if not tables:
        return 0.0, 0.0
    lows = [float(column.min()) for column in tables]  # type: ignore[arg-type]
    highs = [float(column.max()) for column in tables]  # type: ignore[arg-type]
    return min(lows) / 1e9, max(highs) / 1e9


def _phases(files: TrialFiles) -> list[dict[str, Any]]:
    phases = files.phases
    if phases is None:
        return []
    zero = phases.load_started
    until = phases.load_ended - zero
    ramp = _ramp_end(files)
    steady = phases.steady_from - zero
    spans = [("ramp-up", 0.0, steady if ramp is None else min(ramp, steady))]
    if ramp is not None and steady - ramp > 0.5:
        spans.append(("warm-up cut", ramp, steady))
    spans.append(("steady", steady, phases.steady_until - zero))
    spans.append(("ramp-down", phases.steady_until - zero, until))
    rows = []
    for name, low, high in spans:
        if high > low:
            room = (high - low) / max(until, 1e-9) * WIDTH
            row = {"phase": name, "from": round(low, 1), "to": round(high, 1)}
            row["label"] = name if room > 5.2 * len(name) + 4 else ""
            rows.append(row)
    return rows


def _ramp_end(files: TrialFiles) -> float | None:
    """Seconds from the load's start to the end of the driver's ramp-up."""
    if files.seconds is None or files.phases is None:
        return None
    ramp = files.seconds.filter(pl.col("phase") == "ramp_up")["time_ns"]
    if not len(ramp):
        return None
    last = float(ramp.max())  # type: ignore[arg-type]
    return max(0.0, last / 1e9 + 1 - files.phases.load_started)


def _lines(
    rows: pl.DataFrame | None, source: Source, bounds: tuple[float, float], points: int, mark: str
) -> list[dict[str, Any]]:
    """One line a subject. A span's value is milliseconds up to its time: ``t`` is the beginning, ``to`` the end."""
    if rows is None:
        return []
    if source.subject == SERVICES:
        rows = rows.filter(pl.col("subject").is_in(services_among(rows["subject"].unique().to_list())))
    elif source.subject is not None:
        rows = rows.filter(pl.col("subject") == source.subject)
    begin, end = bounds
    low, high = int((begin - MARGIN) * 1e9), int((end + MARGIN) * 1e9)
    rows = rows.filter(pl.col("time_ns").is_between(low, high))
    if mark in ("stem", "span"):
        rows = _with_others(rows)
        points = min(points, max(_FEWEST, 2 * points // max(1, rows["subject"].n_unique())))
    digits = 1 if source.keep == "mean" else max(1, math.ceil(-math.log10(max(1.0, end - begin) / 20_000)))
    lines: list[dict[str, Any]] = []
    for subject in rows["subject"].unique(maintain_order=True).to_list():
        of = rows.filter(pl.col("subject") == subject)
        ends, values = thin(
            of["time_ns"].to_numpy() / 1e9 - begin, of["value"].to_numpy() * source.scale, source.keep, points
        )
        if source.metric in _QUIET and not values.any():
            continue
        times = (ends - values / 1e3 if mark == "span" else ends).round(digits)
        line = {"s": source.label.format(subject), "t": times.tolist(), "v": [float(f"{v:.4g}") for v in values]}
        lines.append({**line, "to": ends.round(digits).tolist()} if mark == "span" else line)
    return lines


def _with_others(rows: pl.DataFrame) -> pl.DataFrame:
    """With ``LINES`` subjects at most, those with the largest sums, and "others"."""
    if rows["subject"].n_unique() <= LINES + 1:
        return rows
    sums = rows.group_by("subject").agg(pl.col("value").sum())
    sums = sums.sort("value", "subject", descending=[True, False])
    kept = pl.col("subject").is_in(sums["subject"].head(LINES).to_list())
    return rows.with_columns(pl.when(kept).then(pl.col("subject")).otherwise(pl.lit("others")).alias("subject"))


# lines that say nothing while they are zero
_QUIET = frozenset({"failed", "cpu.steal", "disk.read_bytes", "gc.stall"})


def _driver(files: TrialFiles, metric: str) -> pl.DataFrame | None:
    """One row a second over all transactions; means are weighted by the transactions."""
    table = files.seconds
    if table is None:
        return None
    done = pl.col("ok") + pl.col("failed").fill_null(0)
    if metric in ("ok", "failed"):
        value = pl.col(metric).sum()
    elif metric == "in_flight":
        value = pl.col(metric).max()  # of the whole driver, the same in every row of a second
    else:
        value = (pl.col(metric) * done).sum() / done.filter(pl.col(metric).is_not_null()).sum()
    rows = (
        table.group_by("second", maintain_order=True)
        .agg(pl.col("time_ns").min(), value.alias("value"))
        .with_columns(pl.lit("all").alias("subject"))
        .filter(pl.col("value").is_finite())
        .sort("time_ns")
    )
    return rows if rows.height else None


def thin(times: Floats, values: Floats, keep: str, points: int = POINTS) -> tuple[Floats, Floats]:
    """At most ``points`` pairs of equal bins of neighbours: their mean at the first time, or with ``keep`` "most" the
    largest, with "extremes" the least and the largest, each at its own time.
    """
    if len(times) <= points:
        return times, values
    size = math.ceil(len(times) / (points // 2 if keep == "extremes" else points))
    bins = np.arange(0, len(times), size)
    if keep == "mean":
        return times[bins], np.add.reduceat(values, bins) / np.diff(np.append(bins, len(values)))
    most = [i + int(values[i : i + size].argmax()) for i in bins]
    least = [i + int(values[i : i + size].argmin()) for i in bins] if keep == "extremes" else []
    kept = sorted({*most, *least})
    return times[kept], values[kept]


def _peak(panel: Panel, index: int, lines: list[dict[str, Any]]) -> float:
    """The largest value of a track; the largest sum where it is stacked."""
    if panel.tracks[index].mark == "area":
        sums: dict[float, float] = {}
        for line in lines:
            for t, v in zip(line["t"], line["v"], strict=True):
                sums[t] = sums.get(t, 0.0) + v
        return float(f"{max(sums.values(), default=0.0):.4g}")
    # headroom for the names of the phases at the top of the first track
    return max((v for line in lines for v in line["v"]), default=0.0) * (1.0 if index else 1.15)
