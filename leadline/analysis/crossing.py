"""The load at which a noisy figure crosses its limit, with an interval.

The logarithm of figure over limit is regressed on the logarithm of the load, near the crossing only, with the order of
the probes as a covariate for drift; the load where the line is zero has the interval of Fieller (J. R. Statist. Soc. B
16, 1954: a ratio of two correlated estimates). The scatter is that between probes, not within one: responses of one
run are correlated. New probes go to both sides of the estimate so far, in the order below, above, above, below, which a
linear drift does not bias (adaptive design after Lai and Robbins, Annals of Statistics 7, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.model import distributions

NEAR = 0.15  # probes this close to the crossing (difference of logarithms) are used
BESIDE = 0.05  # probes are placed this far beside it
_HEIGHT = 1.0  # of the logarithm of the figure, over which its curve is taken for a line
_NARROWEST = 0.05
_CLIP = 1.5  # of the logarithm below zero: far below its limit, a figure says little of it
_FEWEST = 4
_BENDS = 8  # probes from which on the curve may have a bend
_GRID = 1001  # steps of its interval's ends
_SIDES = (-1, 1, 1, -1, 1, -1, -1, 1)


@dataclass(frozen=True)
class Probe:
    """``load`` > 0; ``ratio``: the figure over its limit, the worst one of several; None where nothing ended."""

    load: float
    ratio: float | None


@dataclass(frozen=True)
class Crossing:
    """The load with its interval; an end is None where the probes do not bound it. ``drift``: change of the load from
    the first to the last probe used, as a share, with the p value of no drift; None where it was not estimated.
    """

    load: float
    low: float | None
    high: float | None
    probes: int
    drift: float | None = None
    drift_p: float | None = None
    slope: float = 1.0  # of the logarithm of the figure by that of the load

    @property
    def near(self) -> float:
        """How far from the crossing the line holds: response times turn up, the steeper the sooner."""
        return min(NEAR, max(_NARROWEST, _HEIGHT / self.slope))

    @property
    def beside(self) -> float:
        """How far beside it more probes belong."""
        return min(BESIDE, self.near / 3)


def next_load(around: float, probes: int, beside: float = BESIDE) -> float:
    """Where to measure next, after ``probes`` beside the crossing, whose estimate is ``around``."""
    return around * math.exp(_SIDES[probes % len(_SIDES)] * beside)


def crossing(probes: Sequence[Probe], around: float, level: float = 0.95, near: float = NEAR) -> Crossing | None:
    """Where ratio is 1, from probes in the order in which they were measured and ``near`` to ``around``.

    None with fewer than four probes there, at one load only, or where the figure does not rise with the load.
    """
    centre = math.log(around)
    used = [
        (at, math.log(probe.load) - centre, _height(probe.ratio))
        for at, probe in enumerate(probes)
        if abs(math.log(probe.load) - centre) <= near
    ]
    if len(used) < _FEWEST:
        return None
    order, x, y = (np.array(column, dtype=float) for column in zip(*used, strict=True))
    if np.ptp(x) < 1e-9:
        return None
    drifts = len(used) >= _FEWEST + 2
    bends = len(used) >= _BENDS and len(np.unique(np.round(x, 3))) >= _FEWEST
    columns = [np.ones_like(x), x]
    columns += [(order - order.mean()) / np.ptp(order)] if drifts else []
    columns += [x * x] if bends else []
    matrix = np.column_stack(columns)
    coefficients, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
    if rank < matrix.shape[1] or coefficients[1] <= 0:
        return None
    free = len(used) - rank
    rest = y - matrix @ coefficients
    spread = np.linalg.inv(matrix.T @ matrix) * float(rest @ rest) / free
    t = float(distributions.t.ppf((1 + level) / 2, free))
    bend = float(coefficients[-1]) if bends else 0.0
    at = _root(float(coefficients[0]), float(coefficients[1]), bend)
    low, high = _bent(coefficients, spread, t, at, near) if bends else _fieller(coefficients, spread, t)
    drift = drift_p = None
    if drifts:
        drift = math.expm1(float(np.clip(-coefficients[2] / coefficients[1], -5, 5)))
        error = math.sqrt(spread[2, 2])
        drift_p = float(2 * distributions.t.sf(abs(coefficients[2]) / error, free)) if error else None
    load = float(np.clip(at, -1, 1))
    ends = _load(around, low), _load(around, high)
    return Crossing(around * math.exp(load), *ends, len(used), drift, drift_p, float(coefficients[1]))


def _height(ratio: float | None) -> float:
    """1 - limit / figure: zero at the crossing, and a line in the load where the figure grows as that of a queue does,
    like 1 / (capacity - load).
    """
    if ratio is None:
        return 1.0
    return -math.expm1(-max(-_CLIP, math.log(ratio))) if ratio > 0 else -math.expm1(_CLIP)


def _fieller(found: np.ndarray, spread: np.ndarray, t: float) -> tuple[float | None, float | None]:
    """All u with (a + b u)^2 <= t^2 var(a + b u)."""
    a, b = float(found[0]), float(found[1])
    square = b * b - t * t * float(spread[1, 1])
    mixed = a * b - t * t * float(spread[0, 1])
    alone = a * a - t * t * float(spread[0, 0])
    if square <= 0:  # the slope itself may be nothing
        return None, None
    root = math.sqrt(max(mixed * mixed - square * alone, 0.0))
    return (-mixed - root) / square, (-mixed + root) / square


def _root(a: float, b: float, c: float) -> float:
    """Where a + b u + c u^2 rises through zero; that of its line where it does not."""
    inside = b * b - 4 * a * c
    return -a / b if c == 0 or inside <= 0 else -2 * a / (b + math.sqrt(inside))


def _bent(found: np.ndarray, spread: np.ndarray, t: float, at: float, near: float) -> tuple[float | None, float | None]:
    """The same with a bend, the last column: outwards from the crossing ``at`` as far as the curve may be zero."""
    step = np.linspace(0, 2 * near, _GRID)
    ends: list[float | None] = []
    for sign in (-1, 1):
        u = at + sign * step
        terms = np.zeros((len(u), len(found)))
        terms[:, 0], terms[:, 1], terms[:, -1] = 1, u, u * u
        away = np.flatnonzero((terms @ found) ** 2 > t * t * np.einsum("ij,jk,ik->i", terms, spread, terms))
        ends.append(float(u[away[0]]) if len(away) else None)
    return ends[0], ends[1]


def _load(around: float, u: float | None) -> float | None:
    return None if u is None else around * math.exp(max(-5.0, min(5.0, u)))
