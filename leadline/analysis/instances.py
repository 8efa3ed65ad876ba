"""A live factor's effect differs between server instances (trials), by how much is not known beforehand.

With slots a treatment is compared inside every instance. The error of a new instance's effect is that of
treatment x instance, as in the analysis of variance with random trials (Scheffe, The Analysis of Variance, 1959,
chapter 8). It is used wherever there are two instances, whether an F test sees a difference or not: the test misses
differences that are as large as the error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.carry import changing_factors
from leadline.analysis.columns import Model
from leadline.analysis.linear import Fit, fit
from leadline.analysis.mixed import MixedFit, mixed_fit
from leadline.analysis.scale import Scale
from leadline.analysis.strata import Strata, Stratum
from leadline.analysis.table import Floats, Sample
from leadline.analysis.whitening import whiten
from leadline.model import distributions
from leadline.model.result import Component
from leadline.model.units import format_number

ALPHA = 0.05
LARGEST = 1.5e8  # figures times the square of the columns of treatment x instance
UNTESTED = "Whether effects differ between server instances cannot be tested: "


@dataclass(frozen=True)
class InstancesFit(MixedFit):
    """A fit whose contrasts of live columns are those of a new instance: errors from treatment x instance.

    ``live`` (p) tells the columns; ``within`` is the fit with treatment x instance out of the noise; ``inflation`` is
    the root of the F ratio and ``between`` its numerator's degrees of freedom.
    """

    live: tuple[bool, ...] = ()
    within: Fit | None = None
    inflation: float = 1.0
    between: float = 1.0

    def errors(self, contrasts: Floats) -> Floats:
        assert self.within is not None
        new_instance = self.inflation * self.within.errors(contrasts)
        return np.where(self._asked(contrasts), new_instance, super().errors(contrasts))

    def degrees(self, contrasts: Floats) -> Floats:
        plain = super().degrees(contrasts)
        return np.where(self._asked(contrasts), np.minimum(self.between, plain), plain)

    def _asked(self, contrasts: Floats) -> Floats:
        return np.asarray(np.any(np.abs(contrasts[:, np.array(self.live)]) > 1e-12, axis=1))


@dataclass(frozen=True)
class Instances:
    """The test's outcome. ``p_value`` is adjusted for the study's responses (Bonferroni). ``fit`` is the one to judge
    effects by; ``component`` the spread of an effect between instances, None where it was not found.
    """

    fit: Fit
    p_value: float | None
    detected: bool
    sentence: str
    component: Component | None = None


def between_instances(model: Model, sample: Sample, scale: Scale, fitted: Fit, strata: Strata) -> Instances:
    """F test of live levels x instances beside ``fitted``, and the fit for a new instance."""
    instances = len(np.unique(sample.trials))
    changing = changing_factors(model.table, sample)
    live = _live_columns(model, changing)
    if instances < 2 or not live.any():
        return Instances(fitted, None, False, "")
    if not isinstance(fitted, MixedFit):
        return Instances(fitted, None, False, UNTESTED + "there are too few slots.")
    design, values = model.rows(sample), scale.into(sample.values)
    extra = _crossed(design[:, live], sample)
    if len(extra) * extra.shape[1] ** 2 > LARGEST:
        return Instances(fitted, None, False, UNTESTED + f"{instances} instances with so many slots are too many.")
    inside = _inside_instances(sample, strata)
    wide = mixed_fit(np.column_stack([design, extra]), values, inside)
    if wide.df < 4 or wide.sigma == 0 or not isinstance(wide, MixedFit):
        return Instances(fitted, None, False, UNTESTED + "too few slots of each level are in an instance.")
    rows = whiten(inside, np.column_stack([design, values])[inside.order], wide.parameters).columns
    within = fit(rows[:, :-1], rows[:, -1], instances)
    between = within.df - wide.df
    if between < 1:
        return Instances(fitted, None, False, UNTESTED + "no level is in more than one instance.")
    ratio = (within.sigma**2 * within.df - wide.sigma**2 * wide.df) / between / wide.sigma**2
    p_value = min(1.0, model.table.responses * float(distributions.f.sf(ratio, between, wide.df)))
    exact = replace(within, sigma=wide.sigma)
    chosen = InstancesFit(
        **{name: getattr(fitted, name) for name in fitted.__dataclass_fields__},
        live=tuple(bool(flag) for flag in live),
        within=exact,
        inflation=float(np.sqrt(ratio)),
        between=float(between),
    )
    if p_value >= ALPHA:
        text = f"Effects do not differ visibly between the {instances} server instances (p = {p_value:.2g})"
        return Instances(chosen, p_value, False, f"{text}; intervals are for a new instance all the same.")
    units = np.eye(model.width)[live]
    estimable = [row for row, good in zip(units, fitted.estimable(units), strict=True) if good]
    spread = float(np.median(exact.errors(np.array(estimable))))
    variance = (ratio - 1) * spread**2 * instances
    percent = scale.percent(float(np.sqrt(variance)))
    size = "" if percent is None else f", with a standard deviation of {format_number(percent, 2)} %"
    text = (
        f"Effects differ between the {instances} server instances{size} (p = {p_value:.2g}): intervals are for a new "
        f"instance and rest on {between} degrees of freedom; more trials, rather than more slots, would narrow them."
    )
    return Instances(
        chosen, p_value, True, text, Component("instances in a level's effect", variance, percent, float(between))
    )


def _inside_instances(sample: Sample, strata: Strata) -> Strata:
    """The strata with instances swept out: products with them could else take their own noise for themselves."""
    instance = sample.trials[strata.order]
    starts = np.flatnonzero(np.r_[True, instance[1:] != instance[:-1]]).astype(np.int64)
    return Strata(strata.order, (), Stratum("trial", starts), strata.lags)


def _live_columns(model: Model, changing: set[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    live = np.zeros(model.width, dtype=bool)
    for number, (factor, _) in enumerate(model.mains):
        live[model.leading + number] = factor in changing
    for number, pair in enumerate(model.pairs):
        live[model.leading + len(model.mains) + number] = any(factor in changing for factor, _ in pair)
    return live


def _crossed(columns: Floats, sample: Sample) -> Floats:
    """Products (n, instances * m) of the columns (n, m) with the indicators of instances, without empty ones."""
    trials = np.unique(sample.trials)
    products = [columns * (sample.trials == trial)[:, None] for trial in trials]
    crossed = np.column_stack(products)
    return np.asarray(crossed[:, np.any(crossed != 0, axis=0)], dtype=np.float64)
