"""Processes that the kernel killed for want of memory, as its log tells (mm/oom_kill.c). Standard library only."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass

from leadline.host.undo import CGROUP_PREFIX

_EVENT = re.compile(r"oom-kill:constraint=(\w+).*?(?:,oom_memcg=([^,]*))?,task_memcg=.*?,pid=(\d+)")
_KILLED = re.compile(r"[Kk]illed process (\d+) .*?anon-rss:(\d+)kB(?:, file-rss:(\d+)kB)?")
_RECORD = 8192  # bytes of a record, at most (kernel/printk: CONSOLE_EXT_LOG_MAX)
_MOST_RECORDS = 1 << 20


@dataclass(frozen=True)
class OomKill:
    """``group``: the control group whose limit was reached; empty where the machine had no memory left."""

    pid: int
    group: str
    resident_bytes: int

    @property
    def in_group_of_leadline(self) -> bool:
        """Whether the limit is one that a study gave."""
        return self.group.rpartition("/")[2].startswith(CGROUP_PREFIX)


def parse(text: str) -> list[OomKill]:
    """Of the log's text, the oldest first."""
    groups: dict[int, str] = {}
    kills = []
    for line in text.splitlines():
        if event := _EVENT.search(line):
            groups[int(event[3])] = event[2] or "" if event[1] == "CONSTRAINT_MEMCG" else ""
        elif killed := _KILLED.search(line):
            pid = int(killed[1])
            resident = (int(killed[2]) + int(killed[3] or 0)) * 1024
            kills.append(OomKill(pid, groups.pop(pid, ""), resident))
    return kills


def oom_kills() -> list[OomKill]:
    """Since the boot, as far back as the log goes; none where this user may not read it."""
    records = []
    with suppress(OSError):
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            for _ in range(_MOST_RECORDS):
                try:
                    records.append(os.read(log, _RECORD))
                except BrokenPipeError:  # the log was faster
                    continue
        finally:
            os.close(log)
    return parse(b"".join(records).decode(errors="replace"))
