"""What a running study tells whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from leadline.layouts import layout_of, work
from leadline.model.knob import Knob, Level
from leadline.model.naming import treatment_name
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.record import LoadSecond, TrialRecord
from leadline.model.units import format_duration


class Watcher(Protocol):
    """Receives the events of a run. Calls come from the main thread, in order."""

    def message(self, text: str) -> None:
        """A line worth reading: provisioning, a skipped factor, a retry."""

    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None:
        """The run starts or goes on; ``done`` trials are finished."""

    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None: ...
    def step(self, name: str) -> None: ...
    def load(self, second: LoadSecond) -> None:
        """About once a second while the driver works."""

    def trial_ended(self, record: TrialRecord) -> None: ...


class SilentWatcher:
    """Says nothing."""

    def message(self, text: str) -> None: ...
    def study(self, study_id: int, plan: Plan, done: int, seconds_left: float) -> None: ...
    def trial(self, planned: PlannedTrial, attempt: int, label: str, seconds_left: float) -> None: ...
    def step(self, name: str) -> None: ...
    def load(self, second: LoadSecond) -> None: ...
    def trial_ended(self, record: TrialRecord) -> None: ...


@dataclass
class Progress:
    """How far a run is. ``together``: trials that run side by side; ``sharing``: those that share a start; ``left``:
    seconds as they were told at ``left_at``, in seconds of any clock; ``running``: whether a trial is.
    """

    trials: int = 0
    done: int = 0
    together: int = 1
    sharing: float = 1.0
    left: float = 0.0
    left_at: float = 0.0
    running: bool = False

    def begin(self, trials: int, done: int, together: int, left: float, at: float, sharing: float = 1.0) -> None:
        self.trials, self.done, self.together, self.sharing = trials, done, max(1, together), max(1.0, sharing)
        self.left, self.left_at, self.running = left, at, False

    def trial_begins(self, position: int, left: float, at: float) -> None:
        self.done = max(self.done, position // self.together * self.together)
        self.left, self.left_at, self.running = left, at, True

    def trial_ends(self, position: int) -> None:
        self.done, self.running = position + 1, False

    def seconds_left(self, at: float) -> float:
        """Negative where the estimate is used up. Trials that take longer than planned make those after them longer."""
        passed, others = at - self.left_at, -(-(self.trials - self.done) // self.together) - 1
        if not self.running or others <= 0:
            return self.left - passed
        return max(self.left - passed, others / self.sharing * passed)

    def left_text(self, at: float) -> str:
        seconds = self.seconds_left(at)
        if seconds >= 1:
            return f"about {format_duration(round(seconds))} left"
        return f"longer than planned: {self.done} of {self.trials} trials done" if seconds <= -1 else "about to end"


def together(plan: Plan) -> int:
    """Trials that run side by side."""
    return max(map(len, plan.together))


def sharing(plan: Plan) -> float:
    """Trials for each start of the stack: forks of one world share it."""
    return len(plan.trials) / work(plan)[1] if layout_of(plan).exact else 1.0


def treatment_label(planned: PlannedTrial, plan: Plan, knobs: Mapping[str, Knob] | None = None) -> str:
    """``baseline``, ``sentinel`` or the levels that differ from the baseline, ``a=1, b=2``, with units where ``knobs``
    has the factor. Of a trial with slots its layout, with the levels it holds throughout.
    """
    if planned.treatment == plan.baseline and not planned.slots:
        return planned.role.value
    knobs_ = knobs or {}
    levels = treatment_name(plan, planned.held(), lambda name, level: _written(name, level, knobs_), baseline="")
    return ", ".join(filter(None, [planned.layout, levels]))


def _written(name: str, level: Level, knobs: Mapping[str, Knob]) -> str:
    return knobs[name].format(level) if name in knobs else str(level)
