"""What a bisection says, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from leadline.model.units import signed
from leadline.planning.bisection import Bisection, Effect, Found

Percent = tuple[float, float, float]  # value, low, high


def percent(effect: Effect | None, log: bool) -> Percent | None:
    """Percent of the end A of a ratio, hundredths of a share; None where the interval is not known."""
    if effect is None or not math.isfinite(effect.low):
        return None
    low, value, high = (min(bound, 20.0) for bound in (effect.low, effect.value, effect.high))
    return (_percent(value, log), _percent(low, log), _percent(high, log))


def _percent(value: float, log: bool) -> float:
    return 100 * math.expm1(value) if log else 100 * value


def sentence(state: Bisection, response: str, log: bool, ordered: bool, change: Callable[[Sequence[int]], str]) -> str:
    """The conclusion. ``change`` gives changes that are concluded on together in words."""
    after = f"after {state.trials} trials in {len(state.blocks)} probes"
    difference = state.difference
    if state.exact and difference is not None:  # measured once is measured for good
        difference = replace(difference, low=difference.value, high=difference.value)
    ends = _told(percent(difference, log), log)
    if state.found is Found.NONE:
        return f"No change can be told: the ends differ in {response} by {ends}, {after}."
    pairs = [(share, change(group)) for share, group in zip(state.probabilities.tolist(), state.groups, strict=True)]
    likely = sorted(pairs, reverse=True)
    if state.found is Found.ONE:
        share, words = likely[0]
        size = _told(percent(state.effect, log), log)
        how = "exact probes" if state.exact else f"posterior {_share(share)}"
        return f"One change makes the difference: {words}, {response} {size} ({how}), {after}."
    if state.found is Found.TWO:
        words = " and ".join(change(group) for group in state.places)
        kind = "Not one step but two" if ordered else "Two changes make the difference"
        return f"{kind}: {words}; together {response} {ends}, {after}."
    if state.found is Found.MANY:
        kind = "Not a step: gradual" if ordered else "Not one change, nor two: many have a part"
        return f"{kind}; the ends differ in {response} by {ends}, {after}."
    if not state.blocks:
        return "Nothing has been measured."
    if difference is None or difference.low <= 0 <= difference.high:
        return f"No change can be told: the ends differ in {response} by {ends}, {after}."
    words = ", ".join(f"{words} ({_share(share)})" for share, words in likely[:3])
    several = f"; that it is not one alone {_share(state.two + state.many)}"
    return f"Not yet told which change: most probable {words}{several}; the ends differ by {ends}, {after}."


def _share(share: float) -> str:
    return f"{min(99.9, 100 * share):.1f} %" if share > 0.99 else f"{100 * share:.0f} %"


def _told(size: Percent | None, log: bool) -> str:
    if size is None:
        return "an unknown amount"
    value, low, high = (signed(bound, 2) for bound in size)
    unit = " %" if log else " points"
    return f"{value}{unit}" if low == high else f"{value}{unit} [{low}, {high}]"
