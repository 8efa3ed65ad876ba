"""The wash-out of a finished switchback study: estimated from its slots' seconds, and held against what it gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.carry import ALPHA, LevelledSlot, LevelWashOut, SlotSeries, WashOut, by_level, estimate
from leadline.layouts import assumed_wash_out
from leadline.model.record import SlotRecord, StudyRecord, TrialRecord, TrialState
from leadline.model.units import format_duration, rounded

RESPONSES = ("throughput", "mean", "p99")
_TESTS = 2 * len(RESPONSES)  # of all slots together and by level


@dataclass(frozen=True)
class SlotSeconds:
    """Per-second values of one slot. ``seconds``: start of each second, from the moment the slot's levels were in
    force; ``values``: response -> one value a second, NaN where no transaction ended in it.
    """

    slot: int
    seconds: tuple[float, ...]
    values: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class SettledWashOut:
    """``seconds`` that are left out of every slot of a study and why; ``assumed`` seconds without an estimate."""

    seconds: float
    assumed: float
    sentence: str


@dataclass(frozen=True)
class _Needed:
    """The longest wash-out that is seen, in whole seconds, and what shows it."""

    seconds: float
    sentence: str


def settled_wash_out(record: StudyRecord, slots: Mapping[int, Sequence[SlotSeconds]]) -> SettledWashOut | None:
    """What a study leaves out at the start of its slots.

    The longest estimate counts: over throughput, mean and 99th percentile, over all slots together and by factor level,
    with Bonferroni's correction. Never less than is assumed without an estimate: that no carry-over is seen does not
    show that there is none. Never so much that no whole second of a slot is left. Where the study says what is left
    out, that stays, and the sentence tells that it is too short; None when it is not, and for a study without slots.
    """
    switchback = record.study.design.switchback
    if switchback is None:
        return None
    estimates, levels = _estimates(record, slots)
    needed = _longest(estimates, levels)
    if switchback.wash_out is not None:
        stated = switchback.wash_out
        if needed is None or needed.seconds <= math.ceil(stated):
            return None
        text = f"The wash-out of {format_duration(stated)} is too short: {_would_do(needed, switchback.slot)}"
        return SettledWashOut(stated, stated, f"{text} {needed.sentence}")
    assumed = assumed_wash_out(switchback)
    if needed is None:
        unknown = all(wash_out.seconds is None for wash_out in estimates.values())
        text = estimates["throughput"].sentence if unknown else "No carry-over can be seen within slots."
        return SettledWashOut(
            assumed, assumed, f"{text} The first {format_duration(assumed)} of every slot are left out."
        )
    seconds = min(max(assumed, needed.seconds), switchback.slot - 1)
    text = f"{needed.sentence} The first {format_duration(seconds)} of every slot are left out."
    if needed.seconds > switchback.slot / 2:
        text += f" Slots are too short for it: {_would_do(needed, switchback.slot)}"
    return SettledWashOut(seconds, assumed, text)


def _would_do(needed: _Needed, slot: float) -> str:
    """A wash-out that would do; in longer slots where it would leave less than half of one to measure."""
    least = "at least " if needed.seconds >= slot else ""  # what takes longer than a slot cannot be measured in it
    slots = f" in slots of {format_duration(2 * needed.seconds)}" if needed.seconds > slot / 2 else ""
    return f"{least}{format_duration(needed.seconds)}{slots} is enough."


def _estimates(
    record: StudyRecord, slots: Mapping[int, Sequence[SlotSeconds]]
) -> tuple[dict[str, WashOut], dict[str, tuple[LevelWashOut, ...]]]:
    """By response: of all slots together, and by the level that was changed to."""
    trials = [(trial, slots.get(trial.id, ())) for trial in record.trials if trial.state == TrialState.DONE]
    estimates, levels = {}, {}
    for name in RESPONSES:
        rows = [row for trial, series in trials for row in _series(trial, {s.slot: s for s in series}, name)]
        estimates[name] = estimate([SlotSeries(row.values, _key(row.before), _key(row.after) or "") for row in rows])
        levels[name] = by_level(rows, ALPHA / _TESTS)
    return estimates, levels


def _key(levels: Mapping[str, str] | None) -> str | None:
    return None if levels is None else repr(sorted(levels.items()))


def _longest(found: Mapping[str, WashOut], levels: Mapping[str, tuple[LevelWashOut, ...]]) -> _Needed | None:
    needed = [
        _Needed(wash_out.seconds, f"Wash-out, by the {name}: {wash_out.sentence}")
        for name, wash_out in found.items()
        if wash_out.detected and wash_out.seconds is not None and (wash_out.p_value or 0.0) * _TESTS < ALPHA
    ]
    needed += [
        _Needed(wash_out.seconds, _of_level(name, wash_out)) for name, many in levels.items() for wash_out in many
    ]
    return max(needed, key=lambda one: one.seconds, default=None)


def _of_level(name: str, one: LevelWashOut) -> str:
    return (
        f"Wash-out, by the {name} after {one.factor} was set to {one.level}: "
        f"{100 * min(max(one.share, 0.0), 1.0):.0f} % of the change is left in the first second "
        f"(adjusted p = {one.p_value:.2g}), with a time constant of {rounded(one.time_constant, 2)} s."
    )


def _series(trial: TrialRecord, seconds: Mapping[int, SlotSeconds], name: str) -> list[LevelledSlot]:
    """Slots second by second from their planned start, in shares of the trial's median. NaN where a second is missing;
    a slot after one that failed does not know what came before.
    """
    every = np.array([value for second in seconds.values() for value in second.values.get(name, ())], dtype=np.float64)
    finite = every[np.isfinite(every)]
    middle = float(np.median(finite)) if len(finite) else 0.0
    if middle <= 0:
        return []
    rows = []
    for slot in trial.slots:
        slot_seconds = seconds.get(slot.index)
        if slot_seconds is None:
            continue
        values = [math.nan] * round(slot.seconds)
        for second, value in zip(slot_seconds.seconds, slot_seconds.values.get(name, ()), strict=False):
            place = round(second + (slot.set_at or 0.0) - (slot.due or 0.0))
            if 0 <= place < len(values):
                values[place] = value / middle
        before = trial.slots[slot.index - 1] if slot.index else None
        is_known = before is not None and before.failure is None
        rows.append(LevelledSlot(tuple(values), _levels(before) if before and is_known else None, _levels(slot)))
    return rows


def _levels(slot: SlotRecord) -> dict[str, str]:
    return {factor: str(level) for factor, level in slot.treatment.levels}
