"""OpenSSH's client: its options, and what it says where it fails."""

from __future__ import annotations

import shutil
from pathlib import Path

from leadline.model.errors import UsageError, shortened

FAILED = 255  # exit code of the client itself


def options(interval: int = 3, count: int = 4) -> tuple[str, ...]:
    """It asks for no password, and ends after ``count`` signs of life without an answer, ``interval`` seconds apart."""
    alive = (f"ServerAliveInterval={interval}", f"ServerAliveCountMax={count}")
    return tuple(word for option in ("BatchMode=yes", "ConnectTimeout=10", *alive) for word in ("-o", option))


def shared(sockets: Path, carries: bool) -> tuple[str, ...]:
    """Options of a session on a connection that several share, or of the one that ``carries`` the others."""
    return ("-o", f"ControlMaster={'yes' if carries else 'no'}", "-o", f"ControlPath={sockets}/%C")


def require_client(title: str = "") -> None:
    """Raises UsageError where OpenSSH's client is not installed."""
    if shutil.which("ssh") is None:
        raise UsageError(f"{f'{title}: ' if title else ''}no program ssh on the path; install OpenSSH's client")


def last_line(said: bytes | str) -> str:
    """That is not empty, for a message; of nothing: empty."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return next((shortened(line.strip(), 800) for line in reversed(text.splitlines()) if line.strip()), "")
