"""From a stored study to its conclusion: the trials' series are read, ``leadline.conclude`` does the rest."""

from __future__ import annotations

import polars as pl

from leadline.conclude.explanation import Stacks
from leadline.conclude.study import Series, conclude
from leadline.design.profiling import Place
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import StudyAnalysis
from leadline.observe.profile import CPU_SAMPLES, SAMPLES
from leadline.observe.table import read_series
from leadline.trial.slotmeasure import slots_of


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of what has been run so far."""
    return conclude(record, Series(slots_of(record), *profiles_of(record)))


def profiles_of(record: StudyRecord) -> tuple[dict[Place, Stacks], bool]:
    """Samples by stack in what was measured of each slot, or trial without slots, by the trial's number; whether they
    are of CPU time.
    """
    profiles, cpu_time = dict[Place, Stacks](), True
    for trial in record.trials if record.study.profile != "off" else ():
        path = trial.directory / "series" / "profile.parquet" if trial.directory else None
        if path is None or trial.state != TrialState.DONE or not path.exists():
            continue
        table = read_series(path, pl.col("metric").is_in([CPU_SAMPLES, SAMPLES]))
        cpu_time &= SAMPLES not in set(table["metric"])
        windows: dict[int | None, tuple[tuple[float, float], ...]] = {
            slot.index: ((slot.measured_from, slot.measured_until),)
            for slot in trial.slots
            if slot.measured_from is not None and slot.measured_until is not None
        }
        for slot, spans in (windows or {None: trial.under_load}).items():
            seconds = pl.col("time_ns") / 1e9 + 0.5
            inside = table.filter(pl.any_horizontal([seconds.is_between(*span) for span in spans]))
            stacks = inside.group_by("subject").agg(pl.col("value").sum())
            if stacks.height:
                profiles[trial.id, slot] = dict(zip(stacks["subject"], stacks["value"], strict=True))
    return profiles, cpu_time
