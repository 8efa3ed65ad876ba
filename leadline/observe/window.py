"""What the series say about a window of time, for a trial's responses. Times are unix seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl


@dataclass(frozen=True)
class CpuUse:
    """CPU of one role in a window. ``covered`` is the share of the window that the samples cover."""

    seconds: float
    share: float  # of one CPU, over the covered part
    covered: float


def series(series_dir: Path, observer: str, metric: str, subject: str | None = None) -> pl.DataFrame:
    """Rows of one metric, by time; empty where the observer recorded nothing."""
    path = series_dir / f"{observer}.parquet"
    if not path.exists():
        return pl.DataFrame(schema={"time_ns": pl.Int64, "metric": pl.Utf8, "subject": pl.Utf8, "value": pl.Float64})
    wanted = pl.col("metric") == metric
    if subject is not None:
        wanted &= pl.col("subject") == subject
    return pl.scan_parquet(path).filter(wanted).sort("time_ns").collect()


def cpu_between(series_dir: Path, role: str, from_s: float, until_s: float) -> CpuUse | None:
    """CPU that ``role`` used from ``from_s`` to ``until_s``; between two samples its use is taken as even.

    None when the samples cover no part of the window. Raises ValueError for a window that ends before it begins.
    """
    _check(from_s, until_s)
    rows = series(series_dir, "processes", "cpu.seconds", role)
    if rows.height < 2:
        return None
    times, used = rows["time_ns"].to_numpy() / 1e9, rows["value"].to_numpy()
    begin, end = max(from_s, float(times[0])), min(until_s, float(times[-1]))
    if end <= begin:
        return None
    seconds = float(np.interp(end, times, used) - np.interp(begin, times, used))
    return CpuUse(seconds, seconds / (end - begin), (end - begin) / (until_s - from_s))


def mean_between(
    series_dir: Path, observer: str, metric: str, subject: str, from_s: float, until_s: float
) -> float | None:
    """Plain mean of the samples whose time is in the window; None where there is none."""
    _check(from_s, until_s)
    rows = series(series_dir, observer, metric, subject)
    inside = rows.filter(pl.col("time_ns").is_between(int(from_s * 1e9), int(until_s * 1e9)))
    return float(inside["value"].to_numpy().mean()) if inside.height else None


def host_cpu_between(series_dir: Path, from_s: float, until_s: float) -> float | None:
    """Mean share 0..1 of all CPUs that were not idle (iowait counts as idle); None where there is no sample."""
    idle = mean_between(series_dir, "host", "cpu.idle", "host", from_s, until_s)
    waiting = mean_between(series_dir, "host", "cpu.iowait", "host", from_s, until_s)
    return None if idle is None or waiting is None else 1.0 - idle - waiting


def gc_share_between(series_dir: Path, from_s: float, until_s: float) -> float | None:
    """Share of the window spent in collection pauses, one that straddles an end counted in part.

    0.0 when the log was recorded and has no pause there; None when there is no log.
    """
    _check(from_s, until_s)
    if not (series_dir / "gc.parquet").exists():
        return None
    rows = series(series_dir, "gc", "gc.pause")
    ends = rows["time_ns"].to_numpy() / 1e9  # a pause is logged when it ends
    begins = ends - rows["value"].to_numpy() / 1e3
    inside = np.minimum(ends, until_s) - np.maximum(begins, from_s)
    return float(np.maximum(inside, 0.0).sum() / (until_s - from_s))


def _check(from_s: float, until_s: float) -> None:
    if until_s <= from_s:
        raise ValueError(f"the window ends ({until_s}) before it begins ({from_s})")
