"""Users of their own for the programs that leadline starts as root: one for each process, without any capability.

The user is dynamic: a number from ``USERS`` that nothing on this host uses. Files are handed over to it before the
start and taken back after the end. Where leadline is not root, programs run as its own user and nothing is handed over.
Standard library only, as the watchdog loads it.
"""

from __future__ import annotations

import ctypes
import functools
import grp
import json
import os
import pwd
import random
import shutil
import socket
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host import confine, procfs
from leadline.model.errors import UsageError

# No distribution gives these away, neither to people nor to services or containers (systemd, "Users, Groups, UIDs and
# GIDs": unused).
USERS = range(60706, 61184)
LONGEST = 24 * 3600.0  # seconds that a program may take that has no shorter time: Maven's downloads, a load
_SOON = 60.0  # seconds that a program may take which does next to nothing
_SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
_FOR_ROOT = ("TMPDIR", "TMP", "TEMP", "MAIL", "MAVEN_OPTS", "SSH_AUTH_SOCK", "SUDO_COMMAND")
_FOR_ROOT_XDG = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
_IPC_REMOVE = 0
# Numbers that were given away and that no process may run as yet: held by the kernel against other leadlines, for as
# long as this process lives or until so many more were given away.
_reserved: deque[socket.socket] = deque(maxlen=16)


@dataclass(frozen=True)
class User:
    """A user of its own. ``uid`` is the group's number too."""

    uid: int

    @property
    def name(self) -> str:
        return f"leadline-{self.uid}"

    def prefix(
        self,
        home: Path,
        reads: Iterable[Path] = (),
        owns: Iterable[Path] = (),
        realtime: bool = False,
        latency: bool = False,
        tied: bool = False,
        key: Path | None = None,
    ) -> tuple[str, ...]:
        """What to put before a command so that it runs as this user and reaches ``reads`` and ``owns``.

        ``realtime``: it may take the lowest real-time priority; ``latency``: it gets /dev/cpu_dma_latency open, its
        number in LEADLINE_CPU_LATENCY_FD; ``tied``: the kernel ends it when this process ends;
        ``key``: a file that only root may read, which it gets open, its number in LEADLINE_CLIENT_KEY_FD.

        Raises UsageError naming a directory that is closed to this user.
        """
        view = own_mounts()
        read = [path.absolute() for path in dict.fromkeys(reads) if path.exists()]
        reached = [*read, *(path.absolute() for path in (home, *owns) if path.exists())]
        for path in read:
            if path.is_file() and not confine.readable(path, self.uid):
                raise UsageError(
                    f"{path} is closed to other users, and what reads it runs as a user of its own "
                    f"(docs/concepts/hosts-and-undo.md); run chmod o+r {path}"
                )
        if not view:
            for path in reached:
                if (top := confine.closed(path.resolve(), self.uid)) is not None:
                    raise UsageError(
                        f"user {self.uid}, as whom this program runs, may not pass {top}, which holds {path}, and this"
                        " root may not mount; set LEADLINE_CACHE and --lab to directories that others may pass, or run"
                        f" chmod o+x {top}"
                    )
        order = {
            "uid": self.uid,
            "name": self.name,
            "home": str(home.absolute()),
            "paths": [str(path) for path in reached],
            "view": view,
            "unset": [*_FOR_ROOT, *_FOR_ROOT_XDG],
            "realtime": realtime,
            "latency": latency,
            "parent": os.getpid() if tied else 0,
            "key": str(key.absolute()) if key else "",
        }
        return (sys.executable, "-I", "-S", confine.__file__, json.dumps(order))


def new_user() -> User | None:
    """A user that nothing on this host uses and no other call is given; None where leadline is not root.

    Raises UsageError.
    """
    if os.geteuid() != 0:
        return None
    if not _mapped():
        raise UsageError(
            "leadline runs as root of a user namespace that has no other users, so services cannot have one of their"
            " own; run leadline as an ordinary user, or map users 0 to 65535"
        )
    used = {uid for pid in procfs.all_processes() for uid in procfs.users(pid)} | _owners()
    for uid in random.SystemRandom().sample(USERS, len(USERS)):
        if uid not in used and not _known(uid) and _reserve(uid):
            return User(uid)
    raise UsageError(f"all users from {USERS.start} to {USERS.stop - 1} are in use; end what runs as them")


def _reserve(uid: int) -> bool:
    """By an abstract socket's name, which the kernel gives once in a network namespace and takes back at any death."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0leadline-user-{uid}")
    except OSError:
        name.close()
        return False
    if len(_reserved) == _reserved.maxlen:
        _reserved.popleft().close()
    _reserved.append(name)
    return True


def user_of(pid: int) -> User | None:
    """The user of a process that leadline gave one to, None for others."""
    users = procfs.users(pid)
    return User(min(users)) if os.geteuid() == 0 and len(users) == 1 and min(users) in USERS else None


def run(argv: Sequence[str], reads: Iterable[Path] = (), owns: Iterable[Path] = (), home: Path | None = None, **more: object) -> subprocess.CompletedProcess[str]:  # fmt: skip # noqa: E501
    """``subprocess.run`` of a helper program as a user of its own, its output as text. ``owns``: what it may write to.

    Raises UsageError, OSError, subprocess.TimeoutExpired.
    """
    options: dict[str, object] = {"capture_output": True, "text": True, "check": False, **more}
    if options.get("timeout") is None:
        options["timeout"] = LONGEST
    user, owned = new_user(), [Path(path) for path in owns]
    if user is None:
        return subprocess.run(list(argv), **options)  # type: ignore[call-overload,no-any-return]
    if shutil.which(argv[0]) is None:  # behind a prefix it would only show as an exit code
        raise FileNotFoundError(2, "no such program", argv[0])
    prefix = user.prefix(home or Path("/"), [*reads, Path(argv[0])], owned)
    try:
        for path in owned:
            hand_over(path, user.uid)
        return subprocess.run([*prefix, *argv], **options)  # type: ignore[call-overload,no-any-return]
    finally:
        take_back(owned, user.uid)


def _known(uid: int) -> bool:
    """Whether a person, a group or a range for containers has this number."""
    for look in (pwd.getpwuid, grp.getgrgid):
        try:
            look(uid)
        except KeyError:
            continue
        return True
    for table in ("/etc/subuid", "/etc/subgid"):
        try:
            rows = Path(table).read_text().splitlines()
        except OSError:
            continue
        for row in rows:
            _, first, count = [*row.split(":"), "", ""][:3]
            if first.isdigit() and count.isdigit() and int(first) <= uid < int(first) + int(count):
                return True
    return False


def _owners() -> set[int]:
    """Owners of what lies in directories that everybody may write to, and of shared memory."""
    owners = {owner for owner, _ in _segments()}
    for directory in _SHARED:
        for path in _entries(directory):
            try:
                owners.add(path.lstat().st_uid)
            except OSError:
                continue
    return owners


def _entries(directory: str) -> list[Path]:
    try:
        return list(Path(directory).iterdir())
    except OSError:
        return []


def _segments() -> list[tuple[int, int]]:
    """Owner and id of every System V shared memory segment (proc_sysvipc(5))."""
    try:
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()
    except OSError:
        return []
    columns = rows[0].split()
    at, number = columns.index("uid"), columns.index("shmid")
    return [(int(row.split()[at]), int(row.split()[number])) for row in rows[1:]]


@functools.cache
def _mapped() -> bool:
    """Whether the numbers exist here: a user namespace may have fewer."""
    rows = [list(map(int, row.split())) for row in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= USERS.start and USERS.stop <= first + count for first, _, count in rows)


@functools.cache
def own_mounts() -> bool:
    """Whether a process of root's can have mounts of its own here."""
    order = {"uid": USERS.start, "name": "leadline", "home": "/", "paths": [], "view": True, "unset": []}
    argv = [
        sys.executable,
        "-I",
        "-S",
        confine.__file__,
        json.dumps({**order, "realtime": False, "latency": False, "parent": 0, "key": ""}),
        "true",
    ]
    return (
        subprocess.run(argv, capture_output=True, check=False, env={"PATH": os.defpath}, timeout=_SOON).returncode == 0
    )


# files -----------------------------------------------------------------------------------------------------------


def hand_over(path: Path, uid: int) -> None:
    """Make ``uid`` the owner of ``path`` and all below it that is this user's, or was such a user's whose end nobody
    saw; nothing where it does not exist.
    """
    _change(path, uid, {os.geteuid(), *USERS})


def take_back(paths: Iterable[Path], uid: int) -> None:
    """Once nothing runs as ``uid`` any more: its files are this user's again, and what it left in directories that
    everybody may write to, and of shared memory, is gone.
    """
    if os.geteuid() != 0 or uid not in USERS:
        return
    for path in paths:
        _change(path, 0, {uid})
    for path in [entry for directory in _SHARED for entry in _entries(directory)]:
        try:
            if path.lstat().st_uid != uid:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        except OSError:
            continue
    for owner, number in _segments():
        if owner == uid:
            ctypes.CDLL(None).shmctl(number, _IPC_REMOVE, None)


def _change(path: Path, to: int, of: set[int]) -> None:
    """By handles and without following links: another user has written there. A file of root's that has a second name
    is left alone: that may be anywhere.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # gone, a link, a socket
        return
    try:
        _change_one(handle, None, to, of)
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            for _, folders, files, inside in os.fwalk(".", dir_fd=handle, follow_symlinks=False):
                for name in (*folders, *files):
                    _change_one(inside, name, to, of)
    finally:
        os.close(handle)


def _change_one(handle: int, name: str | None, to: int, of: set[int]) -> None:
    try:
        status = os.fstat(handle) if name is None else os.lstat(name, dir_fd=handle)
        linked = status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode) and status.st_uid == 0
        if status.st_uid not in of or linked:
            return
        if name is None:
            os.fchown(handle, to, to)
        else:
            os.chown(name, to, to, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return


def give(path: Path, pid: int) -> None:
    """Make a file the user's of process ``pid``, where leadline gave it one."""
    if (user := user_of(pid)) is not None:
        hand_over(path, user.uid)
