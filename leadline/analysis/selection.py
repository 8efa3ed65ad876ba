"""False discovery rates and shrunken estimates beside each effect, and what the best of many gains by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.comparisons import Family
from leadline.analysis.discovery import q_values, shrunken
from leadline.analysis.linear import Fit
from leadline.analysis.maxt import max_t
from leadline.analysis.scale import Scale
from leadline.analysis.table import Floats, StudyTable
from leadline.model.knob import Level
from leadline.model.result import Effect, Luck


def places(table: StudyTable, model: Model, family: Family) -> dict[tuple[str, str, Level], int]:
    """Factor, type and value of each estimated level -> its index in the family's arrays."""
    indices = {}
    for (factor, level), place in zip(model.mains, family.place, strict=True):
        if place is not None:
            chosen = table.factors[factor]
            indices[key(chosen.name, chosen.levels[level])] = place
    return indices


def key(factor: str, level: Level) -> tuple[str, str, Level]:
    return factor, type(level).__name__, level


def with_selection(
    effects: Sequence[Effect], table: StudyTable, model: Model, family: Family, fit: Fit, scale: Scale
) -> list[Effect]:
    """The effects with ``q_value`` and ``shrunken``. At an interim analysis the q value is the adjusted p value, as
    the false discovery rate is never above the family-wise error rate.
    """
    if family.law is None or not len(family.estimates):
        return list(effects)
    q = q_values(np.array([family.together(place) for place in range(len(family.estimates))]))
    drawn = shrunken(family.estimates, fit.sigma**2 * (family.scatter @ family.scatter.T))
    where = places(table, model, family)
    result = []
    for effect in effects:
        place = where.get(key(effect.factor, effect.level))
        if place is not None and effect.p_value is not None:
            q_value = float(q[place]) if family.interim is None else effect.p_adjusted
            effect = replace(effect, q_value=q_value, shrunken=scale.percent(float(drawn[place])))
        result.append(effect)
    return result


def best_of_null(scatter: Floats, sigma: float, df: float) -> tuple[float, float]:
    """Mean and 95th percentile of the largest of k contrasts that are all zero in truth.

    ``scatter`` (k, r) times its transpose times ``sigma`` squared is their covariance; standard errors may differ. The
    mean takes ``sigma`` as it is; the percentile allows for having
    estimated it on ``df`` degrees of freedom, so that 5 % of null studies have a best contrast above it.
    """
    best = max_t(scatter, two_sided=False, standard=False)
    error = sigma * float(np.max(np.linalg.norm(scatter, axis=1)))
    return error * best.mean_normal(), error * best.quantile(0.95, df)


def gain_of_luck(settings: int, cv: float, replicates: int) -> tuple[float, float]:
    """Mean and 95th percentile (percent) of the best of ``settings`` against a baseline known without error.

    ``cv`` is the coefficient of variation of one trial in percent, each setting has ``replicates`` trials: what a
    published table of best gains must be held against.
    """
    scatter = np.eye(settings) / math.sqrt(replicates)
    return best_of_null(scatter, cv, 10**7)


def luck(scale: Scale, scatter: Floats, sigma: float, df: float, higher_is_better: bool) -> Luck | None:
    """Luck in percent, in the direction that is better: less is never a gain of 100 % where figures are positive. None
    where percent or noise do not exist.
    """
    sign = 1.0 if higher_is_better else -1.0
    mean, high = best_of_null(scatter, sigma, df)
    expected, percentile = scale.percent(sign * mean), scale.percent(sign * high)
    if expected is None or percentile is None:
        return None
    return Luck(len(scatter), sign * expected, sign * percentile)
