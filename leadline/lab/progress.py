"""What a running study tells whoever watches it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from leadline.model.knob import Knob, Level
from leadline.model.naming import treatment_name
from leadline.model.plan import Plan, PlannedTrial
from leadline.model.record import LoadSecond, TrialRecord


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


def treatment_label(planned: PlannedTrial, plan: Plan, knobs: Mapping[str, Knob] | None = None) -> str:
    """``baseline``, ``sentinel`` or the levels that differ from the baseline, ``a=1, b=2``, with units where ``knobs``
    has the factor. Of a trial with slots its layout, with the levels it holds throughout.
    """
    if planned.treatment == plan.baseline and not planned.slots:
        return planned.role.value
    known = knobs or {}
    held = treatment_name(plan, planned.held(), lambda name, level: _written(name, level, known), baseline="")
    return ", ".join(filter(None, [planned.layout, held]))


def _written(name: str, level: Level, knobs: Mapping[str, Knob]) -> str:
    return knobs[name].format(level) if name in knobs else str(level)
