"""What a fork did: figures of its processes and of its kernel, before the load and after it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadline.load.driver import read_summary
from leadline.virtual.capture import SERVICES
from leadline.virtual.job import USERS

FIGURES = "raw/figures.json"  # what the load of a trial added to the counters of its processes and its kernel

_LINE = re.compile(r"/proc/(\d+)/task/(\d+)/(\w+):(.*)")
_NAMES = {uid: name for name, uid in USERS.items()}
# Threads of a JVM by the beginning of their names (hotspot's own).
_JVM = {
    "compiler": ("C1 CompilerThre", "C2 CompilerThre", "Sweeper thread"),
    "collector": ("VM Thread", "GC Thread", "G1 ", "ZDriver", "ZWorker", "Shenandoah"),
}
_OF_STATUS = {"voluntary_ctxt_switches": "waits", "nonvoluntary_ctxt_switches": "preemptions"}
_OF_IO = {"syscr": "reads", "syscw": "writes"}


@dataclass
class _Thread:
    name: str = ""
    user: int = 0
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """Counters since the guest's boot: by thread, and of the whole kernel by name."""

    threads: Mapping[tuple[int, int], tuple[str, Mapping[str, int]]]  # (process, thread) -> its part, its counts
    machine: Mapping[str, int]


def read(path: Path) -> Figures:
    """As the guest's script wrote them. Raises OSError, ValueError."""
    threads: dict[tuple[int, int], _Thread] = defaultdict(_Thread)
    machine: dict[str, int] = {}
    heads: dict[str, list[str]] = {}
    for line in path.read_text(errors="replace").splitlines():
        if found := _LINE.match(line):
            _of_thread(threads[int(found[1]), int(found[2])], found[3], found[4])
        elif line.startswith("/proc/"):
            file, _, text = line.partition(":")
            machine.update(_of_machine(file, text, heads))
    return Figures({key: (_part(one), one.counts) for key, one in threads.items() if one.counts}, machine)


def _of_thread(thread: _Thread, file: str, text: str) -> None:
    counts = thread.counts
    if file == "comm":
        thread.name = text
    elif file == "schedstat":
        counts["cpu_ns"] = int(text.split()[0])
    elif file == "stat":
        rest = text.rpartition(")")[2].split()  # from the state on, proc(5)
        counts["faults"], counts["major_faults"] = int(rest[7]), int(rest[9])
    else:
        name, _, value = text.partition(":")
        if file == "status" and name == "Uid":
            thread.user = int(value.split()[0])
        elif known := (_OF_STATUS if file == "status" else _OF_IO).get(name):
            counts[known] = int(value)


def _of_machine(file: str, text: str, heads: dict[str, list[str]]) -> Iterator[tuple[str, int]]:
    words = text.split()
    if file == "/proc/vmstat" and not words[0].startswith("nr_"):  # those are states, not counters
        yield f"vmstat.{words[0]}", int(words[1])
    elif file == "/proc/stat" and words[0] in ("ctxt", "processes", "intr", "softirq"):
        yield f"stat.{words[0]}", int(words[1])
    elif file.startswith("/proc/net/"):  # a line of names, then one of values
        if words[0] in heads and words[1].lstrip("-").isdigit():
            yield from (
                (f"net.{words[0]}{name}", int(value))
                for name, value in zip(heads.pop(words[0]), words[1:], strict=False)
            )
        else:
            heads[words[0]] = words[1:]


def _part(thread: _Thread) -> str:
    """The service whose user it runs as, a JVM's by kind of thread; else the kernel, its own threads and the guest's
    script.
    """
    service = _NAMES.get(thread.user, "kernel")
    kind = next((kind for kind, names in _JVM.items() if thread.name.startswith(names)), "")
    return f"{service} {kind}" if kind else service


def added(directory: Path) -> dict[str, float]:
    """What the load of a trial added: ``PART.COUNT`` and the kernel's counters by their names, those that changed; kept
    as ``FIGURES``. The driver has ended when the figures are taken, so its CPU is what it says of itself.

    Raises OSError, ValueError.
    """
    before, after = (read(directory / "raw" / f"figures-{moment}") for moment in ("before", "after"))
    driver = read_summary(directory / "driver").driver
    found: dict[str, float] = defaultdict(float)
    for key, (part, counts) in after.threads.items():
        earlier = before.threads.get(key, ("", {}))[1]
        for name, value in counts.items():
            found[f"{part}.{name}"] += value - earlier.get(name, 0)
    for name, value in after.machine.items():
        found[name] += value - before.machine.get(name, 0)
    found["driver.cpu_ns"] = (driver.cpu_user_s + driver.cpu_system_s) * 1e9
    changed = {name: value for name, value in sorted(found.items()) if value}
    (directory / FIGURES).write_text(json.dumps(changed, indent=1), encoding="utf-8")
    return changed


def cpu_per_transaction(figures: Mapping[str, float], transactions: int) -> dict[str, float]:
    """Milliseconds of CPU a transaction, by service and together."""
    if not transactions:
        return {}
    used: dict[str, float] = defaultdict(float)
    for name, value in figures.items():
        part, _, count = name.partition(".")
        if count == "cpu_ns" and (service := part.split()[0]) in SERVICES:
            used[f"{service}_cpu_per_transaction"] += value / 1e6 / transactions
    driver = {"driver_cpu_per_transaction": figures["driver.cpu_ns"] / 1e6 / transactions}
    return {**used, "cpu_per_transaction": sum(used.values()), **(driver if figures.get("driver.cpu_ns") else {})}


def context_switches(figures: Mapping[str, float], transactions: int, seconds: float) -> dict[str, float]:
    """Switches a second of the guest's kernel in its load of so many seconds, and by transaction: of the guest and of
    each service. The driver has ended when the figures are taken: its own are in the guest's alone.
    """
    if not transactions or "stat.ctxt" not in figures:
        return {}
    found = {f"{service}_context_switches_per_transaction": 0.0 for service in SERVICES}
    for name, value in figures.items():
        part, _, count = name.partition(".")
        if count in _OF_STATUS.values() and (service := part.split()[0]) in SERVICES:
            found[f"{service}_context_switches_per_transaction"] += value / transactions
    switches = figures["stat.ctxt"]
    own = {name: value for name, value in found.items() if value}
    return {"context_switches": switches / seconds, "context_switches_per_transaction": switches / transactions, **own}
