"""What every program of the stack is between its start and its stop: a context, a process, a log."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from leadline.host.base import Host, Process, ProcessSpec
from leadline.model.errors import LeadlineError
from leadline.model.owners import AtStart
from leadline.stack import local

_C = TypeVar("_C")


class Started(AtStart, ABC, Generic[_C]):
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
