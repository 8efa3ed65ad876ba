"""A guest as the plan of a study sees it: what its kernel has, and how large it is; nothing is booted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leadline import catalogue
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, plan_study
from leadline.host.base import Elsewhere
from leadline.host.knobs import every_knob
from leadline.model.guest import Guest, GuestKind
from leadline.model.knob import ApplyCost, Knob, Machine, Owner
from leadline.model.units import format_duration
from leadline.model.workload import Workload

BOOT = 900.0  # a boot and the start of a stack, emulated on a busy machine
_FORK = 180.0  # a saved guest goes on, sets its levels and sends its files
_A_SECOND = 60.0  # of load, emulated on a busy machine


def of_past(load: Workload) -> float:
    """Boot, start and warm-up."""
    return BOOT + _A_SECOND * load.ramp_up


def of_fork(seconds: float) -> float:
    """A fork whose load takes so many seconds of the guest's time."""
    return _FORK + _A_SECOND * seconds


def told(load: Workload, forks: bool) -> str:
    """The bounds of a study, as its plan says them."""
    past, trial = of_past(load), of_fork(load.steady + load.ramp_down)
    if forks:
        bound = f"its boot, start and warm-up take longer than {format_duration(past)}, a fork than"
        return f"A guest hangs, and is ended as a failed trial, where {bound} {format_duration(trial)}."
    return f"A guest hangs, and is ended as a failed trial, where it takes longer than {format_duration(past + trial)}."


BOOT_KNOBS = catalogue.load("guest")
_NOT_AUDITED = "In a guest the driver checks every response; the rows that it leaves in the database are not audited."


@dataclass(frozen=True)
class PlannedGuest(Elsewhere):
    """Implements ``leadline.host.base.PlannedHost``. A trial finds out what this kernel does not have."""

    name: GuestKind
    guest: Guest

    def knobs(self) -> Sequence[Knob]:
        machine = self.machine()
        return [knob.on(machine) for knob in (*every_knob(), *BOOT_KNOBS.values())]

    def cpus(self) -> Sequence[int]:
        return range(self.guest.cpus)

    def machine(self) -> Machine:
        return Machine(memory=self.guest.memory, cpus=self.guest.cpus)

    def writable(self, _name: str) -> str:
        """A guest is root's own machine."""
        return ""


def plan_guests(file: StudyFile, kind: GuestKind, service_knobs: list[Knob], idle_settings: bool = False) -> Planned:
    """The plan of a study in guests, which are all disposable. Services get their levels when they are started, before
    the guest is saved: also those that they could take while they run. Raises UsageError with file and line.
    """
    guest = PlannedGuest(kind, file.study.guest or Guest())
    started = [
        replace(knob, apply_cost=ApplyCost.RESTART)
        if knob.apply_cost is ApplyCost.LIVE and knob.owner is not Owner.DRIVER
        else knob
        for knob in service_knobs
    ]
    planned = plan_study(file, guest, started, disposable=True, idle_settings=idle_settings)
    bound = told(file.study.workload, forks=kind == "virtual-time")
    return replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, _NOT_AUDITED, bound)))
