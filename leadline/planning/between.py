"""Forecast of factors that change between trials while others change in slots inside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.design.order import is_live
from leadline.model.plan import Plan, Treatment
from leadline.planning.components import cv_of
from leadline.planning.noise import Noise
from leadline.planning.power import log_effect, percent, precision_of


@dataclass(frozen=True)
class Between:
    """What the plan finds of ``factors``. ``smallest``: power -> percent; None, with ``reason``, where not known."""

    factors: tuple[str, ...]
    df: int | None
    cv: float | None
    smallest: Mapping[float, float | None]
    chance: float | None = None
    reason: str = ""


def between_trials(
    plan: Plan,
    noise: Noise,
    slot_variance: float,
    level: float,
    powers: Sequence[float],
    effect: float | None = None,
) -> Between | None:
    """Means of whole trials compared inside blocks; None where no factor changes between trials with slots.

    The family shares its error rate in proportion to the number of comparisons (Bonferroni), a little stricter than
    the analysis, which judges all together. ``slot_variance``: of one slot about its trial, of logarithms.
    """
    others = tuple(factor for factor in plan.factors if not is_live(factor))
    if not others or not any(trial.slots for trial in plan.trials):
        return None
    names = tuple(factor.name for factor in others)
    nothing = Between(names, None, None, dict.fromkeys(powers))
    instances = _between_instances(noise)
    if instances is None:
        why = "the noise between trials is not known: it is read from earlier studies, and --cv gave that of slots"
        return replace(nothing, reason=why)
    whole = whole_trials(plan, names)
    precision = precision_of(whole, 1 - (1 - level) * len(whole.comparisons) / len(plan.comparisons))
    if isinstance(precision, str):
        return replace(nothing, reason=precision)
    slots = sum(len(trial.slots) for trial in plan.trials) / len(plan.trials)
    sigma = math.sqrt(instances + slot_variance / slots)
    sizes = {power: precision.smallest(sigma, power) for power in powers}
    return Between(
        names,
        precision.df,
        cv_of(sigma**2),
        {power: None if size is None else percent(size) for power, size in sizes.items()},
        None if effect is None else precision.power(log_effect(effect), sigma),
    )


def _between_instances(noise: Noise) -> float | None:
    """Variance of what a trial has of its own, beyond its seconds."""
    if noise.beyond is not None:
        return noise.beyond
    if noise.between_slots is None:
        return noise.sigma2
    return None if noise.block is None else noise.block.variance


def whole_trials(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan as one of whole trials, with the factors of these names alone."""
    return replace(
        plan,
        factors=tuple(factor for factor in plan.factors if factor.name in names),
        trials=tuple(
            replace(trial, slots=(), treatment=Treatment.of({name: trial.treatment[name] for name in names}))
            for trial in plan.trials
        ),
    )
