"""What a fork did: figures of its processes and of its kernel, before the load and after it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host.received import lines_of
from leadline.load.result import read_summary
from leadline.model.received import ReceivedError, reading
from leadline.places.virtual.job import SERVICES, USERS

FIGURES = "raw/figures.json"  # what the load of a trial added to the counters of its processes and its kernel

_LINE = re.compile(r"/proc/(\d+)/task/(\d+)/(\w+):(.*)")
_GROUP = re.compile(rf"/sys/fs/cgroup/({'|'.join(SERVICES)})/cpu\.stat:(usage|user|system)_usec (\d+)$")
_NAMES = {uid: name for name, uid in USERS.items()}
# Threads of a JVM by the beginning of their names (hotspot's own).
_JVM = {
    "compiler": ("C1 CompilerThre", "C2 CompilerThre", "Sweeper thread"),
    "collector": ("VM Thread", "GC Thread", "G1 ", "ZDriver", "ZWorker", "Shenandoah"),
}
_OF_STATUS = {"voluntary_ctxt_switches": "waits", "nonvoluntary_ctxt_switches": "preemptions"}
_OF_IO = {"syscr": "reads", "syscw": "writes"}
_OF_CPU = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")  # fields of /proc/stat, proc(5)
_IDLE = ("idle", "iowait")


@dataclass
class _Thread:
    name: str = ""
    user: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    private: int = 0  # bytes
    shared: int = 0
    start: int = 0  # ticks since the boot


@dataclass(frozen=True)
class Figures:
    """Counters since the guest's boot: by thread, and of the whole kernel by name. ``groups``: microseconds of CPU of
    each service's control group, together, in user mode and in the kernel: of what ended there, too.
    """

    # process, thread, start -> its part, its counts
    threads: Mapping[tuple[int, int, int], tuple[str, Mapping[str, int]]]
    machine: Mapping[str, int]
    memory: Mapping[str, int] = field(default_factory=dict)  # bytes by service: private, and shared ones once
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cpu: Mapping[str, int] = field(default_factory=dict)  # ticks of all CPUs by kind


def read(path: Path) -> Figures:
    """As the guest's script wrote them. Raises OSError, ReceivedError."""
    with reading(str(path)):
        return _read(path)


def _read(path: Path) -> Figures:
    threads: dict[tuple[int, int], _Thread] = defaultdict(_Thread)
    machine: dict[str, int] = {}
    heads: dict[str, list[str]] = {}
    cpu: dict[str, int] = {}
    groups: dict[str, dict[str, int]] = defaultdict(dict)
    for line in lines_of(path):
        if group := _GROUP.match(line):
            groups[group[1]][group[2]] = int(group[3])
        elif match := _LINE.match(line.rstrip("\n")):
            _of_thread(threads[int(match[1]), int(match[2])], match[3], match[4])
        elif line.startswith("/proc/"):
            file, _, text = line.partition(":")
            if file == "/proc/stat" and text.startswith("cpu "):
                cpu = dict(zip(_OF_CPU, map(int, text.split()[1:]), strict=False))
            else:
                machine.update(_of_machine(file, text, heads))
    parts = {(*key, thread.start): (_part(thread), thread.counts) for key, thread in threads.items() if thread.counts}
    return Figures(parts, machine, _memory(threads), groups, cpu)


def _memory(threads: Mapping[tuple[int, int], _Thread]) -> dict[str, int]:
    """By service: the private memory of its processes, and the shared memory of the one that has most of it."""
    private: dict[str, int] = defaultdict(int)
    shared: dict[str, int] = defaultdict(int)
    for (process, number), thread in threads.items():
        if process == number and (service := _NAMES.get(thread.user)) in SERVICES:
            private[service] += thread.private
            shared[service] = max(shared[service], thread.shared)
    return {service: private[service] + shared[service] for service in private}


def _of_thread(thread: _Thread, file: str, text: str) -> None:
    counts = thread.counts
    if file == "comm":
        thread.name = text
    elif file == "schedstat":
        counts["cpu_ns"] = int(text.split()[0])
    elif file == "stat":
        rest = text.rpartition(")")[2].split()  # from the state on, proc(5)
        counts["faults"], counts["major_faults"], thread.start = int(rest[7]), int(rest[9]), int(rest[19])
    else:
        name, _, value = text.partition(":")
        if file == "status" and name == "Uid":
            thread.user = int(value.split()[0])
        elif file == "status" and name == "RssAnon":
            thread.private = int(value.split()[0]) << 10
        elif file == "status" and name == "RssShmem":
            thread.shared = int(value.split()[0]) << 10
        elif column := (_OF_STATUS if file == "status" else _OF_IO).get(name):
            counts[column] = int(value)


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


@dataclass(frozen=True)
class Added:
    """What the load of a trial added. ``counts``: ``PART.COUNT`` and the kernel's counters by their names, those that
    changed; ``groups``: microseconds of CPU of each service, ``usage`` with its ``user`` and ``system`` parts;
    ``busy``: the share of its CPUs that was not idle; ``memory``: bytes of each service after the load.
    """

    counts: Mapping[str, float]
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    busy: float | None = None
    memory: Mapping[str, int] = field(default_factory=dict)


def added(directory: Path) -> Added:
    """The counts are kept as ``FIGURES``. The driver has ended when the figures are taken, so its CPU is what it says
    of itself.

    Raises OSError, LeadlineError, also where a counter of CPU went back.
    """
    before, after = (read(directory / "raw" / f"figures-{moment}") for moment in ("before", "after"))
    driver = read_summary(directory / "driver").driver
    totals: dict[str, float] = defaultdict(float)
    for key, (part, counts) in after.threads.items():
        earlier = before.threads.get(key, ("", {}))[1]
        for name, value in counts.items():
            totals[f"{part}.{name}"] += value - earlier.get(name, 0)
    for name, value in after.machine.items():
        totals[name] += value - before.machine.get(name, 0)
    totals["driver.cpu_ns"] = (driver.cpu_user_s + driver.cpu_system_s) * 1e9
    changed = {name: value for name, value in sorted(totals.items()) if value}
    (directory / FIGURES).write_text(json.dumps(changed, indent=1), encoding="utf-8")
    ticks = {name: value - before.cpu.get(name, 0) for name, value in after.cpu.items()}
    busy = 1 - sum(ticks[name] for name in _IDLE) / sum(ticks.values()) if sum(ticks.values()) else None
    groups = {
        service: {name: value - before.groups[service][name] for name, value in counters.items()}
        for service, counters in after.groups.items()
        if service in before.groups
    }
    if any(value < 0 for used in groups.values() for value in used.values()):
        raise ReceivedError("the figures of a guest", f"CPU of its services went back: {groups}")
    return Added(changed, groups, busy, after.memory)


def responses(load: Added, transactions: int, seconds: float) -> dict[str, float]:
    """CPU a transaction in ms, by service and together, in user mode and in the kernel; the guest's CPU and context
    switches, ``seconds``: of the load; its services' memory in MiB.
    """
    by_name = _cpu_per_transaction(load, transactions) if transactions else {}
    if load.busy is not None:
        by_name["host_cpu"] = load.busy
    by_name |= _context_switches(load.counts, transactions, seconds)
    if load.memory:
        by_name["memory"] = sum(load.memory.values()) / 2**20
    return by_name


def _cpu_per_transaction(load: Added, transactions: int) -> dict[str, float]:
    """None of services whose kernel has no control groups: what their threads used that ended is not known."""
    each = 1e3 * transactions
    used = {kind: sum(counters[kind] for counters in load.groups.values()) for kind in ("usage", "user", "system")}
    by_name = {f"{service}_cpu_per_transaction": counters["usage"] / each for service, counters in load.groups.items()}
    if used["usage"]:
        by_name["cpu_per_transaction"] = used["usage"] / each
        by_name |= {f"{kind}_cpu_per_transaction": used[kind] / each for kind in ("user", "system")}
    if driver := load.counts.get("driver.cpu_ns"):
        by_name["driver_cpu_per_transaction"] = driver / 1e6 / transactions
    return by_name


def _context_switches(counts: Mapping[str, float], transactions: int, seconds: float) -> dict[str, float]:
    """Switches a second of the guest's kernel in its load of so many seconds, and by transaction: of the guest and of
    each service. The driver has ended when the figures are taken: its own are in the guest's alone.
    """
    if not transactions or "stat.ctxt" not in counts:
        return {}
    by_name: dict[str, float] = defaultdict(float)
    for name, value in counts.items():
        part, _, count = name.partition(".")
        if count in _OF_STATUS.values() and (service := part.split()[0]) in SERVICES:
            by_name[f"{service}_context_switches_per_transaction"] += value / transactions
    switches = counts["stat.ctxt"]
    of_guest = {"context_switches": switches / seconds, "context_switches_per_transaction": switches / transactions}
    return of_guest | by_name
