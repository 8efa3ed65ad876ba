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
from scipy import stats

NEAR = 0.15  # probes this close to the crossing (difference of logarithms) are used
BESIDE = 0.05  # probes are placed this far beside it
_CLIP = 1.5  # of the logarithm: far beyond its limit, a figure says how long the probe was
_FEWEST = 4
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


def next_load(around: float, probes: int, beside: float = BESIDE) -> float:
    """Where to measure next, after ``probes`` beside the crossing, whose estimate is ``around``."""
    return around * math.exp(_SIDES[probes % len(_SIDES)] * beside)


def crossing(probes: Sequence[Probe], around: float, level: float = 0.95) -> Crossing | None:
    """Where ratio is 1, from probes in the order in which they were measured and near ``around``.

    None with fewer than four probes there, at one load only, or where the figure does not rise with the load.
    """
    centre = math.log(around)
    used = [
        (at, math.log(probe.load) - centre, _height(probe.ratio))
        for at, probe in enumerate(probes)
        if abs(math.log(probe.load) - centre) <= NEAR
    ]
    if len(used) < _FEWEST:
        return None
    order, x, y = (np.array(column, dtype=float) for column in zip(*used, strict=True))
    if np.ptp(x) < 1e-9:
        return None
    drifts = len(used) >= _FEWEST + 2
    columns = [np.ones_like(x), x, *([(order - order.mean()) / np.ptp(order)] if drifts else [])]
    matrix = np.column_stack(columns)
    found, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
    if rank < matrix.shape[1] or found[1] <= 0:
        return None
    free = len(used) - rank
    rest = y - matrix @ found
    spread = np.linalg.inv(matrix.T @ matrix) * float(rest @ rest) / free
    t = float(stats.t.ppf((1 + level) / 2, free))
    low, high = _fieller(found, spread, t)
    drift = drift_p = None
    if drifts:
        drift = math.expm1(float(np.clip(-found[2] / found[1], -5, 5)))
        error = math.sqrt(spread[2, 2])
        drift_p = float(2 * stats.t.sf(abs(found[2]) / error, free)) if error else None
    load = float(np.clip(-found[0] / found[1], -1, 1))
    return Crossing(around * math.exp(load), _load(around, low), _load(around, high), len(used), drift, drift_p)


def _height(ratio: float | None) -> float:
    if ratio is None:
        return _CLIP
    return max(-_CLIP, min(_CLIP, math.log(ratio))) if ratio > 0 else -_CLIP


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


def _load(around: float, u: float | None) -> float | None:
    return None if u is None else around * math.exp(max(-5.0, min(5.0, u)))
