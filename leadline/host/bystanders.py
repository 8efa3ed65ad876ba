"""CPU that other programs use beside a command or a load: two looks at /proc, nothing in between."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host import procfs
from leadline.model.disturbance import DIFFERENCE

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_KTHREADD = 2  # the parent of kernel threads
_LISTEN = "0A"  # state of a socket (proc_net_tcp(5))
_NAMED = 5  # programs, those that used most
_SHOWN = 2  # of them in a sentence


@dataclass(frozen=True)
class Others:
    """Shares 0..1 of all CPUs: of other programs, of the hypervisor (steal), and of single programs that are still
    there.
    """

    others: float
    steal: float
    programs: dict[str, float] = field(default_factory=dict)

    @property
    def taken(self) -> float:
        return min(1.0, self.others + self.steal)

    def __str__(self) -> str:
        names = [name for name, share in self.programs.items() if share > DIFFERENCE / 2][:_SHOWN]
        return f"{100 * self.taken:.0f} %" + (f" ({', '.join(names)})" if names else "")


class Bystanders:
    """From its making to ``used``: programs that are neither this process nor ``known``, nor started by them. What
    interrupts and kernel threads do is nobody's, as in ``leadline.observe.window``.
    """

    def __init__(self, known: Collection[int] = ()) -> None:
        self._known = frozenset(known)
        self._began, self._table, (self._busy, self._steal) = time.monotonic(), procfs.all_processes(), _host()

    def used(self) -> Others | None:
        """None where less than a clock tick has passed."""
        table, (busy, steal) = procfs.all_processes(), _host()
        whole = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        if whole < _TICK:
            return None
        family = procfs.family(table, {os.getpid(), *self._known}) | {os.getpid()}  # which has the CPU of what ended
        kernel = {pid for pid, stat in table.items() if _KTHREADD in (pid, stat.parent)}
        spent = {pid: self._spent(stat, whole=pid in family) for pid, stat in table.items()}
        ours = sum(spent[pid] for pid in family | kernel)
        programs: dict[str, float] = {}
        for pid, seconds in spent.items():
            if pid not in family and pid not in kernel and seconds > 0:
                programs[table[pid].name] = programs.get(table[pid].name, 0.0) + seconds / whole
        most = sorted(programs, key=lambda name: -programs[name])[:_NAMED]
        others = max(0.0, busy - self._busy - ours) / whole
        return Others(others, max(0.0, steal - self._steal) / whole, {name: programs[name] for name in most})

    def _spent(self, now: procfs.ProcessStat, *, whole: bool) -> float:
        """CPU seconds since the first look; ``whole``: with those of children that have ended."""
        then = self._table.get(now.pid)
        if then is not None and then.start != now.start:
            then = None
        return _cpu(now, whole) - (_cpu(then, whole) if then is not None else 0.0)


def listening(port: int) -> set[int]:
    """Processes that listen on a TCP port of this host, as far as this user may see them."""
    sockets = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            rows = [line.split() for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
            sockets |= {f"socket:[{row[9]}]" for row in rows if row[3] == _LISTEN and row[1].endswith(f":{port:04X}")}
    inodes = set()
    for pid in procfs.all_processes() if sockets else ():
        with suppress(OSError):
            if any(os.readlink(descriptor.path) in sockets for descriptor in os.scandir(f"/proc/{pid}/fd")):  # noqa: PTH115
                inodes.add(pid)
    return inodes


def _cpu(stat: procfs.ProcessStat, whole: bool) -> float:
    return stat.user + stat.system + (stat.ended_user + stat.ended_system if whole else 0.0)


def _host() -> tuple[float, float]:
    """Seconds of user and kernel code on all CPUs so far, and of steal (proc_stat(5))."""
    user, nice, system, _idle, _wait, _irq, _soft, steal, *_ = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system) * _TICK, steal * _TICK
