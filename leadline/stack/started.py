"""What every program of the stack is between its start and its stop: a context, a process, a log; live changes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from leadline.host.base import Host, Process, ProcessSpec
from leadline.model.blame import Event, Evidence, blamed, unanswered
from leadline.model.errors import LeadlineError
from leadline.model.knob import ApplyCost, AtStart, Knob, Level
from leadline.stack import ends
from leadline.stack.probe import PROMPT

_C = TypeVar("_C")
_PATIENCE = 10.0  # seconds until a live change counts as not made, at least


class Started(ABC, Generic[_C]):
    """The shared part of services; ``_C``: what ``configure`` is given."""

    title: ClassVar[str]

    def __init__(self) -> None:
        self._context: _C | None = None
        self._process: Process | None = None
        self._started = 0.0
        self._took: float | None = None  # seconds to the first right answer of this start
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
        self._started, self._took = time.monotonic(), None
        self._process = host.start(spec)
        return self._process

    def is_ready(self) -> float:
        """It answers as it should: seconds since its start."""
        self._took = time.monotonic() - self._started
        return self._took

    @property
    def prompt(self) -> float:
        """Seconds that an answer may take: as long as its start took, or has taken so far, since a first request may
        compile a page.
        """
        return max(PROMPT, time.monotonic() - self._started if self._took is None else self._took)

    @property
    def patience(self) -> float:
        """Seconds until a live change counts as not made: one may start an application anew."""
        return max(_PATIENCE, 2 * (self._took or 0.0))

    def words(self) -> str:
        """What it said since the start."""
        return ends.text_from(self.log, self._log_from)


class Changing(Started[_C], AtStart):
    """Those that own knobs, of which some can be changed while they run (apply cost live)."""

    @abstractmethod
    def knobs(self) -> Sequence[Knob]: ...

    @abstractmethod
    def read_back(self, name: str) -> Level:
        """See ``leadline.model.knob.KnobOwner``."""

    @abstractmethod
    def change(self, levels: Mapping[str, Level]) -> None:
        """Have what runs take these live levels. Raises TrialFailure, UsageError."""

    def apply(self, levels: Mapping[str, Level]) -> None:
        """Change live knobs of what runs, and wait until all are read back."""
        knobs = {knob.name: knob for knob in self.knobs()}
        if fixed := {name: level for name, level in levels.items() if knobs[name].apply_cost is not ApplyCost.LIVE}:
            super().apply(fixed)
        self.change(levels)
        deadline = time.monotonic() + self.patience
        while wrong := self._other(levels):
            if not self.process.alive():
                end = Evidence(Event.ENDED, exit_code=self.process.exit_code(), ready=True)
                raise blamed(end, f"{self.title} died while its levels were changed: {end.how}", self.words()[-4_000:])
            if time.monotonic() > deadline:
                level_texts = {name: knobs[name].format(levels[name]) for name in wrong}
                differences = ", ".join(f"{name} {level_texts[name]} ({why})" for name, (why, _) in wrong.items())
                # One that answers, and has another level, has not taken it.
                late = any(event is Event.LATE for _, event in wrong.values())
                event = Event.LATE if late else Event.REFUSED
                raise blamed(Evidence(event), f"{self.title} did not take {differences}")
            time.sleep(0.01)

    def _other(self, levels: Mapping[str, Level]) -> dict[str, tuple[str, Event]]:
        """What is read back in place of these levels, where it is not them, and how that counts."""
        other: dict[str, tuple[str, Event]] = {}
        for name, level in levels.items():
            try:
                if (back := self.read_back(name)) != level:
                    other[name] = (f"it has {back}", Event.REFUSED)
            except LookupError as error:
                other[name] = (str(error), unanswered(error))
        return other
