"""OpenSSH's client: its options, and what it says where it fails."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
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


def command(words: Sequence[str], script: str, sockets: Path, carries: bool = False, program: str = "ssh") -> list[str]:
    """The command line that runs a shell script at the host that ``words``, options included, name. ``sockets``: of the
    connection that it shares, or ``carries``.
    """
    return [program, *options(), *shared(sockets, carries), *words, "--", f"exec sh -c {shlex.quote(script)}"]


def hint(said: str, words: Sequence[str]) -> str:
    """What helps where the client could not log in, by its own words; empty where that is not known."""
    if "Permission denied" in said:
        return "; leadline asks for no password: give it a key (ssh-copy-id), or an agent that has one"
    if "Could not resolve" in said:
        return "; name an alias of ~/.ssh/config, or user@host[:port]"
    if "Host key verification failed" in said:
        return f"; log in once by hand (ssh {shlex.join(words)}) and check its key"
    return ""


def reason(code: int | None, said: bytes | str) -> str:
    """Why a command at another host failed."""
    return last_line(said) or f"exit code {code}"


def require_client(title: str = "") -> None:
    """Raises UsageError where OpenSSH's client is not installed."""
    if shutil.which("ssh") is None:
        raise UsageError(f"{f'{title}: ' if title else ''}no program ssh on the path; install OpenSSH's client")


def last_line(said: bytes | str) -> str:
    """That is not empty, for a message; of nothing: empty."""
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return next((shortened(line.strip(), 800) for line in reversed(text.splitlines()) if line.strip()), "")
