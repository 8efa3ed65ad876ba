"""Becomes another user without any capability, then runs a program: ``python -I -S confine.py ORDER PROGRAM ...``.

``ORDER`` is JSON, see ``leadline.host.privilege``. Standard library only, and nothing of leadline: it runs as root.
Sources: capabilities(7), mount_namespaces(7), mount(2), prctl(2), setresuid(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS
_BIND, _RECURSIVE, _SLAVE, _DETACH = 4096, 16384, 1 << 19, 2
_BOUNDING_DROP, _NO_NEW_PRIVILEGES, _AMBIENT, _AMBIENT_CLEAR = 24, 38, 47, 4
_DEATH_SIGNAL = 1
_CAPABILITIES_3 = 0x20080522
_LATENCY = "/dev/cpu_dma_latency"
_libc = ctypes.CDLL(None, use_errno=True)


def _require(code: int, what: str) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [None if word == "" else os.fsencode(word) for word in (source, target, kind, data)]
    _require(_libc.mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def passable(path: Path, uid: int) -> bool:
    """Whether user ``uid``, who is in no group of others, may pass the directory. Raises OSError."""
    status = path.stat()
    return bool(status.st_mode & (0o100 if status.st_uid == uid else 0o001))


def readable(path: Path, uid: int) -> bool:
    """Whether user ``uid``, who is in no group of others, may read or run the file. Raises OSError."""
    status = path.stat()
    return bool(status.st_mode & (0o500 if status.st_uid == uid else 0o005))


def closed(path: Path, uid: int) -> Path | None:
    """The first directory above ``path`` that user ``uid`` may not pass. Raises OSError."""
    for parent in reversed(path.parents):
        if not parent.exists():
            return None
        if not passable(parent, uid):
            return parent
    return None


def _own_view(uid: int, name: str, home: str, paths: Sequence[str]) -> None:
    """Mounts of this process only: a name for the user, and a way to ``paths`` through directories that are closed to
    it, beside which nothing of these can be seen. Raises OSError.
    """
    _require(_libc.unshare(_NEW_MOUNTS), "unshare")
    _mount("", "/", "", _RECURSIVE | _SLAVE)
    _name_user(uid, name, home)
    umask = os.umask(0o066)  # directories on the way can be passed, whatever root's mask is
    wanted = {Path(os.path.normpath(text)) for path in paths for text in (path, os.path.realpath(path))}
    handles = {path: os.open(path, os.O_PATH) for path in sorted(wanted, key=lambda path: len(path.parts))}
    for path, handle in handles.items():
        while (top := closed(path, uid)) is not None:
            _mount("tmpfs", str(top), "tmpfs", 0, "size=1m,mode=711")
        if path.exists() and os.path.sameopenfile(handle, (descriptor := os.open(path, os.O_PATH))):
            os.close(descriptor)
            continue
        path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        if os.path.isdir(f"/proc/self/fd/{handle}"):  # noqa: PTH112
            path.mkdir(exist_ok=True)
        else:
            path.touch()
        _mount(f"/proc/self/fd/{handle}", str(path), "", _BIND | _RECURSIVE)
    for handle in handles.values():
        os.close(handle)
    os.umask(umask)


def _name_user(uid: int, name: str, home: str) -> None:
    """A line of its own in /etc/passwd: some programs end where their user has no name (initdb)."""
    passwd = Path("/etc/passwd")
    if not passwd.is_file():
        return
    text = passwd.read_text(errors="surrogateescape")
    shown_home = home.replace(":", "_").replace("\n", "_")
    _mount("tmpfs", "/tmp", "tmpfs", 0, "size=4m,mode=755")  # only for as long as it takes to bind the file
    file = Path("/tmp/passwd")
    file.write_text(f"{text.rstrip()}\n{name}:x:{uid}:{uid}::{shown_home}:/bin/false\n", errors="surrogateescape")
    file.chmod(0o644)
    handle = os.open(file, os.O_PATH)
    _mount(f"/proc/self/fd/{handle}", str(passwd), "", _BIND)
    os.close(handle)
    _require(_libc.umount2(b"/tmp", _DETACH), "umount /tmp")


def _drop(uid: int) -> None:
    """Raises OSError unless the process ends up as ``uid`` alone, without a capability and a way to one."""
    for capability in range(64):
        if _libc.prctl(_BOUNDING_DROP, capability, 0, 0, 0):
            break  # the kernel knows no more of them
    _libc.prctl(_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES_3, 0))
    _require(_libc.capset(header, ctypes.create_string_buffer(24)), "capset")
    _require(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "no_new_privs")


def _allow_realtime() -> None:
    """The lowest real-time priority, by the limit, or, for a root without CAP_SYS_RESOURCE, by having it already: who
    has it may set it again. Threads that are made begin without it.
    """
    try:
        resource.setrlimit(resource.RLIMIT_RTPRIO, (1, 1))
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def main(argv: Sequence[str]) -> None:
    order, program = json.loads(argv[0]), list(argv[1:])
    uid, home = int(order["uid"]), str(order["home"])
    env = {name: value for name, value in os.environ.items() if name not in order["unset"]}
    env |= {"HOME": home, "USER": order["name"], "LOGNAME": order["name"]}
    if order["realtime"]:
        _allow_realtime()
    for path, flags, name in (
        (_LATENCY * order["latency"], os.O_RDWR, "CPU_LATENCY"),
        (order["key"], os.O_RDONLY, "CLIENT_KEY"),
    ):
        with contextlib.suppress(OSError):  # the driver, which cannot open it, says what is wrong with it
            os.set_inheritable(handle := os.open(path, flags), True)
            env[f"LEADLINE_{name}_FD"] = str(handle)
    if order["view"]:
        _own_view(uid, order["name"], home, order["paths"])
    here = Path.cwd()
    _drop(uid)
    try:
        os.chdir(here)  # as the path is seen now
    except OSError:
        os.chdir("/")
    if order["parent"]:  # the kernel ends it when that process ends; one that ended before is seen by its number
        _require(_libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0), "death signal")
        if os.getppid() != order["parent"]:
            sys.exit(1)
    os.execvpe(program[0], program, env)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError) as error:
        print(f"leadline: {error}", file=sys.stderr)
        sys.exit(126)
