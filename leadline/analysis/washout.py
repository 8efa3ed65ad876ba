"""How long a slot still feels the one before: the wash-out, estimated from slots laid over each other and tested.

After a change of level the response moves from the old level to the new one. Every second of a slot is compared with
the slot's own end; the sizes of these gaps, signed by the direction of the change, follow an exponential on average.
Its time constant is fitted by least squares over all slots that change a level, and the wash-out is the time after
which less than a tenth of the change is left. Whether anything is left at all in the first second is tested by flipping
the signs of whole slots (a permutation test: without carry-over the sign of a slot's gap means nothing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.table import Floats
from leadline.model.units import rounded

ALPHA = 0.05
LEFT = 0.1  # of the change that may be left when the wash-out ends
FEWEST = 6  # slots that change a level
_FLIPS = 2000
_SEED = 1945


@dataclass(frozen=True)
class SlotSeries:
    """One slot second by second: ``values`` from its start, ``before`` and ``after`` names of the levels that were in
    force in the slot before (None for a trial's first) and in this one.
    """

    values: tuple[float, ...]
    before: str | None
    after: str


@dataclass(frozen=True)
class WashOut:
    """``seconds`` to leave out at the start of every slot; 0 where no carry-over can be seen, None where too little is
    known. ``time_constant`` of the exponential in seconds, ``share`` of a change that is left in the first second.
    """

    seconds: float | None
    detected: bool
    p_value: float | None
    time_constant: float | None
    share: float | None
    sentence: str


def estimate(slots: Sequence[SlotSeries], interval: float = 1.0) -> WashOut:
    """The wash-out of slots of equal length, sampled every ``interval`` seconds.

    ``slots`` are in the order in which they ran. The settled level of each treatment is the mean over its slots' second
    halves; a slot's gap at a second is what it lacks to its own second half, as a share of the
    expected change. Slots whose change is smaller than the noise of such a mean say nothing and weigh little.
    """
    length = min((len(slot.values) for slot in slots), default=0)
    usable = [slot for slot in slots if all(math.isfinite(value) for value in slot.values[:length])]
    changed = sum(slot.before is not None and slot.before != slot.after for slot in usable)
    if length < 4 or changed < FEWEST:
        return _unknown(f"{changed} slots that change a level, of {length} samples; {FEWEST} of 4 are needed")
    data = np.array([slot.values[:length] for slot in usable])
    half = length // 2
    ends = data[:, half:].mean(axis=1)
    gaps, steps = _changes(usable, data, ends, half)
    if len(steps) < FEWEST or not np.any(np.abs(steps) > 1e-12 * max(1.0, float(np.abs(ends).max()))):
        return _unknown("no level that changes the response, so there is nothing that could be carried over")
    share = steps @ gaps / float(steps @ steps)  # share of the change left at each sample, by least squares
    p_value = _signs(gaps, steps)
    if p_value >= ALPHA:
        text = f"No carry-over can be seen within slots (p = {p_value:.2g}): nothing has to be left out."
        return WashOut(0.0, False, p_value, None, float(share[0]), text)
    constant, first = exponential(share, interval, length, half)
    seconds = min(seconds_until_left(constant, first, interval), length * interval)
    text = (
        f"After a change {100 * min(max(float(share[0]), 0.0), 1.0):.0f} % of it is left in the first "
        f"{interval:g} s (p = {p_value:.2g}), with a time constant of {rounded(constant, 2)} s."
    )
    return WashOut(seconds, True, p_value, constant, float(share[0]), text)


def _changes(slots: Sequence[SlotSeries], data: Floats, ends: Floats, half: int) -> tuple[Floats, Floats]:
    """Gaps (s, half) of the slots that change a level, and their expected changes (s).

    The levels before and after are means over the other slots: a slot's own noise, and that of the slot before it,
    which it continues, would otherwise be on both sides.
    """
    names = np.array([slot.after for slot in slots])
    gaps, steps = [], []
    for index, slot in enumerate(slots):
        if slot.before is None or slot.before == slot.after:
            continue
        others = np.ones(len(slots), dtype=bool)
        others[max(0, index - 1) : index + 1] = False
        old, new = ends[others & (names == slot.before)], ends[others & (names == slot.after)]
        if len(old) and len(new):
            gaps.append(data[index, :half] - ends[index])
            steps.append(float(old.mean() - new.mean()))
    return np.array(gaps).reshape(-1, half), np.array(steps)


def _signs(gaps: Floats, steps: Floats) -> float:
    """One-sided p value that the first sample's gap goes with the step, by flipping slots' signs."""
    products = gaps[:, 0] * steps
    flips = np.random.default_rng(_SEED).choice([-1.0, 1.0], size=(_FLIPS, len(products)))
    return float((1 + np.sum(flips @ products >= products.sum() * (1 - 1e-12))) / (_FLIPS + 1))


def seconds_until_left(constant: float, first: float, interval: float) -> float:
    """Seconds, in whole samples, until less than a tenth of a change is left of the share ``first`` at its start."""
    return math.ceil(max(interval, constant * math.log(max(first / LEFT, 1.0))) / interval - 1e-9) * interval


def exponential(share: Floats, interval: float, length: int, half: int) -> tuple[float, float]:
    """Time constant, and the share left at the very start, of the curve that the shares follow.

    The reference is the slot's own second half, of which the same exponential is a part: it is taken off the model.
    """
    centre = (np.arange(half) + 0.5) * interval
    late = (np.arange(half, length) + 0.5) * interval

    def shape(log_constant: float) -> Floats:
        constant = math.exp(log_constant)
        return np.asarray(np.exp(-centre / constant) - np.exp(-late / constant).mean(), dtype=np.float64)

    def lack(log_constant: float) -> float:
        curve = shape(log_constant)
        size = max(float(curve @ share) / float(curve @ curve), 0.0)
        return float(np.sum((share - size * curve) ** 2))

    bounds = (math.log(0.1 * interval), math.log(4 * length * interval))
    grid = np.linspace(*bounds, 40)
    start = grid[int(np.argmin([lack(point) for point in grid]))]
    width = grid[1] - grid[0]
    minimum = scipy.optimize.minimize_scalar(lack, bounds=(start - width, start + width), method="bounded")
    curve = shape(float(minimum.x))
    return math.exp(float(minimum.x)), max(float(curve @ share) / float(curve @ curve), 0.0)


def _unknown(what: str) -> WashOut:
    return WashOut(None, False, None, None, None, f"The wash-out cannot be estimated: {what}.")
