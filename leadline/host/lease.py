"""One run at a time on a host: a lock that ends with its holder, however it ends. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leadline.host import procfs
from leadline.host.journal import owner
from leadline.model.errors import LeadlineError


class HostBusyError(LeadlineError):
    """Another leadline uses the host."""


class Lease:
    """Advisory lock (flock) on ``state_dir()/lease/<host>.lock``; the file says who holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        return self._handle is not None

    def try_acquire(self) -> bool:
        """Take it if it is free. Raises OSError when the file cannot be made."""
        if self._handle is not None:
            return True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        with contextlib.suppress(OSError):  # a full disk only costs the next one the holder's name
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps({**owner(), "time": time.time()}).encode(), 0)
        self._handle = handle
        return True

    def acquire(self, patience: float = 2.0) -> None:
        """Take it, waiting ``patience`` seconds for a holder that is just leaving. Raises HostBusyError."""
        deadline = time.monotonic() + patience
        while not self.try_acquire():
            if time.monotonic() >= deadline:
                raise HostBusyError(f"this host is in use by {self._describe()}; wait until it ends, or end it first")
            time.sleep(0.05)

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def holder(self) -> dict[str, Any]:
        """Who took it last: pid, start, command, time; empty if unknown."""
        try:
            record = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def holder_alive(self) -> bool:
        """Whether the process that took it last still runs."""
        last = self.holder()
        stat = procfs.read_stat(int(last.get("pid", 0)))
        return stat is not None and stat.alive and stat.start == last.get("start")

    def _describe(self) -> str:
        last = self.holder()
        if not last:
            return "another leadline"
        since = time.strftime("%H:%M:%S", time.localtime(float(last.get("time", 0))))
        return f"pid {last.get('pid')} ({last.get('command')}) since {since}"

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
