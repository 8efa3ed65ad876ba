"""One run at a time on a host: a lock that ends with its holder, however it ends. Standard library only.

It is an abstract Unix socket (unix(7)): the kernel gives its name to one process at a time and takes it back when that
process ends. Any user can take it and nobody can break it: there is no file to remove, to replace by a link or to be
left behind, and the kernel itself says who listens. A network namespace has names of its own.

A watchdog has such a name, too, for as long as it lives: where its leadline died, nobody takes the lease before the
host is put back, however late the watchdog hears of it. Who resumes undoes the same journal, and does not wait.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import math
import os
import pwd
import select
import signal
import socket
import struct
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leadline.host import procfs
from leadline.host.journal import owner
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.received import from_json
from leadline.model.units import format_duration

_LOG = logging.getLogger(__name__)
_NAME = "leadline-host"
WAIT = "LEADLINE_WAIT"  # seconds that a run waits for a host in use
_LEAVING = 2.0  # seconds for a holder that is just leaving
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_MOST = 8192  # bytes of a holder's own words
_COMMAND = 1000  # characters of its command
_PATIENCE = 0.5  # seconds for them
_BACKLOG = 64
_LONGEST_WAIT = 604_800  # seconds, a week
_UNDOING = 60.0  # seconds for a watchdog that undoes what this one is to resume


class HostBusyError(LeadlineError):
    """Another leadline uses the host."""


class Lease:
    """The lease of this host, whatever the user and the state directory. ``root``: a directory that stands for / in
    tests is a host of its own. ``journal``: what its holder undoes, a watchdog (``undoes``) or whoever resumes, for
    whom that watchdog does not wait.
    """

    def __init__(self, root: Path = Path("/"), journal: Path | None = None, undoes: bool = False) -> None:
        self._journal, self._undoes = str(journal.absolute() if journal else ""), undoes
        place = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
        self.name = _NAME if root.resolve() == Path("/") else f"{_NAME}-{place}"
        self._undoing = f"{self.name}.undoes.{hashlib.sha256(self._journal.encode()).hexdigest()[:16]}."
        self._announced: socket.socket | None = None
        self._socket: socket.socket | None = None
        self._end = -1
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> bool:
        return self._socket is not None

    def try_acquire(self) -> bool:
        """Take it if it is free. Raises OSError when the kernel gives no socket."""
        if self._socket is not None:
            return True
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # not inherited by children
        try:
            listening.bind(f"\0{self.name}")
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        details = {**owner(), "time": time.time()}
        if self._undoes:
            details |= {"undoes": self._journal, "command": f"watchdog putting back {self._journal}"}
        words = json.dumps({**details, "command": str(details["command"])[:_COMMAND]}).encode()
        reading, self._end = os.pipe()
        self._socket = listening
        self._thread = threading.Thread(target=_tell, args=(listening, reading, words), name="lease", daemon=True)
        self._thread.start()
        return True

    def announce(self) -> None:
        """Of a watchdog: until it ends, only who resumes takes the lease. Raises OSError."""
        self._announced = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._announced.bind(f"\0{self._undoing}{os.getpid()}")
        self._announced.listen(_BACKLOG)

    def _watchdog_of_another(self) -> str:
        """The name of one that has something else to undo than who asks here; empty where there is none."""
        try:
            rows = Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
        except OSError:
            return ""
        names = (name.removeprefix("@") for row in rows for name in row.split(maxsplit=7)[7:])
        watchdogs = (name for name in names if name.startswith(f"{self.name}.undoes."))
        return next((name for name in watchdogs if not name.startswith(self._undoing)), "")

    def _take(self) -> bool:
        """Looked at twice: a run may begin and die between the first look and the taking."""
        if self._watchdog_of_another() or not self.try_acquire():
            return False
        if self._watchdog_of_another():
            self.release()
            return False
        return True

    def acquire(self, patience: float | None = None) -> None:
        """Take it, waiting ``patience`` seconds for it (LEADLINE_WAIT, else 2 for a holder that is just leaving).

        A longer wait is logged as a warning. Raises HostBusyError, UsageError.
        """
        began = last_asked = time.monotonic()
        silent = True
        deadline = began + (_patience() if patience is None else patience)
        while not self._take():
            if time.monotonic() >= last_asked:
                last_asked = time.monotonic() + 1.0
                last = self.holder()
                if self._journal and last.get("undoes") == self._journal:
                    procfs.send(int(last["pid"]), signal.SIGTERM)  # the kernel's word
                    deadline = max(deadline, began + _UNDOING)
            remaining = deadline - time.monotonic()
            if silent and remaining > 0 and time.monotonic() > began + _LEAVING:
                silent = False
                _LOG.warning(
                    "waiting up to %s for this host, in use by %s", format_duration(remaining), self._describe()
                )
            if remaining <= 0:
                raise HostBusyError(f"this host is in use by {self._describe()}; wait until it ends, or end it first")
            time.sleep(0.05)

    def check(self) -> None:
        """Take nothing. Raises HostBusyError where ``acquire`` would have to wait."""
        if self.holder_alive() or self._watchdog_of_another():
            raise HostBusyError(f"this host is in use by {self._describe()}")

    def release(self) -> None:
        if self._socket is None:
            return
        socket_, self._socket = self._socket, None
        os.close(self._end)
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        socket_.close()

    def holder(self) -> dict[str, Any]:
        """Who has it now: ``pid`` and ``uid`` by the kernel's word; ``start``, ``command`` and ``time`` by its own,
        where it answers. Empty when it is free.
        """
        return self._listener(self.name)

    def _listener(self, name: str) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(_PATIENCE)
            try:
                asking.connect(f"\0{name}")
            except ConnectionRefusedError:
                return {}
            except OSError:  # too many ask at once, or it is stopped
                return {"pid": 0}
            peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, _ = _CREDENTIALS.unpack(peer)
            stat = procfs.read_stat(pid)
            listener: dict[str, Any] = {"pid": pid, "uid": uid, "start": stat.start if stat else 0}
            with contextlib.suppress(OSError, ValueError):
                answer = from_json(_all_of(asking))
                if isinstance(answer, dict):
                    listener = {**answer, **listener}
        return listener

    def holder_alive(self) -> bool:
        """Whether another or this process has it."""
        return bool(self.holder())

    def _describe(self) -> str:
        last = self.holder() or self._listener(self._watchdog_of_another())
        if not last.get("pid"):
            return "another leadline"
        try:
            user = pwd.getpwuid(int(last["uid"])).pw_name
        except (KeyError, ValueError):
            user = str(last.get("uid"))
        words = last.get("command") or _command(int(last["pid"]))
        since = last.get("time")
        since_text = time.strftime(" since %H:%M:%S", time.localtime(since)) if isinstance(since, int | float) else ""
        return f"pid {last['pid']} of user {user} ({words}){since_text}"

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _patience() -> float:
    text = os.environ.get(WAIT, "")
    try:
        seconds = float(text or _LEAVING)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST_WAIT:
        raise UsageError(f"{WAIT}={text}: not a number of seconds from 0 to {_LONGEST_WAIT}")
    return seconds


def _tell(taken: socket.socket, end: int, words: bytes) -> None:
    """Say who holds it to everybody who connects, until the other end of the pipe ``end`` is closed."""
    taken.setblocking(False)
    try:
        while True:
            ready, _, _ = select.select([taken.fileno(), end], [], [])
            if end in ready:
                return
            with contextlib.suppress(OSError):
                asking, _ = taken.accept()
                with asking:
                    asking.setblocking(False)
                    asking.send(words)
    finally:
        os.close(end)


def _all_of(asking: socket.socket) -> bytes:
    content = b""
    while len(content) < _MOST and (part := asking.recv(_MOST)):
        content += part
    return content


def _command(pid: int) -> str:
    stat = procfs.read_stat(pid)
    return stat.name if stat else "unknown"
