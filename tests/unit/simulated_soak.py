"""A stack of known truth under load for days, in virtual time: what it holds, how it responds, with leaks planted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leadline.experiments.soak.record import SoakRecord, interval_of
from leadline.load.series import Outcomes, new_histogram
from leadline.model.soak import DAY, Gauge, Interval

MIB = 1 << 20
Array = NDArray[Any]
Kind = Literal["heap", "native", "handles", "threads", "connections", "disk"]
_QUANTILES = np.array([0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999])
_SCORES = np.array([-1.645, -0.842, -0.253, 0.0, 0.253, 0.842, 1.282, 1.645, 2.054, 2.326, 2.576, 3.09])
_SHARES = np.diff(np.concatenate([[0.0], (_QUANTILES[1:] + _QUANTILES[:-1]) / 2, [1.0]]))

# metric/subject: level, standard deviation, part that goes with the day's load, unit in bytes or things
_HELD: dict[str, tuple[float, float, float, float]] = {
    "heap.used/old": (120, 8, 0, MIB),
    "rss.anon/server": (700, 4, 0, MIB),
    "rss.anon/database": (90, 3, 5, MIB),
    "threads/server": (48, 0.6, 2, 1),
    "handles/server": (140, 2, 4, 1),
    "sockets/server": (26, 2, 6, 1),
    "pool.in_use/main": (3, 0.7, 1.5, 1),
    "disk/database": (4000, 6, 0, MIB),
}
_LEAKS: dict[Kind, tuple[str, ...]] = {
    "heap": ("heap.used/old",),
    "native": ("rss.anon/server",),
    "handles": ("handles/server",),
    "threads": ("threads/server",),
    "connections": ("pool.in_use/main",),
    "disk": ("disk/database",),
}
_STACK = 0.08  # MiB of native memory that a thread takes
_STEPS = 200  # of a median's logarithm
_HEAP = 512.0  # MiB, committed throughout


@dataclass(frozen=True)
class Leak:
    """``per_day`` in MiB, or in things; ``after``: seconds until it begins."""

    kind: Kind
    per_day: float
    after: float = 0.0


@dataclass
class SimulatedSoak:
    """``rate``: transactions a second at the mean of a day; ``season``: share by which a day's load goes up and down;
    ``together``: autocorrelation of what is not the load, from one minute to the next.
    """

    seed: int
    leaks: Sequence[Leak] = ()
    rate: float = 50.0
    season: float = 0.3
    together: float = 0.9
    free: float = 200e9
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def run(self, record: SoakRecord, begin: float, until: float, on_checkpoint: Callable[[SoakRecord], None]) -> None:
        """Go on as a stack that is started at ``begin`` (unix seconds) until the record is full or that moment: what
        was measured since the last checkpoint is lost then.
        """
        stretch, now, started = record.begin_stretch(), begin, begin
        times = record.times
        while record.left >= times.interval:
            if now + times.segment > until:
                return
            record.add(self.intervals(now, min(times.segment, record.left), times.interval, stretch, started))
            now += times.segment
            record.save()
            on_checkpoint(record)

    def intervals(
        self, begin: float, seconds: float, interval: float, stretch: int = 0, started: float | None = None
    ) -> Iterator[Interval]:
        """Of a stack that was started at that moment, at ``begin`` if absent."""
        count = int(seconds / interval + 1e-6)
        age = np.arange(count) * interval + (begin - (begin if started is None else started))
        day = np.sin(2 * math.pi * (begin + np.arange(count) * interval) / DAY)
        rates = self.rate * (1 + self.season * day) * (1 + 0.02 * self._noise(count, interval))
        medians = 4.0 * (1 + 0.15 * day) * np.exp(0.03 * self._noise(count, interval))
        drifts = {name: self._held(name, age, day, interval) for name in _HELD}
        for at in range(count):
            gauges: dict[str, Gauge] = {name: (value[at],) * 3 for name, value in drifts.items()}
            gauges |= {"heap.committed/old": (_HEAP * MIB,) * 3, "free": (self.free,) * 3}
            latencies = _latencies(round(_STEPS * math.log(medians[at])))
            ended = int(self._rng.poisson(rates[at] * interval))
            yield replace(
                latencies, begin=begin + at * interval, seconds=interval, stretch=stretch, ok=ended, gauges=gauges
            )

    def _held(self, name: str, age: Array, day: Array, interval: float) -> Array:
        level, spread, with_load, unit = _HELD[name]
        values = level + with_load * day + spread * self._noise(len(age), interval)
        for leak in self.leaks:
            lost = leak.per_day * np.maximum(age - leak.after, 0.0) / DAY
            if name in _LEAKS[leak.kind]:
                values = values + lost
            elif leak.kind == "threads" and name == "rss.anon/server":
                values = values + _STACK * lost
            elif leak.kind == "connections" and name == "sockets/server":
                values = values + lost
        return unit * (np.round(values) if unit == 1 else values)

    def _noise(self, count: int, interval: float) -> Array:
        """Autoregression of first order with standard deviation 1, as it is seen every ``interval`` seconds."""
        together = self.together ** (interval / 60)
        noise = self._rng.normal(size=count)
        for at in range(1, count):
            noise[at] = together * noise[at - 1] + math.sqrt(1 - together**2) * noise[at]
        return noise


@lru_cache(maxsize=4096)
def _latencies(step: int) -> Interval:
    """An interval with the latencies of a median of exp(step / _STEPS) ms."""
    outcomes = Outcomes(new_histogram())
    for score, share in zip(_SCORES, _SHARES, strict=True):
        count = max(1, round(1000 * share))
        outcomes.histogram.record_value(int(math.exp(step / _STEPS + 0.6 * score) * 1e6), count)
        outcomes.ok += count
    return interval_of(0.0, 1.0, 0, outcomes, {})
