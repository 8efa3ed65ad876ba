"""Tall tables: the one form in which every observer stores its series."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leadline.host.received import parquet_file

if TYPE_CHECKING:  # whoever only records, on a host that may not have it, needs none of it
    import polars as pl


def schema() -> dict[str, type[pl.DataType]]:
    """Columns and their types."""
    import polars as pl

    return {"time_ns": pl.Int64, "metric": pl.Utf8, "subject": pl.Utf8, "value": pl.Float64}


def read_series(path: Path, *where: pl.Expr) -> pl.DataFrame:
    """The rows of a series for which all of ``where`` hold. Raises FileNotFoundError, ReceivedError."""
    return parquet_file(path, schema(), *where)


class TallTable:
    """Collects rows of (time_ns, metric, subject, value) and writes them as Parquet."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._metrics: list[str] = []
        self._subjects: list[str] = []
        self._values: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, time_ns: int, metric: str, subject: str, value: float) -> None:
        self._times.append(time_ns)
        self._metrics.append(metric)
        self._subjects.append(subject)
        self._values.append(float(value))

    def frame(self) -> pl.DataFrame:
        """Sorted by metric, subject and time."""
        import polars as pl

        columns = {
            "time_ns": self._times,
            "metric": self._metrics,
            "subject": self._subjects,
            "value": self._values,
        }
        return pl.DataFrame(columns, schema=schema()).sort("metric", "subject", "time_ns")

    def write(self, path: Path) -> Path | None:
        """Write ``path`` whole or not at all; None when there is not one row. Raises OSError."""
        if not self._values:
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        self.frame().write_parquet(partial, compression="zstd")
        partial.replace(path)
        return path
