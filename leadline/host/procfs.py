"""Processes as the kernel shows them under /proc, and how to end them safely. Standard library only.

Source of the fields: proc_pid_stat(5), proc_pid_environ(5), proc_sys_kernel(5).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

DISK, TMPFS, RAMDISK = "disk", "tmpfs", "ramdisk"
_IN_MEMORY = ("tmpfs", "ramfs")
_MEMORY_DEVICE = re.compile(r"/dev/z?ram\d+")


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo (proc_pid_mountinfo(5))."""

    point: str
    kind: str
    source: str
    options: frozenset[str] = frozenset()  # of the mount and of the file system


def mounts(file: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """What is mounted, oldest first. Raises OSError."""
    mounts_ = []
    for line in file.read_text().splitlines():
        head, _, right = line.partition(" - ")
        kind, source, *own = right.split()
        options = frozenset(",".join([head.split()[5], *own]).split(","))
        mounts_.append(Mount(_plain(head.split()[4]), kind, _plain(source), options))
    return mounts_


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def backing_file(device: str, blocks: Path = Path("/sys/block")) -> Path | None:
    """The file behind a loop device, None for any other device. ``device``: its name, ``loop0``."""
    try:
        return Path((blocks / device / "loop" / "backing_file").read_text().rstrip("\n"))
    except OSError:
        return None


def place_of(path: Path, root: Path = Path("/")) -> str:
    """``tmpfs``, ``ramdisk`` or ``disk``, by the file system that holds ``path``, its device and, for a loop device,
    where its file lies (proc_pid_mountinfo(5), loop(4)). Raises LookupError.
    """
    best = mount_of(path, root)
    if best.kind in _IN_MEMORY:
        return TMPFS
    if _MEMORY_DEVICE.fullmatch(best.source):
        return RAMDISK
    file = backing_file(Path(best.source).name, root / "sys/block") if best.source.startswith("/dev/loop") else None
    return RAMDISK if file is not None and place_of(file, root) != DISK else DISK


def mount_of(path: Path, root: Path = Path("/")) -> Mount:
    """What holds ``path``. Raises LookupError."""
    path = path.resolve()
    try:
        mounted = mounts(root / "proc/self/mountinfo")
    except OSError as error:
        raise LookupError(f"cannot tell the file system of {path}: {error}") from error
    best = None
    for mount in mounted:  # later mounts lie over earlier ones
        if path.is_relative_to(mount.point) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    if best is None:
        raise LookupError(f"no mounted file system holds {path}")
    return best


def scheduler_file(path: Path, root: Path = Path("/")) -> Path:
    """The file of the I/O scheduler of the block device that holds ``path``. Raises LookupError."""
    file = root / "sys/block" / Path(mount_of(path, root).source).name / "queue/scheduler"
    if not file.exists():
        raise LookupError(f"what holds {path} is no block device with an I/O scheduler ({file} does not exist)")
    return file


MARK = "LEADLINE_MARK"
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ProcessStat:
    """One line of /proc/PID/stat. CPU in seconds; ``start`` in clock ticks since boot names the process for good."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    user: float
    system: float
    ended_user: float  # of children that ended and were waited for
    ended_system: float
    start: int

    @property
    def alive(self) -> bool:
        return self.state not in ("Z", "X", "x")


def read_stat(pid: int) -> ProcessStat | None:
    """The process's state, None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - called for every process of the host
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    opening, closing = text.index("("), text.rindex(")")  # a name may hold spaces and brackets
    rest = text[closing + 2 :].split()
    user, system, ended_user, ended_system = (int(word) * _TICK for word in rest[11:15])
    return ProcessStat(
        pid,
        text[opening + 1 : closing],
        rest[0],
        int(rest[1]),
        int(rest[2]),
        int(rest[3]),
        user,
        system,
        ended_user,
        ended_system,
        int(rest[19]),
    )


def all_processes() -> dict[int, ProcessStat]:
    """Every process this process may see, by pid."""
    processes = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only, thousands of them
        if name.isdigit() and (stat := read_stat(int(name))) is not None:
            processes[stat.pid] = stat
    return processes


def carries_mark(pid: int, token: str) -> bool:
    """Whether the process was started with ``LEADLINE_MARK=token`` in its environment.

    A program may write over its environment (PostgreSQL's children show their titles there), so descent from a
    marked process counts as well: see ``family``.
    """
    return f"{MARK}={token}".encode() in _marks(pid)


def shows_nothing(pid: int) -> bool:
    """Whether the environment of a process is empty, as it is in the middle of an exec."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return not file.read(1)
    except OSError:
        return False


def users(pid: int) -> set[int]:
    """Real, effective, saved and file system user of a process; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
            row = next((line for line in file if line.startswith("Uid:")), "")
    except OSError:
        return set()
    return set(map(int, row.split()[1:]))


def runs_as(pid: int, user: int | None, token: str) -> bool:
    """Whether a process runs as a user that was made for ``token``'s, and neither it nor what started it as that user
    bears the mark of another.

    Who may not look at other users' processes (a root without CAP_SYS_PTRACE) knows them by this alone.
    """
    if user is None or user not in users(pid):
        return False
    while user in users(pid):
        if marks := _marks(pid):
            return f"{MARK}={token}".encode() in marks
        stat = read_stat(pid)
        pid = stat.parent if stat is not None else 0
    return True


def _marks(pid: int) -> list[bytes]:
    """Marks in the environment of a process; none where it is closed, or was written over."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return [word for word in file.read().split(b"\0") if word.startswith(f"{MARK}=".encode())]
    except OSError:
        return []


def family(table: dict[int, ProcessStat], seeds: Collection[int]) -> set[int]:
    """The seeds still alive, the groups and sessions they lead, and all descendants, zombies left out."""
    members = {pid for pid in seeds if pid in table}
    leaders = {pid for pid in seeds if pid > 1}
    members |= {stat.pid for stat in table.values() if stat.group in leaders or stat.session in leaders}
    children: dict[int, list[int]] = {}
    for stat in table.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    waiting = list(members)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in members:
                members.add(child)
                waiting.append(child)
    protected = ancestors(table)
    return {pid for pid in members if table[pid].alive and pid not in protected}


def ancestors(table: dict[int, ProcessStat]) -> set[int]:
    """This process and all it descends from: never to be ended by a search."""
    chain = {0, 1}
    pid = os.getpid()
    while pid not in chain:
        chain.add(pid)
        pid = table[pid].parent if pid in table else 1
    return chain


def works_in(pid: int, directory: str) -> bool:
    """Whether it is the process's working directory, or was until the directory was removed."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") in (directory, f"{directory} (deleted)")  # noqa: PTH115
    except OSError:
        return False


def marked(
    token: str, leader: tuple[int, int] | None = None, cwd: str | None = None, user: int | None = None
) -> set[int]:
    """All live processes that carry the mark or run as ``user``, which was made for them, their descendants, and those
    of ``leader`` (pid, start).

    Of a leader that is gone the session is searched: its members that work in ``cwd`` are the leader's, also those that
    wrote over the environment that held the mark (nginx). Without ``cwd``, or where the leader's number means another
    process by now, they are left out.
    """
    table = all_processes()
    seeds = {pid for pid in table if carries_mark(pid, token) or runs_as(pid, user, token)}
    if leader is not None:
        pid, start = leader
        now = table.get(pid)
        if now is not None and now.start == start:
            seeds.add(pid)
        elif now is None and cwd is not None:
            running = (stat for stat in table.values() if stat.session == pid and stat.start >= start)
            seeds |= {stat.pid for stat in running if works_in(stat.pid, cwd)}
    return family(table, seeds)


def send(pid: int, number: int, start: int | None = None) -> bool:
    """Signal a process, sure not to hit another one that got its number. False when it is gone.

    Raises PermissionError.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:
        handle = -1  # a kernel before 5.3
    try:
        now = read_stat(pid)
        if now is None or (start is not None and now.start != start):
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def end(find: Callable[[], Iterable[int]], grace: float, reap: Callable[[], object] | None = None) -> bool:
    """End all processes ``find`` returns: SIGTERM, after ``grace`` seconds SIGKILL, until it returns none.

    ``reap`` is called while waiting, for those that are this process's own children. True if SIGKILL was not
    needed. Raises PermissionError, and TimeoutError when some outlive SIGKILL by ten seconds.
    """
    signalled: set[int] = set()
    started = time.monotonic()
    gentle = True
    while True:
        if reap is not None:
            reap()
        alive = set(find())
        if not alive:
            return gentle
        waited = time.monotonic() - started
        if waited >= grace:
            gentle = False
            for pid in alive:
                send(pid, signal.SIGKILL)
            if waited >= grace + 10:
                raise TimeoutError(f"processes {sorted(alive)} outlive SIGKILL")
        else:
            for pid in alive - signalled:
                send(pid, signal.SIGTERM)
            signalled |= alive
        time.sleep(0.02 if waited < 1 else 0.1)


def boot_id() -> str:
    """A name of this boot, empty where the kernel has none."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        return file.read().strip()
    return ""
