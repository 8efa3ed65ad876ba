"""Reads what a trial left on disk. Nothing here fails for a file that is missing or broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from leadline.host.received import csv_file, json_object_file
from leadline.model.received import ReceivedError
from leadline.model.record import Phases, TrialRecord
from leadline.observe.table import read_series

_SECONDS: dict[str, Any] = {
    "time_ns": pl.Int64,
    "second": pl.Float64,
    "phase": pl.String,
    "transaction": pl.String,
    "ok": pl.Float64,
    "failed": pl.Float64,
    "response_mean_ms": pl.Float64,
    "response_p50_ms": pl.Float64,
    "response_p99_ms": pl.Float64,
    "service_mean_ms": pl.Float64,
    "in_flight": pl.Float64,
}
_COUNTS = ("figures.json", "instructions.json")  # of a fork


@dataclass(frozen=True)
class TrialFiles:
    """One trial with its files. ``problems`` names each file that is there and could not be read."""

    trial: TrialRecord
    summary: Mapping[str, Any] = field(default_factory=dict)
    seconds: pl.DataFrame | None = None  # columns of driver/seconds.csv, the rows of all transactions together
    series: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # observer -> time_ns, metric, subject, value
    phases: Phases | None = None
    added: Mapping[str, float] = field(default_factory=dict)  # of a fork: what its load added to counters, and executed
    problems: tuple[str, ...] = ()

    def figure(self, *path: str) -> float | None:
        """A number of summary.json by its keys, None where there is none."""
        at: Any = self.summary
        for key in path:
            if not isinstance(at, Mapping) or key not in at:
                return None
            at = at[key]
        return float(at) if isinstance(at, (int, float)) and not isinstance(at, bool) else None

    def points(self, observer: str, metric: str) -> pl.DataFrame | None:
        """The rows of one metric in order of time, None when it was not recorded."""
        table = self.series.get(observer)
        if table is None:
            return None
        rows = table.filter((pl.col("metric") == metric) & pl.col("value").is_finite()).sort("time_ns")
        return rows if rows.height else None

    def steady(self, observer: str, metric: str) -> pl.DataFrame | None:
        """As ``points``, within the steady state; all rows when the phases are unknown."""
        rows = self.points(observer, metric)
        if rows is None or self.phases is None:
            return rows
        rows = self.under_load(rows)
        return rows if rows.height else None

    def under_load(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows by ``time_ns`` within the steady state, of an instance in a rotation within its turns."""
        inside = [pl.col("time_ns").is_between(int(begin * 1e9), int(end * 1e9)) for begin, end in self.spans]
        return rows.filter(pl.any_horizontal(inside)) if inside else rows

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """``TrialRecord.under_load``; of a trial whose phases the record does not tell, those of its files."""
        spans = self.trial.under_load
        return spans or (((self.phases.steady_from, self.phases.steady_until),) if self.phases else ())


def transactions(files: TrialFiles) -> int:
    """Successful ones of the whole load."""
    totals = files.summary.get("total", {})
    return sum(int(total.get("ok", 0)) for total in totals.values()) if isinstance(totals, Mapping) else 0


def read(trial: TrialRecord) -> TrialFiles:
    """Everything of a trial the report shows."""
    root = trial.directory
    if root is None or not root.is_dir():
        return TrialFiles(trial, phases=trial.phases)
    problems: list[str] = []
    summary = read_json(root / "driver" / "summary.json", problems)
    seconds = read_seconds(root / "driver" / "seconds.csv", problems)
    series: dict[str, pl.DataFrame] = {}
    for path in sorted((root / "series").glob("*.parquet")):
        table = _series(path, problems)
        if table is not None:
            series[path.stem] = table
    phases = trial.phases or _phases(seconds)
    added = {name: count for file in _COUNTS for name, count in read_json(root / "raw" / file, problems).items()}
    return TrialFiles(trial, summary, seconds, series, phases, added, tuple(problems))


def read_json(path: Path, problems: list[str]) -> Mapping[str, Any]:
    """An object, empty where there is none; what is wrong with the file is added to ``problems``."""
    try:
        return json_object_file(path)
    except FileNotFoundError:
        return {}
    except (OSError, ReceivedError) as error:
        problems.append(f"{path.name}: {getattr(error, 'why', error)}")
        return {}


def read_seconds(path: Path, problems: list[str]) -> pl.DataFrame | None:
    """The driver's rows of all transactions together; None where there are none."""
    try:
        table = csv_file(path)
        missing = {"time_ns", "second", "phase", "transaction", "ok"} - set(table.columns)
        if missing:
            raise ValueError(f"no column {', '.join(sorted(missing))}")
        table = table.with_columns(
            (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind, strict=False).alias(name)
            for name, kind in _SECONDS.items()
        ).drop_nulls(["time_ns", "second", "ok"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ReceivedError, pl.exceptions.PolarsError) as error:
        problems.append(f"{path.name}: {getattr(error, 'why', error)}")
        return None
    if "all" in table["transaction"].unique().to_list():
        table = table.filter(pl.col("transaction") == "all")  # the driver's own row over all transactions
    return table if table.height else None


def _series(path: Path, problems: list[str]) -> pl.DataFrame | None:
    try:
        table = read_series(path)
    except (OSError, ReceivedError) as error:
        problems.append(f"{path.name}: {getattr(error, 'why', error)}")
        return None
    return table if table.height else None


def _phases(seconds: pl.DataFrame | None) -> Phases | None:
    """From the driver's own marks, where the lab stored none (a trial that failed late)."""
    if seconds is None:
        return None
    steady = seconds.filter(pl.col("phase") == "steady")["time_ns"]
    times = seconds["time_ns"]
    if not len(steady):
        return None
    low, high = float(times.min() or 0), float(times.max() or 0)  # type: ignore[arg-type]
    begin, end = float(steady.min() or 0), float(steady.max() or 0)  # type: ignore[arg-type]
    return Phases(low / 1e9, begin / 1e9, end / 1e9 + 1, high / 1e9 + 1)
