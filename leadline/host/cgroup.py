"""Memory limits by control groups, version 1 or 2 (Documentation/admin-guide/cgroup-v1, cgroup-v2.rst)."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from leadline.host.files import LIMIT_FILES, memory_hierarchies
from leadline.host.journal import UndoJournal
from leadline.host.undo import CGROUP_PREFIX, Entry, remove_cgroup
from leadline.model.errors import UsageError

_ENTER = 10.0  # seconds that entering a group may take


@dataclass(frozen=True)
class Parent:
    """Where a control group with a memory limit can be made."""

    version: int
    path: Path

    @property
    def limit_file(self) -> str:
        return LIMIT_FILES[self.version]


def hierarchies() -> dict[int, Path]:
    """Mount points of the version 1 memory controller and of version 2, by version."""
    try:
        return memory_hierarchies(Path("/proc/self/mountinfo").read_text().splitlines())
    except OSError:
        return {}


def _own(version: int, mount: Path) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if (version == 2 and number == "0") or (version == 1 and "memory" in controllers.split(",")):
            return mount / path.lstrip("/")
    return mount


def memory_parent() -> tuple[Parent | None, str]:
    """The place for a limit, nearest to leadline's own group; or None and the reason."""
    mounts = hierarchies()
    if not mounts:
        return None, "no control groups are mounted"
    able = False
    for version, mount in sorted(mounts.items()):
        own_group = _own(version, mount)
        if not own_group.is_relative_to(mount) or not own_group.is_dir():
            own_group = mount
        for group in (own_group, *(above for above in own_group.parents if above.is_relative_to(mount))):
            capable = version == 1 or "memory" in _words(group / "cgroup.subtree_control")
            able = able or capable
            if capable and os.access(group, os.W_OK):
                return Parent(version, group), ""
    if able:
        return None, "leadline may not create control groups here (run as root, or delegate a group with memory)"
    return None, "the memory controller is not enabled for control groups on this host"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


class MemoryGroup:
    """A control group with a memory limit, in the journal until removed."""

    def __init__(self, path: Path, entry: Entry, journal: UndoJournal) -> None:
        self.path = path
        self._entry = entry
        self._journal = journal

    @classmethod
    def create(cls, token: str, limit: int, journal: UndoJournal) -> MemoryGroup:
        """A group limited to ``limit`` bytes. Raises UsageError saying why that is impossible here."""
        parent, reason = memory_parent()
        if parent is None:
            raise UsageError(f"a memory limit is impossible on this host: {reason}; leave the limit out")
        path = parent.path / f"{CGROUP_PREFIX}{token}"
        entry = journal.record("cgroup", str(path))
        group = cls(path, entry, journal)
        try:
            path.mkdir()
            (path / parent.limit_file).write_text(str(limit))
            # entering is allowed or not by rules of its own, so it is tried with a process that ends at once
            enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"', str(path)]
            subprocess.run(enter, check=True, capture_output=True, timeout=_ENTER)
        except (OSError, subprocess.SubprocessError) as error:
            group.remove()
            detail = error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
            raise UsageError(f"a memory limit of {limit} bytes is impossible on this host: {detail}") from None
        return group

    def entering(self) -> tuple[str, ...]:
        """What to put before a command so that it runs inside."""
        return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.path))

    def oom_kills(self) -> int:
        """How many processes inside the kernel has ended for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            words = _words(self.path / name)
            if "oom_kill" in words:
                return int(words[words.index("oom_kill") + 1])
        return 0

    def remove(self) -> None:
        """Remove it once empty; if the kernel refuses, the journal keeps it for ``restore``."""
        try:
            remove_cgroup(self.path)
        except OSError:
            return
        self._journal.done(self._entry)
