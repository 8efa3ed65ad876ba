"""Unreplicated screening: noise from the effects themselves, most of which are taken to be none.

Lenth, Quick and easy analysis of unreplicated factorials, Technometrics 31 (1989). Critical values are not his
approximations but come from simulating the null law of the same statistic (Ye and Hamada, J. Qual. Technol. 32, 2000)
under the design's own correlation, with a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leadline.analysis.linear import Fit
from leadline.analysis.table import Floats

FEWEST = 6  # contrasts
_DRAWS = 20_000
_SEED = 1989


@dataclass(frozen=True)
class LenthLaw:
    """Null law of |contrast| / standard error: ``single`` and ``largest`` are sorted draws, of one and of the largest.

    It has the methods of ``maxt.MaxT``; it has its degrees of freedom in itself and needs none.
    """

    single: Floats
    largest: Floats

    def sf(self, value: float, _df: float) -> float:
        """P(largest > value)."""
        return _beyond(self.largest, value)

    def quantile(self, level: float, _df: float) -> float:
        return float(np.quantile(self.largest, level))

    def single_sf(self, value: float) -> float:
        """P(|one contrast| / standard error > value)."""
        return _beyond(self.single, value)

    def single_quantile(self, level: float) -> float:
        return float(np.quantile(self.single, level))


@dataclass(frozen=True)
class LenthFit(Fit):
    """A saturated fit whose ``sigma`` is Lenth's pseudo standard error; ``all_units`` (m, r) are the contrasts that it
    was made from, scaled to unit variance.
    """

    all_units: Floats

    def degrees(self, contrasts: Floats) -> Floats:
        return np.full(len(contrasts), len(self.all_units) / 3)

    def law(self, scatter: Floats) -> LenthLaw:
        units = scatter / np.linalg.norm(scatter, axis=1, keepdims=True)
        single, largest = _null(units.tobytes(), self.all_units.tobytes(), units.shape[1])
        return LenthLaw(single, largest)


def pseudo_error(contrasts: Floats) -> Floats:
    """Lenth's pseudo standard error of each row (d) of unit-variance contrasts (d, m)."""
    sizes = np.abs(contrasts)
    first = 1.5 * np.median(sizes, axis=1)
    trimmed = np.where(sizes < 2.5 * first[:, None], sizes, np.nan)
    return np.asarray(1.5 * np.nanmedian(trimmed, axis=1), dtype=np.float64)


def lenth_fit(saturated: Fit, contrasts: Floats) -> Fit:
    """The saturated fit with a noise, from its estimable ``contrasts`` (m, p): all effects and interactions. Unchanged
    where these are fewer than six or half of them are exactly nothing.
    """
    estimable = contrasts[np.array(saturated.estimable(contrasts), dtype=bool)]
    if len(estimable) < FEWEST:
        return saturated
    scatter = saturated.scatter(estimable)
    lengths = np.linalg.norm(scatter, axis=1)
    standard = saturated.estimates(estimable) / lengths
    if np.median(np.abs(standard)) <= 1e-12 * max(1e-300, float(np.max(np.abs(standard)))):
        return saturated
    sigma = float(pseudo_error(standard[None, :])[0])
    units = scatter / lengths[:, None]
    return LenthFit(saturated.beta, saturated.half, saturated.rows, max(1, len(estimable) // 3), sigma, units)


@lru_cache(maxsize=32)
def _null(family: bytes, everything: bytes, width: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(_SEED)
    draws = rng.normal(size=(_DRAWS, width))
    error = pseudo_error(draws @ np.frombuffer(everything).reshape(-1, width).T)
    ratios = np.abs(draws @ np.frombuffer(family).reshape(-1, width).T) / error[:, None]
    return np.sort(ratios.ravel()), np.sort(ratios.max(axis=1))


def _beyond(draws: Floats, value: float) -> float:
    return float((len(draws) - np.searchsorted(draws, value, side="left") + 1) / (len(draws) + 1))
