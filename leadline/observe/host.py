"""Observer "host": the kernel's own counters, copied verbatim once an interval, decoded after the trial."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

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
    """Samples /proc into ``raw/host.frames``; see ``host_series.UNITS`` for the metrics.

    ``proc`` and ``block`` name where the files are, for other roots than this host's own.
    """

    name = "host"

    def __init__(self, proc: Path = Path("/proc"), block: Path = Path("/sys/block")) -> None:
        self._proc = proc
        self._block = block
        self._directory: Path | None = None
        self._sampler: Sampler | None = None
        self._writer: FrameWriter | None = None
        self._descriptors: dict[str, int] = {}
        self._first = True

    @property
    def warnings(self) -> Sequence[str]:
        return self._sampler.warnings if self._sampler else ()

    def start(self, context: ObserverContext) -> None:
        self._directory = context.directory
        self._writer = FrameWriter(context.directory / "raw" / "host.frames")
        self._first = True
        for name in FILES:
            try:  # no pressure files on many kernels, no net in some containers
                self._descriptors[name] = os.open(self._proc / name, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
        self._sampler = Sampler(self.name, self._sample, context.interval)
        self._sampler.start()

    def stop(self) -> None:
        if self._sampler and self._sampler.stop():
            for descriptor in self._descriptors.values():
                os.close(descriptor)
            self._descriptors.clear()
            if self._writer:
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
            if self._block.is_dir():
                yield "sys/block", "\n".join(sorted(entry.name for entry in self._block.iterdir())).encode()
        for name, descriptor in self._descriptors.items():
            try:
                yield name, read_whole(descriptor)
            except OSError:
                continue


def read_whole(descriptor: int) -> bytes:
    """A /proc file from its beginning; the kernel makes the text anew for a read at offset 0. Raises OSError."""
    parts: list[bytes] = []
    offset = 0
    while part := os.pread(descriptor, 1 << 16, offset):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)
