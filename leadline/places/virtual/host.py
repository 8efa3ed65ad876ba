"""The host of a study in guests: the knobs of a guest's kernel, set by the script of a fork and read back from it;
a guest as the plan sees it: what its kernel has, and how large it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from leadline import catalogue
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, plan_study
from leadline.host.base import Elsewhere, HostKnobs
from leadline.host.facts import kernel_facts, read
from leadline.host.knobs import FAMILIES, every_knob
from leadline.host.knobs.files import FileKnobs
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.guest import KERNEL, Guest, GuestKind
from leadline.model.knob import ApplyCost, Knob, Level, Machine, Owner
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


_FACTS = (
    "/proc/sys/vm/*",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/swaps",
    "/sys/kernel/mm/transparent_hugepage/*",
    "/sys/kernel/mm/lru_gen/enabled",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
)


_HUGE_PAGES = "guest.transparent_hugepage"


class GuestHost(PlannedGuest):
    """Implements ``leadline.host.base.TrialHost``. Nothing of this machine is set: levels wait until a fork takes them.

    ``local`` holds this machine's lease and journal, for the guests are processes of it. ``end`` is called before what
    is left of them is put an end to.
    """

    def __init__(self, kind: GuestKind, guest: Guest, local: LocalHost, about: Mapping[str, str]) -> None:
        super().__init__(kind, guest)
        self._local, self.about = local, dict(about)
        self._families = [family(Path("/")) for family in FAMILIES]
        self._of = {knob.name: (family, knob) for family in self._families for knob in family.knobs()}
        self.releases: dict[str, str] = {}  # of a kernel: its name
        self._defaults: Path | None = None
        self._tree: Path | None = None
        self.wanted: dict[str, Level] = {}
        self.end: Callable[[], None] = lambda: None

    # what a guest says ---------------------------------------------------------------------------------------

    def settings(self) -> list[str]:
        """Files of a kernel, or patterns of them, that tell how it is set."""
        return [*_FACTS, *dict.fromkeys(str(family.path(knob)) for family, knob in self._of.values())]

    def told(self, tree: Path, defaults: bool = False) -> None:
        """The files of a guest's kernel, below ``tree``; ``defaults``: those of a boot without levels."""
        self._tree = tree
        if defaults:
            self._defaults = tree

    def files(self, levels: Mapping[str, Level]) -> dict[Path, str]:
        """What a fork writes where for these levels."""
        files = {}
        for name, level in levels.items():
            family, knob = self._of[name]
            files[family.path(knob)] = family.text(knob, level) if isinstance(family, FileKnobs) else str(level)
        return files

    def read_back(self, name: str) -> Level:
        """The level in the guest that told last. Raises UsageError for an unknown knob, LookupError."""
        if self._tree is None:
            raise LookupError(f"no guest has told {name} yet")
        if name in BOOT_KNOBS:
            return self._boot_level(name, self._tree)
        if name not in self._of:
            raise UsageError(f"a guest has no knob {name}")
        there = next(family for make in FAMILIES for family in [make(self._tree)] if name in _names(family))
        return there.read(next(knob for knob in there.knobs() if knob.name == name))

    def _boot_level(self, name: str, tree: Path) -> Level:
        """Empty for a parameter that was not given."""
        if name == KERNEL:
            release = read(tree / "proc/sys/kernel/osrelease")
            return self.releases.get(release, release)
        if name == _HUGE_PAGES:
            match = re.search(r"\[(\w+)\]", read(tree / "sys/kernel/mm/transparent_hugepage/enabled"))
        else:
            match = re.search(rf"\b{name.removeprefix('guest.')}=(\S+)", read(tree / "proc/cmdline"))
        return match[1] if match else ""

    # a host of trials ----------------------------------------------------------------------------------------

    def held(self) -> AbstractContextManager[object]:
        return self._local.held()

    def guard(self, dead_man: float) -> AbstractContextManager[object]:
        return self._local.guard(dead_man)

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Remembered for the next fork. Raises TrialFailure(configuration) for what this kernel does not have."""
        for name in levels:
            try:
                self.read_back(name)
            except LookupError as error:
                raise TrialFailure(FailureClass.CONFIGURATION, str(error)) from error
        self.wanted = dict(levels)

    def busy(self, seconds: float) -> float:
        return self._local.busy(seconds)

    def drop_page_cache(self) -> None:
        """A guest's page cache is that of its world."""

    def swap_off(self) -> None:
        """A guest has no swap."""

    def restore(self) -> Sequence[str]:
        """End what is left of the guests; this machine is as it was."""
        self.end()
        self._tree = self._defaults
        return self._local.restore()

    def temporary(self) -> Mapping[str, tuple[str, str]]:
        return self._local.temporary()

    def facts(self) -> Mapping[str, str]:
        """Of the guests; of the machine below them what bears on how fast they run."""
        below = self._local.facts()
        below_facts = {
            f"below.{name}": below[name] for name in ("machine", "cpu.model", "cpu.usable", "kernel.release")
        }
        return {**self.about, **below_facts}

    def guest_facts(self) -> Mapping[str, str]:
        """Of the guest that told last. Raises LookupError."""
        if self._tree is None:
            raise LookupError("no guest has told anything yet")
        return {**self.about, **kernel_facts(self._tree)}


def _names(family: HostKnobs) -> set[str]:
    return {knob.name for knob in family.knobs()}
