"""Process groups on this host: started with the journal's knowledge, pinned, limited, always ended whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from leadline.host import procfs
from leadline.host.base import ProcessSpec
from leadline.host.cgroup import LimitedGroup
from leadline.host.files import OPEN_FILES
from leadline.host.journal import UndoJournal
from leadline.host.privilege import User, hand_over, new_user, take_back
from leadline.host.procfs import ProcessStat
from leadline.host.signals import LOG
from leadline.host.undo import Entry
from leadline.model.errors import TrialFailure, UsageError


def parse_cpus(text: str, available: Sequence[int] | None = None) -> list[int]:
    """CPU numbers of ``0,2-3``. Raises UsageError for bad syntax or CPUs that this process may not use."""
    usable = sorted(os.sched_getaffinity(0)) if available is None else sorted(available)
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise UsageError(f"{text!r} is not a list of CPUs such as 0,2-3")
        chosen.update(range(int(first), int(last if dash else first) + 1))
    if missing := sorted(chosen - set(usable)):
        have = ",".join(map(str, usable))
        raise UsageError(f"CPU {', '.join(map(str, missing))} of {text!r} cannot be used here; this host offers {have}")
    return sorted(chosen)


def cpu_set(text: str | None, available: Sequence[int]) -> frozenset[int]:
    """CPUs of ``0,2-3``; all that are ``available`` for None. Raises UsageError."""
    return frozenset(parse_cpus(text, available) if text else available)


def _pinning(text: str) -> tuple[str, ...]:
    cpus = parse_cpus(text)
    if shutil.which("taskset"):
        return ("taskset", "-c", ",".join(map(str, cpus)))
    shim = (
        "import os,sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(','))); os.execvp(sys.argv[2], sys.argv[2:])"
    )
    return (sys.executable, "-I", "-S", "-c", shim, ",".join(map(str, cpus)))


def _require_program(spec: ProcessSpec, env: dict[str, str]) -> None:
    # behind a prefix a missing program would only show as exit code 127
    program = str(spec.argv[0])
    where = program if "/" not in program or spec.cwd is None else str(spec.cwd / program)
    if shutil.which(where, path=env.get("PATH")) is None:
        raise FileNotFoundError(2, f"{spec.name}: no such program", program)


class LocalProcess:
    """A process group started here. Safe to use from several threads."""

    def __init__(
        self,
        spec: ProcessSpec,
        popen: subprocess.Popen[bytes],
        entry: Entry,
        journal: UndoJournal,
        group: LimitedGroup | None,
        user: User | None,
    ) -> None:
        self.spec = spec
        self.user = user
        self.token: str = entry.data["token"]
        self._popen = popen
        self._entry = entry
        self._journal = journal
        self._cgroup = group
        self._lock = threading.RLock()
        self._stopping = threading.Lock()  # apart, so that observers may read while a slow server ends
        self._known: dict[int, ProcessStat] = {}  # members as last seen
        self._strangers: set[tuple[int, int]] = set()  # looked at once: (pid, start) without the mark
        self._lost = (0.0, 0.0)  # CPU of members that ended and that no parent counted
        self._usage: tuple[float, float] | None = None  # the leader's, with the children it waited for
        self._finished = False
        first = procfs.read_stat(popen.pid)
        self.start = first.start if first else 0
        self.killed = False
        LOG.begin()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pid(self) -> int:
        return self._popen.pid

    def _reap(self) -> None:
        with self._lock:
            if self._popen.returncode is not None:
                return
            try:
                if os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return
                self._find_orphans()
                _, status, usage = os.wait4(self._popen.pid, 0)
            except ChildProcessError:  # something else in this process waited for all children
                self._popen.returncode = -1
                return
            self._popen.returncode = os.waitstatus_to_exitcode(status)
            self._usage = (usage.ru_utime, usage.ru_stime)

    def _find_orphans(self) -> None:
        """Remember the leader's group and session while its number cannot mean another: some programs write over the
        environment that holds the mark.
        """
        table = procfs.all_processes()
        for pid in procfs.family(table, {self.pid}):
            self._known.setdefault(pid, table[pid])

    def exit_code(self) -> int | None:
        """The leader's exit code, minus the signal's number if one ended it; None while it runs."""
        self._reap()
        return self._popen.returncode

    def alive(self) -> bool:
        """Whether the leader runs."""
        return self.exit_code() is None

    def signal(self, number: int) -> None:
        """Signal the leader only; nothing happens when it has ended."""
        with self._lock:
            if self.alive():
                os.kill(self.pid, number)

    def write(self, data: bytes) -> None:
        """To the leader's standard input, where the spec asks for one; nothing happens when it has ended."""
        if self._popen.stdin is not None and not self._popen.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._popen.stdin.write(data)

    def close_input(self) -> None:
        """End the leader's standard input."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def oom_kills(self) -> int:
        """Processes ended by the kernel at the memory limit; 0 without a limit."""
        return self._cgroup.oom_kills() if self._cgroup else 0

    # -- members

    def _scan(self) -> dict[int, ProcessStat]:
        """Update the members."""
        with self._lock:
            self._reap()
            table = procfs.all_processes()
            seeds = {pid for pid, old in self._known.items() if pid in table and table[pid].start == old.start}
            if self._popen.returncode is None:
                seeds.add(self.pid)
            others = {(pid, stat.start) for pid, stat in table.items() if pid not in seeds}
            marked = {(pid, start) for pid, start in others - self._strangers if self._ours(pid)}
            self._strangers = {(pid, start) for pid, start in others - marked if not self._may_be_ours(pid, start)}
            seeds |= {pid for pid, _ in marked}
            members = {pid: table[pid] for pid in procfs.family(table, seeds)}
            self._count_lost(members, table)
            self._known = members
            return members

    def _ours(self, pid: int) -> bool:
        user = self.user.uid if self.user else None
        return procfs.carries_mark(pid, self.token) or procfs.runs_as(pid, user, self.token)

    def _may_be_ours(self, pid: int, start: int) -> bool:
        """While a program takes the place of another one its environment is empty; a kernel thread has none either."""
        return start >= self.start and procfs.shows_nothing(pid)

    def _count_lost(self, now: dict[int, ProcessStat], table: dict[int, ProcessStat]) -> None:
        """CPU of members that ended: a living parent that waited for them shows it, else it is remembered."""
        gone: dict[int, list[ProcessStat]] = {}
        for pid, old in self._known.items():
            if pid not in now and pid != self.pid:
                gone.setdefault(old.parent, []).append(table[pid] if _same(table.get(pid), old) else old)
        user, system = self._lost
        for parent, children in gone.items():
            spent = [sum(c.user + c.ended_user for c in children), sum(c.system + c.ended_system for c in children)]
            before, after = self._known.get(parent), now.get(parent)
            if parent == self.pid and self._usage is not None:
                continue  # the leader's usage holds those it waited for
            if before is not None and after is not None:
                spent[0] -= after.ended_user - before.ended_user
                spent[1] -= after.ended_system - before.ended_system
            user, system = user + max(0.0, spent[0]), system + max(0.0, spent[1])
        self._lost = (user, system)

    def pids(self) -> list[int]:
        """All live processes of the group: by group, session, descent and mark; members once seen stay members."""
        return sorted(self._scan())

    def cpu_seconds(self) -> tuple[float, float]:
        """User and system CPU of the whole group so far.

        Live members with the children they waited for, the leader's final usage, and members last seen before they
        ended without a parent to count them. Best effort: what such a member spent after it was last seen is lost,
        and the kernel counts in ticks (10 ms).
        """
        with self._lock:
            members = self._scan()
            user = sum(m.user + m.ended_user for m in members.values())
            system = sum(m.system + m.ended_system for m in members.values())
            final = self._usage or (0.0, 0.0)
            return user + self._lost[0] + final[0], system + self._lost[1] + final[1]

    def stop(self, grace: float = 10.0) -> bool:
        """SIGTERM to the group, SIGKILL after ``grace`` seconds, until no member is left. True without SIGKILL.

        Members outside the leader's group get SIGTERM once the leader has ended: a server that manages children in
        groups of their own ends them in its own order.
        """
        with self._stopping:
            if self._finished:
                return not self.killed
            deadline = time.monotonic() + grace
            self._scan()
            with self._lock:
                if self.alive():
                    os.killpg(self.pid, signal.SIGTERM)
            while self.alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            gentle = procfs.end(self.pids, max(0.0, deadline - time.monotonic()), self._reap)
            self._reap()
            self.killed = not gentle
            self._finished = True
            LOG.end()
            self.close_input()
            if self._cgroup is not None:
                self._cgroup.remove()
            if self.user is not None:
                take_back(self.spec.owns, self.user.uid)
            self._journal.done(self._entry)
            return gentle


def _same(a: ProcessStat | None, b: ProcessStat) -> bool:
    return a is not None and a.start == b.start


# What is started waits for a line, which comes when its number is in the journal; without one it ends. So a leadline
# that is killed in between leaves nothing that nobody finds: a child between fork and exec has no mark yet.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@"{}', "leadline")


def start(spec: ProcessSpec, journal: UndoJournal) -> LocalProcess:
    """Journal the intent, start it in a session of its own, return at once.

    Raises FileNotFoundError for a missing program, UsageError for CPUs or limits this host cannot give,
    TrialFailure(infrastructure) when the journal cannot be written, OSError.
    """
    token = uuid.uuid4().hex
    env = {**inherited(), **spec.env, procfs.MARK: token}
    _require_program(spec, env)
    user = new_user() if spec.unprivileged else None
    prefix: tuple[str, ...] = ()
    if spec.cpus:
        prefix += _pinning(spec.cpus)
    if user is not None:
        reads = (*spec.reads, *_programs(spec))
        prefix += user.prefix(spec.cwd or Path.cwd(), reads, spec.owns, spec.realtime, spec.latency, key=spec.key)
    limits = {name: level for name, level in spec.limits.items() if name != OPEN_FILES}
    if (files := spec.limits.get(OPEN_FILES)) is not None:
        prefix = ("/bin/sh", "-c", 'ulimit -n "$0" && exec "$@"', f"{files:.0f}", *prefix)
    group = LimitedGroup.create(token[:12], limits, journal) if limits else None
    try:
        argv = [*(group.entering() if group else ()), *prefix, *map(str, spec.argv)]
        entry = journal.record_process(spec.name, list(map(str, spec.argv)), token, spec.cwd)
        try:
            if user is not None:
                journal.update(entry, user=user.uid, owns=[str(path.absolute()) for path in spec.owns])
                for path in spec.owns:
                    hand_over(path, user.uid)
            popen = _launch(spec, argv, env)
        except BaseException:
            if user is not None:
                take_back(spec.owns, user.uid)
            journal.done(entry)
            raise
    except BaseException:
        if group is not None:
            group.remove()
        raise
    process = LocalProcess(spec, popen, entry, journal, group, user)
    try:
        journal.update(entry, pid=process.pid, start=process.start)
    except TrialFailure:
        process.stop(grace=1.0)
        raise
    process.write(b"\n")
    if not spec.input:
        process.close_input()
    return process


def _programs(spec: ProcessSpec) -> list[Path]:
    """Programs that the command line names: the first, what a shell or ``env`` runs."""
    return [Path(word) for word in map(str, spec.argv) if word.startswith("/") and os.access(word, os.X_OK)]


def _launch(spec: ProcessSpec, argv: Sequence[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    Path(spec.output).parent.mkdir(parents=True, exist_ok=True)
    gate = [word.format("" if spec.input else " </dev/null") for word in _GATE]
    with Path(spec.output).open("ab") as output:
        return subprocess.Popen(
            [*gate, *argv],
            stdin=subprocess.PIPE,
            bufsize=0,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=spec.cwd,
            start_new_session=True,
        )


NAME = "OPENBLAS_NUM_THREADS"
_own: set[str] = set()


def one_blas_thread() -> None:
    """One thread, unless the user said otherwise. OpenBLAS reads it when numpy is imported: call it before."""
    if NAME not in os.environ:
        os.environ[NAME] = "1"
        _own.add(NAME)


def inherited() -> Mapping[str, str]:
    """The environment without what this process set for itself."""
    return {name: value for name, value in os.environ.items() if name not in _own}
