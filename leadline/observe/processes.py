"""Observer "processes": what the server, the database and the driver themselves use."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host.base import PROC, Files, Process
from leadline.observe import host
from leadline.observe.base import Frame, FrameWriter, ObserverContext, Sampler, read_frames
from leadline.observe.host import process_stat
from leadline.observe.table import TallTable

_INTERPRETER = re.compile(r"(python|perl|ruby|node|java|php|bash|sh$)")
# Options of java with a value of their own.
_VALUED = (
    *("-cp", "-classpath", "--class-path", "-p", "--module-path"),
    *("--add-exports", "--add-modules", "--add-opens", "--add-reads"),
)
_SMALL = 8  # members of a group, each of which is asked for its children at every sample
_OTHERS_EVERY = 3  # samples between two looks at the processes that are none of the study's


class ProcessObserver:
    """Copies the kernel's files of every process group of the context into ``raw/processes.frames``.

    ``context.processes`` is looked at anew for every sample, so a role may join late (the driver). What costs a read
    per thread is copied only every ``threads_every``-th sample. A group's members are asked for, which is a walk over
    all processes of the host, every ``members_every``-th; in between a group grows by the children of its parents, a
    small one by those of every member. CPU of a member that is found late is counted whole when it is found. See
    ``process_series.UNITS``.
    """

    name = "processes"

    def __init__(self, files: Files, threads_every: int = 5, members_every: int = 15) -> None:
        self._files = files
        self._threads_every = max(1, threads_every)
        self._members_every = max(1, members_every)
        self._context: ObserverContext | None = None
        self._sampler: Sampler | None = None
        self._writer: FrameWriter | None = None
        self._count = 0
        self._unlisted: dict[str, None] = {}
        self._members: dict[str, list[int]] = {}
        self._parents: dict[str, list[int]] = {}
        self._kinds: dict[str, ThreadKinds] = {}
        self._scripts: dict[str, int] = {}  # start of an interpreter whose script is known, by process id

    @property
    def warnings(self) -> Sequence[str]:
        return [*(self._sampler.warnings if self._sampler else ()), *self._unlisted]

    def start(self, context: ObserverContext) -> None:
        self._context = context
        self._count = 0
        self._unlisted.clear()
        self._scripts.clear()
        self._kinds.clear()
        self._members = context.side_by_side[context.directory] = {}
        self._writer = FrameWriter(context.directory / "raw" / "processes.frames")
        self._sampler = Sampler(self.name, self._sample, context.interval)
        self._sampler.start()

    def stop(self) -> None:
        if self._sampler and self._sampler.stop() and self._writer:
            self._writer.close()
        if self._context:
            self._context.side_by_side.pop(self._context.directory, None)

    def collect(self) -> Path | None:
        return self.collect_from(self._context.directory) if self._context else None

    def collect_from(self, directory: Path) -> Path | None:
        """``collect`` for a trial's directory that another, ended process has recorded."""
        raw = directory / "raw" / "processes.frames"
        if not raw.exists():
            return None
        return decode(read_frames(raw)).write(directory / "series" / "processes.parquet")

    def _sample(self, lateness_ns: int) -> None:
        if self._writer:
            now, wall = time.monotonic_ns(), time.time_ns()
            entries = list(self._entries())
            self._count += 1
            self._writer.write(now, wall, lateness_ns, time.thread_time_ns(), entries)

    def _entries(self) -> Iterator[tuple[str, bytes]]:
        if self._context is None:
            return
        threads = self._count % self._threads_every == 0
        if self._count == 0:
            constants = f"ticks {os.sysconf('SC_CLK_TCK')}\npage {os.sysconf('SC_PAGE_SIZE')}\n"
            yield "constants", constants.encode()
        yield from self._copies(f"{OWN}/{os.getpid()}", os.getpid(), ("stat",))
        for role, process in list(self._context.processes.items()):
            try:
                pids = self._pids(role, process)
            except Exception as error:  # one role's trouble must not cost the others
                self._unlisted[f"{self.name}: {role}: {type(error).__name__}: {error}"] = None
                continue
            for pid in list(pids):
                # A process may end at any moment, and its io file belongs to its own user.
                copied = list(
                    self._copies(f"{role}/{pid}", pid, ("stat", "io", "status") if threads else ("stat", "io"))
                )
                if not copied:
                    pids.remove(pid)  # ended; its number may come back as a stranger's
                yield from copied
                if copied and threads:
                    yield from self._threads(f"{role}/{pid}", pid)
                if copied and role == SERVER:
                    yield f"{role}/{pid}/{THREADS}", self._kinds.setdefault(role, ThreadKinds(self._files)).seen(pid)
        if self._count % _OTHERS_EVERY == 0:
            yield from self._others()

    def _copies(self, prefix: str, pid: int, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        start = f"{PROC}/{pid}/"
        if "stat" in names and (used := self._files.cpu_ns(pid)) is not None:
            yield f"{prefix}/{CLOCK}", str(used).encode()
        for path, content in self._files.read_many(start + name for name in names).items():
            if content:
                yield f"{prefix}/{path.removeprefix(start)}", content

    def _threads(self, prefix: str, pid: int) -> Iterator[tuple[str, bytes]]:
        tasks = self._files.names(f"{PROC}/{pid}/task")
        for path, content in self._copies(prefix, pid, [f"task/{task}/status" for task in tasks]):
            yield path.removesuffix("/status"), content

    def _others(self) -> Iterator[tuple[str, bytes]]:
        """Every process of the host that is none of the study's: who else uses the CPUs."""
        trials = list(self._context.side_by_side.values()) if self._context else []
        pids_of_study = {os.getpid(), *(pid for trial in trials for pids in list(trial.values()) for pid in pids)}
        others = [name for name in self._files.names(PROC) if name.isdigit() and int(name) not in pids_of_study]
        for path, content in self._files.read_many(f"{PROC}/{name}/stat" for name in others).items():
            yield f"{OTHERS}/{path.removeprefix(f'{PROC}/')}", content
            pid, stat = (
                path.removeprefix(f"{PROC}/").partition("/")[0],
                process_stat(content.decode("utf-8", "replace")),
            )
            if stat is not None and _INTERPRETER.match(stat.name) and self._scripts.get(pid) != stat.start:
                self._scripts[pid] = stat.start
                line = self._files.read_many([f"{PROC}/{pid}/cmdline"]).get(f"{PROC}/{pid}/cmdline", b"")
                yield f"{OTHERS}/{pid}/{SCRIPT}", _script(line.decode("utf-8", "replace")).encode()

    def _pids(self, role: str, process: Process) -> list[int]:
        pids = self._members.get(role, [])
        if not pids or self._count % self._members_every == 0:
            pids = list(process.pids())
            self._parents[role] = [pid for pid in pids if self._children(pid)]
        else:
            born = {child for parent in self._parents[role] for child in self._children(parent)}
            pids = sorted(born.union(pids))
        if len(pids) <= _SMALL:
            self._parents[role] = pids
        self._members[role] = pids
        return pids

    def _children(self, pid: int) -> list[int]:
        """Of the main thread; empty where the kernel has no such file."""
        path = f"{PROC}/{pid}/task/{pid}/children"
        return [int(child) for child in self._files.read_many([path]).get(path, b"").split()]


def _script(command_line: str) -> str:
    """Name of what an interpreter runs; nothing else of its command line, which may hold secrets."""
    words = command_line.split("\0")[1:]
    values = {at + 1 for at, word in enumerate(words) if word in _VALUED}  # of an option, not what is run
    first = next((word for at, word in enumerate(words) if word and word[0] != "-" and at not in values), "")
    return "" if "-c" in words or "-e" in words else first.rpartition("/")[2][:60]


class ThreadKinds:
    """CPU that threads of a kind have used since they were first looked at, and how long they were runnable without a
    CPU (``DELAYED`` behind the kind): of JVMs by their threads' names, which only new threads are asked for. What a
    thread did after the last look at it is not known.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._of: dict[
            str, tuple[str, list[int]]
        ] = {}  # by the thread's directory: its kind, ns of both when last seen
        self._used: defaultdict[str, int] = defaultdict(int)

    def seen(self, pid: int) -> bytes:
        """Lines of kind and ns, over all processes so far."""
        threads = [f"{PROC}/{pid}/task/{task}" for task in self._files.names(f"{PROC}/{pid}/task")]
        clocks = self._files.read_many(f"{thread}/schedstat" for thread in threads)
        new = [thread for thread in threads if thread not in self._of]
        names = self._files.read_many(f"{thread}/comm" for thread in new) if new else {}
        for thread in threads:
            clock = [int(ns) for ns in clocks.get(f"{thread}/schedstat", b"").split()[:2]]
            name = names.get(f"{thread}/comm", b"").decode("utf-8", "replace")
            kind, before = self._of.get(thread, (kind_of_thread(name), clock))
            for what, now, then in zip((kind, kind + DELAYED), clock, before, strict=False):
                self._used[what] += max(0, now - then)
            self._of[thread] = kind, clock
        return "".join(f"{kind} {ns}\n" for kind, ns in self._used.items()).encode()


_KINDS_OF_THREAD = {  # how their names begin; "VM Thread" is the one in whose pauses the collector works
    "compiler": ("C1 ", "C2 ", "JVMCI"),
    "collector": ("GC ", "G1 ", "VM Thread", "ZWorker", "ZDriver", "ZDirector", "ZStat", "Shenandoah"),
    "jvm": ("VM ", "Sweeper", "Signal", "Service", "Monitor", "Common-C", "Notific", "JFR ", "Attach", "Reference"),
}


def kind_of_thread(name: str) -> str:
    """``compiler``, ``collector``, ``jvm`` for its other work, else ``application``; ``name`` as the kernel has it."""
    return next((kind for kind, begins in _KINDS_OF_THREAD.items() if name.startswith(begins)), "application")


UNITS: Mapping[str, str] = {
    "cpu": "share of one CPU",
    "cpu.user": "share of one CPU",
    "cpu.system": "share of one CPU",
    "program.cpu": "share of one CPU, by name of a program that is none of the study's",
    "kernel.cpu": "share of one CPU, threads of the kernel",
    "cpu.seconds": "s of CPU since the role's first sample",
    "threads.cpu_seconds": "s of CPU of the server by kind of thread, since the first sample",
    "threads.delay_seconds": "s in which these threads were runnable without a CPU, since the first sample",
    "rss": "bytes, shared pages counted in every process",
    "rss.anon": "bytes",
    "rss.shared": "bytes of shared memory in the process that has most of it",
    "swap": "bytes",
    "processes": "processes",
    "threads": "threads",
    "context_switches.voluntary": "1/s",
    "context_switches.involuntary": "1/s",
    "read_bytes": "bytes/s from the storage",
    "write_bytes": "bytes/s to the storage",
    "read_chars": "bytes/s by read calls",
    "write_chars": "bytes/s by write calls",
    "faults.minor": "1/s",
    "faults.major": "1/s",
    "observer.lateness_ms": "ms",
    "observer.cpu_ms": "ms",
}

OWN = "leadline"  # role of this program itself
OTHERS = "others"  # beside the roles: processes that are none of the study's
PROGRAM = "program.cpu"  # of the processes of one name among the others
KERNEL = "kernel.cpu"
CLOCK = "clock"  # beside the stat of a study's process: its CPU clock, ns
SERVER, THREADS = "server", "kinds"  # the role whose threads are told by kind, and that beside its stat
DELAYED = ".delayed"
SCRIPT = "script"  # beside an interpreter's stat: what it runs
_PROGRAMS = 5  # of each look, those that used most

_IO = {"read_bytes": "read_bytes", "write_bytes": "write_bytes", "rchar": "read_chars", "wchar": "write_chars"}
_SWITCHES = {
    "voluntary_ctxt_switches": "context_switches.voluntary",
    "nonvoluntary_ctxt_switches": "context_switches.involuntary",
}


@dataclass
class _Group:
    """One role in one frame, by process id."""

    stats: dict[int, host.ProcessStat] = field(default_factory=dict)
    clocks: dict[int, int] = field(default_factory=dict)
    io: dict[int, dict[str, int]] = field(default_factory=dict)
    status: dict[int, dict[str, int]] = field(default_factory=dict)
    tasks: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    scripts: dict[int, str] = field(default_factory=dict)


def decode(frames: Iterable[Frame]) -> TallTable:
    """All series; the subject is the role ("server", "database", "driver"), or "processes" for the observer's own."""
    table = TallTable()
    ticks, page = 100, 4096
    before: Frame | None = None
    last_seen: dict[str, tuple[int, _Group]] = {}  # role -> (monotonic ns, what was last seen of it)
    tasks_seen: dict[str, tuple[int, _Group]] = {}  # the same, of the last frame with its threads
    used: defaultdict[str, float] = defaultdict(float)
    others: tuple[int, _Group] | None = None
    for frame in frames:
        constants = host.pairs(frame.text("constants"))
        ticks, page = constants.get("ticks", ticks), constants.get("page", page)
        groups = _groups(frame)
        strangers = groups.pop(OTHERS, None)
        if strangers is not None:
            known = others[1] if others else _Group()
            for pid, script in known.scripts.items():
                if pid in known.stats and _same(known.stats[pid], strangers.stats.get(pid)):
                    strangers.scripts.setdefault(pid, script)
            if others is not None:
                _programs(frame.time_ns, others[1], strangers, ticks, (frame.monotonic_ns - others[0]) / 1e9, table)
            others = (frame.monotonic_ns, strangers)
        for kind, ns in _kinds(frame).items():
            metric = "threads.delay_seconds" if kind.endswith(DELAYED) else "threads.cpu_seconds"
            table.add(frame.time_ns, metric, kind.removesuffix(DELAYED), ns / 1e9)
        for role, group in groups.items():
            _gauges(frame.time_ns, role, group, page, table)
            if role in last_seen:
                since, old = last_seen[role]
                seconds = (frame.monotonic_ns - since) / 1e9
                used[role] += _cpu(frame.time_ns, role, old, group, ticks, seconds, table)
                _io(frame.time_ns, role, old, group, seconds, table)
            last_seen[role] = (frame.monotonic_ns, group)
            table.add(frame.time_ns, "cpu.seconds", role, used[role])
            if group.tasks:
                if role in tasks_seen:
                    since, old = tasks_seen[role]
                    _switches(frame.time_ns, role, old, group, (frame.monotonic_ns - since) / 1e9, table)
                tasks_seen[role] = (frame.monotonic_ns, group)
        if before is not None:
            table.add(frame.time_ns, "observer.cpu_ms", "processes", (frame.cpu_ns - before.cpu_ns) / 1e6)
        table.add(frame.time_ns, "observer.lateness_ms", "processes", frame.lateness_ns / 1e6)
        before = frame
    return table


def _kinds(frame: Frame) -> dict[str, int]:
    """Ns by kind; every process's entry has those before it in it."""
    entries = [name for name in frame.files if name.startswith(f"{SERVER}/") and name.endswith(f"/{THREADS}")]
    return host.pairs(frame.text(entries[-1])) if entries else {}


def _groups(frame: Frame) -> dict[str, _Group]:
    groups: defaultdict[str, _Group] = defaultdict(_Group)
    for name in frame.files:
        role, *path = name.split("/")
        if len(path) < 2 or not path[0].isdigit():
            continue
        group, pid, text = groups[role], int(path[0]), frame.text(name)
        if path[1] == "stat":
            stat = host.process_stat(text)
            if stat is not None:
                group.stats[pid] = stat
        elif path[1] == CLOCK:
            group.clocks[pid] = int(text)
        elif path[1] == SCRIPT:
            group.scripts[pid] = text
        elif path[1] == "io":
            group.io[pid] = host.pairs(text)
        elif path[1] == "status":
            group.status[pid] = host.pairs(text)
        elif path[1] == "task":
            group.tasks[pid, int(path[2])] = host.pairs(text)
    return {role: group for role, group in groups.items() if group.stats}


def _gauges(time_ns: int, role: str, group: _Group, page: int, table: TallTable) -> None:
    table.add(time_ns, "rss", role, page * sum(stat.rss for stat in group.stats.values()))
    table.add(time_ns, "threads", role, sum(stat.threads for stat in group.stats.values()))
    table.add(time_ns, "processes", role, len(group.stats))
    if group.status:
        status = group.status.values()
        table.add(time_ns, "rss.anon", role, sum(process.get("RssAnon", 0) for process in status))
        table.add(time_ns, "rss.shared", role, max(process.get("RssShmem", 0) for process in status))
        table.add(time_ns, "swap", role, sum(process.get("VmSwap", 0) for process in status))


def _cpu(time_ns: int, role: str, old: _Group, new: _Group, ticks: int, seconds: float, table: TallTable) -> float:
    """Adds the CPU and fault rates; the group's CPU seconds between the two frames, of processes by their clocks where
    those are known. Ticks share them out between user mode and the kernel.
    """
    seconds_used, user, system, minor, major = 0.0, 0, 0, 0, 0
    # What an ended child had used by the last sample is already counted as its own.
    counted_user: defaultdict[int, int] = defaultdict(int)
    counted_system: defaultdict[int, int] = defaultdict(int)
    for pid, stat in old.stats.items():
        if not _same(stat, new.stats.get(pid)):
            counted_user[stat.parent] += stat.user + stat.children_user
            counted_system[stat.parent] += stat.system + stat.children_system
    for pid, now in new.stats.items():
        was, clock = old.stats.get(pid), old.clocks.get(pid)
        if was is None or was.start != now.start:
            was, clock = host.ProcessStat(now.parent, 0, 0, 0, 0, 0, 0, 0, now.start, 0), 0
        own_user, own_system = max(0, now.user - was.user), max(0, now.system - was.system)
        if clock is None or pid not in new.clocks:
            seconds_used += (own_user + own_system) / ticks
        else:
            seconds_used += max(0, new.clocks[pid] - clock) / 1e9
        children_user = max(0, now.children_user - was.children_user - counted_user[pid])
        children_system = max(0, now.children_system - was.children_system - counted_system[pid])
        seconds_used += (children_user + children_system) / ticks
        user, system = user + own_user + children_user, system + own_system + children_system
        minor += max(0, now.minor_faults - was.minor_faults)
        major += max(0, now.major_faults - was.major_faults)
    if seconds > 0:
        if user + system == 0:  # too little for a tick: shared out as all before
            user, system = (sum(getattr(now, mode) for now in new.stats.values()) for mode in ("user", "system"))
        kernel = system / (user + system) if user + system else 0.0
        table.add(time_ns, "cpu.user", role, seconds_used * (1 - kernel) / seconds)
        table.add(time_ns, "cpu.system", role, seconds_used * kernel / seconds)
        table.add(time_ns, "cpu", role, seconds_used / seconds)
        table.add(time_ns, "faults.minor", role, minor / seconds)
        table.add(time_ns, "faults.major", role, major / seconds)
    return seconds_used


def _same(was: host.ProcessStat, now: host.ProcessStat | None) -> bool:
    """Whether a process id still means the same process."""
    return now is not None and now.start == was.start


def _programs(time_ns: int, old: _Group, new: _Group, ticks: int, seconds: float, table: TallTable) -> None:
    """The names whose processes used most between two looks; what began and ended in between is not seen."""
    used: defaultdict[str, int] = defaultdict(int)
    kernel = 0
    for pid, now in new.stats.items():
        was = old.stats.get(pid)
        before = was.user + was.system if was is not None and was.start == now.start else 0
        ticked = max(0, now.user + now.system - before)
        if now.kernel:
            kernel += ticked
        else:
            used[f"{now.name} {new.scripts.get(pid, '')}".strip()] += ticked
    if seconds <= 0:
        return
    for name, count in sorted(used.items(), key=lambda item: -item[1])[:_PROGRAMS]:
        if count:
            table.add(time_ns, PROGRAM, name, count / ticks / seconds)
    table.add(time_ns, KERNEL, "kernel", kernel / ticks / seconds)


def _io(time_ns: int, role: str, old: _Group, new: _Group, seconds: float, table: TallTable) -> None:
    # A new process starts from nought; one whose file could not be read before has no known start.
    moved: defaultdict[str, int] = defaultdict(int)
    for pid, now in new.io.items():
        was = old.io.get(pid, {})
        if pid in old.stats and not (was and _same(old.stats[pid], new.stats.get(pid))):
            continue
        for source in _IO:
            moved[source] += max(0, now.get(source, 0) - was.get(source, 0))
    if new.io and seconds > 0:
        for source, metric in _IO.items():
            table.add(time_ns, metric, role, moved[source] / seconds)


def _switches(time_ns: int, role: str, old: _Group, new: _Group, seconds: float, table: TallTable) -> None:
    """Of the threads there are in both; a thread that came or went between the two samples is not seen."""
    if seconds <= 0:
        return
    for source, metric in _SWITCHES.items():
        count = sum(
            max(0, status.get(source, 0) - old.tasks[task].get(source, 0))
            for task, status in new.tasks.items()
            if task in old.tasks and source in status
        )
        table.add(time_ns, metric, role, count / seconds)
