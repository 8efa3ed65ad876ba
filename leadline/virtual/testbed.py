"""Guests as a testbed: studies that run in virtual machines, with the plan, store and life cycle of all others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from leadline.guest import kernels
from leadline.guest.boot import QEMU
from leadline.guest.machine import INSTALL
from leadline.host import here, kvm
from leadline.host.base import TrialHost
from leadline.host.knobs.files import memory_kib
from leadline.host.paths import cache_dir
from leadline.lab.planning import EMULATED, Planned
from leadline.lab.progress import Watcher
from leadline.lab.run import RunResult, StudyRun
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import MachineTestbed, RunOptions
from leadline.model.errors import LeadlineError, UsageError
from leadline.model.guest import KERNEL, Guest, GuestKind
from leadline.model.knob import Knob
from leadline.model.units import format_size
from leadline.stack.running import require_none_running
from leadline.virtual import instructions
from leadline.virtual.capture import RecordingHost
from leadline.virtual.guests import DEFAULT_KERNEL, Guests
from leadline.virtual.host import GuestHost
from leadline.virtual.job import MKFS
from leadline.virtual.planned import plan_guests
from leadline.virtual.system import GuestSystem, images
from leadline.virtual.worlds import Worlds

_BESIDE = 256 << 20  # bytes that QEMU needs beside the guest's memory
_EMULATED = {  # why guests in real time are counted as emulated
    "absent": "there is no /dev/kvm",
    "untried": "whether hardware virtualisation works has not been tried since this machine's start",
    "fails": "a test boot with hardware virtualisation failed",
}
_TIME = {
    "virtual-time": "virtual: counted instructions, 2 ns each; no caches, no disk, one CPU at a time",
    "vm": "real",
}


class GuestTestbed(MachineTestbed):
    """Guests of one kind."""

    def __init__(
        self,
        lab: Path,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
        kind: GuestKind = "virtual-time",
    ) -> None:
        super().__init__(lab, watcher, disposable, service_knobs)
        self._kind = kind
        self._local = RecordingHost(disposable=True)

    @property
    def host(self) -> TrialHost:
        """Of guests of the usual size."""
        return self._host(Guest())

    @cached_property
    def store(self) -> Store:
        require_none_running(self.directory, self._local)
        return Store(self.directory)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Also raises UsageError where this machine cannot run the guests, and for a kernel that it cannot have."""
        if shutil.which(QEMU) is None:
            raise UsageError(f"{file.where(('stack', 'host'))}: {QEMU} is not on the PATH; {INSTALL}")
        if file.study.guest and file.study.guest.disk and not MKFS.exists():
            raise UsageError(f"{file.where(('guest', 'disk'))}: {MKFS} is not there; install the package e2fsprogs")
        self._parallel(file)
        planned = plan_guests(file, self._kind, self.knobs(file), idle_settings)
        unchecked = [*planned.unchecked, *self._kernels_not_checked(file, planned)]
        if self._kind == "vm" and (why := _EMULATED.get(kvm.known())):
            note = f"{len(planned.plan.trials)} emulated boots and starts of about {EMULATED:g} s each: {why}."
            planned = replace(planned, plan=replace(planned.plan, notes=(*planned.plan.notes, note)))
        return replace(planned, unchecked=tuple(unchecked))

    def _kernels_not_checked(self, file: StudyFile, planned: Planned) -> Iterator[str]:
        """Sentences about kernels that cannot be looked up. Raises UsageError for those that there are not."""
        factor = next(
            (level_factor.levels for level_factor in planned.plan.factors if level_factor.name == KERNEL), None
        )
        if factor is None:
            names = [planned.settings.get(KERNEL, DEFAULT_KERNEL)]
            path = ("settings", KERNEL) if KERNEL in file.study.settings else ("guest", "kernel")
        else:
            names, path = list(factor), ("factors", KERNEL)
        for name in names:
            try:
                kernels.require_known(str(name), self.watcher.message)
            except UsageError as error:
                raise UsageError(f"{file.where(path)}: {error}") from None
            except LeadlineError as error:
                yield f"that kernel {name} can be had: {error}"

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        study = file.study
        work = self.store.directory.absolute() / "guests" / study.study
        shutil.rmtree(work, ignore_errors=True)  # of a leadline that was killed
        host = self._host(study.guest or Guest())
        if self._kind == "virtual-time":
            plugin = instructions.plugin(study.observe)
            host.about["guest.instructions"] = f"not counted: {plugin}" if isinstance(plugin, str) else "counted"
        guests = Guests(study, host, self._local, cache_dir() / "guests" / study.study, work)
        worlds = Worlds(work / "worlds", self._parallel(file), guests.warm, guests.fork, guests.remove)

        def end() -> None:
            self._local.ending = True
            worlds.close()

        host.end = end
        system = GuestSystem(planned.plan, planned.settings, self.knobs(file), host, guests, worlds)

        def opened(study_id: int) -> None:
            system.begun = images(self.store.load(study_id))
            options.opened(study_id)

        run = StudyRun(
            *(file, planned, self.store, host, system, self.watcher, host.guard),
            budget=options.budget,
            give_up=options.give_up,
            opened=opened,
            part=options.part,
        )
        try:
            return run.execute(options.fresh, options.go_on)
        finally:
            worlds.close(wait=True)
            shutil.rmtree(work, ignore_errors=True)

    def _host(self, guest: Guest) -> GuestHost:
        about = {
            "guest.qemu": here.run([QEMU, "--version"], timeout=30.0).stdout.partition("\n")[0],
            "guest.time": _TIME[self._kind],
            "guest.memory": format_size(guest.memory),
            "guest.cpus": str(guest.cpus),
        }
        return GuestHost(self._kind, guest, self._local, about)

    def _parallel(self, file: StudyFile) -> int:
        """Guests that run at the same time. Raises UsageError where there is no memory for one."""
        memory = (file.study.guest or Guest()).machine_memory
        free = memory_kib(Path("/"), "MemAvailable") * 1024
        if free < memory + _BESIDE:
            need = f"a guest takes {format_size(memory)} and {_BESIDE >> 20} MiB beside it"
            raise UsageError(
                f"{file.where(('guest', 'memory'))}: {need}, this machine has {free >> 20} MiB free; lower guest.memory"
            )
        return max(1, min(len(self._local.cpus()), free // (memory + _BESIDE)))
