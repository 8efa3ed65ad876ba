"""How far the clock of another host is from this one's, with the bound of what is not known."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass


class LabClock:
    """Unix nanoseconds of this host that follow the monotonic clock from the moment this was made."""

    def __init__(self) -> None:
        self._offset = time.time_ns() - time.monotonic_ns()

    def now_ns(self) -> int:
        return time.monotonic_ns() + self._offset


@dataclass(frozen=True)
class Offset:
    """The other clock minus this one: ``ns``, at most ``uncertainty_ns`` off either way."""

    ns: float
    uncertainty_ns: float


def offset(samples: Iterable[tuple[int, int, int]]) -> Offset | None:
    """From (asked, answer, received): this clock, the other one, this clock, nanoseconds.

    The other clock was read between the two, so the offset lies between ``answer - received`` and ``answer - asked``,
    for every sample (Cristian 1989); the intersection of all these intervals is the bound (Marzullo 1984). None when
    they have no point in common: a clock was set meanwhile.
    """
    usable = list(samples)
    low = max(answer - received for _, answer, received in usable)
    high = min(answer - sent for sent, answer, _ in usable)
    if low > high:
        return None
    return Offset((low + high) / 2, (high - low) / 2)
