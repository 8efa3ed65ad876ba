"""Long runs: planned, run or gone on with, judged and reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.conclude.soak import SoakAnswer
from leadline.experiments.soak.alarms import Alarms, at_the_end, check_webhook
from leadline.experiments.soak.record import read_record
from leadline.experiments.soak.run import SoakEnded, SoakPlan, SoakRun, answer_of, plan_soak, soak_file, soak_times
from leadline.experiments.soak.run import record_path as _record_path
from leadline.places.testbed import LocalTestbed
from leadline.store.lab import Store
from leadline.store.labfile import SOAKS
from leadline.trial.progress import Watcher

__all__ = ["SoakAnswer", "SoakEnded", "SoakPlan", "plan", "report", "run", "so_far"]


def _place(lab: Path, watcher: Watcher | None) -> LocalTestbed:
    return LocalTestbed(lab / SOAKS, watcher)


def plan(subject: str, duration: str, lab: Path, overrides: Sequence[str] = ()) -> tuple[SoakPlan, list[str]]:
    """The plan of a soak of a scenario, a stack file or a study's baseline, and its dry run. Raises UsageError."""
    place = _place(lab, None)
    planned = plan_soak(soak_file(subject, overrides), soak_times(duration), place)
    return planned, planned.lines(place.directory)


def run(
    planned: SoakPlan,
    lab: Path,
    *,
    fresh: bool = False,
    alarm: str | None = None,
    webhook: str | None = None,
    watcher: Watcher | None = None,
) -> SoakEnded:
    """Run it, or go on with an unfinished one of the same subject. Raises UsageError, LeadlineError, RestoreError."""
    if webhook is not None:
        check_webhook(webhook)
    place = _place(lab, watcher)
    alarms = Alarms(planned.name, alarm, webhook, place.watcher.message)
    try:
        ended = SoakRun(planned, place, alarms).execute(fresh)
        alarms.fire(at_the_end(ended.answer))
    finally:
        alarms.close()
    return ended


def so_far(planned: SoakPlan, lab: Path) -> tuple[int, SoakAnswer]:
    """Number and verdict of the newest soak of this subject. Raises UsageError where there is none."""
    store = Store(lab / SOAKS, create=False)
    number = store.find(planned.name)
    return number, answer_of(store, number)


def report(lab: Path, number: int, out: Path) -> Path:
    """Write the page of a soak. Raises OSError."""
    from leadline.report.soak import build

    store = Store(lab / SOAKS, create=False)
    return build(store.load(number), read_record(_record_path(store, number)), answer_of(store, number), out)
