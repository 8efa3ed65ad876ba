"""Per-second series with known truth: shapes of warm-up and trouble, AR(1) noise, collection spikes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.model.result import SteadyState

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """``signal`` gives the noise-free series of a length; ``steady`` tells whether its end is a steady state, which
    then is 1.0; ``refusals`` are the right verdicts otherwise.
    """

    name: str
    signal: Callable[[int], Floats]
    refusals: frozenset[str] = frozenset()

    @property
    def steady(self) -> bool:
        return not self.refusals

    def right(self, verdict: SteadyState, length: int) -> bool:
        """Refused in the right words; or accepted with a cut after which the mean is within 1 % of the truth and at
        least 60 % of the truly steady part is kept.
        """
        if not self.steady:
            return verdict.verdict in self.refusals
        if verdict.verdict != "steady" or verdict.cut is None:
            return False
        signal = self.signal(length)
        truly = int(np.sum(np.abs(signal - 1) < 0.01))
        kept = signal[int(verdict.cut) :]
        return abs(float(kept.mean()) - 1) <= 0.01 and len(kept) >= 0.6 * truly


def _steps(*parts: tuple[float, float]) -> Callable[[int], Floats]:
    """Pairs of (from which share of the length, level)."""

    def signal(length: int) -> Floats:
        place = np.arange(length) / length
        level = np.ones(length)
        for share, value in parts:
            level[place >= share] = value
        return level

    return signal


def _exponential(length: int) -> Floats:
    return np.asarray(1 - 0.5 * np.exp(-np.arange(length) / (length / 20)))


def _drift(change: float) -> Callable[[int], Floats]:
    return lambda length: np.linspace(1.0, 1.0 + change, length)


def _cycle(length: int) -> Floats:
    return np.asarray(1 + 0.15 * np.sin(2 * np.pi * 5 * np.arange(length) / length))


def bursts(length: int, rng: np.random.Generator) -> Floats:
    """Steady with bursts whose length and distance vary: 30 to 50 s apart, 5 to 11 s long, a tenth below."""
    level = np.ones(length)
    at = int(rng.integers(0, 40))
    while at < length:
        level[at : at + int(rng.integers(5, 12))] = 0.9
        at += int(rng.integers(30, 51))
    return np.asarray(level * (1 + rng.normal(0, 0.01, length)))


def walk(length: int, rng: np.random.Generator) -> Floats:
    """Never steady: a random walk of 2 % a second around a level to which it does not return."""
    return np.asarray(np.exp(np.cumsum(rng.normal(0, 0.02, length))))


WARMING = frozenset({"still-warming"})
SLOWING = frozenset({"slowing-down"})
NEVER = frozenset({"never-steady"})
SHAPES = (
    Shape("flat", np.ones),
    Shape("step", _steps((0, 0.7), (0.2, 1.0))),
    Shape("exponential", _exponential),
    Shape("two steps", _steps((0, 0.6), (0.1, 0.8), (0.25, 1.0))),
    Shape("slow-down", _steps((0, 1.2), (0.25, 1.0))),
    Shape("drift up", _drift(0.25), WARMING),
    Shape("drift down", _drift(-0.25), SLOWING),
    Shape("late step up", _steps((0.85, 1.2)), WARMING),
    Shape("late step down", _steps((0.85, 0.8)), SLOWING),
    Shape("cycle", _cycle, NEVER | WARMING | SLOWING),
)


def noisy(shape: Shape, length: int, rng: np.random.Generator, cv: float, ar: float, spikes: bool) -> Floats:
    """The shape with AR(1) noise of marginal coefficient of variation ``cv``, and one second in about 20 at 20 to 60 %
    of its level where ``spikes``.
    """
    shocks = rng.normal(0, cv * np.sqrt(1 - ar**2), length)
    noise = np.empty(length)
    noise[0] = rng.normal(0, cv)
    for index in range(1, length):
        noise[index] = ar * noise[index - 1] + shocks[index]
    series = shape.signal(length) * (1 + noise)
    if spikes:
        hit = rng.random(length) < 0.05
        series[hit] *= rng.uniform(0.2, 0.6, int(hit.sum()))
    return np.asarray(series)


def counts(shape: Shape, length: int, rng: np.random.Generator, mean: float) -> Floats:
    """The shape as Poisson counts around ``mean`` a second."""
    return np.asarray(rng.poisson(mean * shape.signal(length)), dtype=np.float64)
