"""What every program of the stack is between its start and its stop: a context, a process, a log; live changes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from leadline.host.base import Host, Process, ProcessSpec
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import ApplyCost, Knob, Level
from leadline.model.owners import AtStart
from leadline.stack import local

_C = TypeVar("_C")
PATIENCE = 10.0  # seconds until a live change counts as not made


class Started(ABC, Generic[_C]):
    """The shared part of services; ``_C``: what ``configure`` is given."""

    title: ClassVar[str]

    def __init__(self) -> None:
        self._context: _C | None = None
        self._process: Process | None = None
        self._started = 0.0
        self._log_from = 0  # earlier starts may have written to the same file

    @property
    def context(self) -> _C:
        """Raises LeadlineError before ``configure``."""
        if self._context is None:
            raise LeadlineError(f"{self.title} has not been configured")
        return self._context

    @property
    def process(self) -> Process:
        """Raises LookupError unless it has been started."""
        if self._process is None:
            raise LookupError(f"{self.title} has not been started")
        return self._process

    @property
    @abstractmethod
    def log(self) -> Path:
        """Where its output goes."""

    def launch(self, host: Host, spec: ProcessSpec) -> Process:
        """Start it; what it says from now on is ``words``."""
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        if self._process is not None:  # it has ended by itself: its files are this user's again
            self._process.stop()
        self._started = time.monotonic()
        self._process = host.start(spec)
        return self._process

    def words(self) -> str:
        """What it said since the start."""
        return local.text_from(self.log, self._log_from)


class Changing(Started[_C], AtStart):
    """Those that own knobs, of which some can be changed while they run (apply cost live)."""

    @abstractmethod
    def knobs(self) -> Sequence[Knob]: ...

    @abstractmethod
    def read_back(self, name: str) -> Level:
        """See ``leadline.model.owners.KnobOwner``."""

    @abstractmethod
    def change(self, levels: Mapping[str, Level]) -> None:
        """Have what runs take these live levels. Raises TrialFailure: ``configuration``, UsageError."""

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Change live knobs of what runs, and wait until all are read back."""
        known = {knob.name: knob for knob in self.knobs()}
        if fixed := {name: level for name, level in levels.items() if known[name].apply_cost is not ApplyCost.LIVE}:
            super().apply(fixed)
        self.change(levels)
        deadline = time.monotonic() + PATIENCE
        while wrong := self._other(levels):
            if time.monotonic() > deadline or not self.process.alive():
                told = ", ".join(f"{name} {known[name].format(levels[name])} ({why})" for name, why in wrong.items())
                raise TrialFailure(FailureClass.CONFIGURATION, f"{self.title} did not take {told}")
            time.sleep(0.01)

    def _other(self, levels: Mapping[str, Level]) -> dict[str, str]:
        """What is read back in place of these levels, where it is not them."""
        found: dict[str, str] = {}
        for name, level in levels.items():
            try:
                if (seen := self.read_back(name)) != level:
                    found[name] = f"it has {seen}"
            except LookupError as error:
                found[name] = str(error)
        return found
