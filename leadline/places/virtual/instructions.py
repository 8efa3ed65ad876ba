"""What the load of a fork executed: system calls by kind, instructions by symbol of the kernel, by method and by file.

QEMU counts blocks of code (``leadline.places.guest.boot``). The kernel tells its symbols before the services start,
after the load the processes what they map and JVMs what they compiled. Blocks count from the last of the figures before
the load to the first of those after it: ``MARKS`` are the kernel's functions that begin and end them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from leadline.host.received import lines_of, read_text
from leadline.model.received import reading
from leadline.places.guest import boot
from leadline.places.guest.boot import BLOCKS
from leadline.places.guest.machine import Outcome, Saved
from leadline.places.virtual import figures
from leadline.places.virtual.job import SERVICES

INSTRUCTIONS = "instructions.json"  # counts by ``syscalls.NAME``, ``instructions.kernel.SYMBOL``, ``.PART.CODE``
KALLSYMS, MAPS, COMPILED = "kallsyms", "maps", "compiled"  # files that a guest sends
MARKS = ("snmp_seq_show", "proc_tid_io_accounting")  # first and last of the figures' files, read by nothing else

_CALL = "__x64_sys_"
KERNEL_HALF = 1 << 63  # the first address of the kernel's half
_LARGEST = 64 << 10  # bytes from a symbol on that may still be its own
_OTHER = "other"  # programs of no service: the driver, the guest's script
_SUFFIX = re.compile(r"\.(?:isra|constprop|part|cold|llvm)\b.*")  # of parts and copies that a compiler makes
_SYMBOL = re.compile(r"([0-9a-f]{16}) [tTwW] (\S+)")
_MAPPED = re.compile(r"/proc/(\d+)/maps:([0-9a-f]+)-([0-9a-f]+) ..x. \S+ \S+ \S+ *(.*)")


_COMPILED = re.compile(r"/tmp/perf-(\d+)\.map:(?:0x)?([0-9a-f]+) (?:0x)?([0-9a-f]+) (.+)")
_HIDDEN = re.compile(r"/0x[0-9a-f]+")  # where a hidden class lies


@dataclass(frozen=True)
class Symbols:
    """Of a kernel's code. ``addresses`` ascend; of several names of one address one is kept."""

    addresses: Sequence[int]
    names: Sequence[str]

    @staticmethod
    def of(kallsyms: str) -> Symbols:
        """As ``/proc/kallsyms`` tells them; none where the kernel hides their addresses."""
        names: dict[int, str] = {}
        for line in kallsyms.splitlines():
            if (match := _SYMBOL.match(line)) and (address := int(match[1], 16)) and not match[2].startswith("__pfx_"):
                name = names.setdefault(address, match[2])
                if match[2].startswith(_CALL) and not name.startswith(_CALL):
                    names[address] = match[2]
        addresses = sorted(names)
        return Symbols(addresses, [names[address] for address in addresses])

    def name(self, address: int) -> str:
        """The nearest symbol before it; a function's parts and copies have its name."""
        at = bisect_right(self.addresses, address) - 1
        if at < 0 or address - self.addresses[at] >= _LARGEST:
            return "unknown"
        return _SUFFIX.sub("", self.names[at])

    def begins(self, address: int) -> str | None:
        """The symbol of this very address."""
        at = bisect_left(self.addresses, address)
        return self.names[at] if at < len(self.addresses) and self.addresses[at] == address else None

    def call(self, address: int) -> str | None:
        """The system call that begins at this very address."""
        name = self.begins(address)
        return name.removeprefix(_CALL) if name is not None and name.startswith(_CALL) else None

    def marks(self) -> list[int]:
        """Addresses of ``MARKS``; none where one of them is missing."""
        wanted = {name: address for address, name in zip(self.addresses, self.names, strict=True) if name in MARKS}
        return list(wanted.values()) if len(wanted) == len(MARKS) else []


class Mapped:
    """Whose code lies where. ``maps``: lines of ``/proc/PID/maps`` with their path; ``parts``: services by process."""

    def __init__(self, maps: str, parts: Mapping[int, str]) -> None:
        ranges = []
        for line in maps.splitlines():
            if match := _MAPPED.match(line):
                part, path = parts.get(int(match[1]), _OTHER), match[4]
                name = Path(path.removesuffix(" (deleted)")).name if path else "JIT-compiled code"
                ranges.append((int(match[2], 16), int(match[3], 16), part, name))
        self._bounds = sorted({bound for begin, end, *_ in ranges for bound in (begin, end)})
        self._here: list[set[tuple[str, str]]] = [set() for _ in self._bounds]
        for begin, end, part, name in ranges:
            for at in range(bisect_left(self._bounds, begin), bisect_left(self._bounds, end)):
                self._here[at].add((part, name))

    def name(self, address: int) -> str:
        """``PART.FILE``; of several parts at one address all; of code that no process has any more, no file."""
        at = bisect_right(self._bounds, address) - 1
        here = self._here[at] if at >= 0 else set()
        if not here or all(part == _OTHER for part, _ in here):
            return _OTHER
        parts, names = (dict.fromkeys(words) for words in zip(*sorted(here), strict=True))
        return f"{'+'.join(parts)}.{'+'.join(names)}"


class Compiled:
    """What JVMs compiled. ``perfmaps``: lines of ``/tmp/perf-PID.map`` with their path; ``parts``: services of
    processes.
    """

    def __init__(self, perfmaps: str, parts: Mapping[int, str]) -> None:
        lines = (match for line in perfmaps.splitlines() if (match := _COMPILED.match(line)))
        self._code = sorted(
            (int(begin, 16), int(size, 16), f"{parts[int(process)]}.{_method(name)}")
            for process, begin, size, name in (match.groups() for match in lines)
            if int(process) in parts
        )
        self._begins = [begin for begin, *_ in self._code]

    def name(self, address: int) -> str | None:
        """``PART.METHOD``, or the JVM's own name of a stub; None of what was not compiled."""
        begin, size, name = self._code[bisect_right(self._begins, address) - 1] if self._code else (0, 0, "")
        return name if begin <= address < begin + size else None


def _method(name: str) -> str:
    """Class and method of ``TYPE CLASS.METHOD(TYPES)``."""
    return _HIDDEN.sub("", name.partition("(")[0].rpartition(" ")[2] if "(" in name else name)


def counted(blocks: Iterable[str], symbols: Symbols, mapped: Mapped, compiled: Compiled) -> dict[str, int]:
    """Counts by name, largest first. Raises ValueError for a line that is no block's."""
    counts: dict[str, int] = defaultdict(int)
    for line in blocks:
        where, instructions, executions = line.split()
        address, times = int(where, 16), int(executions)
        if address < KERNEL_HALF:
            name = compiled.name(address) or mapped.name(address)
        else:
            name = f"kernel.{symbols.name(address)}"
            if (call := symbols.call(address)) is not None:
                counts[f"syscalls.{call}"] += times
        counts[f"instructions.{name}"] += int(instructions) * times
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def plugin(observe: bool) -> Path | str:
    """What counts in the forks of a study, or why nothing does."""
    return boot.library() if observe else "observe is false"


def symbols_of(saved: Saved) -> Symbols:
    """Of a saved guest's kernel; none where it did not tell them."""
    path = saved.files / KALLSYMS
    return _read(path, path.stat().st_mtime_ns) if path.exists() else Symbols([], [])


@lru_cache(maxsize=2)  # worlds that are warm at a time: their forks share 200,000 symbols
def _read(told: Path, _changed: int) -> Symbols:
    return Symbols.of(read_text(told))


def tell(outcome: Outcome, symbols: Symbols) -> None:
    """What a fork executed, beside the files that it sent. Raises OSError, ReceivedError."""
    blocks = outcome.console.parent / BLOCKS
    threads = figures.read(outcome.files / "figures-after").threads
    parts = {process: part for (process, *_), (part, _) in threads.items() if part in SERVICES}
    with reading(str(blocks)):
        mapped = Mapped(read_text(outcome.files / MAPS), parts)
        compiled = Compiled(read_text(outcome.files / COMPILED), parts)
        counts = counted(lines_of(blocks), symbols, mapped, compiled)
    (outcome.files / INSTRUCTIONS).write_text(json.dumps(counts, indent=0), encoding="utf-8")
    blocks.unlink()
