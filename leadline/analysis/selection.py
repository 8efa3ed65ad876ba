"""False discovery rates and shrunken estimates beside each effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.comparisons import Family
from leadline.analysis.discovery import q_values, shrunken
from leadline.analysis.linear import Fit
from leadline.analysis.scale import Scale
from leadline.analysis.table import StudyTable
from leadline.model.knob import Level
from leadline.model.result import Effect


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
