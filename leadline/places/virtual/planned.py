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
from leadline.places.virtual.bounds import told

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
