"""Split plots: factors that are dear to change keep their levels for a whole plot of trials.

Whole plots are ordered at random inside a block, the dearest factors outermost, and trials at random inside a plot.
Dear factors are then compared between plots, all others inside them (B. Jones and C. J. Nachtsheim, 2009, J. Quality
Technology 41, 340-361).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from leadline.design.seeds import derived
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Treatment

DEAREST_FIRST = (ApplyCost.KERNEL, ApplyCost.REBOOT, ApplyCost.REMOUNT)


def is_live(factor: Factor) -> bool:
    """Whether a factor is changed in the running system: between slots, where there are some."""
    return factor.apply_cost is ApplyCost.LIVE


def dear_factors(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Factors whose change takes more than a restart, dearest first."""
    return tuple(factor for cost in DEAREST_FIRST for factor in factors if factor.apply_cost is cost)


def dear_levels(factors: Sequence[Factor], treatment: Treatment) -> tuple[Level, ...]:
    """The levels of the dear factors, dearest first: what the trials of a whole plot share."""
    levels = treatment.as_dict()
    return tuple(levels[factor.name] for factor in dear_factors(factors))


def plotted(factors: Sequence[Factor], treatments: Sequence[Treatment], seed: int, *purpose: object) -> list[Treatment]:
    """A random order in which equal levels of dear factors stand together, inside those of dearer ones."""
    dear = dear_factors(factors)
    tiers = [[factor.name for factor in dear if factor.apply_cost is cost] for cost in DEAREST_FIRST]

    def place(numbered: tuple[int, Treatment]) -> tuple[bytes, ...]:
        number, treatment = numbered
        keys, fixed = [], []
        levels = treatment.as_dict()
        for tier in tiers:
            fixed += [(name, levels[name]) for name in tier]
            keys.append(derived(seed, *purpose, "plot", fixed))
        return (*keys, derived(seed, *purpose, treatment.key, number))

    return [treatment for _, treatment in sorted(enumerate(treatments), key=place)]


def dear_changes(factors: Sequence[Factor], treatments: Sequence[Treatment]) -> dict[str, int]:
    """Apply cost -> how often a trial differs from the one before it in a factor of that cost; without zeros."""
    counts: dict[str, int] = {}
    for cost in DEAREST_FIRST:
        names = [factor.name for factor in factors if factor.apply_cost is cost]
        levels = [tuple(treatment[name] for name in names) for treatment in treatments]
        changes = sum(a != b for a, b in itertools.pairwise(levels))
        if names and changes:
            counts[cost.value] = changes
    return counts
