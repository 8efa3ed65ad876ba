"""What a plan can find, and what an effect needs.

Power is that of a t test with the family's critical value, from the noncentral t distribution: Cohen, Statistical
Power Analysis (1988); for the largest of several t statistics the power to find one given comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from leadline.analysis.maxt import MaxT, max_t
from leadline.analysis.power import detectable
from leadline.planning.shape import Floats, Rows, information, solve

NO_NOISE = "the plan leaves nothing to estimate the noise from; add a replicate or sentinels"
NOT_KNOWN = "the plan does not determine any comparison"
_MOST = 100_000  # times a plan is repeated at most


@dataclass(frozen=True)
class Precision:
    """How well a plan determines its comparisons for noise of size 1, and how that grows when it is repeated.

    ``errors`` (k): standard errors of the known comparisons, ``df`` of the noise, ``law`` of the largest |t|,
    ``rows``: model rows of one plan, ``spent``: degrees of freedom that do not grow with repetition.
    """

    errors: Floats
    df: int
    law: MaxT
    level: float
    rows: int
    nuisance: int
    fixed: int
    times: float = 1.0

    @property
    def error(self) -> float:
        """The median standard error: what a comparison of this plan has."""
        return float(np.median(self.errors))

    @property
    def critical(self) -> float:
        return self.law.quantile(self.level, self.df)

    def repeated(self, times: float) -> Precision:
        """The same plan ``times`` as often, with new blocks."""
        df = math.floor((self.rows - self.nuisance) * self.times * times + 1e-9) - self.fixed
        return replace(self, errors=self.errors / math.sqrt(times), df=max(df, 0), times=self.times * times)

    def power(self, effect: float, sigma: float) -> float:
        """Probability that a comparison with the true ``effect`` (of logarithms) is found at noise ``sigma``."""
        if self.df <= 0:
            return 0.0
        return t_power(effect / (sigma * self.error), self.df, self.critical)

    def smallest(self, sigma: float, power: float) -> float | None:
        """Smallest effect (of logarithms) found with that probability; None without a degree of freedom."""
        return detectable(self.critical, sigma * self.error, self.df, power) if self.df > 0 else None

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
        return t_power(shift, grown.df, grown.critical) >= power


def t_power(shift: float, df: int, critical: float) -> float:
    """P(|T| > critical) for noncentral t with ``shift`` and ``df``."""
    shift = abs(shift)
    if df > 10_000:
        return float(stats.norm.sf(critical - shift) + stats.norm.cdf(-critical - shift))
    found = float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))
    if math.isfinite(found):
        return min(1.0, max(0.0, found))
    return float(stats.t.sf(critical - shift, df))  # far from the bound, where the library's series fails


def precision_of(rows: Rows, level: float = 0.95, spent: int = 0) -> Precision | str:
    """What planned rows can tell, or why nothing. ``spent``: degrees of freedom that something else takes."""
    count = len(rows.comparisons)
    part = information(rows)
    solution = solve([part])
    if not solution.known[:count].any():
        return NOT_KNOWN
    df = solution.df - spent
    if df <= 0:
        return NO_NOISE
    errors = solution.errors(count)[solution.known[:count]]
    law = max_t(solution.scatter(count))
    nuisance = len(np.unique(rows.groups))
    fixed = len(rows.groups) - nuisance - df
    return Precision(errors, df, law, level, len(rows.groups), nuisance, fixed)


def percent(effect: float) -> float:
    """Percent of an effect of logarithms."""
    return 100.0 * math.expm1(min(effect, 20.0))


def log_effect(percentage: float) -> float:
    """The effect of logarithms, as a size, of a change by so many percent (-100 and below are refused)."""
    if percentage <= -100 or percentage == 0 or not math.isfinite(percentage):
        raise ValueError(f"an effect of {percentage:g} % cannot be planned for: name one such as 5%")
    return abs(math.log1p(percentage / 100.0))
