"""Observer "processes": what the server, the database and the driver themselves use."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from leadline.host.base import PROC, Files, Process
from leadline.observe.base import ObserverContext
from leadline.observe.frames import FrameWriter, read_frames
from leadline.observe.process_series import CLOCK, OTHERS, OWN, SCRIPT, decode
from leadline.observe.procfs import process_stat
from leadline.observe.sampler import Sampler

_INTERPRETER = re.compile(r"(python|perl|ruby|node|java|php|bash|sh$)")
# Options of java with a value of their own.
_VALUED = (
    *("-cp", "-classpath", "--class-path", "-p", "--module-path"),
    *("--add-exports", "--add-modules", "--add-opens", "--add-reads"),
)
_OTHERS_EVERY = 3  # samples between two looks at the processes that are none of the study's


class ProcessObserver:
    """Copies the kernel's files of every process group of the context into ``raw/processes.frames``.

    ``context.processes`` is looked at anew for every sample, so a role may join late (the driver). What costs a read
    per thread is copied only every ``threads_every``-th sample. A group's members are asked for, which is a walk over
    all processes of the host, every ``members_every``-th; in between a group grows by the children of its parents.
    CPU of a member that is found late is counted whole when it is found. See ``process_series.UNITS``.
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
        self._scripts: dict[str, int] = {}  # start of an interpreter whose script is known, by process id

    @property
    def warnings(self) -> Sequence[str]:
        return [*(self._sampler.warnings if self._sampler else ()), *self._unlisted]

    def start(self, context: ObserverContext) -> None:
        self._context = context
        self._count = 0
        self._unlisted.clear()
        self._scripts.clear()
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
