"""What a plan can find, and what an effect needs.

Power is that of a t test with the family's critical value, from the noncentral t distribution: Cohen, Statistical
Power Analysis (1988); for the largest of several t statistics the power to find one given comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leadline.analysis.carry import SHARES, prior
from leadline.analysis.comparisons import KNOWN
from leadline.analysis.linear import fit
from leadline.analysis.maxt import MaxT, max_t
from leadline.analysis.power import detectable
from leadline.analysis.strata import Stratum, centred
from leadline.analysis.unequal import FAMILY, unequal
from leadline.planning.shape import Floats, Ints, Rows, information, solve

NO_NOISE = "the plan leaves nothing to estimate the noise from; add a replicate or sentinels"
NOT_KNOWN = "the plan does not determine any comparison"
_MOST = 100_000  # times a plan is repeated at most


@dataclass(frozen=True)
class Precision:
    """How well a plan determines its comparisons for noise of size 1, and how that grows when it is repeated.

    ``errors`` (k): standard errors of the known comparisons, ``df`` of the noise, ``law`` of the largest |t|,
    ``rows``: model rows of one plan, ``spent``: degrees of freedom that do not grow with repetition. ``own``: degrees
    of freedom of a comparison, whose levels have a noise of their own, of which ``lent`` do not grow.
    """

    errors: Floats
    df: int
    law: MaxT
    level: float
    rows: int
    nuisance: int
    fixed: int
    own: float
    lent: float = 0.0
    times: float = 1.0

    @property
    def error(self) -> float:
        """The median standard error: what a comparison of this plan has."""
        return float(np.median(self.errors))

    @property
    def critical(self) -> float:
        if self.own >= self.df:
            return self.law.quantile(self.level, self.df)
        return float(stats.t.isf(stats.norm.sf(self.law.quantile(self.level, KNOWN)), self.own))

    def repeated(self, times: float) -> Precision:
        """The same plan ``times`` as often, with new blocks."""
        df = math.floor((self.rows - self.nuisance) * self.times * times + 1e-9) - self.fixed
        own = self.lent + (self.own - self.lent) * max(df, 0) / self.df
        return replace(self, errors=self.errors / math.sqrt(times), df=max(df, 0), own=own, times=self.times * times)

    def power(self, effect: float, sigma: float) -> float:
        """Probability that a comparison with the true ``effect`` (of logarithms) is found at noise ``sigma``."""
        if self.df <= 0:
            return 0.0
        return t_power(effect / (sigma * self.error), self.own, self.critical)

    def smallest(self, sigma: float, power: float) -> float | None:
        """Smallest effect (of logarithms) found with that probability; None without a degree of freedom."""
        return detectable(self.critical, sigma * self.error, self.own, power) if self.df > 0 else None

    def times_for(self, effect: float, sigma: float, power: float, whole: int = 1) -> float | None:
        """How often the plan must be repeated to find ``effect``; a multiple of 1/``whole``, None if beyond reason."""
        low, high = 0, 1
        while not self._finds(high / whole, effect, sigma, power):
            low, high = high, high * 2
            if high > _MOST * whole:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._finds(middle / whole, effect, sigma, power) else (middle, high)
        return high / whole

    def _finds(self, times: float, effect: float, sigma: float, power: float) -> bool:
        grown = self.repeated(times)
        if grown.df <= 0:
            return False
        # far on either side the exact figure is not needed
        shift = effect / (sigma * grown.error)
        if shift > 3 * (grown.critical + 8):
            return True
        return t_power(shift, grown.own, grown.critical) >= power


def t_power(shift: float, df: float, critical: float) -> float:
    """P(|T| > critical) for noncentral t with ``shift`` and ``df``."""
    shift = abs(shift)
    if df > 10_000:
        return float(stats.norm.sf(critical - shift) + stats.norm.cdf(-critical - shift))
    found = float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))
    if math.isfinite(found):
        return min(1.0, max(0.0, found))
    return float(stats.t.sf(critical - shift, df))  # far from the bound, where the library's series fails


def precision_of(
    rows: Rows, level: float = 0.95, spent: int = 0, *, equal: bool = False, instances: int = 0
) -> Precision | str:
    """What planned rows can tell, or why nothing. ``spent``: degrees of freedom that something else takes;
    ``equal``: all levels have the same noise, as in mixed models. ``instances``: of the server, between which the
    effects of slots are taken to differ, if there are several.
    """
    count = len(rows.comparisons)
    part = information(rows)
    solution = solve([part])
    if not solution.known[:count].any():
        return NOT_KNOWN
    df = solution.df - spent
    if df <= 0:
        return NO_NOISE
    errors = solution.errors(count)[solution.known[:count]] * (carry_cost(rows) if instances else 1.0)
    law = max_t(solution.scatter(count))
    nuisance = len(np.unique(rows.groups))
    fixed = len(rows.groups) - nuisance - df
    if instances > 1:
        between = float(len(errors) * (instances - 1))
        return Precision(errors, df, law, level, len(rows.groups), nuisance, fixed, min(between, df), -len(errors))
    own = float(df) if equal else min(_own_noise(rows, solution.known[:count]), float(df))
    lent = 2 * FAMILY if own < df else 0.0
    return Precision(errors, df, law, level, len(rows.groups), nuisance, fixed, own, lent if own > lent else 0.0)


def carry_cost(rows: Rows) -> float:
    """How many times as large standard errors are because the carry-over between slots is not known: at every share of
    it, weighed as before any data. ``rows`` in the order in which slots run, groups are their trials.
    """
    count = len(rows.comparisons)
    variances = []
    for share in SHARES:
        columns = rows.columns.copy()
        for now in range(1, len(columns)):
            if rows.groups[now] == rows.groups[now - 1]:
                columns[now] += share * (columns[now - 1] - columns[now])
        solution = solve([information(replace(rows, columns=columns))])
        variances.append(float(np.median(solution.errors(count)[solution.known[:count]])) ** 2)
    return math.sqrt(float(prior() @ variances) / variances[0])


def _own_noise(rows: Rows, known: NDArray[np.bool_]) -> float:
    """Degrees of freedom that the median comparison has where every level has a noise of its own."""
    order = np.argsort(rows.groups, kind="stable")
    starts = np.flatnonzero(np.diff(rows.groups[order], prepend=-1))
    columns = rows.columns[order]
    design = centred(columns, starts)
    plain = replace(fit(design, np.zeros(len(design)), len(starts)), sigma=1.0)
    count = len(known)
    cells = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    divisions: dict[int | None, Ints] = {None: cells}
    crossed = bool(np.any(columns[:, :count].sum(axis=1) > 1))
    firsts: dict[str, int] = {}
    if crossed:
        for place, one in enumerate(rows.comparisons):
            same = [at for at, other in enumerate(rows.comparisons) if other.factor == one.factor]
            divisions[place] = (columns[:, same] @ np.arange(1, len(same) + 1)).astype(np.int64)
            firsts.setdefault(one.factor, place)
    swept = Stratum("block", starts)
    own = unequal(plain, columns, np.zeros(len(design)), swept, divisions, tuple(firsts.values()))
    asked = np.eye(count, columns.shape[1])[known]
    own = replace(own, planned=True)
    return float(np.median(own.together(asked)[1] if len(asked) > 1 else own.degrees(asked)))


def percent(effect: float) -> float:
    """Percent of an effect of logarithms."""
    return 100.0 * math.expm1(min(effect, 20.0))


def log_effect(percentage: float) -> float:
    """The effect of logarithms, as a size, of a change by so many percent (-100 and below are refused)."""
    if percentage <= -100 or percentage == 0 or not math.isfinite(percentage):
        raise ValueError(f"an effect of {percentage:g} % cannot be planned for: name one such as 5%")
    return abs(math.log1p(percentage / 100.0))
