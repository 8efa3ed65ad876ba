"""Testbeds, where studies are planned and run: this host, or another place of this room."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, cast

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, plan_study
from leadline.checks.subject import study_catalogue
from leadline.host.base import Host, TrialHost
from leadline.host.paths import cache_dir
from leadline.host.registry import HOSTS
from leadline.host.textfile import usual_mask
from leadline.model.errors import UsageError
from leadline.model.guest import GuestKind
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord
from leadline.model.study import MachineKind, StackChoice, Study
from leadline.places.command import CommandSystem
from leadline.places.pool.base import Pool, SshHosts, read_pool
from leadline.stack.running import require_none_running
from leadline.store.lab import Store
from leadline.trial.progress import SilentWatcher, Watcher
from leadline.trial.run import GIVE_UP, Part, RunResult, StudyRun
from leadline.trial.system import (
    System,
)


@dataclass(frozen=True)
class RunOptions:
    """``fresh``: not the unfinished run of the same study. ``go_on``: the number of the stored study to go on with.

    ``budget``: seconds, in place of the study's; so many trials in a row that fail the same way end it (``give_up``).
    ``opened`` is told the number under which the study is stored, before its first trial. ``part``: as of ``StudyRun``.
    """

    fresh: bool = False
    go_on: int | None = None
    budget: float | None = None
    give_up: int = GIVE_UP
    opened: Callable[[int], None] = lambda _study_id: None
    part: Part | None = None


class Testbed(Protocol):
    """A host, the lab that keeps its studies, and somebody who watches them."""

    disposable: bool

    @property
    def host(self) -> TrialHost: ...
    @property
    def directory(self) -> Path:
        """Of the lab, which may be absent yet."""

    @property
    def store(self) -> Store:
        """The lab, made if it is absent."""

    @property
    def watcher(self) -> Watcher: ...
    def knobs(self, file: StudyFile) -> list[Knob]:
        """Of the study's services. Raises UsageError with file and line."""

    def now(self) -> float:
        """Seconds that never go back."""

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        """Check the study and make its plan; changes nothing. Raises UsageError with file and line."""

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        """Run what is left of the study. Raises as ``StudyRun.execute``."""

    def resume(self, created: float, studies: Sequence[StudyRecord]) -> None:
        """What is run next goes on from these, begun at ``created`` (unix seconds)."""


class MachineTestbed:
    """What testbeds on real machines share. ``service_knobs``: of every study, in place of those of its stack."""

    def __init__(
        self,
        lab: Path,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
    ) -> None:
        self.watcher = watcher or SilentWatcher()
        self.disposable = disposable
        self.directory = lab
        self._service_knobs = service_knobs

    def knobs(self, file: StudyFile) -> list[Knob]:
        return study_catalogue(file) if self._service_knobs is None else list(self._service_knobs)

    def now(self) -> float:
        return time.monotonic()

    def resume(self, created: float, studies: Sequence[StudyRecord]) -> None:
        """Real time goes on by itself."""


class LocalTestbed(MachineTestbed):
    """A host of one kind."""

    def __init__(
        self,
        lab: Path,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
        kind: MachineKind = "local",
    ) -> None:
        super().__init__(lab, watcher, disposable, service_knobs)
        whole = lab.absolute()
        there = next(parent for parent in (whole, *whole.parents) if parent.exists())
        # Its facts tell of the file systems of the cache and of the lab, also of one that is yet to be made.
        self.places = {"cache": cache_dir(), "lab": there}
        self.host = HOSTS[kind](disposable=disposable, directories=self.places)

    def knobs(self, file: StudyFile) -> list[Knob]:
        """Of its services; this host has the settings that it declares from now on."""
        try:
            self.host.declare(file.study.host_knobs)
        except UsageError as error:
            raise UsageError(f"{file.where(('knobs',))}: {error}") from None
        return super().knobs(file)

    @cached_property
    def store(self) -> Store:
        usual_mask()
        require_none_running(self.directory, self.host)
        return Store(self.directory)

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        return plan_study(file, self.host, self.knobs(file), self.disposable, idle_settings)

    def run(self, file: StudyFile, planned: Planned, options: RunOptions) -> RunResult:
        system = _system(file.study, self.host, self.store.directory)
        run = StudyRun(
            *(file, planned, self.store, self.host, system, self.watcher, self.host.guard),
            budget=options.budget,
            give_up=options.give_up,
            opened=options.opened,
            part=options.part,
        )
        return run.execute(options.fresh, options.go_on)


def _system(study: Study, host: Host, lab: Path) -> System:
    """What runs its trials."""
    if study.command:
        return CommandSystem(study, study.command, host, lab)
    from leadline.places.real import RealSystem, ServedSystem  # their libraries take seconds to import

    return RealSystem(study, host, lab) if study.stack.url is None else ServedSystem(study, host, lab)


def open_testbed(
    stack: StackChoice | None,
    lab: Path,
    watcher: Watcher | None = None,
    disposable: bool = False,
    services: Sequence[Knob] | None = None,
) -> Testbed:
    """This host where no stack is given. ``services``: as ``service_knobs`` of ``MachineTestbed``."""
    if stack is not None and stack.ssh_hosts:
        from leadline.places.ssh.testbed import FarTestbed

        return FarTestbed(lab, stack.ssh_hosts, watcher, disposable)
    if stack is not None and stack.in_guest:
        from leadline.places.virtual.testbed import GuestTestbed

        return GuestTestbed(lab, watcher, disposable, services, cast(GuestKind, stack.host))
    kind = "local" if stack is None else cast(MachineKind, stack.host)
    return LocalTestbed(lab, watcher, disposable, services, kind)


def open_node(
    stack: StackChoice, lab: Path, kernels: Sequence[str], watcher: Watcher | None, disposable: bool
) -> Testbed:
    """A host of a pool, to a job on it; ``kernels``: releases that its study asks for."""
    if stack.ssh_hosts:
        return open_testbed(stack, lab, watcher, disposable)
    from leadline.places.pool.testbed import NodeTestbed

    return NodeTestbed(lab, kernels, watcher, disposable)


def open_pool(word: str) -> Pool:
    """``slurm``, ``slurm:PARTITION``, ``slurm:FILE.yaml`` or ``ssh:FILE.yaml``. Raises UsageError."""
    from leadline.places.pool.slurm import SlurmPool
    from leadline.places.pool.ssh import SshPool

    pool = read_pool(word)
    return SshPool(pool, word) if isinstance(pool, SshHosts) else SlurmPool(pool, word)
