"""A confirmation: the baseline against one setting, every factor at its other level."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.kinds import DesignError, DesignKind
from leadline.model.design import Design
from leadline.model.plan import Factor, Treatment


def treatments(factors: Sequence[Factor], _design: Design | None = None) -> tuple[Treatment, ...]:
    """The baseline, and all factors at their other level. Raises DesignError for a factor with more than two levels."""
    for factor in factors:
        if len(factor.levels) != 2:
            raise DesignError(
                f"design: a confirmation compares the baseline with one setting, but {factor.name} has "
                f"{len(factor.levels)} levels; name the baseline and the chosen level, or use one-at-a-time",
                ("factors", factor.name),
            )
    chosen = {f.name: next(level for level in f.levels if level != f.baseline) for f in factors}
    return (Treatment.of({factor.name: factor.baseline for factor in factors}), Treatment.of(chosen))


def notes(factors: Sequence[Factor], _design: Design) -> tuple[str, ...]:
    """What it cannot tell."""
    if len(factors) == 1:
        return ()
    return ("All factors change together: their effect is told as a whole, not factor by factor.",)


KIND = DesignKind("confirmation", treatments, lambda _factors, _: 2, notes, cells=True)
