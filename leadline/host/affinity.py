"""On which CPUs running processes may be, and which CPUs make equal halves of a machine (sched_setaffinity(2))."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from leadline.host.base import SYS, Files

_ROUNDS = 50  # looks at the threads until none has another place: one that is being made inherits its maker's
_PACKAGE, _SIBLINGS = "physical_package_id", "thread_siblings_list"


def confine(pids: Callable[[], Sequence[int]], cpus: Sequence[int]) -> None:
    """Move all threads of the processes to these CPUs. Raises OSError: PermissionError, or where threads keep coming
    that are elsewhere.
    """
    wanted = set(cpus)
    for _ in range(_ROUNDS):
        moved = 0
        for thread in _threads(pids()):
            try:
                if os.sched_getaffinity(thread) != wanted:
                    os.sched_setaffinity(thread, wanted)
                    moved += 1
            except ProcessLookupError:  # it has ended
                continue
        if not moved:
            return
    raise OSError(f"its threads do not stay on CPUs {sorted(wanted)}")


def _threads(pids: Sequence[int]) -> Iterator[int]:
    for pid in pids:
        try:
            yield from (int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            continue


def halves(usable: Sequence[int], files: Files) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two sets of CPUs, equally many in each, as large as can be: sockets and cores stay whole where there are two or
    more. One CPU is in neither half where their number is odd.
    """
    cores: dict[tuple[str, str], list[int]] = {}
    for cpu in sorted(usable):
        cores.setdefault((_topology(files, cpu, _PACKAGE), _topology(files, cpu, _SIBLINGS)), []).append(cpu)
    ordered = sorted(cores.items(), key=lambda one: (one[0][0], one[1]))
    first = [cpu for _, core in ordered[: len(ordered) // 2] for cpu in core]
    second = [cpu for _, core in ordered[len(ordered) // 2 :] for cpu in core]
    if not first:  # one core
        first, second = second[: len(second) // 2], second[len(second) // 2 :]
    size = min(len(first), len(second))
    return tuple(sorted(first)[:size]), tuple(sorted(second)[:size])


def _topology(files: Files, cpu: int, name: str) -> str:
    try:
        return files.read(f"{SYS}/devices/system/cpu/cpu{cpu}/topology/{name}").strip()
    except OSError:
        return "" if name == _PACKAGE else str(cpu)
