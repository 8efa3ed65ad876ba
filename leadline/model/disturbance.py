"""What else a machine did under a load, and which trials that disturbed: one rule for conclusion, report and advice."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

BOUND = 0.10  # of all CPUs: what other programs may use before a trial counts as disturbed
OTHERS = "others_cpu"  # the name of the figure
DIFFERENCE = 0.05  # of all CPUs, above the median trial: enough to pass for an effect of a setting


@dataclass(frozen=True)
class FigureKind:
    """A figure of the machine: its unit, and whether it is a share 0..1."""

    unit: str
    summary: str

    @property
    def share(self) -> bool:
        return self.unit.startswith("share")


FIGURES: Mapping[str, FigureKind] = MappingProxyType(
    {
        "others_cpu": FigureKind(
            "share of all CPUs", "CPU of programs that are none of the study's, without kernel threads and interrupts"
        ),
        "steal": FigureKind("share of all CPUs", "CPU time that the hypervisor gave to others"),
        "cpu_pressure": FigureKind("share of the time", "some process waited for a CPU, the study's included"),
        "memory_pressure": FigureKind("share of the time", "some process waited for memory, the study's included"),
        "io_pressure": FigureKind("share of the time", "some process waited for a disk, the study's included"),
        "frequency": FigureKind("GHz", "mean clock of the CPUs, where the kernel tells it"),
        "others_disk": FigureKind("bytes/s", "read from and written to disks beyond what the study's processes did"),
        "driver_cpu_per_transaction": FigureKind(
            "ms",
            "CPU of the load driver for one transaction: its work is the same, so it tells how slow the machine is",
        ),
        "others_network": FigureKind("bytes/s", "received and sent on interfaces other than loopback"),
    }
)


@dataclass(frozen=True)
class MachineUse:
    """What else the machine did in a stretch of load. ``figures``: by a name of ``FIGURES``, as far as recorded.

    ``programs``: shares of all CPUs by the name of a program that is none of the study's, those that used most.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    programs: Mapping[str, float] = field(default_factory=dict)

    @property
    def taken(self) -> float | None:
        """Share of all CPUs that other programs and the hypervisor took; None where it was not recorded."""
        others = self.figures.get("others_cpu")
        return None if others is None else min(1.0, others + self.figures.get("steal", 0.0))


def disturbed(shares: Mapping[int, float]) -> tuple[int, ...]:
    """Trials, in their order, in which other programs used more than the bound, or much more than in the others.

    ``shares``: CPU of other programs in the steady state, 0..1 of all CPUs, by trial.
    """
    if not shares:
        return ()
    usual = statistics.median(shares.values())
    return tuple(trial for trial, share in sorted(shares.items()) if share > BOUND or share - usual > DIFFERENCE)
