"""Tall tables: the one form in which every observer stores its series."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.host import here
from leadline.host.received import parquet_file
from leadline.model.errors import LeadlineError
from leadline.model.received import ReceivedError

if TYPE_CHECKING:  # whoever only records, on a host that may not have it, needs none of it
    import polars as pl

_MEMORY = 8 << 30  # bytes of address space of a process that reads tables from elsewhere
_WITHIN = 600.0  # seconds for all of a bundle


def schema() -> dict[str, type[pl.DataType]]:
    """Columns and their types."""
    import polars as pl

    return {"time_ns": pl.Int64, "metric": pl.Utf8, "subject": pl.Utf8, "value": pl.Float64}


def read_series(path: Path, *where: pl.Expr) -> pl.DataFrame:
    """The rows of a series for which all of ``where`` hold. Raises FileNotFoundError, ReceivedError."""
    return parquet_file(path, schema(), *where)


def check_tables(paths: Sequence[Path]) -> None:
    """Read tables from elsewhere in a process of its own: damage can end the process that reads them, which nothing
    catches. Raises ReceivedError for the one that does.
    """
    if not paths:
        return
    names = "\n".join(map(str, paths)).encode()
    done = here.run([sys.executable, "-m", __name__], names, timeout=_WITHIN)
    if done.returncode:
        last = (done.stdout.splitlines() or [str(paths[0])])[-1]
        raise ReceivedError(last, "it is no table: reading it ended its process")


def _check() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin.read().splitlines():
        print(line, flush=True)
        with suppress(LeadlineError, OSError):  # who reads it is told
            parquet_file(Path(line), None)


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

    def extend(self, times_ns: Sequence[int], metric: str, subjects: Sequence[str], values: Sequence[float]) -> None:
        """Rows of one metric."""
        self._times += times_ns
        self._metrics += [metric] * len(times_ns)
        self._subjects += subjects
        self._values += values

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


if __name__ == "__main__":
    _check()
