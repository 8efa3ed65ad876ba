"""Observer "host": the kernel's own counters, copied verbatim once an interval, decoded after the trial."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from leadline.host.base import PROC, SYS, Files
from leadline.observe.base import ObserverContext
from leadline.observe.frames import FrameWriter, read_frames
from leadline.observe.host_series import decode
from leadline.observe.sampler import Sampler

FILES = (
    "stat",
    "vmstat",
    "meminfo",
    "diskstats",
    "net/dev",
    "net/snmp",
    "net/netstat",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
)


class HostObserver:
    """Samples the kernel's files into ``raw/host.frames``; see ``host_series.UNITS`` for the metrics."""

    name = "host"

    def __init__(self, files: Files) -> None:
        self._files = files
        self._directory: Path | None = None
        self._sampler: Sampler | None = None
        self._writer: FrameWriter | None = None
        self._first = True
        self._clocks: list[str] = []

    @property
    def warnings(self) -> Sequence[str]:
        return self._sampler.warnings if self._sampler else ()

    def start(self, context: ObserverContext) -> None:
        self._directory = context.directory
        self._writer = FrameWriter(context.directory / "raw" / "host.frames")
        self._first = True
        self._sampler = Sampler(self.name, self._sample, context.interval)
        self._sampler.start()

    def stop(self) -> None:
        if self._sampler and self._sampler.stop() and self._writer:
            self._writer.close()

    def collect(self) -> Path | None:
        return self.collect_from(self._directory) if self._directory else None

    def collect_from(self, directory: Path) -> Path | None:
        """``collect`` for a trial's directory that another, ended process has recorded."""
        raw = directory / "raw" / "host.frames"
        if not raw.exists():
            return None
        return decode(read_frames(raw)).write(directory / "series" / "host.parquet")

    def _sample(self, lateness_ns: int) -> None:
        if self._writer:
            self._writer.write(
                time.monotonic_ns(), time.time_ns(), lateness_ns, time.thread_time_ns(), list(self._entries())
            )

    def _entries(self) -> Iterator[tuple[str, bytes]]:
        if self._first:
            # Tells whole devices from partitions; does not change in a trial.
            self._first = False
            self._clocks = self._cpu_clocks()
            if disks := sorted(self._files.names(f"{SYS}/block")):
                yield "sys/block", "\n".join(disks).encode()
        # no pressure files on many kernels, no net in some containers
        for path, content in self._files.read_many(f"{PROC}/{name}" for name in FILES).items():
            yield path.removeprefix(f"{PROC}/"), content
        clocks = [content.strip() for content in self._files.read_many(self._clocks).values()]
        if clocks:
            yield "cpufreq", b"\n".join(clocks)

    def _cpu_clocks(self) -> list[str]:
        """Files of the CPUs' clocks; none on most virtual machines."""
        root = f"{SYS}/devices/system/cpu"
        cpus = [name for name in self._files.names(root) if name.startswith("cpu") and name[3:].isdigit()]
        paths = [f"{root}/{name}/cpufreq/scaling_cur_freq" for name in cpus]
        return sorted(self._files.read_many(paths))
