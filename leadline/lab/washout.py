"""The wash-out of a finished switchback study: estimated from its slots' seconds where the study does not give one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leadline.analysis.washout import ALPHA, SlotSeries, WashOut, estimate
from leadline.design.switchback import assumed_wash_out
from leadline.lab.slotmeasure import SlotSeries as SlotSeconds
from leadline.lab.slotmeasure import remeasure, slot_series
from leadline.lab.store import Store
from leadline.lab.system import System
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.units import format_duration

RESPONSES = ("throughput", "mean", "p99")


@dataclass(frozen=True)
class SettledWashOut:
    """``seconds`` that are left out of every slot of a study and why; ``assumed`` seconds without an estimate."""

    seconds: float
    assumed: float
    sentence: str


def settled_wash_out(record: StudyRecord) -> SettledWashOut | None:
    """What a study leaves out at the start of its slots; None for one that has no slots or says it itself.

    The longest estimate over throughput, mean and 99th percentile counts, with Bonferroni's correction for the three.
    Never less than is assumed without an estimate: that no carry-over is seen does not show that there is none. Never
    so much that no whole second of a slot is left.
    """
    switchback = record.study.design.switchback
    if switchback is None or switchback.wash_out is not None:
        return None
    assumed = assumed_wash_out(switchback)
    trials = [(trial, slot_series(trial)) for trial in record.trials if trial.state == "done"]
    found: dict[str, WashOut] = {}
    for name in RESPONSES:
        rows = [row for trial, series in trials for row in _series(trial, {s.slot: s for s in series}, name)]
        found[name] = estimate(rows)
    seen = {name: one for name, one in found.items() if _detected(one)}
    if not seen:
        unknown = all(one.seconds is None for one in found.values())
        text = found["throughput"].sentence if unknown else "No carry-over can be seen within slots."
        return SettledWashOut(
            assumed, assumed, f"{text} The first {format_duration(assumed)} of every slot are left out."
        )
    name, longest = max(seen.items(), key=lambda item: item[1].seconds or 0.0)
    seconds = min(max(assumed, longest.seconds or 0.0), switchback.slot - 1)
    text = f"Wash-out, by the {name}: {longest.sentence}"
    if seconds != longest.seconds:
        text += f" The first {format_duration(seconds)} of every slot are left out."
    return SettledWashOut(seconds, assumed, text)


def settle(store: Store, study_id: int, system: System) -> str:
    """At the end of a run: estimate the wash-out and measure every slot with it. Returns what was found in a sentence,
    empty for a study that has none to settle. Raises LeadlineError when a trial's files are gone.
    """
    record = store.load(study_id)
    settled = settled_wash_out(record)
    if settled is None:
        return ""
    remeasure(store, record, system, settled.seconds)
    return settled.sentence


def _detected(one: WashOut) -> bool:
    return one.detected and one.seconds is not None and (one.p_value or 0.0) * len(RESPONSES) < ALPHA


def _series(trial: TrialRecord, seconds: Mapping[int, SlotSeconds], name: str) -> list[SlotSeries]:
    """Slots second by second from their planned start, in shares of the trial's median. NaN where a second is missing;
    a slot after one that failed does not know what came before.
    """
    every = np.array([value for one in seconds.values() for value in one.values.get(name, ())], dtype=np.float64)
    finite = every[np.isfinite(every)]
    middle = float(np.median(finite)) if len(finite) else 0.0
    if middle <= 0:
        return []
    rows = []
    for slot in trial.slots:
        one = seconds.get(slot.index)
        if one is None:
            continue
        values = [math.nan] * round(slot.seconds)
        for second, value in zip(one.seconds, one.values.get(name, ()), strict=False):
            place = round(second + (slot.set_at or 0.0) - (slot.due or 0.0))
            if 0 <= place < len(values):
                values[place] = value / middle
        before = trial.slots[slot.index - 1] if slot.index else None
        known = before is not None and before.failure is None
        rows.append(SlotSeries(tuple(values), before.treatment.key if before and known else None, slot.treatment.key))
    return rows
