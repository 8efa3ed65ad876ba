"""One factor at a time around a baseline: the baseline, then every other level of every factor alone."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.kinds import DesignKind
from leadline.model.plan import Factor, Treatment


def treatments(factors: Sequence[Factor]) -> tuple[Treatment, ...]:
    """The baseline first, then one treatment for each level that is not its factor's baseline."""
    baseline = {factor.name: factor.baseline for factor in factors}
    changed = (
        Treatment.of(baseline | {factor.name: level})
        for factor in factors
        for level in factor.levels
        if level != factor.baseline
    )
    return (Treatment.of(baseline), *changed)


def count(factors: Sequence[Factor]) -> int:
    return 1 + sum(len(factor.levels) - 1 for factor in factors)


KIND = DesignKind(
    "one-at-a-time", lambda factors, _: treatments(factors), lambda factors, _: count(factors), cells=True
)
