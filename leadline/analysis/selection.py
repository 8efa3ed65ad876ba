"""Many effects at once: adjusted p values and false discovery rates, estimates without the winner's share of luck, what
the best of many gains by chance, and which changes of a study may be claimed.

Changes are claimed by one step-down procedure over all responses. At most 5 of 100 studies without an effect claim one.
Effects are one family, interactions a second with a fifth of that rate. In a family half of the rate is the first
response's, the others share the rest. What is claimed leaves the family and its share passes to what remains: a closed
test whose local tests are Bonferroni's between responses (Holm, Scandinavian Journal of Statistics 6, 1979, 65-70) and
the largest |t| within one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.comparisons import Family
from leadline.analysis.linear import Fit
from leadline.analysis.maxt import max_t
from leadline.analysis.table import Floats, Scale, StudyTable
from leadline.model.knob import Level
from leadline.model.result import Effect, Luck, ResponseAnalysis, StudyAnalysis


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """P values adjusted by Holm (1979) for all that are known, in the given order; None stays None."""
    ranked = sorted((p_value, at) for at, p_value in enumerate(p_values) if p_value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p_value, at) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p_value))
        adjusted[at] = largest
    return adjusted


def q_values(p_values: Floats) -> Floats:
    """Benjamini-Hochberg adjusted p values (k), in the given order.

    Valid for independent and positively dependent tests: comparisons with one baseline are (Benjamini and Yekutieli
    2001).
    """
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")
    raised = p_values[order] * count / np.arange(1, count + 1)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(raised[::-1])[::-1])
    return adjusted


def spread_of_truth(estimates: Floats, covariance: Floats) -> float:
    """Variance of true effects around zero by REML for ``estimates`` (k) with sampling ``covariance`` (k, k).

    Effects are changes from a baseline, so their prior mean is zero and nothing is spent on it: the likelihood itself
    is the restricted one. Never negative.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300))
    squares = (vectors.T @ estimates) ** 2
    top = max(float(np.max(estimates**2)), float(values[-1]))
    grid = np.concatenate([[0.0], np.geomspace(1e-6 * top, 10 * top, 400)])
    total = values[:, None] + grid[None, :]
    deviance = np.sum(np.log(total) + squares[:, None] / total, axis=0)
    best = int(np.argmin(deviance))
    if best in (0, len(grid) - 1):
        return float(grid[best])
    fine = np.linspace(grid[best - 1], grid[best + 1], 201)
    total = values[:, None] + fine[None, :]
    return float(fine[np.argmin(np.sum(np.log(total) + squares[:, None] / total, axis=0))])


def shrunken(estimates: Floats, covariance: Floats) -> Floats:
    """Posterior means (k) of true effects under a normal prior around zero (empirical Bayes, Efron and Morris 1975).

    The prior's variance is :func:`spread_of_truth`. Comparisons share their baseline; its luck is shared out too,
    because the whole covariance is used.
    """
    spread = spread_of_truth(estimates, covariance)
    if spread <= 0:
        return np.zeros(len(estimates))
    total = covariance + spread * np.eye(len(estimates))
    return np.asarray(spread * np.linalg.solve(total, estimates), dtype=np.float64)


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
