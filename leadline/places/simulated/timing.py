"""Time on a simulated host: its clock, where a trial's time goes, and another program that takes some of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leadline.model.knob import Level
from leadline.places.simulated.model import (
    Floats,
    Neighbour,
    Truth,
    holds,
)

_STRETCH = 3600  # seconds that are drawn at a time
_MOST = 0.95  # of all CPUs


def busy(truth: Truth, seed: int, begin: float, count: int) -> Floats:
    """Share (count) of each second in which the neighbour computes, ``begin`` seconds after the study began. The same
    for the same seed, whoever asks and in whatever order.
    """
    neighbour = truth.neighbour
    if neighbour is None:
        return np.zeros(count)
    first, last = int(begin // _STRETCH), int((begin + count) // _STRETCH)
    edges: list[float] = []
    for stretch in range(first, last + 1):
        edges += _turns(neighbour, seed, stretch)
    ends = begin + np.arange(count + 1, dtype=np.float64)
    return np.diff(_computed(np.array(edges).reshape(-1, 2), ends))


def taken(
    truth: Truth, seed: int, begin: float, schedule: Sequence[tuple[float, Mapping[str, Level]]], count: int
) -> Floats:
    """Share (count) of all CPUs that it takes in each second of a load; ``schedule`` as ``trial_series`` has it."""
    neighbour = truth.neighbour
    if neighbour is None:
        return np.zeros(count)
    scale = np.ones(count)
    bounds = [*(begins for begins, _ in schedule), float(count)]
    for (begins, levels), ends in zip(schedule, bounds[1:], strict=True):
        factor = float(np.prod([move.scale for move in neighbour.moved if holds(move.when, levels)]))
        scale[round(begins) : round(ends)] = factor
    return np.minimum(neighbour.share * scale * busy(truth, seed, begin, count), _MOST)


def _turns(neighbour: Neighbour, seed: int, stretch: int) -> list[float]:
    """From and until of its turns of computing in one stretch."""
    rng = np.random.default_rng([seed, 0x6E62, stretch])
    cycle = neighbour.busy + neighbour.idle
    computes_first = rng.random() < neighbour.busy / cycle
    lengths = rng.exponential([neighbour.busy, neighbour.idle], (int(2 * _STRETCH / cycle) + 20, 2))
    edges = np.cumsum((lengths if computes_first else lengths[:, ::-1]).ravel())
    edges = np.r_[0.0, edges[:-1]] if computes_first else edges
    pairs = edges.reshape(-1, 2)
    inside = np.minimum(pairs, _STRETCH)[pairs[:, 0] < _STRETCH]
    return [float(edge) for edge in (inside + stretch * _STRETCH).ravel()]


def _computed(turns: Floats, moments: Floats) -> Floats:
    """Seconds computed until each moment."""
    if not len(turns):
        return np.zeros(len(moments))
    total = np.cumsum(np.r_[0.0, turns[:, 1] - turns[:, 0]])
    at = np.searchsorted(turns[:, 0], moments, side="right")
    last = np.maximum(at - 1, 0)
    inside = np.clip(moments - turns[last, 0], 0.0, turns[last, 1] - turns[last, 0])
    return np.asarray(np.where(at > 0, total[last] + inside, 0.0), dtype=np.float64)


EPOCH = 1_704_067_200.0  # 2024-01-01 00:00 UTC: where simulated time begins unless said otherwise


class VirtualClock:
    """Unix time in seconds. Also a ``leadline.trial.system.LoadClock``: sleeping moves it forward at once."""

    def __init__(self, start: float = EPOCH) -> None:
        self._ns = round(start * 1e9)

    def now(self) -> float:
        return self._ns / 1e9

    def now_ns(self) -> int:
        return self._ns

    def advance(self, seconds: float) -> None:
        """Raises ValueError for a negative time."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._ns += round(seconds * 1e9)

    def sleep_until(self, unix_ns: int) -> None:
        self._ns = max(self._ns, unix_ns)


_BEFORE = 0.6  # of the overhead without the server's start: restore, database; the rest: audit, stop, collect


def before_load(truth: Truth) -> float:
    """Seconds of a trial before its server is started."""
    return _BEFORE * _rest(truth)


def after_load(truth: Truth) -> float:
    """Seconds of a trial after its load."""
    return (1 - _BEFORE) * _rest(truth)


def _rest(truth: Truth) -> float:
    return max(truth.overhead - truth.server.startup, 0.0)
