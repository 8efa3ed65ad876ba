"""What is mounted, and what lies behind a loop device. Standard library only: the watchdog loads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo (proc_pid_mountinfo(5))."""

    point: str
    kind: str
    source: str


def mounts(file: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """What is mounted, oldest first. Raises OSError."""
    found = []
    for line in file.read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, source, *_ = right.split()
        found.append(Mount(_plain(left.split()[4]), kind, _plain(source)))
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def backing_file(device: str, blocks: Path = Path("/sys/block")) -> Path | None:
    """The file behind a loop device, None for any other device. ``device``: its name, ``loop0``."""
    try:
        return Path((blocks / device / "loop" / "backing_file").read_text().rstrip("\n"))
    except OSError:
        return None
