"""Interactions in words: which level helps only with which."""

from __future__ import annotations

import math
from dataclasses import replace

from leadline.analysis.scale import response_kind
from leadline.conclude.wording import signed
from leadline.model.knob import Level
from leadline.model.naming import Describe
from leadline.model.result import Interaction, ResponseAnalysis, Verdict

SHOWN = (Verdict.BETTER, Verdict.WORSE)


def in_words(one: ResponseAnalysis, describe: Describe) -> ResponseAnalysis:
    """The analysis with a sentence for each interaction that is distinguishable from none."""
    told = tuple(
        replace(pair, sentence=_sentence(one, pair, describe)) if pair.verdict in SHOWN else pair
        for pair in one.interactions
    )
    return replace(one, interactions=told)


def _sentence(one: ResponseAnalysis, pair: Interaction, describe: Describe) -> str:
    """Told of the level whose effect the other switches on or off, of the first where neither does."""
    found = [_of(one, pair, describe, side) for side in (0, 1)]
    return next((text for only, text in found if only), found[0][1])


def _of(one: ResponseAnalysis, pair: Interaction, describe: Describe, side: int) -> tuple[bool, str]:
    """Whether one level works only beside one level of the other factor, and the sentence. ``side``: which of both."""
    other = 1 - side
    level = f"{pair.factors[side]}={describe(pair.factors[side], pair.levels[side])}"
    beside, without = (
        f"{pair.factors[other]}={describe(pair.factors[other], found)}"
        for found in (pair.levels[other], pair.baselines[other])
    )
    with_it, alone = (_change(one, pair, side, found) for found in (pair.levels[other], pair.baselines[other]))
    noun = one.response.replace("_", " ")
    if with_it is None or alone is None:
        return False, f"the effects of {level} and {beside} on {noun} depend on each other"
    figures = f"({noun} {signed(with_it)} % against {signed(alone)} %)"
    sign = 1.0 if response_kind(one.response).higher_is_better else -1.0
    small = max(one.margin or 0.0, abs(pair.percent or 0.0) / 4)
    if abs(alone) <= small < abs(with_it):
        return True, f"{level} {_verb(sign * with_it)} only with {beside} {figures}"
    if abs(with_it) <= small < abs(alone):
        return True, f"{level} {_verb(sign * alone)} only with {without}, not with {beside} {figures}"
    if (with_it > 0) != (alone > 0):
        return True, f"{level} {_verb(sign * with_it)} with {beside} and {_verb(sign * alone)} with {without} {figures}"
    more = "more" if abs(with_it) > abs(alone) else "less"
    return False, f"{level} {_verb(sign * with_it)} {more} with {beside} than with {without} {figures}"


def _verb(gain: float) -> str:
    return "helps" if gain > 0 else "hurts"


def _change(one: ResponseAnalysis, pair: Interaction, side: int, beside: Level) -> float | None:
    """Percent by which the level of ``side`` changes the mean beside a level of the other factor."""

    def mean(level: Level) -> float | None:
        wanted = (level, beside) if side == 0 else (beside, level)
        found = (cell for cell in one.cells if cell.factors == pair.factors and cell.levels == wanted)
        return next((cell.mean for cell in found), None)

    base, changed = mean(pair.baselines[side]), mean(pair.levels[side])
    if base is None or changed is None or base <= 0 or not math.isfinite(changed / base):
        return None
    return 100 * (changed / base - 1)
