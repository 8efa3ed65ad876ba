"""Observer "host": the kernel's own counters, copied verbatim once an interval, decoded after the trial.

Text of files under /proc becomes values: see proc(5) and the kernel's ``Documentation/admin-guide/iostats.rst``. Every
such function gives what it can: a line it does not understand is left out, an empty text gives nothing.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host.base import PROC, SYS, Files
from leadline.observe.base import Frame, FrameWriter, ObserverContext, Sampler, read_frames
from leadline.observe.table import TallTable

CPU_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Stat:
    """/proc/stat: ticks by kind for "cpu" (all), "cpu0", ...; and the single counters."""

    cpus: Mapping[str, Mapping[str, int]]
    counters: Mapping[str, int]  # intr, ctxt, btime, processes, procs_running, procs_blocked, softirq


def stat(text: str) -> Stat:
    cpus: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu"):
            ticks = _integers(rest.split()[: len(CPU_FIELDS)])
            if len(ticks) >= 4:  # steal and its like came with later kernels
                padded = ticks + [0] * (len(CPU_FIELDS) - len(ticks))
                cpus[name] = dict(zip(CPU_FIELDS, padded, strict=True))
        else:
            first = _integers(rest.split(maxsplit=1)[:1])
            if first:
                counters[name] = first[0]
    return Stat(cpus, counters)


def pairs(text: str) -> dict[str, int]:
    """``name value`` a line: /proc/vmstat, /proc/PID/io (``name: value``), /proc/PID/status where it is a number.

    Values with the unit kB are given in bytes.
    """
    values: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        number = _integers(words[1:2])
        if number:
            scale = 1024 if len(words) > 2 and words[2] == "kB" else 1
            values[words[0].rstrip(":")] = number[0] * scale
    return values


@dataclass(frozen=True)
class Disk:
    """One line of /proc/diskstats; times in ms, sectors of 512 bytes."""

    reads: int
    sectors_read: int
    read_ms: int
    writes: int
    sectors_written: int
    write_ms: int
    busy_ms: int


def diskstats(text: str) -> dict[str, Disk]:
    disks: dict[str, Disk] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 13:
            continue
        values = _integers(words[3:13])
        if len(values) == 10:
            reads, _, read, read_ms, writes, _, written, write_ms, _, busy = values
            disks[words[2]] = Disk(reads, read, read_ms, writes, written, write_ms, busy)
    return disks


def net_dev(text: str) -> dict[str, tuple[int, int]]:
    """Interface to (bytes received, bytes sent)."""
    interfaces: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        values = _integers(rest.split())
        if colon and len(values) >= 9:
            interfaces[name.strip()] = (values[0], values[8])
    return interfaces


def net_tables(text: str) -> dict[str, int]:
    """/proc/net/snmp and /proc/net/netstat as ``Tcp.RetransSegs`` to its value."""
    found: dict[str, int] = {}
    lines = text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        prefix, _, columns = names.partition(":")
        other, _, numbers = values.partition(":")
        parsed = _integers(numbers.split())
        if prefix == other and len(parsed) == len(columns.split()):
            found.update((f"{prefix}.{column}", number) for column, number in zip(columns.split(), parsed, strict=True))
    return found


def pressure(text: str) -> dict[str, int]:
    """/proc/pressure/*: "some" and "full" to the total of stalled microseconds."""
    totals: dict[str, int] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        for word in rest.split():
            if word.startswith("total="):
                totals.update((kind, number) for number in _integers([word[6:]]))
    return totals


_KERNEL_THREAD = 0x00200000  # PF_KTHREAD


@dataclass(frozen=True)
class ProcessStat:
    """/proc/PID/stat: CPU in ticks, ``rss`` in pages, ``start`` in ticks since boot."""

    parent: int
    minor_faults: int
    major_faults: int
    user: int
    system: int
    children_user: int
    children_system: int
    threads: int
    start: int
    rss: int
    name: str = ""
    kernel: bool = False  # a thread of the kernel


def process_stat(text: str) -> ProcessStat | None:
    """None for text that is no such file (a process that ended while it was read)."""
    # The name is in parentheses and may itself hold blanks and parentheses.
    head, parenthesis, rest = text.rpartition(")")
    words = rest.split()
    if not parenthesis or len(words) < 22:
        return None
    v = _integers(words[1:22])  # from the fourth field on: ppid
    if len(v) < 21:
        return None
    return ProcessStat(
        parent=v[0],
        minor_faults=v[6],
        major_faults=v[8],
        user=v[10],
        system=v[11],
        children_user=v[12],
        children_system=v[13],
        threads=v[16],
        start=v[18],
        rss=v[20],
        name=head.partition("(")[2],
        kernel=bool(v[5] & _KERNEL_THREAD),
    )


def _integers(words: list[str]) -> list[int]:
    """The leading words that are whole numbers."""
    numbers: list[int] = []
    for word in words:
        try:
            numbers.append(int(word))
        except ValueError:
            break
    return numbers


# Frames of the host as series. Pure: counters in, rates and shares out. A rate belongs to the time from the sample
# before to its own ``time_ns``; the first sample has none. A counter that went back (a device that came again, a
# wrapped 32-bit one that cannot be told from a reset) gives no value there.


SHARE, PER_S, BYTES, MS = "share of all CPUs", "1/s", "bytes", "ms"

_MEMORY = {
    "MemTotal": "memory.total",
    "MemFree": "memory.free",
    "MemAvailable": "memory.available",
    "Buffers": "memory.buffers",
    "Cached": "memory.cached",
    "Active(file)": "memory.active_file",
    "Inactive(file)": "memory.inactive_file",
    "Dirty": "memory.dirty",
    "Writeback": "memory.writeback",
    "AnonPages": "memory.anon",
    "Mapped": "memory.mapped",
    "Shmem": "memory.shmem",
    "Slab": "memory.slab",
    "SReclaimable": "memory.slab_reclaimable",
    "PageTables": "memory.page_tables",
    "KernelStack": "memory.kernel_stack",
    "AnonHugePages": "memory.anon_huge",
    "Committed_AS": "memory.committed",
    "SwapCached": "memory.swap_cached",
}

# /proc/vmstat counter -> (metric, factor); several counters may add up to one metric
_VMSTAT_RATES = (
    ("pgpgin", "paging.in", 1024.0),
    ("pgpgout", "paging.out", 1024.0),
    ("pswpin", "swap.in", 1.0),
    ("pswpout", "swap.out", 1.0),
    ("nr_dirtied", "writeback.dirtied", 1.0),
    ("nr_written", "writeback.written", 1.0),
    ("allocstall*", "allocstall", 1.0),
)
_VMSTAT_SAME = (
    "pgfault",
    "pgmajfault",
    "pgscan_*",
    "pgsteal_*",
    "compact_stall",
    "compact_fail",
    "compact_success",
    "workingset_refault_*",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_collapse_alloc",
    "thp_split_page",
    "thp_split_pmd",
    "oom_kill",
)

_TCP = {
    "Tcp.RetransSegs": "tcp.retransmits",
    "Tcp.ActiveOpens": "tcp.active_opens",
    "Tcp.PassiveOpens": "tcp.passive_opens",
    "Tcp.OutRsts": "tcp.resets_sent",
    "TcpExt.ListenOverflows": "tcp.listen_overflows",
    "TcpExt.ListenDrops": "tcp.listen_drops",
}

UNITS: Mapping[str, str] = {
    **{f"cpu.{kind}": SHARE for kind in CPU_FIELDS},
    "cpu.frequency": "GHz",
    "runqueue": "processes",
    "blocked": "processes",
    "context_switches": PER_S,
    "interrupts": PER_S,
    "forks": PER_S,
    **dict.fromkeys(_MEMORY.values(), BYTES),
    "memory.swap_used": BYTES,
    "memory.huge_pages_used": BYTES,
    "paging.in": "bytes/s",
    "paging.out": "bytes/s",
    "swap.in": "pages/s",
    "swap.out": "pages/s",
    "writeback.dirtied": "pages/s",
    "writeback.written": "pages/s",
    "allocstall": PER_S,
    **dict.fromkeys(_VMSTAT_SAME, PER_S),
    "disk.read_bytes": "bytes/s",
    "disk.write_bytes": "bytes/s",
    "disk.reads": PER_S,
    "disk.writes": PER_S,
    "disk.read_await_ms": MS,
    "disk.write_await_ms": MS,
    "disk.util": "share of the time with a request in flight",
    "net.rx_bytes": "bytes/s",
    "net.tx_bytes": "bytes/s",
    **dict.fromkeys(_TCP.values(), PER_S),
    "psi.cpu.some": "share of the time",
    "psi.cpu.full": "share of the time",
    "psi.memory.some": "share of the time",
    "psi.memory.full": "share of the time",
    "psi.io.some": "share of the time",
    "psi.io.full": "share of the time",
    "observer.lateness_ms": MS,
    "observer.cpu_ms": MS,
}

HOST = "host"
_MINOR_DEVICES = ("loop*", "ram*", "zram*", "fd*", "sr*", "nbd*")
_SECTOR = 512


def decode(frames: Iterable[Frame]) -> TallTable:
    """All series of the host, subjects "host", "cpu0"..., devices and interfaces."""
    table = TallTable()
    before: Frame | None = None
    whole_devices: frozenset[str] = frozenset()
    for frame in frames:
        if "sys/block" in frame.files:
            whole_devices = frozenset(frame.text("sys/block").split())
        _gauges(frame, table)
        if before is not None and frame.monotonic_ns > before.monotonic_ns:
            seconds = (frame.monotonic_ns - before.monotonic_ns) / 1e9
            _cpu(before, frame, seconds, table)
            _vmstat(before, frame, seconds, table)
            _disks(before, frame, seconds, whole_devices, table)
            _network(before, frame, seconds, table)
            _pressure(before, frame, seconds, table)
            table.add(frame.time_ns, "observer.cpu_ms", HOST, (frame.cpu_ns - before.cpu_ns) / 1e6)
        table.add(frame.time_ns, "observer.lateness_ms", HOST, frame.lateness_ns / 1e6)
        before = frame
    return table


def _gauges(frame: Frame, table: TallTable) -> None:
    counters = stat(frame.text("stat")).counters
    for source, metric in (("procs_running", "runqueue"), ("procs_blocked", "blocked")):
        if source in counters:
            table.add(frame.time_ns, metric, HOST, counters[source])
    clocks = [int(word) for word in frame.text("cpufreq").split() if word.isdigit()]  # kHz
    if clocks:
        table.add(frame.time_ns, "cpu.frequency", HOST, sum(clocks) / len(clocks) / 1e6)
    memory = pairs(frame.text("meminfo"))
    for source, metric in _MEMORY.items():
        if source in memory:
            table.add(frame.time_ns, metric, HOST, memory[source])
    if "SwapTotal" in memory and "SwapFree" in memory:
        table.add(frame.time_ns, "memory.swap_used", HOST, memory["SwapTotal"] - memory["SwapFree"])
    if {"HugePages_Total", "HugePages_Free", "Hugepagesize"} <= memory.keys():
        used = (memory["HugePages_Total"] - memory["HugePages_Free"]) * memory["Hugepagesize"]
        table.add(frame.time_ns, "memory.huge_pages_used", HOST, used)


def _cpu(before: Frame, frame: Frame, seconds: float, table: TallTable) -> None:
    old, new = stat(before.text("stat")), stat(frame.text("stat"))
    for cpu in new.cpus.keys() & old.cpus.keys():
        # Idle and iowait may step back a little (proc(5)); that is nought, not a reset.
        ticks = {kind: max(0, new.cpus[cpu][kind] - old.cpus[cpu][kind]) for kind in CPU_FIELDS}
        total = sum(ticks.values())
        if total:
            subject = HOST if cpu == "cpu" else cpu
            for kind, count in ticks.items():
                table.add(frame.time_ns, f"cpu.{kind}", subject, count / total)
    for source, metric in (("ctxt", "context_switches"), ("intr", "interrupts"), ("processes", "forks")):
        _rate(table, frame, metric, HOST, old.counters.get(source), new.counters.get(source), 1 / seconds)


def _vmstat(before: Frame, frame: Frame, seconds: float, table: TallTable) -> None:
    old, new = pairs(before.text("vmstat")), pairs(frame.text("vmstat"))
    for pattern, metric, factor in _VMSTAT_RATES:
        names = [name for name in fnmatch.filter(new, pattern) if name in old]
        if names:
            was, now = sum(old[name] for name in names), sum(new[name] for name in names)
            _rate(table, frame, metric, HOST, was, now, factor / seconds)
    for pattern in _VMSTAT_SAME:
        for name in fnmatch.filter(new, pattern):
            _rate(table, frame, name, HOST, old.get(name), new[name], 1 / seconds)


def _disks(before: Frame, frame: Frame, seconds: float, whole: frozenset[str], table: TallTable) -> None:
    old, new = diskstats(before.text("diskstats")), diskstats(frame.text("diskstats"))
    for device in new.keys() & old.keys():
        was, now = old[device], new[device]
        if whole and device.replace("/", "!") not in whole:
            continue
        minor = any(fnmatch.fnmatchcase(device, pattern) for pattern in _MINOR_DEVICES)
        if minor and not (now.reads or now.writes):
            continue
        _rate(table, frame, "disk.read_bytes", device, was.sectors_read, now.sectors_read, _SECTOR / seconds)
        _rate(table, frame, "disk.write_bytes", device, was.sectors_written, now.sectors_written, _SECTOR / seconds)
        _rate(table, frame, "disk.reads", device, was.reads, now.reads, 1 / seconds)
        _rate(table, frame, "disk.writes", device, was.writes, now.writes, 1 / seconds)
        # The kernel keeps the times of a disk in 32 bits: they wrap after 50 days of requests.
        busy = (now.busy_ms - was.busy_ms) % (1 << 32)
        if busy < 2000 * seconds:
            table.add(frame.time_ns, "disk.util", device, min(1.0, busy / 1000 / seconds))
        if now.reads > was.reads:
            wait = (now.read_ms - was.read_ms) % (1 << 32)
            table.add(frame.time_ns, "disk.read_await_ms", device, wait / (now.reads - was.reads))
        if now.writes > was.writes:
            wait = (now.write_ms - was.write_ms) % (1 << 32)
            table.add(frame.time_ns, "disk.write_await_ms", device, wait / (now.writes - was.writes))


def _network(before: Frame, frame: Frame, seconds: float, table: TallTable) -> None:
    old, new = net_dev(before.text("net/dev")), net_dev(frame.text("net/dev"))
    for interface in new.keys() & old.keys():
        if any(new[interface]):
            for index, metric in enumerate(("net.rx_bytes", "net.tx_bytes")):
                was, now = old[interface][index], new[interface][index]
                _rate(table, frame, metric, interface, was, now, 1 / seconds)
    was_tcp = {**net_tables(before.text("net/snmp")), **net_tables(before.text("net/netstat"))}
    now_tcp = {**net_tables(frame.text("net/snmp")), **net_tables(frame.text("net/netstat"))}
    for source, metric in _TCP.items():
        _rate(table, frame, metric, HOST, was_tcp.get(source), now_tcp.get(source), 1 / seconds)


def _pressure(before: Frame, frame: Frame, seconds: float, table: TallTable) -> None:
    for resource in ("cpu", "memory", "io"):
        old = pressure(before.text(f"pressure/{resource}"))
        new = pressure(frame.text(f"pressure/{resource}"))
        for kind, total in new.items():
            if kind in old and total >= old[kind]:
                share = min(1.0, (total - old[kind]) / 1e6 / seconds)
                table.add(frame.time_ns, f"psi.{resource}.{kind}", HOST, share)


def _rate(
    table: TallTable, frame: Frame, metric: str, subject: str, was: int | None, now: int | None, factor: float
) -> None:
    if was is not None and now is not None and now >= was:
        table.add(frame.time_ns, metric, subject, (now - was) * factor)


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
