"""From a stored study to its conclusion: the trials' series are read, ``leadline.conclude`` does the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from leadline.conclude.explanation import ProfiledPart, Stacks, Statements, cpu_of
from leadline.conclude.study import Series, conclude
from leadline.conclude.waiting import Served, requests_of
from leadline.design.profiling import Place
from leadline.model.errors import TrialFailure
from leadline.model.record import StudyRecord, TrialRecord, TrialState, covered
from leadline.model.result import StudyAnalysis
from leadline.observe.profile import CPU_SAMPLES, SAMPLES, WAITS
from leadline.observe.table import read_series
from leadline.observe.window import Recorded, pauses_of
from leadline.trial.measure import measure_windows
from leadline.trial.slotmeasure import slots_of
from leadline.trial.system import Window


def analysis_of(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of what has been run so far."""
    return conclude(record, replace(profiles_of(record), slots=slots_of(record)))


def profiles_of(record: StudyRecord) -> Series:
    """What was recorded in what was measured of each slot, or trial without slots, that has a profile."""
    profiles, cpu_time, served = dict[Place, Stacks](), True, dict[Place, Served]()
    statements, parts = dict[Place, Statements](), dict[Place, ProfiledPart]()
    for trial in record.trials if record.study.profiling != "off" else ():
        path = trial.directory / "series" / "profile.parquet" if trial.directory else None
        if path is None or trial.state != TrialState.DONE or not path.exists():
            continue
        metrics = [CPU_SAMPLES, SAMPLES, *(WAITS if record.study.profiling == "full" else ())]
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
        if not windows and table.height:
            part, spans_ = _part(trial, table)
            windows, parts[trial.id, None] = {None: spans_}, part
        recorded = Recorded(path.parent)
        for slot, spans in (windows or {None: trial.under_load}).items():
            seconds = pl.col("time_ns") / 1e9 + 0.5
            inside = table.filter(pl.any_horizontal([seconds.is_between(*span) for span in spans]))
            stacks = inside.group_by("subject").agg(pl.col("value").sum()).sort("subject")
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
    return Series({}, profiles, cpu_time, served, statements, parts)


def _part(trial: TrialRecord, samples: pl.DataFrame) -> tuple[ProfiledPart, tuple[tuple[float, float], ...]]:
    """The part of a trial without slots that has samples, and its windows.

    A recording may start up to a second after the beginning of the second of its first sample, and end as much after
    that of its last; starting and ending take the server some CPU.
    """
    seconds = np.unique(samples["time_ns"].to_numpy()) / 1e9
    inside, rest = list[tuple[float, float]](), list[tuple[float, float]]()
    for begin, end in trial.under_load:
        sampled = seconds[(seconds >= begin - 1) & (seconds < end)]
        if not (sampled >= begin).any():
            rest.append((begin, end))
            continue
        first, last = float(sampled[0]), float(sampled[-1])
        inside.append((begin if first < begin else first + 1, end if last + 1 >= end else last))
        rest += [(begin, first - 1), (last + 2, end)]
    inside, rest = ([(begin, end) for begin, end in spans if end - begin >= 1] for spans in (inside, rest))
    if not inside:
        return ProfiledPart(covered(trial.under_load)), trial.under_load
    return ProfiledPart(covered(inside), _cost(trial, inside, rest)), tuple(inside)


def _cost(
    trial: TrialRecord, inside: Sequence[tuple[float, float]], rest: Sequence[tuple[float, float]]
) -> float | None:
    """Logarithm of CPU per transaction inside against the rest, which is before and after; None where it is not both,
    one is not known, or the server was warming up: that falls fastest in what is before.
    """
    if trial.directory is None or len(rest) < 2 or (trial.steady is not None and trial.steady.cold):
        return None
    means = []
    for spans in (inside, rest):
        try:
            windows = measure_windows(trial.directory, [Window(*span) for span in spans])
        except TrialFailure:  # its files are not all there
            return None
        known = [(cpu, window) for window in windows if (cpu := cpu_of(window.responses)) is not None]
        weights = [one.responses["throughput"] * (one.window.end - one.window.begin) for _, one in known]
        if sum(weights) <= 0:
            return None
        means.append(math.fsum(cpu * weight for (cpu, _), weight in zip(known, weights, strict=True)) / sum(weights))
    return math.log(means[0] / means[1])
