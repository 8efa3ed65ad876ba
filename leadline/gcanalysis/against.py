"""GC logs against each other: figures of one side beside those of another, with intervals.

The unit is a block of time: a log is cut into ``BLOCKS`` blocks of one length, which are drawn with replacement (block
bootstrap), so that pauses that come in bursts do not count as many. With three logs or more on each side the unit is
the log, as starts of one JVM differ. An interval is Student's t on the logarithm of the ratio and holds for all figures
together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leadline.gcanalysis.events import GcLog
from leadline.gcanalysis.summary import allocations

BLOCKS = 20  # of a log
FEWEST = 20  # pauses on a side, below which no interval is given
APART = 1.10  # ratio to the others from which a log of one service is told
UNITS: Mapping[str, str] = {
    "pause p50": "ms",
    "pause p99": "ms",
    "pauses": "/s",
    "time paused": "%",
    "allocation": "MiB/s",
    "collector CPU": "CPUs",
}
_LEVEL = 0.95
_DRAWS = 400
_STARTS = 3  # logs on each side from which they are the unit
_EDGES = np.geomspace(1e-3, 1e6, 1801)  # ms; 200 a decade

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """What the figures are made of; the first axis is that of draws (or 1). ``counts``: pauses by length."""

    seconds: Floats
    counts: Floats
    paused: Floats
    allocated: Floats
    allocating: Floats  # seconds
    cpu: Floats

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(mine + theirs for mine, theirs in zip(self._parts, other._parts, strict=True)))

    def __sub__(self, other: Sums) -> Sums:
        return Sums(*(mine - theirs for mine, theirs in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Floats, ...]:
        return self.seconds, self.counts, self.paused, self.allocated, self.allocating, self.cpu

    def times(self, weights: Floats) -> Sums:
        """Of blocks, each as often as the weight (draws x blocks) says."""
        return Sums(*(weights @ part for part in self._parts))

    def figures(self) -> dict[str, Floats]:
        """By name, in ``UNITS``; NaN where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                "pause p50": self._percentile(0.50),
                "pause p99": self._percentile(0.99),
                "pauses": self.counts.sum(axis=1) / self.seconds,
                "time paused": 100 * self.paused / self.seconds,
                "allocation": self.allocated / self.allocating / (1 << 20),
                "collector CPU": self.cpu / self.seconds,
            }

    def _percentile(self, share: float) -> Floats:
        cumulated = np.cumsum(self.counts, axis=1)
        wanted = np.maximum(1.0, np.ceil(share * cumulated[:, -1:] - 1e-9))
        lengths: Floats = _EDGES[1:][(cumulated < wanted).sum(axis=1).clip(max=len(_EDGES) - 2)]
        lengths[cumulated[:, -1] <= 0] = np.nan
        return lengths


@dataclass(frozen=True)
class LogBlocks:
    """One log, cut into blocks of time. ``ms``: its pauses."""

    name: str
    blocks: Sums
    ms: Floats

    @cached_property
    def whole(self) -> Sums:
        return self.blocks.times(np.ones((1, len(self.blocks.seconds))))

    @cached_property
    def drawn(self) -> Sums:
        """The log as it might have been: ``_DRAWS`` times as many blocks, drawn with replacement."""
        count = len(self.blocks.seconds)
        generator = np.random.default_rng(count + len(self.ms))
        return self.blocks.times(generator.multinomial(count, [1 / count] * count, _DRAWS).astype(float))


def blocks_of(name: str, log: GcLog) -> LogBlocks | None:
    """All JVMs of a log; None where nothing has a time or nothing is told of pauses."""
    if log.timeless or log.silent:
        return None
    parts = [_blocks(log, jvm) for jvm, one in enumerate(log.jvms) if one.last > one.first]
    if not parts:
        return None
    joined = Sums(*(np.concatenate(arrays) for arrays in zip(*(part._parts for part in parts), strict=True)))
    return LogBlocks(name, joined, log.pauses["ms"])


def _blocks(log: GcLog, jvm: int) -> Sums:
    first, last = log.jvms[jvm].first, log.jvms[jvm].last

    def placed(times: Floats) -> NDArray[np.int64]:
        return np.clip((times - first) / (last - first) * BLOCKS, 0, BLOCKS - 1).astype(np.int64)

    def summed(at: Floats, values: Floats) -> Floats:
        return np.bincount(placed(at), values, BLOCKS).astype(np.float64)

    pauses, cpu = (events.where(events["jvm"] == jvm) for events in (log.pauses, log.cpu))
    lengths = np.searchsorted(_EDGES, pauses["ms"], side="left") - 1
    counts = np.zeros((BLOCKS, len(_EDGES) - 1))
    np.add.at(counts, (placed(pauses["at"]), lengths.clip(0, counts.shape[1] - 1)), 1)
    steps = allocations(log, jvm)
    known = steps.where(np.full(len(steps.at), not log.allocation_unknown))
    return Sums(
        seconds=np.full(BLOCKS, (last - first) / BLOCKS),
        counts=counts,
        paused=summed(pauses["at"], pauses["ms"] / 1e3),
        allocated=summed(known.at, known.size),
        allocating=summed(known.at, known.seconds),
        cpu=summed(cpu["at"], cpu["user"] + cpu["system"]),
    )


@dataclass(frozen=True)
class Difference:
    """``a`` and ``b`` in the unit of the figure; the change from a to b in percent with its interval, None where there
    is too little for one.
    """

    figure: str
    a: float
    b: float
    percent: float | None
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """Whether b is "higher" or "lower"; empty where chance alone could give it."""
        if self.low is None or self.high is None:
            return ""
        return "higher" if self.low > 0 else "lower" if self.high < 0 else ""


def differences(a: Sequence[LogBlocks], b: Sequence[LogBlocks], among: int = 1) -> list[Difference]:
    """Of the logs ``b`` from the logs ``a``; what neither side has is left out. ``among``: so many such comparisons
    hold together.
    """
    by_start = min(len(a), len(b)) >= _STARTS
    whole = [_total([log.whole for log in side]) for side in (a, b)]
    drawn = [None if by_start else _total([log.drawn for log in side]).figures() for side in (a, b)]
    ms = [np.concatenate([log.ms for log in side]) for side in (a, b)]
    enough = min(len(ms[0]), len(ms[1])) >= FEWEST
    figures = []
    for name in UNITS:
        values = [_exact(name, total, lengths) for total, lengths in zip(whole, ms, strict=True)]
        spread = None
        if enough and by_start:
            spread = _of_starts(*([_exact(name, log.whole, log.ms) for log in side] for side in (a, b)))
        elif enough:
            spread = _of_draws(*(side[name] for side in drawn if side is not None))
        if all(map(math.isfinite, values)) and any(values):
            figures.append(_difference(name, values[0], values[1], spread, 1 - (1 - _LEVEL) / len(UNITS) / among))
    return figures


def _total(parts: Sequence[Sums]) -> Sums:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _exact(name: str, sums: Sums, ms: Floats) -> float:
    """A figure; percentiles are observed pauses (nearest rank)."""
    if name.startswith("pause p"):
        rank = math.ceil(int(name[7:]) * len(ms) / 100 - 1e-9)
        return float(np.partition(ms, max(1, rank) - 1)[max(1, rank) - 1]) if len(ms) else math.nan
    return float(sums.figures()[name][0])


def _of_draws(a: Floats, b: Floats) -> tuple[float, float] | None:
    """Standard error of the ratio's logarithm and its degrees of freedom."""
    if not (np.all(a > 0) and np.all(b > 0)):
        return None
    correction = BLOCKS / (BLOCKS - 1)
    parts = [float(np.var(np.log(side))) * correction for side in (a, b)]
    return math.sqrt(sum(parts)), _welch(parts, [BLOCKS, BLOCKS])


def _of_starts(a: Sequence[float], b: Sequence[float]) -> tuple[float, float] | None:
    if not all(value > 0 for value in (*a, *b)):
        return None
    parts = [float(np.var(np.log(side), ddof=1)) / len(side) for side in (a, b)]
    return math.sqrt(sum(parts)), _welch(parts, [len(a), len(b)])


def _welch(parts: Sequence[float], counts: Sequence[int]) -> float:
    below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return sum(parts) ** 2 / below if below > 0 else float(sum(counts) - 2)


def _difference(name: str, a: float, b: float, spread: tuple[float, float] | None, level: float) -> Difference:
    if not (a > 0 and b > 0):
        return Difference(name, a, b, None, None, None)
    ratio = math.log(b / a)
    if spread is None:
        return Difference(name, a, b, 100 * math.expm1(ratio), None, None)
    from leadline.model import distributions  # its library takes a fifth of a second to load

    reach = spread[0] * float(distributions.t.ppf((1 + level) / 2, spread[1]))
    low, high = (100 * math.expm1(min(50.0, ratio + side * reach)) for side in (-1, 1))
    return Difference(name, a, b, 100 * math.expm1(ratio), low, high)


def which_differ(logs: Sequence[LogBlocks]) -> dict[str, list[Difference]]:
    """Of each log of one service what differs from all others together by more than ``APART`` times, surely."""
    found: dict[str, list[Difference]] = {}
    for log in logs if len(logs) > 1 else ():
        others = [other for other in logs if other is not log]
        apart = [
            one
            for one in differences(others, [log], among=len(logs))
            if one.low is not None and one.high is not None
            if one.low > 100 * (APART - 1) or one.high < 100 * (1 / APART - 1)
        ]
        if apart:
            found[log.name] = sorted(apart, key=lambda one: -abs(math.log(one.b / one.a)))
    return found
