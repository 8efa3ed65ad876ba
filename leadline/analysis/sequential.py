"""Bounds for who looks at a study after each of its blocks and may end it at any look.

The deviate of a look is the normal deviate z of its own two-sided p value, whatever model gave that p value. With the
share t of the plan's information it passes at z > C t^(SHAPE - 1/2): the boundaries of Wang and Tsiatis, Biometrics 43
(1987), 193-199, between Pocock's (SHAPE 1/2) and O'Brien and Fleming's (0). C comes from the joint law of the t
statistics at all looks, whose noise is learnt from the same blocks; levels taken over from known noise err in 5.5 to 6
of 100 studies, not 5. The law is that of independent differences of paired blocks, normal, from the third on. A
family's p value stands for that of one comparison, which is a little strict, as is the law where looks have more
degrees of freedom than pairs. Bounds hold until the plan's end, which a mixture e-process (Wang and Ramdas, 2024) does
not need to know: it finds in 42 of 100 studies what this finds in 74 (16 blocks, docs/evidence/statistics.md).

What an analysis is told of this is an ``Interim``, by the significance level approach (Jennison and Turnbull, Group
Sequential Methods, 2000, section 4.4): a boundary for known noise says at which level this analysis judges, and the
analysis does so by its own model and degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leadline.analysis.table import Floats
from leadline.model import distributions

FEWEST = 3  # complete blocks before a verdict: fewer say too little of the noise
SHAPE = 0.2
_SEED = 5_407
_WORK, _DRAWS = 8_000_000, 2**17  # numbers drawn at most; studies at most
_FAR = 5e-3  # tail probability beyond which the law is continued as that of a normal deviate
_DEVIATES = np.concatenate([np.linspace(0.0, 8.0, 400), [30.0]])


@dataclass(frozen=True)
class Bounds:
    """Of a plan of so many blocks. ``peaks`` (draws), growing: the largest z t^(1/2 - SHAPE) of each drawn study."""

    peaks: Floats

    def nominal(self, share: float, alpha: float) -> float:
        """The p value below which a look with this share of the information passes, at ``alpha`` over all looks."""
        return float(2 * distributions.norm.sf(self._quantile(alpha) * share ** (SHAPE - 0.5)))

    def overall(self, p_value: float, share: float) -> float:
        """The least ``alpha`` at which a look with this p value passes: its p value over all looks."""
        deviate = float(distributions.norm.isf(max(p_value, 1e-300) / 2))
        return self._tail(deviate * share ** (0.5 - SHAPE))

    def _tail(self, peak: float) -> float:
        far = self._far
        if peak <= far:
            return float(1 - np.searchsorted(self.peaks, peak) / len(self.peaks))
        return _FAR * float(distributions.norm.sf(peak) / distributions.norm.sf(far))

    def _quantile(self, alpha: float) -> float:
        if alpha >= _FAR:
            return float(np.quantile(self.peaks, 1 - alpha))
        return float(distributions.norm.isf(alpha / _FAR * distributions.norm.sf(self._far)))

    @property
    def _far(self) -> float:
        return float(np.quantile(self.peaks, 1 - _FAR))


@lru_cache(maxsize=32)
def bounds(blocks: int) -> Bounds:
    """Of a plan of so many blocks (1 or more), looked at after each from the third on, and at its end."""
    first = min(FEWEST, blocks)
    random = np.random.default_rng(_SEED)
    draws = min(_DRAWS, max(_WORK // blocks, 2**13))
    total, squares, peaks = np.zeros((3, draws))
    for number in range(1, blocks + 1):
        difference = random.standard_normal(draws)
        total += difference
        squares += difference**2
        if number >= first:
            deviates = _deviates(total, squares, number)
            np.maximum(peaks, deviates * (number / blocks) ** (0.5 - SHAPE), out=peaks)
    return Bounds(np.sort(peaks))


def _deviates(total: Floats, squares: Floats, number: int) -> Floats:
    """Normal deviates (draws) with the p values of the t statistics of ``number`` differences."""
    if number == 1:  # no noise can be learnt: the analysis gives no p value either
        return np.abs(total)
    ratios = np.abs(total) / np.sqrt(np.maximum(number * squares - total**2, 1e-12) / (number - 1))
    table = np.asarray(distributions.t.isf(distributions.norm.sf(_DEVIATES), number - 1), dtype=np.float64)
    return np.asarray(np.interp(ratios, table, _DEVIATES), dtype=np.float64)


TOO_EARLY = "this interim analysis has too little of the error rate to conclude; later ones have more"


@dataclass(frozen=True)
class Interim:
    """``level``: confidence of this analysis's simultaneous intervals, 1 where nothing can be said yet. ``repeated``
    takes a family's p value of this analysis to the one that holds over all analyses.
    """

    level: float
    repeated: Callable[[float], float]
