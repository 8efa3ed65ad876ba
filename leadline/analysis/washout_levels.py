"""The wash-out by factor level: after a change to which level does the response take how long?

What a slot lacks to its own second half is regressed, second by second, on the expected changes of the factors that
changed, one column for each level changed to. The expected changes come from a main-effects fit to the settled halves
of other slots (cross-fitting in stretches of neighbouring slots: a slot's own noise, and that of the slots beside it,
would otherwise be on both sides). Each column is tested in the first second by a one-sided t test, with
Bonferroni's correction over the columns; an exponential is fitted to those that are found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.table import Floats
from leadline.analysis.washout import FEWEST, exponential, seconds_until_left
from leadline.model import distributions

_FOLDS = 12


@dataclass(frozen=True)
class LevelledSlot:
    """One slot second by second, and the levels by factor that were in force before (None for a trial's first) and in
    it.
    """

    values: tuple[float, ...]
    before: Mapping[str, str] | None
    after: Mapping[str, str]


@dataclass(frozen=True)
class LevelWashOut:
    """Seconds until less than a tenth of a change to ``level`` is left, at most those of a slot. ``slots`` changed to
    it; ``p_value`` is adjusted for the number of levels that were tested.
    """

    factor: str
    level: str
    slots: int
    seconds: float
    time_constant: float
    share: float
    p_value: float


Change = tuple[str, str]


def by_level(slots: Sequence[LevelledSlot], alpha: float = 0.05, interval: float = 1.0) -> tuple[LevelWashOut, ...]:
    """Levels after which a carry-over is seen, the longest first; empty where none is, or where too few slots change.

    ``slots`` are in the order in which they ran, sampled every ``interval`` seconds; those with missing samples are
    passed over.
    """
    length = min((len(slot.values) for slot in slots), default=0)
    usable = [slot for slot in slots if all(math.isfinite(value) for value in slot.values[:length])]
    if length < 4 or len(usable) < 2 * FEWEST:
        return ()
    data = np.array([slot.values[:length] for slot in usable])
    half = length // 2
    ends = data[:, half:].mean(axis=1)
    changes, steps, rows = _steps(usable, ends)
    df = len(rows) - len(changes)
    if not changes or df < FEWEST:
        return ()
    gaps = data[rows, :half] - ends[rows, None]
    inverse = np.linalg.pinv(steps.T @ steps, hermitian=True)
    shares = inverse @ steps.T @ gaps  # share of a change left: levels by seconds
    rest = gaps[:, 0] - steps @ shares[:, 0]
    errors = math.sqrt(float(rest @ rest) / df) * np.sqrt(np.maximum(np.diag(inverse), 0.0))
    estimable = errors > 0
    ratios = np.divide(shares[:, 0], errors, out=np.zeros(len(changes)), where=estimable)
    adjusted = np.minimum(len(changes) * np.where(estimable, distributions.t.sf(ratios, df), 1.0), 1.0)
    washed = []
    for column, (factor, level) in enumerate(changes):
        if adjusted[column] < alpha:
            constant, first = exponential(shares[column], interval, length, half)
            count = int(np.sum(steps[:, column] != 0))
            seconds = min(seconds_until_left(constant, first, interval), length * interval)
            share, p_value = float(shares[column, 0]), float(adjusted[column])
            washed.append(LevelWashOut(factor, level, count, seconds, constant, share, p_value))
    return tuple(sorted(washed, key=lambda one: -one.seconds))


def _steps(slots: Sequence[LevelledSlot], ends: Floats) -> tuple[list[Change], Floats, list[int]]:
    """Changes with enough slots; the expected change of each (r, m); the slots (r) that change something."""
    changed = [_changed(slot) for slot in slots]
    rows = [index for index, row in enumerate(changed) if row]
    counts: dict[Change, int] = {}
    for index in rows:
        for factor in changed[index]:
            key = (factor, slots[index].after[factor])
            counts[key] = counts.get(key, 0) + 1
    changes = [key for key in sorted(counts) if counts[key] >= FEWEST]
    place = {key: column for column, key in enumerate(changes)}
    effects = _effects(slots, ends)
    steps = np.zeros((len(slots), len(changes)))
    for index in rows:
        before, after = slots[index].before or {}, slots[index].after
        for factor in changed[index]:
            if (factor, after[factor]) in place:
                effect = effects[index]
                steps[index, place[factor, after[factor]]] = (
                    effect[factor, before[factor]] - effect[factor, after[factor]]
                )
    return changes, steps[rows], rows


def _changed(slot: LevelledSlot) -> list[str]:
    if slot.before is None:
        return []
    return [factor for factor, level in slot.after.items() if factor in slot.before and slot.before[factor] != level]


def _effects(slots: Sequence[LevelledSlot], ends: Floats) -> list[dict[Change, float]]:
    """For each slot the effects of all levels, from slots neither in its stretch nor beside it."""
    levels = sorted({item for slot in slots for item in slot.after.items()})
    levels += sorted({item for slot in slots for item in (slot.before or {}).items()} - set(levels))
    design = np.array([[1.0, *(float(slot.after.get(factor) == level) for factor, level in levels)] for slot in slots])
    gram, sums = design.T @ design, design.T @ ends
    effects: list[dict[Change, float]] = []
    for stretch in np.array_split(np.arange(len(slots)), min(_FOLDS, len(slots) // 2)):
        near = slice(max(0, stretch[0] - 1), stretch[-1] + 2)
        part = design[near]
        beta = np.linalg.pinv(gram - part.T @ part, rcond=1e-9, hermitian=True) @ (sums - part.T @ ends[near])
        effects += [dict(zip(levels, (float(value) for value in beta[1:]), strict=True))] * len(stretch)
    return effects
