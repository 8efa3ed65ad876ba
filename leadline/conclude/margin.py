"""What is better or worse by less than the margin is equivalent, on every page that prints a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from leadline.analysis.carry import HIDDEN
from leadline.analysis.equivalence import inside
from leadline.model.result import Effect, ResponseAnalysis, Verdict

E = TypeVar("E", bound=Effect)


def within_margin(one: ResponseAnalysis) -> ResponseAnalysis:
    """The analysis whose effects, those on hosts too, and interactions are equivalent where their simultaneous
    intervals lie inside the margin, whether zero is among them or not; ``reason`` tells which. The analysis tells what
    is distinguishable, which is what stopping rules go by; this is done after them.
    """
    across = one.across_hosts
    if across is not None:
        across = replace(across, effects=tuple(_settled(effect, one.margin) for effect in across.effects))
    return replace(
        one,
        across_hosts=across,
        effects=tuple(_settled(effect, one.margin) for effect in one.effects),
        interactions=tuple(_settled(pair, one.margin) for pair in one.interactions),
    )


def _settled(effect: E, margin: float | None) -> E:
    told = effect.verdict in (Verdict.BETTER, Verdict.WORSE)
    if not told or not inside(effect.simultaneous, margin) or HIDDEN in effect.reason:
        return effect
    small, rest = f"but less than {margin:g} %", f"{effect.verdict.value}, but by less than {margin:g} %"
    return replace(effect, verdict=Verdict.EQUIVALENT, reason=effect.reason.replace(small, rest, 1))
