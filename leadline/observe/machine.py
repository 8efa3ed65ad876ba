"""What the machine did beside a study, from the series of a trial. Times are unix seconds.

The CPU of other programs is what user and kernel code used on all CPUs, less the study's processes and kernel threads.
Interrupts and kernel threads work for whoever asked (loopback, reclaim, writing back), so they are nobody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from leadline.model.disturbance import MachineUse
from leadline.model.received import ReceivedError
from leadline.observe.processes import KERNEL, OWN, PROGRAM
from leadline.observe.table import read_series, schema
from leadline.observe.window import CpuLines, Windows

_MEANS = {  # of the host's samples in the windows
    "steal": "cpu.steal",
    "cpu_pressure": "psi.cpu.some",
    "memory_pressure": "psi.memory.some",
    "io_pressure": "psi.io.some",
    "frequency": "cpu.frequency",
}
_BUSY = ("cpu.user", "cpu.nice", "cpu.system")
_OWN_DISK = ("read_bytes", "write_bytes")
_DISK, _NETWORK = ("disk.read_bytes", "disk.write_bytes"), ("net.rx_bytes", "net.tx_bytes")
_HOST = (*_MEANS.values(), *_BUSY, *_DISK, *_NETWORK, "cpu.idle")
ROLES = frozenset({"server", "database", "driver"})  # without which it is not known what the study used
_PROGRAMS = 5  # kept, those that used most


class MachineLines:
    """The series of one trial, read once for many windows. ``beside``: those of instances that ran beside it, whose
    processes are the study's, too. ``elsewhere``: roles of the study that this machine does not run.
    """

    def __init__(self, series_dir: Path, beside: Sequence[Path] = (), elsewhere: Sequence[str] = ()) -> None:
        self._elsewhere = frozenset(elsewhere)
        self._dir = series_dir
        self._lines = [CpuLines(path) for path in (series_dir, *beside)]

    def use(self, windows: Windows) -> MachineUse | None:
        """None where nothing was recorded in these windows."""
        figures = {name: value for name, metric in _MEANS.items() if (value := self._mean(metric, windows)) is not None}
        if (others := self._others(windows)) is not None:
            figures["others_cpu"] = others
        disk, own_disk = self._sum(_DISK, windows), self._own_disk(windows)
        if disk is not None and own_disk is not None:
            figures["others_disk"] = max(0.0, disk - own_disk)
        if (network := self._sum(_NETWORK, windows)) is not None:
            figures["others_network"] = network
        return MachineUse(figures, self._programs(windows)) if figures else None

    @cached_property
    def _host(self) -> pl.DataFrame:
        return _read(self._dir / "host.parquet").filter(pl.col("metric").is_in(_HOST))

    @cached_property
    def _processes(self) -> pl.DataFrame:
        metrics = [PROGRAM, KERNEL, *_OWN_DISK]
        return _read(self._dir / "processes.parquet").filter(pl.col("metric").is_in(metrics))

    @cached_property
    def _cpus(self) -> int:
        idle = self._host.filter(pl.col("metric") == "cpu.idle")["subject"]
        return int(idle.filter(idle.str.contains(r"^cpu\d+$")).n_unique()) or 1

    def _mean(self, metric: str, windows: Windows) -> float | None:
        wanted = (pl.col("metric") == metric) & (pl.col("subject") == "host")
        values = _inside(self._host.filter(wanted), windows)["value"]
        return float(values.to_numpy().mean()) if len(values) else None

    def _others(self, windows: Windows) -> float | None:
        busy = [self._mean(metric, windows) for metric in _BUSY]
        if not ROLES - self._elsewhere <= set(self._lines[0].roles) or busy[0] is None or busy[2] is None:
            return None
        length = sum(end - begin for begin, end in windows)
        own_use = 0.0
        for at, lines in enumerate(self._lines):
            for role in lines.roles:
                if role in self._elsewhere or (at and role == OWN):  # the same process in all
                    continue
                uses = [
                    (lines.between(role, begin, end) or lines.ended(role, begin, end), (end - begin) / length)
                    for begin, end in windows
                ]
                own_use += sum(use.share * part for use, part in uses if use is not None)
        kernel = self._looks(KERNEL, windows).get("kernel", 0.0)
        return max(0.0, sum(share for share in busy if share is not None) - own_use / self._cpus - kernel)

    def _programs(self, windows: Windows) -> dict[str, float]:
        looks = self._looks(PROGRAM, windows)
        return {name: looks[name] for name in sorted(looks, key=lambda one: -looks[one])[:_PROGRAMS]}

    def _looks(self, metric: str, windows: Windows) -> dict[str, float]:
        """Mean share of all CPUs by subject, over the looks at all processes in the windows, or the nearest one."""
        rows = self._processes.filter(pl.col("metric").is_in([PROGRAM, KERNEL]))
        inside = _inside(rows, windows)
        if not inside.height and rows.height:
            middle = (windows[0][0] + windows[-1][1]) / 2 * 1e9
            times = rows["time_ns"].to_numpy()
            inside = rows.filter(pl.col("time_ns") == int(times[int(np.argmin(np.abs(times - middle)))]))
        looks = max(1, inside["time_ns"].n_unique())
        sums = inside.filter(pl.col("metric") == metric).group_by("subject").agg(pl.col("value").sum())
        return {str(name): float(value) / looks / self._cpus for name, value in sums.iter_rows()}

    def _sum(self, metrics: Sequence[str], windows: Windows) -> float | None:
        """Bytes a second of all devices but loopback."""
        rows = self._host.filter(pl.col("metric").is_in(metrics))
        if not rows.height:
            return None
        rows = rows.filter(pl.col("subject") != "lo")
        return _rate(_inside(rows, windows), _inside(self._host, windows))

    def _own_disk(self, windows: Windows) -> float | None:
        here = ~pl.col("subject").is_in(sorted(self._elsewhere))
        rows = self._processes.filter(pl.col("metric").is_in(_OWN_DISK) & here)
        return _rate(_inside(rows, windows), _inside(rows, windows)) if rows.height else None


def _rate(rows: pl.DataFrame, samples: pl.DataFrame) -> float:
    """Sum of the values a sample."""
    return float(rows["value"].sum()) / max(1, samples["time_ns"].n_unique())


def _inside(rows: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    spans = [pl.col("time_ns").is_between(int(begin * 1e9), int(end * 1e9)) for begin, end in windows]
    return rows.filter(pl.any_horizontal(spans))


def _read(path: Path) -> pl.DataFrame:
    """Empty where the observer recorded nothing or its file cannot be read, which the report names."""
    try:
        return read_series(path).sort("time_ns")
    except (OSError, ReceivedError):
        return pl.DataFrame(schema=schema())
