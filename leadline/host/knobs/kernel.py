"""The scheduler's settings under /proc/sys/kernel. Source: Linux Documentation/admin-guide/sysctl/kernel.rst."""

from __future__ import annotations

from pathlib import Path

from leadline.host.knobs.files import KERNEL_MANUAL, FileKnobs, setting, sysctl_path
from leadline.model.knob import Knob, Risk


def _knobs() -> list[Knob]:
    return [
        setting(
            "kernel.sched_autogroup_enabled",
            "Whether every session is a group of its own to the scheduler (services and driver are sessions here)",
            1,
            (0, 1),
            source=KERNEL_MANUAL,
        ),
        setting(
            "kernel.sched_cfs_bandwidth_slice_us",
            "CPU time a core takes at once from a limited control group's quota",
            5000,
            (1, 10**6),
            "us",
            source="Linux Documentation/scheduler/sched-bwc.rst",
        ),
        setting(
            "kernel.numa_balancing",
            "Moves memory to the node that uses it: bits 1 balancing, 2 memory tiering",
            None,
            (0, 3),
            source=KERNEL_MANUAL,
        ),
        setting(
            "kernel.timer_migration",
            "Whether timers of idle CPUs move to busy ones",
            1,
            (0, 1),
            risk=Risk.CAUTION,
            source="Linux kernel/time/timer.c",
        ),
    ]


class KernelKnobs(FileKnobs):
    """``kernel.*``"""

    def __init__(self, root: Path) -> None:
        super().__init__(root, ((knob, sysctl_path(knob.name)) for knob in _knobs()))


FAMILY = KernelKnobs
