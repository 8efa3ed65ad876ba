"""Several heaps of one program side by side, as a study of heap sizes tables them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Overhead:
    """Share of time in collection by the two formulas in use: of the whole cycle, and of the interval alone."""

    of_cycle: float | None  # pause / (interval + pause)
    of_interval: float | None  # pause / interval


def overhead(interval_s: float, pause_s: float) -> Overhead:
    """Of the mean interval between collections and the mean pause; None where the divisor is 0."""
    whole = interval_s + pause_s
    return Overhead(pause_s / whole if whole > 0 else None, pause_s / interval_s if interval_s > 0 else None)


@dataclass(frozen=True)
class HeapLine:
    """Heap = ``live`` + ``allocation`` x interval: bytes, bytes/s; ``r_squared`` of the least squares fit."""

    live: float
    allocation: float
    r_squared: float


def heap_line(heaps: Sequence[float], intervals_s: Sequence[float]) -> HeapLine | None:
    """A collection comes when what is allocated fills what the live set leaves.

    None for fewer than three sizes, and where the line would be of a negative live set or rate.
    """
    x, y = np.asarray(intervals_s, float), np.asarray(heaps, float)
    if len(set(heaps)) < 3 or len(set(intervals_s)) < 3:
        return None
    slope, live = np.polyfit(x, y, 1)
    if slope <= 0 or live < 0:
        return None
    residual = float(((y - live - slope * x) ** 2).sum())
    return HeapLine(float(live), float(slope), 1 - residual / float(((y - y.mean()) ** 2).sum()))
