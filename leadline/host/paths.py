"""Where leadline keeps what outlives a command, and the lock that lets one process at a time change it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leadline.model.errors import UsageError

OWN = "leadline-"  # what names of directories and mounts outside leadline's own places begin with


def _directory(own: str, shared: str, fallback: str) -> Path:
    base = os.environ.get(shared)
    home = os.environ.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - pathlib's version raises without a home
    chosen = os.environ.get(own) or (os.path.join(base, "leadline") if base else os.path.join(home, fallback))  # noqa: PTH118
    path = Path(chosen).absolute()
    try:
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be made: {error.strerror}; set {own} to a directory where you may write"
        ) from None
    return path


def cache_dir() -> Path:
    """Distributions and data snapshots: ``LEADLINE_CACHE``, else below ``XDG_CACHE_HOME``, else ``~/.cache/leadline``.

    Created on use. Raises UsageError.
    """
    return _directory("LEADLINE_CACHE", "XDG_CACHE_HOME", ".cache/leadline")


def state_dir() -> Path:
    """State of this host (undo journal): ``LEADLINE_STATE``, ``XDG_STATE_HOME`` or ``~/.local/state``.

    Created on use. Raises UsageError.
    """
    return _directory("LEADLINE_STATE", "XDG_STATE_HOME", ".local/state/leadline")


@contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path``; ``waiting`` is called once when another process holds it. Freed by the kernel when
    the holder dies. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
