"""A long run as values: how long, how finely it is kept, and what each of its intervals held."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HOUR, DAY = 3600.0, 86400.0
SHORTEST, LONGEST = 30.0, 366 * DAY  # seconds of a soak
FINE = 2 * DAY  # seconds for which intervals are kept as they were measured; then by the hour
INTERVAL_BYTES = 12 << 10  # of one interval in the record, at most
LOG_BYTES = 16 << 20  # of one log before its older half is dropped
SEGMENT_BYTES = 16 << 10  # of raw files a second of load, before they are condensed

Gauge = tuple[float, float, float]  # least, mean, most of an interval


@dataclass(frozen=True)
class SoakTimes:
    """Seconds: of load in all, of each interval of the record, of load between two checkpoints."""

    seconds: float
    interval: float
    segment: float

    @classmethod
    def of(cls, seconds: float) -> SoakTimes:
        """Intervals of a minute and checkpoints every ten; shorter ones for a run under two hours."""
        interval = float(min(60, max(1, math.floor(seconds / 120))))
        segment = interval * max(1, round(min(600.0, max(20.0, seconds / 12)) / interval))
        return cls(seconds, interval, segment)

    @property
    def sampled(self) -> float:
        """Seconds between two samples of processes, pools and counters."""
        return max(1.0, self.interval / 6)

    @property
    def bytes_bound(self) -> int:
        """What the record and the raw files between two checkpoints take at most. Logs come to it, each ``LOG_BYTES``
        and half of that.
        """
        fine = math.ceil(min(self.seconds, FINE + HOUR) / self.interval)
        coarse = math.ceil(max(0.0, self.seconds - FINE) / HOUR)
        # a checkpoint writes the record anew beside the old one
        return 2 * (fine + coarse) * INTERVAL_BYTES + 2 * int(self.segment) * SEGMENT_BYTES


@dataclass(frozen=True)
class Interval:
    """``begin``: unix seconds; ``stretch``: the start of the stack it belongs to, from 0. ``ok``, ``failed``:
    transactions that were due in it. Latencies in ms of the successful and the unanswered ones, nan where there are
    none; ``histogram``: all of them, encoded (HdrHistogram). ``gauges``: "metric/subject" to what was sampled.
    """

    begin: float
    seconds: float
    stretch: int
    ok: int
    failed: int
    p50: float = math.nan
    p99: float = math.nan
    worst: float = math.nan
    histogram: str = ""
    gauges: Mapping[str, Gauge] = field(default_factory=dict)
    unanswered: int = 0  # of the failed ones
    unanswered_from: float = math.inf  # the shortest of them in ms

    @property
    def end(self) -> float:
        return self.begin + self.seconds


@dataclass(frozen=True)
class Gap:
    """Unix seconds between two intervals that nothing was measured in; ``why``: what ended the stretch before."""

    begin: float
    end: float
    why: str


def gaps(intervals: Sequence[Interval], whys: Mapping[int, str]) -> list[Gap]:
    """Where more than an interval is missing. ``whys``: how each stretch ended."""
    gaps_ = []
    for before, after in itertools.pairwise(intervals):
        if after.stretch != before.stretch or after.begin > before.end + 0.5 * before.seconds:
            why = whys.get(before.stretch, "") if after.stretch != before.stretch else "nothing was measured"
            gaps_.append(Gap(before.end, after.begin, why or "leadline ended without a word"))
    return gaps_
