"""Programs of a stack: the end of processes, what a log says, digests of directories, refusals."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from leadline.host.base import Files, Process
from leadline.host.files import works_in

LOOPBACK = "127.0.0.1"


class QueryError(Exception):
    """A database cannot be reached or refuses."""


def ended(process: Process, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds for the end of a process; whether it came."""
    end = time.monotonic() + timeout
    while process.alive():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def runs_in(files: Files, pid_file: Path, directory: Path) -> int | None:
    """The process that ``pid_file`` names in its first line, if it works in ``directory``."""
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if works_in(files, pid, directory) else None


def text_from(path: Path, offset: int, most: int = 4_000_000) -> str:
    """What was written to a log from ``offset`` on, its last ``most`` bytes if it is longer; empty without a file."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(offset, stream.seek(0, 2) - most))
            return stream.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def tail(path: Path, lines: int) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def directory_digest(directory: Path) -> str:
    """SHA-256 over names and contents of all files below ``directory``."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        total.update(str(path.relative_to(directory)).encode() + b"\0")
        if path.is_file():
            with path.open("rb") as stream:
                total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()
