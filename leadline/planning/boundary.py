"""Group sequential boundaries of interim analyses, as levels: how strictly each look judges, so that all together keep
the error rate.

A boundary is that of the family's largest statistic under known noise. Its bound at a look is a level, at which the
study's own analysis judges (``leadline.analysis.sequential``), with noise by level, correlated slots, or whatever model
the data have. Intervals are then repeated confidence intervals, which do not depend on the rule that ended the study
(Jennison and Turnbull 1989). Adjusted p values are the levels at which they reach zero.

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

from leadline.analysis.comparisons import KNOWN
from leadline.analysis.maxt import MaxT, max_t
from leadline.analysis.sequential import FEWEST, Interim, bounds
from leadline.analysis.study import analyse
from leadline.analysis.table import Floats, StudyTable, as_one_factor, sample_of
from leadline.analysis.within import Information, planned_sample
from leadline.model import distributions
from leadline.model.conditions import Condition, Judged, changes_of_study, judge
from leadline.model.naming import plain_level
from leadline.model.plan import Plan
from leadline.model.result import Observation

SEED = 3_471
_LEVELS = 40
_WORK = 3e7  # numbers drawn
_LARGEST, _FEWEST = 15, 12  # powers of two: draws


def obrien_fleming_spending(fraction: float, alpha: float) -> float:
    """Lan and DeMets' function close to O'Brien and Fleming's boundary, two-sided: alpha/2 is spent on each side."""
    if fraction <= 0:
        return 0.0
    return float(4.0 * distributions.norm.sf(distributions.norm.isf(alpha / 4) / math.sqrt(min(fraction, 1.0))))


@dataclass(frozen=True)
class Paths:
    """Simulated largest statistics: ``peaks`` (looks, draws), 0 where a look has no degree of freedom.

    ``known`` is the information at each look.
    """

    peaks: Floats
    known: tuple[Information, ...]
    _bounds: dict[tuple[tuple[float, ...], float], tuple[float, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _tables: dict[tuple[float, ...], tuple[list[float], list[float]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def bounds(self, fractions: Sequence[float], alpha: float) -> tuple[float, ...]:
        """Critical values of the largest statistic at each look; infinite where nothing can be spent yet."""
        key = (tuple(fractions), alpha)
        if key not in self._bounds:
            self._bounds[key] = self._solve(fractions, alpha)
        return self._bounds[key]

    def _solve(self, fractions: Sequence[float], alpha: float) -> tuple[float, ...]:
        alive = np.ones(self.peaks.shape[1], dtype=bool)
        bounds: list[float] = []
        for index, fraction in enumerate(fractions):
            target = obrien_fleming_spending(fraction, alpha)
            if not len(self.known[index].known):
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
        return self.law(index).quantile(1 - target, KNOWN)

    def law(self, index: int) -> MaxT:
        """Of the largest statistic at a look (from 0) where something is known."""
        information = self.known[index]
        return max_t(information.fit.scatter(information.known))

    @staticmethod
    def _next(peaks: Floats, alive: NDArray[np.bool_], target: float) -> float:
        room = math.floor(target * len(peaks)) - int(np.sum(~alive))
        if room < 1:
            return math.inf
        chosen = np.sort(peaks[alive])
        return float(chosen[-room - 1]) if room < len(chosen) else 0.0

    def repeated_p(self, fractions: Sequence[float], look: int, statistic: float) -> float:
        """Smallest family level at which the boundary of look ``look`` (from 0) lets ``statistic`` through.

        From a table of 40 levels, between which logarithms of levels are interpolated.
        """
        levels, bounds = self._table(tuple(fractions[: look + 1]))
        if not bounds or statistic <= bounds[-1]:
            return 1.0
        return float(np.exp(np.interp(-statistic, [-bound for bound in bounds], np.log(levels))))

    def _table(self, fractions: tuple[float, ...]) -> tuple[list[float], list[float]]:
        """Levels, growing, and the last look's bounds at them, falling; levels that cannot be spent are left out."""
        if fractions not in self._tables:
            levels: list[float] = []
            bounds: list[float] = []
            for level in np.geomspace(1e-6, 0.9999, _LEVELS):
                bound = self.bounds(fractions, float(level))[-1]
                if math.isfinite(bound) and (not bounds or bound < bounds[-1]):
                    levels.append(float(level))
                    bounds.append(bound)
            self._tables[fractions] = (levels, bounds)
        return self._tables[fractions]


def simulate(parts: Sequence[Information]) -> Paths:
    """Paths of the largest statistic when nothing has an effect. ``parts``: the information that each look adds."""
    # the matrices themselves do not depend on the order of rows; no negative zeros in a key of the cache
    matrices = np.round([part.matrix for part in parts], 9) + 0.0
    return _simulate(matrices.tobytes(), tuple(part.df for part in parts))


@lru_cache(maxsize=64)
def _simulate(matrices: bytes, degrees: tuple[int, ...]) -> Paths:
    looks = len(degrees)
    width = math.isqrt(len(matrices) // 8 // looks)
    parts = map(Information, np.frombuffer(matrices).reshape(looks, width, width), degrees)
    power = _LARGEST
    while power > _FEWEST and 2**power * width * looks > _WORK:
        power -= 1
    from scipy.stats import qmc  # half a second

    uniform = qmc.Sobol(width * looks, scramble=True, rng=SEED).random_base2(power)
    uniform = np.clip(uniform, 1e-12, 1 - 1e-12)
    weighted = np.zeros((len(uniform), width))
    peaks, informations = [], list[Information]()
    for number, part in enumerate(parts):
        begin = number * width  # the same columns for the same look, whatever comes later
        if len(part.root):
            weighted += special.ndtri(uniform[:, begin : begin + len(part.root)]) @ part.root
        informations.append(informations[-1] + part if informations else part)
        peaks.append(_peak(informations[-1], weighted))
    return Paths(np.array(peaks), tuple(informations))


def _peak(known: Information, weighted: Floats) -> Floats:
    if not len(known.known):
        return np.zeros(len(weighted))
    scatter = known.fit.scatter(known.known)
    estimates = weighted @ known.fit.half @ scatter.T
    return np.asarray(np.max(np.abs(estimates) / np.linalg.norm(scatter, axis=1), axis=1), dtype=np.float64)


_SMALLEST = 1e-15  # p value that a quantile can be told for


@dataclass(frozen=True)
class Boundary:
    """The boundary of a family over looks. ``fractions``: share of the error rate's clock at each of them."""

    paths: Paths
    fractions: tuple[float, ...]

    def bound(self, number: int, level: float = 0.95) -> float:
        """Critical value of the look ``number`` (from 1), infinite where nothing can be said yet."""
        return self.paths.bounds(self.fractions[:number], 1 - level)[-1]

    def interim(self, number: int, level: float = 0.95) -> Interim | None:
        """How the look judges; None where its trials tell nothing."""
        if not len(self.paths.known[number - 1].known):
            return None
        law = self.paths.law(number - 1)

        def repeated(p_value: float) -> float:
            statistic = law.quantile(1 - max(p_value, _SMALLEST), KNOWN)
            return self.paths.repeated_p(self.fractions[:number], number - 1, statistic)

        return Interim(1 - law.sf(self.bound(number, level), KNOWN), repeated)


def boundary_of(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    blocks: Sequence[int],
    number: int,
    ahead: Sequence[Information] = (),
) -> Boundary:
    """The boundary of a response over looks after ``blocks``, from the trials that ran until look ``number``.
    ``ahead``: what each later look would add; it does not change the bounds of earlier ones.
    """
    plan, observations = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations, plain_level)
    sample, _ = sample_of(table, response)
    ends = [*blocks[: number - 1], max(blocks[number - 1], 1 + int(sample.blocks.max(initial=0)))]
    parts = [
        Information.of(table, sample.only((low <= sample.blocks) & (sample.blocks < high)))
        for low, high in zip([0, *ends[:-1]], ends, strict=True)
    ]
    nothing = Information(np.zeros_like(parts[0].matrix), 0)
    paths = simulate([*parts, *(ahead or [nothing] * (len(blocks) - number))])
    return Boundary(paths, tuple(share / blocks[-1] for share in blocks))


NOTHING = Interim(1.0, lambda _: 1.0)  # too early to judge


def shares_of(plan: Plan, observations: Sequence[Observation], response: str) -> Floats | None:
    """(k) The information that each comparison has, of the whole plan's; None where the trials tell nothing yet."""
    plan, observations_ = as_one_factor(plan, observations)
    table = StudyTable.of(plan, observations_, plain_level)
    sample, _ = sample_of(table, response)
    if len(np.unique(sample.blocks)) < min(FEWEST, blocks_of(plan)):
        return None
    now, end = Information.of(table, sample), Information.of(*planned_sample(plan))
    if not len(now.known):
        return None
    determined = now.known.any(axis=0) & end.known.any(axis=0)
    sizes = (np.where(determined, np.linalg.norm(information.fit.half, axis=1), 1.0) for information in (now, end))
    return np.where(determined, 1 / np.divide(*sizes) ** 2, 0.0)


def blocks_of(plan: Plan) -> int:
    """How many blocks it has."""
    return 1 + max(trial.block for trial in plan.trials)


def interim_at(plan: Plan, shares: Floats | None, level: float = 0.95) -> Interim:
    """How an analysis judges where comparisons have these shares, strictly by the least of them; ``level`` holds over
    all blocks together.
    """
    if shares is None:
        return NOTHING
    share, law = min(float(shares[shares > 0].min(initial=1.0)), 1.0), bounds(blocks_of(plan))
    return Interim(1 - law.nominal(share, 1 - level), lambda p_value: law.overall(p_value, share))


def interim_of(plan: Plan, observations: Sequence[Observation], response: str, level: float = 0.95) -> Interim:
    """How the analysis of these trials judges a response."""
    return interim_at(plan, shares_of(plan, observations, response), level)


def judged(
    plan: Plan, observations: Sequence[Observation], conditions: Sequence[Condition], level: float = 0.95
) -> tuple[Judged, ...]:
    """The conditions held against the trials that ran so far, as the study would conclude if it ended now."""
    plan, observations = as_one_factor(plan, observations)
    analysis = analyse(
        plan,
        observations,
        [condition.response for condition in conditions],
        verdicts_only=True,
        interim=lambda response: interim_of(plan, observations, response, level),
    )
    return judge(conditions, changes_of_study(analysis))
