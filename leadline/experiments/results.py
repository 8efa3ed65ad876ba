"""From a stored study to its conclusion: the trials' series are read, ``leadline.conclude`` does the rest."""

from __future__ import annotations

import polars as pl

from leadline.conclude.explanation import Stacks, Statements
from leadline.conclude.study import Series, conclude
from leadline.conclude.waiting import Served, requests_of
from leadline.design.profiling import Place
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import StudyAnalysis
from leadline.observe.profile import CPU_SAMPLES, SAMPLES, WAITS
from leadline.observe.table import read_series
from leadline.observe.window import Recorded, pauses_of
from leadline.trial.slotmeasure import slots_of


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of what has been run so far."""
    return conclude(record, Series(slots_of(record), *profiles_of(record)))


def profiles_of(
    record: StudyRecord,
) -> tuple[dict[Place, Stacks], bool, dict[Place, Served], dict[Place, Statements]]:
    """Samples by stack in what was measured of each slot, or trial without slots, by the trial's number; whether they
    are of CPU time; the requests there, where all waits were recorded; and the database's statements.
    """
    profiles, cpu_time, served = dict[Place, Stacks](), True, dict[Place, Served]()
    statements = dict[Place, Statements]()
    for trial in record.trials if record.study.profile != "off" else ():
        path = trial.directory / "series" / "profile.parquet" if trial.directory else None
        if path is None or trial.state != TrialState.DONE or not path.exists():
            continue
        metrics = [CPU_SAMPLES, SAMPLES, *(WAITS if record.study.profile == "full" else ())]
        table = read_series(path, pl.col("metric").is_in(metrics))
        waits = table.filter(pl.col("metric").is_in(list(WAITS)))
        table = table.filter(~pl.col("metric").is_in(list(WAITS)))
        pauses = [(begin, end) for begin, end in (1e3 * pauses_of(path.parent)).T] if waits.height else []
        cpu_time &= SAMPLES not in set(table["metric"])
        windows: dict[int | None, tuple[tuple[float, float], ...]] = {
            slot.index: ((slot.measured_from, slot.measured_until),)
            for slot in trial.slots
            if slot.measured_from is not None and slot.measured_until is not None
        }
        recorded = Recorded(path.parent)
        for slot, spans in (windows or {None: trial.under_load}).items():
            seconds = pl.col("time_ns") / 1e9 + 0.5
            inside = table.filter(pl.any_horizontal([seconds.is_between(*span) for span in spans]))
            stacks = inside.group_by("subject").agg(pl.col("value").sum())
            if stacks.height:
                profiles[trial.id, slot] = dict(zip(stacks["subject"], stacks["value"], strict=True))
            ended = pl.any_horizontal([(pl.col("time_ns") / 1e9).is_between(*span) for span in spans])
            rows = (
                waits.filter(ended).select("metric", "subject", pl.col("time_ns") / 1e6, pl.col("value") / 1e3).rows()
            )
            if rows:
                lasted = [(WAITS[metric], subject, end - ms, end) for metric, subject, end, ms in rows]
                requests = requests_of(lasted, pauses)
                served[trial.id, slot] = Served(requests, sum(until - since for since, until in spans))
            if (trial.id, slot) in profiles and (of_place := recorded.statements(spans)):
                statements[trial.id, slot] = of_place
    return profiles, cpu_time, served, statements
