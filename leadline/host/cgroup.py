"""Limits of memory and CPU by control groups, version 1 or 2 (Documentation/admin-guide/cgroup-v1, cgroup-v2.rst)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.host import files
from leadline.host.files import GROUP_LIMITS
from leadline.host.journal import UndoJournal
from leadline.host.undo import CGROUP_PREFIX, Entry, remove_cgroup
from leadline.model.errors import UsageError

_ENTER = 10.0  # seconds that entering a group may take


@dataclass(frozen=True)
class Parent:
    """Where a control group with a limit can be made."""

    version: int
    path: Path


def hierarchies(controller: str) -> dict[int, Path]:
    """Mount points of a version 1 controller and of version 2, by version."""
    try:
        return files.hierarchies(Path("/proc/self/mountinfo").read_text().splitlines(), controller)
    except OSError:
        return {}


def _own(version: int, mount: Path, controller: str) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if (version == 2 and number == "0") or (version == 1 and controller in controllers.split(",")):
            return mount / path.lstrip("/")
    return mount


def group_parent(controller: str = "memory") -> tuple[Parent | None, str]:
    """The place for a limit, nearest to leadline's own group; or None and the reason."""
    mounts = hierarchies(controller)
    if not mounts:
        return None, "no control groups are mounted"
    able = False
    for version, mount in sorted(mounts.items()):
        own_group = _own(version, mount, controller)
        if not own_group.is_relative_to(mount) or not own_group.is_dir():
            own_group = mount
        for group in (own_group, *(above for above in own_group.parents if above.is_relative_to(mount))):
            capable = version == 1 or controller in _words(group / "cgroup.subtree_control")
            able = able or capable
            if capable and os.access(group, os.W_OK):
                return Parent(version, group), ""
    if able:
        return None, f"leadline may not create control groups here (run as root, or delegate a group with {controller})"
    return None, f"the {controller} controller is not enabled for control groups on this host"


def lacks(name: str) -> str:
    """Why a limit of ``GROUP_LIMITS`` cannot be set here; empty where it can."""
    parent, reason = group_parent(GROUP_LIMITS[name].controller)
    if parent is None or parent.version in GROUP_LIMITS[name].files:
        return reason
    return f"control groups of version {parent.version} have no {GROUP_LIMITS[name].files[2]}"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


class LimitedGroup:
    """Control groups with limits, one in each hierarchy that has some of them, in the journal until removed."""

    def __init__(self, entries: Sequence[tuple[Path, Entry]], journal: UndoJournal) -> None:
        self._entries = entries
        self._journal = journal

    @classmethod
    def create(cls, token: str, limits: Mapping[str, float], journal: UndoJournal) -> LimitedGroup:
        """``limits``: by names of ``GROUP_LIMITS``. Raises UsageError saying why that is impossible here."""
        asked = " and ".join(f"{GROUP_LIMITS[name].files[2]} {level:.12g}" for name, level in limits.items())
        where: dict[int | str, Parent] = {}  # version 2 has one hierarchy, version 1 one for each controller
        for name in limits:
            parent, _ = group_parent(GROUP_LIMITS[name].controller)
            if why := lacks(name):
                raise UsageError(f"a limit of {asked} is impossible on this host: {why}; leave the limit out")
            assert parent is not None
            key = 2 if parent.version == 2 else GROUP_LIMITS[name].controller
            # what a group of version 2 may limit, those above it may limit, too
            where[key] = min(where.get(key, parent), parent, key=lambda each: len(each.path.parts))
        paths = [parent.path / f"{CGROUP_PREFIX}{token}" for parent in where.values()]
        group = cls([(path, journal.record("cgroup", str(path))) for path in paths], journal)
        try:
            for parent, path in zip(where.values(), paths, strict=True):
                path.mkdir()
                for name, level in limits.items():
                    limit = GROUP_LIMITS[name]
                    if where.get(2 if parent.version == 2 else limit.controller) is parent:
                        (path / limit.files[parent.version]).write_text(limit.text(parent.version, level))
            # entering is allowed or not by rules of its own, so it is tried with a process that ends at once
            subprocess.run([*group.entering(), "true"], check=True, capture_output=True, timeout=_ENTER)
        except (OSError, subprocess.SubprocessError) as error:
            group.remove()
            detail = error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
            raise UsageError(f"a limit of {asked} is impossible on this host: {detail}") from None
        return group

    def entering(self) -> tuple[str, ...]:
        """What to put before a command so that it runs inside."""
        enter = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"')
        return tuple(word for path, _ in self._entries for word in (*enter, str(path)))

    def oom_kills(self) -> int:
        """How many processes inside the kernel has ended for want of memory."""
        for path, _ in self._entries:
            for name in ("memory.events", "memory.oom_control"):
                words = _words(path / name)
                if "oom_kill" in words:
                    return int(words[words.index("oom_kill") + 1])
        return 0

    def remove(self) -> None:
        """Remove them once empty; if the kernel refuses, the journal keeps them for ``restore``."""
        for path, entry in self._entries:
            try:
                remove_cgroup(path)
            except OSError:
                continue
            self._journal.done(entry)
