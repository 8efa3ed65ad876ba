"""Guests as a testbed: what is planned here runs in virtual machines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from leadline.host.base import TrialHost
from leadline.lab.planning import Planned
from leadline.lab.progress import SilentWatcher, Watcher
from leadline.lab.run import RunResult
from leadline.lab.stacks import study_catalogue
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import RunOptions
from leadline.model.errors import UsageError
from leadline.model.guest import GuestKind
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord
from leadline.virtual.planned import plan_guests


class GuestTestbed:
    """Guests of one kind. ``service_knobs``: of every study, in place of those of the stack it names."""

    def __init__(
        self,
        lab: Path,
        watcher: Watcher | None = None,
        disposable: bool = False,
        service_knobs: Sequence[Knob] | None = None,
        kind: GuestKind = "virtual-time",
    ) -> None:
        self.watcher = watcher or SilentWatcher()
        self.disposable = disposable
        self.directory = lab
        self._service_knobs = service_knobs
        self._kind = kind

    @property
    def host(self) -> TrialHost:
        raise UsageError(_NOT_YET.format(kind=self._kind))

    @cached_property
    def store(self) -> Store:
        return Store(self.directory)

    def knobs(self, file: StudyFile) -> list[Knob]:
        return study_catalogue(file) if self._service_knobs is None else list(self._service_knobs)

    def now(self) -> float:
        return time.monotonic()

    def plan(self, file: StudyFile, idle_settings: bool = False) -> Planned:
        return plan_guests(file, self._kind, self.knobs(file), idle_settings)

    def run(self, file: StudyFile, _planned: Planned, _options: RunOptions) -> RunResult:
        """Raises UsageError."""
        raise UsageError(f"{file.where(('stack', 'host'))}: {_NOT_YET.format(kind=self._kind)}")

    def resume(self, created: float, studies: Sequence[StudyRecord]) -> None:
        """Nothing has been run."""


_NOT_YET = "this version plans studies on {kind} (--dry-run) and simulates them (--simulate), and does not run them"
