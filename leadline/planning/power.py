"""What a plan can find, and what an effect needs.

Power is that of a t test with the family's critical value, from the noncentral t distribution: Cohen, Statistical
Power Analysis (1988); for the largest of several t statistics the power to find one given comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.optimize at its first use

from leadline.analysis.carry import SHARES, prior
from leadline.analysis.columns import Model, fitted_with_strata, own_noise
from leadline.analysis.comparisons import KNOWN
from leadline.analysis.forks import ONE_WORLD
from leadline.analysis.instances import planned_degrees
from leadline.analysis.linear import POWER, Fit, Strata, detectable, innermost
from leadline.analysis.maxt import MaxT, max_t
from leadline.analysis.table import Floats, Sample
from leadline.analysis.unequal import UnequalFit
from leadline.analysis.within import planned_sample, within
from leadline.layouts import layout_of
from leadline.model import distributions
from leadline.model.plan import Plan

NO_NOISE = "the plan leaves nothing to estimate the noise from; add a replicate or sentinels"
NOT_KNOWN = "the plan does not determine any comparison"
_MOST = 100_000  # times a plan is repeated at most
_FEW = 300  # figures up to which it is looked at what a repetition adds; with more, all grows in proportion
_DRAWS = 100  # of residuals, for what estimated degrees of freedom cost; with ``_MANY`` of them they cost nothing
_MANY = 40.0


@dataclass(frozen=True)
class Precision:
    """How well a plan determines its comparisons for noise of size 1, and how that grows when it is repeated.

    ``errors`` (k): standard errors of the known comparisons, ``df`` of the noise, ``law`` of the largest |t|,
    ``rest``: figures of one plan less their groups, ``fixed``: degrees of freedom that do not grow with repetition.
    ``own``: degrees of freedom of a comparison, whose levels have a noise of their own, of which ``lent`` do not grow;
    fewer where they are estimated with the noise, so that a t test with ``own`` finds as much.
    """

    errors: Floats
    df: int
    law: MaxT
    level: float
    rest: int
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
        return float(distributions.t.isf(distributions.norm.sf(self.law.quantile(self.level, KNOWN)), self.own))

    def repeated(self, times: float) -> Precision:
        """The same plan ``times`` as often, with new blocks."""
        df = math.floor(self.rest * self.times * times + 1e-9) - self.fixed
        own_df = min(max(self.lent + (self.own - self.lent) * max(df, 0) / self.df, 1.0), max(df, 1))
        return replace(self, errors=self.errors / math.sqrt(times), df=max(df, 0), own=own_df, times=self.times * times)

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
        while self.repeated(high / whole).power(effect, sigma) < power:
            low, high = high, high * 2
            if high > _MOST * whole:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            finds = self.repeated(middle / whole).power(effect, sigma) >= power
            low, high = (low, middle) if finds else (middle, high)
        return high / whole


def t_power(shift: float, df: float, critical: float) -> float:
    """P(|T| > critical) for noncentral t with ``shift`` and ``df``."""
    shift = abs(shift)
    if df > 10_000:
        return float(distributions.norm.sf(critical - shift) + distributions.norm.cdf(-critical - shift))
    power = float(distributions.nct.sf(critical, df, shift) + distributions.nct.cdf(-critical, df, shift))
    if math.isfinite(power):
        return min(1.0, max(0.0, power))
    return float(distributions.t.sf(critical - shift, df))  # far from the bound, where the library's series fails


def precision_of(plan: Plan, level: float = 0.95) -> Precision | str:
    """What a plan can tell by the analysis's model, or why nothing."""
    sample, model, fitted, strata = _fitted(plan)
    plain = within(model, sample)
    effects = np.array([model.effect(main) for main in model.mains])
    estimable = effects[plain.estimable(effects)]
    if not len(estimable):
        return NOT_KNOWN
    groups, exact = len(innermost(sample)[1]), layout_of(plan).exact
    if exact and groups < 2:
        return ONE_WORLD
    if plain.df <= 0:
        return NO_NOISE
    scatter = plain.scatter(estimable)
    instances = sum(bool(trial.slots) for trial in plan.trials)
    errors = np.linalg.norm(scatter, axis=1) * (carry_cost(model, sample, effects) if instances else 1.0)
    rest = sample.size - groups
    precision = Precision(errors, plain.df, max_t(scatter), level, rest, rest - plain.df, float(plain.df))
    if instances > 1:  # between which each effect differs by its own amount
        own = float(np.median(planned_degrees(model, sample, plain)))
        return replace(precision, law=max_t(np.eye(len(errors))), own=own, lent=own - instances)
    if strata.mixed:
        return precision
    if exact:  # by how a contrast varies between worlds
        return replace(precision, own=float(groups - 1), lent=-1.0)
    alone, effects = _alone(sample, model, fitted, strata)
    own_df, lent = min(_own(alone, effects), precision.own), 0.0
    precision = replace(precision, own=own_df)
    if sample.size <= _FEW:
        twice = _alone(*_fitted(_repeated(plan)))
        lent = own_df - (_own(*twice) - own_df) / (twice[0].df - alone.df) * alone.df
        cost = own_df - _found_with(precision, alone, effects) if own_df < _MANY else 0.0
        own_df, lent = own_df - cost, lent - cost
    return replace(precision, own=own_df, lent=lent)


def _fitted(plan: Plan) -> tuple[Sample, Model, Fit, Strata]:
    """The analysis's model of a whole plan."""
    table, sample = planned_sample(plan)
    return sample, *fitted_with_strata(table, sample, sample.values, False)


def _alone(sample: Sample, model: Model, fitted: Fit, strata: Strata) -> tuple[UnequalFit, Floats]:
    """The fit in which every level has a noise of its own, and the effects (k, p) that it determines."""
    effects = np.array([model.effect(main) for main in model.mains])
    alone = own_noise(model, sample, sample.values, strata, replace(fitted, sigma=1.0))
    return alone, effects[fitted.estimable(effects)]


def _own(alone: UnequalFit, effects: Floats) -> float:
    """Degrees of freedom of the median of ``effects`` (k, p) where all levels have the same noise."""
    planned = replace(alone, planned=True)
    return float(np.median(planned.together(effects)[1] if len(effects) > 1 else planned.degrees(effects)))


def _found_with(precision: Precision, alone: UnequalFit, effects: Floats) -> float:
    """Degrees of freedom with which a t test finds with 80 % power what the analysis does. Its variances of levels and
    the degrees of freedom that it estimates from them are averaged over drawn residuals.
    """
    if alone.left_over is None:
        return precision.own
    middle = int(np.argsort(precision.errors, kind="stable")[len(precision.errors) // 2])
    effect, tail = effects[[middle]], distributions.norm.sf(precision.law.quantile(precision.level, KNOWN))
    bounds = np.empty(_DRAWS)  # of the estimate, in its true standard errors
    rests = np.random.default_rng(1).standard_normal((_DRAWS, len(alone.residuals))) @ alone.left_over
    for place, (rest, sigma) in enumerate(zip(rests, np.sqrt(np.sum(rests**2, axis=1) / alone.df), strict=True)):
        drawn = replace(alone, residuals=rest / sigma, sigma=float(sigma))
        errors, degrees = drawn.together(effect)
        alike = drawn.errors(effect) * distributions.t.isf((1 - precision.level) / 2, drawn.degrees(effect))
        bounds[place] = float(np.maximum(errors * distributions.t.isf(tail, degrees), alike)[0])
    bounds /= precision.errors[middle]
    shift = scipy.optimize.brentq(
        lambda shift: float(np.mean(distributions.norm.sf(bounds - shift))) - POWER, 0.0, 5 + bounds.max()
    )

    def gain(df: float) -> float:
        return t_power(shift, df, replace(precision, own=df).critical) - POWER

    if gain(precision.own) <= 0:
        return precision.own
    return float(scipy.optimize.brentq(gain, 1.0, precision.own)) if gain(1.0) < 0 else 1.0


def _repeated(plan: Plan) -> Plan:
    """The plan and once more the same in new blocks."""
    blocks, count = 1 + max(trial.block for trial in plan.trials), len(plan.trials)
    again = [replace(trial, position=count + trial.position, block=blocks + trial.block) for trial in plan.trials]
    return replace(plan, trials=(*plan.trials, *again))


def carry_cost(model: Model, sample: Sample, asked: Floats) -> float:
    """How many times as large standard errors of contrasts are because the carry-over between slots is not known: at
    every share of it, weighed as before any data.
    """
    variances = []
    for share in SHARES[::5]:
        fitted = within(replace(model, kept=share), sample)
        scatter = fitted.scatter(asked[fitted.estimable(asked)])
        variances.append(float(np.median(np.linalg.norm(scatter, axis=1))) ** 2)
    return math.sqrt(float(prior(SHARES[::5]) @ variances) / variances[0])


def percent(effect: float) -> float:
    """Percent of an effect of logarithms."""
    return 100.0 * math.expm1(min(effect, 20.0))


def log_effect(percentage: float) -> float:
    """The effect of logarithms, as a size, of a change by so many percent (-100 and below are refused)."""
    if percentage <= -100 or percentage == 0 or not math.isfinite(percentage):
        raise ValueError(f"an effect of {percentage:g} % cannot be planned for: name one such as 5%")
    return abs(math.log1p(percentage / 100.0))
