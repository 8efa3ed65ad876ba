"""Ports on the loopback: free before a start, and afterwards held by the server that was started."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path

from leadline.host import procfs
from leadline.host.privilege import USERS

_LISTEN = "0A"  # the state in /proc/net/tcp, proc_pid_net(5)


def taken(port: int) -> str:
    """Why 127.0.0.1:``port`` cannot be listened on, in the kernel's words; empty if it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return str(error.strerror)
    return ""


def free() -> int:
    """A port of 127.0.0.1 that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(pids: Iterable[int], port: int) -> bool:
    """Whether one of these processes listens on ``port``: another server that answers there is not ours."""
    listening = _listening(port)
    sockets = {f"socket:[{inode}]" for inode in listening}
    users = set(listening.values()) & set(USERS)  # one of them tells where this root may not look at open files
    return bool(sockets) and any(sockets & _open_files(pid) or users & procfs.users(pid) for pid in pids)


def _listening(port: int) -> dict[str, int]:
    """Inode and owner of the sockets that listen on ``port``."""
    found: dict[str, int] = {}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            rows = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found[fields[9]] = int(fields[7])
    return found


def _open_files(pid: int) -> set[str]:
    directory = Path(f"/proc/{pid}/fd")
    found = set()
    try:
        for name in os.listdir(directory):  # noqa: PTH208 - thousands of descriptors under load
            try:
                found.add(os.readlink(directory / name))  # noqa: PTH115
            except OSError:
                continue
    except OSError:
        return set()
    return found
