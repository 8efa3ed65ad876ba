"""False discovery rates and shrunken estimates beside each effect, and what the best of many gains by chance.

Which changes of a study may be claimed: one step-down procedure over all of its responses.

At most 5 of 100 studies without an effect claim one. Effects are one family, interactions a second with a fifth of that
rate. In a family half of the rate is the first response's, the others share the rest. What is claimed leaves the family
and its share passes to what remains: a closed test whose local tests are Bonferroni's between responses (Holm,
Scandinavian Journal of Statistics 6, 1979, 65-70) and the largest |t| within one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.comparisons import Family
from leadline.analysis.discovery import q_values, shrunken
from leadline.analysis.linear import Fit
from leadline.analysis.maxt import max_t
from leadline.analysis.scale import Scale
from leadline.analysis.table import Floats, StudyTable
from leadline.model.knob import Level
from leadline.model.result import Effect, Luck, ResponseAnalysis, StudyAnalysis


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


RATE = 0.05
INTERACTIONS = 0.2  # of the rate, where there are any
FIRST = 0.5  # of a family's rate
Key = tuple[str, str, str, Level]


@dataclass(frozen=True)
class _Hypothesis:
    key: Key
    response: str
    alone: float
    adjusted: float


def claim_key(effect: Effect) -> Key:
    """Response, factor, and the level with its type: 1 and "1" are two levels."""
    return effect.response, *key(effect.factor, effect.level)


def claimed(analysis: StudyAnalysis, repeated: bool = False) -> frozenset[Key]:
    """Keys of the effects and interactions that may be claimed. ``repeated``: the study is analysed several times, so
    that only adjusted p values hold.
    """
    families = [
        _family(analysis.responses, lambda response: response.effects, repeated),
        _family(analysis.responses, lambda response: response.interactions, repeated),
    ]
    rates = [RATE * (1 - INTERACTIONS), RATE * INTERACTIONS] if all(families) else [RATE, RATE]
    names = [response.response for response in analysis.responses]
    return frozenset().union(*(_stepped(*pair, names) for pair in zip(families, rates, strict=True)))


def _family(
    responses: Iterable[ResponseAnalysis], of: Callable[[ResponseAnalysis], Iterable[Effect]], repeated: bool
) -> list[_Hypothesis]:
    return [
        _Hypothesis(claim_key(effect), effect.response, 1.0 if repeated else effect.p_value, effect.p_adjusted)
        for response in responses
        for effect in of(response)
        if effect.p_value is not None and effect.p_adjusted is not None
    ]


def _stepped(family: list[_Hypothesis], rate: float, names: list[str]) -> set[Key]:
    """``names``: all responses, in their order."""
    rest, keys = list(family), set[Key]()
    while True:
        beside = Counter(hypothesis.response for hypothesis in rest)
        shares = _shares([name for name in names if name in beside], names[0])
        rejected = {
            one.key
            for one in rest
            if min(one.adjusted, beside[one.response] * one.alone) <= rate * shares[one.response]
        }
        if not rejected:
            return keys
        keys |= rejected
        rest = [hypothesis for hypothesis in rest if hypothesis.key not in keys]


def _shares(names: list[str], first: str) -> dict[str, float]:
    if len(names) < 2 or first not in names:
        return dict.fromkeys(names, 1 / max(len(names), 1))
    return dict.fromkeys(names, (1 - FIRST) / (len(names) - 1)) | {first: FIRST}
