"""What an observer is to the lab, and the one form in which series are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from leadline.host.base import Process

# Every series file is a tall Parquet table ``series/<observer>.parquet`` with these columns:
#   time_ns  Int64   unix time, nanoseconds
#   metric   Utf8    "cpu.user", "pool.in_use", "gc.pause"
#   subject  Utf8    what it is of: "host", "cpu0", "vda", "server", "jdbc/orders", a collector's pause kind
#   value    Float64 in the unit given by ``UNITS`` of the observer's module
COLUMNS = ("time_ns", "metric", "subject", "value")


@dataclass(frozen=True)
class ObserverContext:
    """What there is to observe in one trial."""

    directory: Path  # the trial's directory; raw files go to ``raw/``, tables to ``series/``
    processes: Mapping[str, Process] = field(default_factory=dict)  # "server", "database"
    java_home: Path | None = None
    interval: float = 1.0
    # Process ids by role of all trials that run now, by directory: whoever observes processes adds those of its own.
    side_by_side: dict[Path, dict[str, list[int]]] = field(default_factory=dict)


class Observer(Protocol):
    """Records a layer between ``start`` and ``stop``; raw files are on disk while it records."""

    @property
    def name(self) -> str: ...
    def start(self, context: ObserverContext) -> None: ...
    def stop(self) -> None: ...
    def collect(self) -> Path | None:
        """Turn what was recorded into ``series/<name>.parquet``; None when there was nothing. Works also after a
        crash, from the raw files alone.
        """
