"""The largest of several correlated t statistics: critical values, adjusted p values, luck.

For T = Z / s with Z normal of rank r and s^2 independent chi^2(df)/df, Z = R u with u uniform on the sphere and
R^2 chi^2(r) independent of it. So max|T| <= c exactly when F = (R^2/r)/s^2 <= c^2 / (r m(u)^2), where m(u) is the
largest |component| in direction u and F has the F(r, df) distribution: only the direction needs integrating. It is
done with a scrambled Sobol sequence of fixed seed, which gives critical values to about three digits. The spherical
form is that of Somerville (1997) and Genz and Bretz, Computation of Multivariate Normal and t Probabilities (2009).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy  # loads scipy.optimize at its first use
from scipy import special

from leadline.analysis.table import Floats

SEED = 20_061
_WORK = 2e9  # multiplications spent on one set of directions
_BINS = 1024
_REMEMBERED = 32


@dataclass(frozen=True)
class MaxT:
    """Distribution of the largest of k t statistics: of |T| when ``two_sided``, else of T itself.

    ``reach`` (b) holds equally likely values of m(u), the largest component in a random direction; ``rank`` is r.
    """

    reach: Floats
    rank: int
    two_sided: bool
    _quantiles: dict[tuple[float, float], float] = field(default_factory=dict, compare=False, repr=False)

    def sf(self, value: float, df: float) -> float:
        """P(max > value). For the one-sided form ``value`` must not be negative."""
        if value <= 0:
            return 1.0 if self.two_sided else float(np.mean(self.reach > 0))
        ahead = self.reach[self.reach > 0]
        bound = value**2 / (self.rank * ahead**2)
        return float(np.sum(special.fdtrc(self.rank, df, bound)) / len(self.reach))

    def quantile(self, level: float, df: float) -> float:
        """The value that the maximum stays below with probability ``level``."""
        if (level, df) not in self._quantiles:
            self._quantiles[level, df] = self._solve(level, df)
        return self._quantiles[level, df]

    def _solve(self, level: float, df: float) -> float:
        low, high = 0.0, 2.0
        while self.sf(high, df) > 1 - level:
            low, high = high, high * 2
            if high > 1e12:
                return high
        return float(scipy.optimize.brentq(lambda c: self.sf(c, df) - (1 - level), low, high, xtol=1e-9, rtol=1e-9))

    def mean_normal(self) -> float:
        """Mean of the maximum when the variance is known (df infinite)."""
        log_radius = special.gammaln((self.rank + 1) / 2) - special.gammaln(self.rank / 2)
        return float(math.sqrt(2) * math.exp(log_radius) * np.mean(self.reach))


_memory: OrderedDict[tuple[bytes, tuple[int, ...], bool], MaxT] = OrderedDict()


def max_t(scatter: Floats, two_sided: bool = True, standard: bool = True) -> MaxT:
    """Distribution for statistics whose covariance is proportional to ``scatter @ scatter.T`` (k, any).

    With ``standard`` each is in its own standard errors; without, all are in those of the least certain one. Rows of
    zeros are not allowed. The same input gives the same result; results are remembered.
    """
    lengths = np.linalg.norm(scatter, axis=1, keepdims=True)
    units = scatter / (lengths if standard else lengths.max())
    key = (np.round(units, 9).tobytes(), units.shape, two_sided)
    if key in _memory:
        _memory.move_to_end(key)
        return _memory[key]
    result = _integrate(units, two_sided)
    _memory[key] = result
    if len(_memory) > _REMEMBERED:
        _memory.popitem(last=False)
    return result


@lru_cache(maxsize=8)
def _directions(rank: int, power: int) -> Floats:
    """2 ** ``power`` unit vectors (n, rank)."""
    from scipy.stats import qmc  # half a second

    points = special.ndtri(qmc.Sobol(rank, scramble=True, rng=SEED).random_base2(power))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), dtype=np.float64)


def _factor(units: Floats) -> Floats:
    """(k, rank) with the same products of rows, by Gram and Schmidt in the order of the rows.

    Nothing in it is left to choice, as the vectors of equal singular values are, which every processor turns its way.
    """
    rest, columns = units.copy(), []
    for row in range(len(units)):
        length = np.linalg.norm(rest[row])
        if length > 1e-7 * np.linalg.norm(units[row]):
            direction = rest[row] / length
            columns.append(rest @ direction)
            rest -= np.outer(columns[-1], direction)
            rest[row] = 0.0
    return np.column_stack(columns)


def _integrate(units: Floats, two_sided: bool) -> MaxT:
    factor = _factor(units)
    rank = factor.shape[1]
    if rank == 1:
        ends = np.array([np.max(factor), np.max(-factor)])
        return MaxT(np.abs(ends) if two_sided else ends, 1, two_sided)
    power = int(np.clip(math.floor(math.log2(_WORK / factor.size)), 11, min(16, 11 + rank)))
    points = _directions(rank, power)
    reach = np.empty(len(points))
    step = max(1, int(4e6 // len(factor)))
    for start in range(0, len(points), step):
        probabilities = points[start : start + step] @ factor.T
        reach[start : start + step] = np.max(np.abs(probabilities) if two_sided else probabilities, axis=1)
    binned = np.sort(reach).reshape(_BINS, -1).mean(axis=1)
    return MaxT(binned, rank, two_sided)
