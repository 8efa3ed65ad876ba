"""Which changes of a study may be claimed: one step-down procedure over all of its responses.

At most 5 of 100 studies without an effect claim one. Effects are one family, interactions a second with a fifth of that
rate. In a family half of the rate is the first response's, the others share the rest. What is claimed leaves the family
and its share passes to what remains: a closed test whose local tests are Bonferroni's between responses (Holm,
Scandinavian Journal of Statistics 6, 1979, 65-70) and the largest |t| within one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from leadline.analysis import selection
from leadline.model.knob import Level
from leadline.model.result import Effect, ResponseAnalysis, StudyAnalysis

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


def key(effect: Effect) -> Key:
    """Response, factor, and the level with its type: 1 and "1" are two levels."""
    return effect.response, *selection.key(effect.factor, effect.level)


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
        _Hypothesis(key(effect), effect.response, 1.0 if repeated else effect.p_value, effect.p_adjusted)
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
