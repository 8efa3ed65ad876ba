"""Files of this host, and what its kernel tells in files: sockets, memory, mappings. See proc(5)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from leadline.host.base import PROC, Files
from leadline.host.privilege import USERS
from leadline.host.undo import CGROUP_PREFIX

_LISTENS, _ESTABLISHED, _UNCONNECTED = "0A", "01", "07"  # states in /proc/net/tcp and udp, proc_pid_net(5)
_CONNECTED = "03"  # SS_CONNECTED in /proc/net/unix
_CHUNK = 1 << 16


class LocalFiles:
    """Implements ``leadline.host.base.Files``. ``root`` stands for / in tests."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = "" if root == Path("/") else str(root)

    def read(self, path: str | Path) -> str:
        return self._bytes(path).decode(errors="replace")

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        contents = {}
        for path in paths:
            try:
                contents[path] = self._bytes(path)
            except OSError:
                continue
        return contents

    def names(self, directory: str | Path) -> list[str]:
        try:
            return os.listdir(f"{self._root}{directory}")  # noqa: PTH208 - names only, thousands under /proc
        except OSError:
            return []

    def link(self, path: str | Path) -> str:
        return os.readlink(f"{self._root}{path}")  # noqa: PTH115 - thousands of descriptors under load

    def cpu_ns(self, pid: int) -> int | None:
        """By its CPU clock, clock_getcpuclockid(3): /proc/PID/stat is in ticks of 10 ms."""
        try:
            return None if self._root else time.clock_gettime_ns((~pid << 3) | 2)
        except OSError:
            return None

    def _bytes(self, path: str | Path) -> bytes:
        descriptor = os.open(f"{self._root}{path}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts: list[bytes] = []
            while part := os.read(descriptor, _CHUNK):
                parts.append(part)
        finally:
            os.close(descriptor)
        return b"".join(parts)


def rows(files: Files, path: str) -> list[str]:
    """Lines of a file, none where it cannot be read."""
    return files.read_many([path]).get(path, b"").decode(errors="replace").splitlines()


# processes ---------------------------------------------------------------------------------------------------------


def field(files: Files, pid: int, name: str) -> list[str]:
    """The words of one line of /proc/PID/status, none where there is no such process (proc_pid_status(5))."""
    return next((line.split()[1:] for line in rows(files, f"{PROC}/{pid}/status") if line.startswith(f"{name}:")), [])


def hierarchies(mountinfo: Iterable[str], controller: str) -> dict[int, Path]:
    """Mount points of a version 1 controller and of version 2, by version."""
    mounts_by_version: dict[int, Path] = {}
    for line in mountinfo:
        head, _, right = line.partition(" - ")
        kind, options = right.split()[0], right.split()[-1].split(",")
        if kind == "cgroup2":
            mounts_by_version.setdefault(2, Path(head.split()[4]))
        elif kind == "cgroup" and controller in options:
            mounts_by_version.setdefault(1, Path(head.split()[4]))
    return mounts_by_version


@dataclass(frozen=True)
class GroupLimit:
    """A limit of control groups. ``files``: its file by their version. Levels are bytes, CPUs, or weights of 100."""

    controller: str
    files: Mapping[int, str]

    def text(self, version: int, level: float) -> str:
        """As the file takes it."""
        if self.files[2] == "cpu.max":
            quota = round(level * _PERIOD)
            return str(quota) if version == 1 else f"{quota} {_PERIOD}"
        return str(max(2, round(level * _SHARES)) if self.files[version] == "cpu.shares" else round(level))

    def level(self, version: int, text: str) -> float:
        """From the file. Raises ValueError."""
        if self.files[2] == "cpu.max":
            return int(text.split()[0]) / _PERIOD
        return round(int(text) / _SHARES) if self.files[version] == "cpu.shares" else int(text)


_PERIOD = 100_000  # microseconds in which a group has its quota: the kernel's default
_SHARES = 10.24  # of version 1 in a weight of version 2
GROUP_LIMITS: Mapping[str, GroupLimit] = {
    "memory": GroupLimit("memory", {1: "memory.limit_in_bytes", 2: "memory.max"}),
    "memory_high": GroupLimit("memory", {2: "memory.high"}),
    "swap": GroupLimit("memory", {2: "memory.swap.max"}),
    "cpu_quota": GroupLimit("cpu", {1: "cpu.cfs_quota_us", 2: "cpu.max"}),
    "cpu_weight": GroupLimit("cpu", {1: "cpu.shares", 2: "cpu.weight"}),
}


OPEN_FILES = "open_files"  # limit of a process by prlimit(2)


def open_files(files: Files, pid: int) -> int | None:
    """Files that a process may have open, at most; None where it is not told."""
    line = next((line for line in rows(files, f"{PROC}/{pid}/limits") if line.startswith("Max open files")), "")
    return int(line.split()[4]) if line and line.split()[4].isdigit() else None


def group_limit(files: Files, pid: int, name: str) -> float | None:
    """The limit of ``GROUP_LIMITS`` that leadline set for a process; None where it is in no group of leadline's.

    Raises LookupError where the group cannot be read.
    """
    limit = GROUP_LIMITS[name]
    mounts = hierarchies(rows(files, f"{PROC}/self/mountinfo"), limit.controller)
    for line in rows(files, f"{PROC}/{pid}/cgroup"):
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" else 1
        if version not in limit.files or (version == 1 and limit.controller not in controllers.split(",")):
            continue
        if version in mounts and Path(path).name.startswith(CGROUP_PREFIX):
            file = mounts[version] / path.lstrip("/") / limit.files[version]
            try:
                text = files.read(file)
                return None if text.split()[0] in ("max", "-1") else limit.level(version, text)
            except (OSError, ValueError) as error:
                raise LookupError(f"{file}: {error}") from error
    return None


def works_in(files: Files, pid: int, directory: Path) -> bool:
    """Whether it is the process's working directory."""
    try:
        return files.link(f"{PROC}/{pid}/cwd") == str(directory.resolve())
    except OSError:
        return False


def oom_kills(files: Files) -> int:
    """Processes the kernel has killed for want of memory since the boot; 0 where it does not tell."""
    counters = (line.split() for line in rows(files, f"{PROC}/vmstat"))
    return next((int(value) for name, value in counters if name == "oom_kill"), 0)


# sockets -----------------------------------------------------------------------------------------------------------


def listens(files: Files, pids: Iterable[int], port: int) -> bool:
    """Whether one of these processes listens on ``port``: another server that answers there is not ours."""
    return bool(listening(files, pids, port))


def listening(files: Files, pids: Iterable[int], port: int | None = None) -> set[int]:
    """The ports that these processes listen on, or ``port`` alone if it is one of them."""
    return _ports_of(files, pids, _sockets(files, port, _LISTENS))


def datagram_ports(files: Files, pids: Iterable[int]) -> set[int]:
    """The UDP ports at which these processes receive datagrams of anybody."""
    return _ports_of(files, pids, _sockets(files, None, _UNCONNECTED, "udp"))


def _ports_of(files: Files, pids: Iterable[int], entries: list[list[str]]) -> set[int]:
    owners = {int(row[7]) for row in entries} & set(USERS)  # one tells where this root may not look at open files
    opened_files: set[str] = set()
    users: set[int] = set()
    for pid in pids if entries else ():
        opened_files |= _open_files(files, pid)
        users |= owners & set(map(int, field(files, pid, "Uid"))) if owners else set()
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in entries
        if f"socket:[{row[9]}]" in opened_files or int(row[7]) in users
    }


def listener(files: Files, port: int) -> int | None:
    """The process that listens on ``port``, the first of them; None where this user sees none."""
    sockets = {f"socket:[{row[9]}]" for row in _sockets(files, port, _LISTENS)}
    if not sockets:
        return None
    pids = sorted(int(name) for name in files.names(PROC) if name.isdecimal())
    return next((pid for pid in pids if sockets & _open_files(files, pid)), None)


def established(files: Files, port: int) -> int:
    """TCP connections established with local ``port``: on the loopback, those that its listener accepted."""
    return len(_sockets(files, port, _ESTABLISHED))


def opened(files: Files, address: str, port: int) -> int:
    """TCP connections established to ``port`` of another host, by its IPv4 ``address``; also from sockets of IPv6."""
    hex_address = IPv4Address(address).packed[::-1].hex().upper()  # as the kernel writes it on a little-endian machine
    wanted = {f"{hex_address}:{port:04X}", f"0000000000000000FFFF0000{hex_address}:{port:04X}"}
    tables = (rows(files, f"{PROC}/net/{table}")[1:] for table in ("tcp", "tcp6"))
    fields = (line.split(maxsplit=10) for table in tables for line in table)
    return sum(row[2] in wanted and row[3] == _ESTABLISHED for row in fields)


def connected(files: Files, socket: Path) -> int:
    """Connections accepted on a Unix socket: those ends carry its path. Raises OSError."""
    fields = (line.split(maxsplit=7) for line in files.read(f"{PROC}/net/unix").splitlines()[1:])
    return sum(len(row) == 8 and row[7] == str(socket) and row[5] == _CONNECTED for row in fields)


def _sockets(files: Files, port: int | None, state: str, kind: str = "tcp") -> list[list[str]]:
    """Fields of the sockets of a state, on ``port`` or on any (proc_net(5))."""
    suffix = "" if port is None else f":{port:04X}"
    tables = (rows(files, f"{PROC}/net/{table}")[1:] for table in (kind, f"{kind}6"))
    fields = (line.split(maxsplit=10) for table in tables for line in table)
    return [row for row in fields if row[1].endswith(suffix) and row[3] == state]


def _open_files(files: Files, pid: int) -> set[str]:
    open_files = set()
    for name in files.names(f"{PROC}/{pid}/fd"):
        try:
            open_files.add(files.link(f"{PROC}/{pid}/fd/{name}"))
        except OSError:
            continue
    return open_files


def variable(files: Files, pids: Iterable[int], name: str, otherwise: str | None = None) -> str:
    """An environment variable of the newest process that has it, which has what a start script adds; ``otherwise``
    where none has it. Raises LookupError.
    """
    contents = files.read_many(f"/proc/{pid}/environ" for pid in sorted(pids, reverse=True))
    for content in contents.values():
        for entry in content.decode(errors="replace").split("\0"):
            if entry.startswith(f"{name}="):
                return entry.partition("=")[2]
    if contents and otherwise is not None:
        return otherwise
    raise LookupError(f"none of its processes has the variable {name}")
