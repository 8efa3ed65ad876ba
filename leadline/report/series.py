"""Series of a trial in the compact form the page carries: thinned, rounded, seconds since the load began."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import polars as pl

from leadline.report.charts.trial import MARGIN, PANELS, WIDTH, Panel, Source
from leadline.report.files import TrialFiles

POINTS = 240  # at most so many points a line; longer series are thinned by the mean (or the largest) of each bin
BYTES = 500_000  # of all trials together; where they would take more, every line has fewer points
_FEWEST = 16


def of_trials(trials: Sequence[TrialFiles]) -> dict[int, dict[str, Any]]:
    """``compact`` of each trial, by its number, with so many points a line that the page stays small."""
    series = {trial.trial.id: compact(trial) for trial in trials}
    size = sum(len(json.dumps(document)) for document in series.values())
    if size <= BYTES:
        return series
    longest = max((len(times) for document in series.values() for times in _times(document)), default=0)
    points = max(_FEWEST, int(longest * BYTES / size))
    return {trial.trial.id: compact(trial, points) for trial in trials}


def _times(found: dict[str, Any]) -> list[list[float]]:
    tracks = [track for panel in found["panels"].values() for track in panel["tracks"]]
    return [line["t"] for track in tracks for line in track]


def compact(files: TrialFiles, points: int = POINTS) -> dict[str, Any]:
    """``{"span", "phases", "panels": {name: {"tracks": [[{"s", "t", "v"}]], "peaks": [..]}}}``.

    A panel whose metrics were not recorded is absent.
    """
    begin, end = _bounds(files)
    panels: dict[str, Any] = {}
    for panel in PANELS:
        tracks = [
            [line for source in track.sources for line in _lines(files, source, begin, end, points)]
            for track in panel.tracks
        ]
        if any(tracks):
            panels[panel.name] = {"tracks": tracks, "peaks": [_peak(panel, i, lines) for i, lines in enumerate(tracks)]}
    return {"span": round(max(1.0, end - begin), 1), "phases": _phases(files), "panels": panels}


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


def _lines(files: TrialFiles, source: Source, begin: float, end: float, points: int) -> list[dict[str, Any]]:
    rows = (
        _driver(files, source.metric) if source.observer == "driver" else files.points(source.observer, source.metric)
    )
    if rows is None:
        return []
    if source.subject is not None:
        rows = rows.filter(pl.col("subject") == source.subject)
    low, high = int((begin - MARGIN) * 1e9), int((end + MARGIN) * 1e9)
    rows = rows.filter(pl.col("time_ns").is_between(low, high))
    lines = []
    for subject in rows["subject"].unique(maintain_order=True).to_list():
        of = rows.filter(pl.col("subject") == subject)
        times = [(t / 1e9) - begin for t in of["time_ns"].to_list()]
        values = [v * source.scale for v in of["value"].to_list()]
        times, values = thin(times, values, most=source.most, points=points)
        if source.metric in _QUIET and not any(values):
            continue
        lines.append(
            {
                "s": source.label.format(subject),
                "t": [round(t, 1) for t in times],
                "v": [float(f"{v:.4g}") for v in values],
            }
        )
    return lines


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


def thin(
    times: list[float], values: list[float], *, most: bool, points: int = POINTS
) -> tuple[list[float], list[float]]:
    """At most ``points`` pairs: the mean (or with ``most`` the largest) of equal bins of neighbours."""
    if len(times) <= points:
        return times, values
    size = math.ceil(len(times) / points)
    bins = range(0, len(times), size)
    combine = max if most else (lambda part: sum(part) / len(part))
    return [times[i] for i in bins], [combine(values[i : i + size]) for i in bins]


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
