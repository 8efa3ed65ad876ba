"""The host of a study in guests: the knobs of a guest's kernel, set by the script of a fork and read back from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from leadline.host.base import HostKnobs
from leadline.host.facts import kernel_facts, read
from leadline.host.knobs import FAMILIES
from leadline.host.knobs.files import FileKnobs
from leadline.host.local import LocalHost
from leadline.model.errors import FailureClass, TrialFailure, UsageError
from leadline.model.guest import KERNEL, Guest, GuestKind
from leadline.model.knob import Level
from leadline.places.virtual.planned import BOOT_KNOBS, PlannedGuest

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
