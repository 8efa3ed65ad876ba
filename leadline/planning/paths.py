"""Group sequential boundaries for a family of estimates under known noise.

The law of the largest statistic at every look jointly, with the exact dependence of estimates from look to look, by a
scrambled Sobol sequence of fixed seed; the first look, where the tail is far out, is integrated on its own
(``leadline.analysis.maxt``). What later looks add does not change earlier bounds as long as their number stays the
same. Spending: Lan and DeMets (1983); families: Follmann, Proschan and Geller (1994).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import qmc

from leadline.analysis.comparisons import KNOWN
from leadline.analysis.maxt import max_t
from leadline.planning.sequential import Spending, obrien_fleming_spending
from leadline.planning.shape import Floats, Information, Solution, solve

SEED = 3_471
_LEVELS = 40
_WORK = 3e7  # numbers drawn
_LARGEST, _SMALLEST = 15, 12  # powers of two: draws


@dataclass(frozen=True)
class Paths:
    """Simulated largest statistics: ``peaks`` (looks, draws), 0 where a look has no degree of freedom.

    ``solutions`` hold the covariance and the degrees of freedom at each look, ``count`` is the size of the family.
    """

    peaks: Floats
    solutions: tuple[Solution, ...]
    two_sided: bool
    count: int
    _bounds: dict[tuple[tuple[float, ...], float, Spending], tuple[float, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _tables: dict[tuple[tuple[float, ...], Spending], tuple[list[float], list[float]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def bounds(
        self, fractions: Sequence[float], alpha: float, spending: Spending = obrien_fleming_spending
    ) -> tuple[float, ...]:
        """Critical values of the largest statistic at each look; infinite where nothing can be spent yet."""
        key = (tuple(fractions), alpha, spending)
        if key not in self._bounds:
            self._bounds[key] = self._solve(fractions, alpha, spending)
        return self._bounds[key]

    def _solve(self, fractions: Sequence[float], alpha: float, spending: Spending) -> tuple[float, ...]:
        alive = np.ones(self.peaks.shape[1], dtype=bool)
        bounds: list[float] = []
        for index, fraction in enumerate(fractions):
            target = spending(fraction, alpha)
            if self.solutions[index].df <= 0 or not self.solutions[index].known[: self.count].any():
                bounds.append(math.inf)
                continue
            bound = (
                self._first(index, target)
                if all(math.isinf(b) for b in bounds)
                else self._next(self.peaks[index], alive, target)
            )
            bounds.append(bound)
            alive &= self.peaks[index] <= bound
        return tuple(bounds)

    def _first(self, index: int, target: float) -> float:
        if target < 1e-12:
            return math.inf
        solution = self.solutions[index]
        law = max_t(solution.scatter(self.count), self.two_sided)
        return law.quantile(1 - target, KNOWN)

    @staticmethod
    def _next(peaks: Floats, alive: NDArray[np.bool_], target: float) -> float:
        room = math.floor(target * len(peaks)) - int(np.sum(~alive))
        if room < 1:
            return math.inf
        chosen = np.sort(peaks[alive])
        return float(chosen[-room - 1]) if room < len(chosen) else 0.0

    def repeated_p(
        self,
        fractions: Sequence[float],
        look: int,
        statistic: float,
        spending: Spending = obrien_fleming_spending,
    ) -> float:
        """Smallest family level at which the boundary of look ``look`` (from 0) lets ``statistic`` through.

        From a table of 40 levels, between which logarithms of levels are interpolated.
        """
        levels, bounds = self._table(tuple(fractions[: look + 1]), spending)
        if not bounds or statistic <= bounds[-1]:
            return 1.0
        return float(np.exp(np.interp(-statistic, [-bound for bound in bounds], np.log(levels))))

    def _table(self, fractions: tuple[float, ...], spending: Spending) -> tuple[list[float], list[float]]:
        """Levels, growing, and the last look's bounds at them, falling; levels that cannot be spent are left out."""
        key = (fractions, spending)
        if key not in self._tables:
            levels: list[float] = []
            bounds: list[float] = []
            for level in np.geomspace(1e-6, 0.9999, _LEVELS):
                bound = self.bounds(fractions, float(level), spending)[-1]
                if math.isfinite(bound) and (not bounds or bound < bounds[-1]):
                    levels.append(float(level))
                    bounds.append(bound)
            self._tables[key] = (levels, bounds)
        return self._tables[key]


def simulate(parts: Sequence[Information], count: int, two_sided: bool = True) -> Paths:
    """Paths of the largest of the first ``count`` columns' statistics when nothing has an effect.

    ``parts``: the information that each look adds. One-sided: the largest signed statistic.
    """
    return _simulate(tuple(_Frozen.of(part) for part in parts), count, two_sided)


@dataclass(frozen=True)
class _Frozen:
    """An information as a key of the cache: the matrix itself, which does not depend on the order of the rows."""

    data: bytes
    width: int
    df: int

    @classmethod
    def of(cls, part: Information) -> _Frozen:
        matrix = np.round(part.root.T @ part.root, 9) + 0.0  # no negative zeros
        return cls(matrix.tobytes(), part.root.shape[1], part.df + len(part.root))

    def thaw(self) -> Information:
        values, vectors = np.linalg.eigh(np.frombuffer(self.data).reshape(self.width, self.width))
        kept = values > 1e-7 * max(1.0, float(values.max(initial=0.0)))
        root = np.sqrt(values[kept])[:, None] * vectors.T[kept]
        return Information(np.asarray(root, dtype=np.float64), self.df - len(root))


@lru_cache(maxsize=64)
def _simulate(frozen: tuple[_Frozen, ...], count: int, two_sided: bool) -> Paths:
    parts = [part.thaw() for part in frozen]
    width = parts[0].root.shape[1]
    power = _LARGEST
    while power > _SMALLEST and 2**power * width * len(parts) > _WORK:
        power -= 1
    uniform = qmc.Sobol(width * len(parts), scramble=True, rng=SEED).random_base2(power)
    uniform = np.clip(uniform, 1e-12, 1 - 1e-12)
    weighted = np.zeros((len(uniform), width))
    peaks, solutions = [], []
    for number, part in enumerate(parts):
        begin = number * width  # the same columns for the same look, whatever comes later
        if len(part.root):
            weighted += special.ndtri(uniform[:, begin : begin + len(part.root)]) @ part.root
        solution = solve(parts[: number + 1])
        solutions.append(solution)
        peaks.append(_peak(solution, weighted, count, two_sided))
    return Paths(np.array(peaks), tuple(solutions), two_sided, count)


def _peak(solution: Solution, weighted: Floats, count: int, two_sided: bool) -> Floats:
    known = solution.known[:count]
    if solution.df <= 0 or not known.any():
        return np.zeros(len(weighted))
    estimates = weighted @ solution.inverse
    statistics = estimates[:, :count][:, known] / solution.errors(count)[known]
    return np.asarray(np.max(np.abs(statistics) if two_sided else statistics, axis=1), dtype=np.float64)
