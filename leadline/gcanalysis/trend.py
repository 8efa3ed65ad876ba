"""Trend of a series that may have a rhythm, hang together in time and scatter unevenly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 240  # points
_NORMAL = NormalDist()  # scipy.stats would cost a second at the start of every command
_FEWEST_CYCLES = 2.0
_MOST_CYCLES = 60
_RHYTHM = 0.35  # of what the line leaves: what a rhythm has to explain
_SAME = 0.8  # of what a slower rhythm explains
_UNIT_ROOT = 1.2  # over the root of the number of points: how near to 1 is taken for 1
_DOUBTFUL = 0.6  # a coefficient above it may be that of a random walk with independent noise upon it
_PLAIN = 2.5  # standard errors of a correlation that is none
_LATE = 0.9  # of the series: where the end begins
_CHANCE = 0.01  # of a rhythm that is none

Array = NDArray[Any]


@dataclass(frozen=True)
class Estimate:
    """A figure with its standard error and degrees of freedom."""

    value: float
    error: float
    freedom: float

    def bound(self, level: float) -> float:
        """One-sided, by Student's t: below it with probability ``level``."""
        return self.value + quantile(level, self.freedom) * self.error


@dataclass(frozen=True)
class Trend:
    """Rises are of the whole series, in its unit.

    ``steps``: the rise as of a random walk, where what is left hangs together so much that it may be one; else
    ``rise``. ``keeps``: for each share asked for, the rise at the later half's pace less this share of the
    earlier's; ``end``: the rise at the pace of the last tenth. ``walk``: what is left hangs together like a
    random walk, so its steps are looked at. ``period``: of the rhythm, in units of time; None without one.
    """

    rise: Estimate
    steps: Estimate
    keeps: tuple[Estimate, ...]
    end: Estimate
    points: int
    walk: bool
    period: float | None


def trend(times: Array, values: Array, shares: Sequence[float] = ()) -> Trend:
    """Least squares with a rhythm, by quasi-differences: an autoregression of first order whose coefficient is taken
    for 1 where it cannot be told from it (Perron and Yabu 2009, J. Econometrics 151), so that the same test holds for
    noise that comes back and for a random walk. Errors are those of White (1980) in the form HC3, which unequal noise
    does not make too small. Raises ValueError for fewer than 8 points or times that do not grow.
    """
    times, values = np.asarray(times, float), np.asarray(values, float)
    if len(times) < 8 or np.any(np.diff(times) <= 0):
        raise ValueError("a trend needs at least 8 points at growing times")
    at = (times - times[0]) / (times[-1] - times[0])
    scale = float(np.abs(values).max()) or 1.0
    values = values / scale
    cycles = rhythm(at, values)
    terms = season(at, cycles, len(at))
    line, broken = [np.ones_like(at), at], _above(at, 0.5)
    whole = np.column_stack([*line, *terms])
    halves = np.column_stack([*line, broken, *terms])
    bent = np.column_stack([*line, _above(at, _LATE), *terms])
    together = _together(halves, values)
    rise = _linear(whole, values, together, [0, 1])
    steps = _linear(whole, values, 1.0, [0, 1]) if _DOUBTFUL < together < 1 else rise
    keeps = tuple(_times(_linear(halves, values, together, [0, 1 - share, 1]), scale) for share in shares)
    end = _linear(bent, values, together, [0, 1, 1])
    period = None if cycles is None else float(times[-1] - times[0]) / cycles
    rise, steps, end = (_times(estimate, scale) for estimate in (rise, steps, end))
    return Trend(rise, steps, keeps, end, len(at), together == 1.0, period)


def rhythm(at: Array, values: Array) -> float | None:
    """Cycles over the series of the rhythm that explains most beside a line that may bend; None where none is plain."""
    count = len(at)
    base = np.column_stack([np.ones_like(at), at, _above(at, 1 / 3), _above(at, 2 / 3)])
    left = _left(base, values)
    total = float(left @ left)
    if total <= 1e-18 * count:
        return None
    candidates = np.arange(_FEWEST_CYCLES, max(_FEWEST_CYCLES, min(count / 5, _MOST_CYCLES)) + 0.1, 0.25)
    rests = _rests(base, at, values, candidates)
    least, best = _refined(base, at, values, float(candidates[rests.argmin()]))
    # A slower rhythm has the true one among its harmonics: the fastest that explains nearly as much is meant.
    for multiple in (2, 3):
        rest, faster = _refined(base, at, values, multiple * best)
        if faster <= candidates[-1] and total - rest > _SAME * (total - least):
            least, best = rest, faster
            break
    terms = 2 * _harmonics(count)
    spare = count - base.shape[1] - terms
    if spare < 4:
        return None
    chance = 1 - (_CHANCE / len(candidates)) ** (2 / spare) * (1 - terms / count)
    # What looks like a slow rhythm may be a random walk, unless its steps have the rhythm too.
    plain = 1 - least / total > max(_RHYTHM, chance) and _in_steps(at, values, best)
    return best if plain else None


def _refined(base: Array, at: Array, values: Array, cycles: float) -> tuple[float, float]:
    """What the best number of cycles near to this one leaves, and that number."""
    least = math.inf
    for near in (0.2, 0.04, 0.008):
        finer = np.maximum(_FEWEST_CYCLES, cycles + np.linspace(-near, near, 9))
        rests = _rests(base, at, values, finer)
        least, cycles = float(rests.min()), float(finer[rests.argmin()])
    return least, cycles


def _rests(base: Array, at: Array, values: Array, cycles: Array) -> Array:
    """Sums of squares that base and season leave, of all these numbers of cycles at once."""
    count, harmonics = len(at), _harmonics(len(at))
    turn = np.exp(2j * math.pi * np.outer(cycles, at))
    powers = [turn]
    while len(powers) < harmonics:
        powers.append(powers[-1] * turn)
    season = np.stack([part for power in powers for part in (power.real, power.imag)], axis=1)
    basis = np.linalg.qr(base)[0]
    season -= (season @ basis) @ basis.T
    rest = values - basis @ (basis.T @ values)
    gram = season @ season.swapaxes(1, 2) + 1e-9 * count * np.eye(2 * harmonics)
    shared = season @ rest
    solution = np.linalg.solve(gram, shared[:, :, None])[:, :, 0]
    rests: Array = float(rest @ rest) - np.sum(shared * solution, axis=1)
    return rests


def _in_steps(at: Array, values: Array, cycles: float) -> bool:
    """Whether the steps between means of neighbours have the rhythm; those of a random walk have none."""
    parts = np.array_split(np.arange(len(at)), min(len(at), max(20, math.ceil(12 * cycles))))
    means = np.diff([float(values[part].mean()) for part in parts])
    places = np.array([float(at[part].mean()) for part in parts])
    base = np.ones((len(means), 1))
    terms = [np.diff(term) for term in season(places, cycles, len(at))]
    residual, rest = _left(base, means), _left(np.column_stack([base, *terms]), means)
    total = float(residual @ residual)
    spare = len(means) - 1 - len(terms)
    return (
        spare > 3 and total > 0 and _by_chance(float(rest @ rest) / total, spare, len(terms)) < _CHANCE / (4 * cycles)
    )


def _by_chance(ratio: float, spare: int, terms: int) -> float:
    """How likely it is that an even number of terms leaves no more than this ratio of independent noise (beta law)."""
    half, factor, total = spare / 2, 1.0, 0.0
    for n in range(terms // 2):
        total += factor
        factor *= (half + n) / (n + 1) * (1 - ratio)
    return float(ratio**half * total)


def _harmonics(count: int) -> int:
    return 1 if count < 30 else 2 if count < 60 else 3


def season(at: Array, cycles: float | None, count: int) -> list[Array]:
    """The columns of a rhythm of ``cycles`` over a series of ``count`` points, at shares of it; none without one."""
    if cycles is None:
        return []
    turns = [2 * math.pi * cycles * (n + 1) * at for n in range(_harmonics(count))]
    return [wave for turn in turns for wave in (np.sin(turn), np.cos(turn))]


def _above(at: Array, knot: float) -> Array:
    return np.maximum(at - knot, 0.0)


def _left(design: Array, values: Array) -> Array:
    array: Array = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return array


def _together(design: Array, values: Array) -> float:
    """The coefficient of the autoregression, freed of the bias that the fit gives it; 1 where it may be 1."""
    count, terms = design.shape
    rest = _left(design, values)
    power = float(rest @ rest)
    if power <= 1e-18 * count:
        return 0.0
    raw = float(rest[1:] @ rest[:-1]) / float(rest[:-1] @ rest[:-1])
    # Independent noise upon a random walk hides it from neighbours, not from points farther apart.
    for apart in (2, 4):
        shared = float(rest[apart:] @ rest[:-apart]) / power
        if apart < count / 8 and shared > _PLAIN / math.sqrt(count):
            raw = max(raw, shared ** (1 / apart))
    freed = (count * raw + terms) / max(1, count - terms - 2)
    if freed > 1 - _UNIT_ROOT / math.sqrt(count):
        return 1.0
    return float(max(0.0, freed))


def _linear(design: Array, values: Array, together: float, weights: Sequence[float]) -> Estimate:
    """Of the sum of coefficients with these weights (the others have none)."""
    if together == 1.0:
        steps = np.diff(design, axis=0)
        lasted = np.sqrt(steps[:, 1])  # a walk's steps scatter with the root of the time that they take
        design, values, weights = steps[:, 1:] / lasted[:, None], np.diff(values) / lasted, weights[1:]
    elif together:
        first = math.sqrt(1 - together**2)
        design = np.vstack([first * design[:1], design[1:] - together * design[:-1]])
        values = np.concatenate([first * values[:1], values[1:] - together * values[:-1]])
    count, terms = design.shape
    inverse = np.linalg.pinv(design.T @ design)
    solution = inverse @ design.T @ values
    rest = values - design @ solution
    lever = np.clip(np.einsum("ij,jk,ik->i", design, inverse, design), 0.0, 0.95)
    spread = inverse @ (design.T * (rest / (1 - lever)) ** 2) @ design @ inverse
    chosen = np.zeros(terms)
    chosen[: len(weights)] = weights
    even = float(rest @ rest) / max(1, count - terms) * float(chosen @ inverse @ chosen)
    variance = max(even, float(chosen @ spread @ chosen))
    return Estimate(float(chosen @ solution), math.sqrt(max(0.0, variance)), max(1, count - terms))


def _times(one: Estimate, scale: float) -> Estimate:
    return Estimate(one.value * scale, one.error * scale, one.freedom)


def quantile(level: float, freedom: float) -> float:
    """Of Student's t, by the expansion around the normal one (Fisher and Cornish 1960): within 1 % from 5 on."""
    z = _NORMAL.inv_cdf(level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom ** (n + 1) for n, term in enumerate(terms))


def thinned(times: Array, values: Array, most: int = MOST) -> tuple[Array, Array]:
    """At most ``most`` points: medians of neighbours, equally many each."""
    if len(times) <= most:
        return times, values
    group, more = divmod(len(times), most)
    first = (group + 1) * more

    def medians(of: Array) -> Array:
        parts = (of[:first].reshape(-1, group + 1), of[first:].reshape(-1, group))
        return np.concatenate([np.median(part, axis=1) for part in parts])

    return medians(times), medians(values)
