"""Text of files under /proc as values. Pure; see proc(5) and the kernel's ``Documentation/admin-guide/iostats.rst``.

Every function gives what it can: a line it does not understand is left out, an empty text gives nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
