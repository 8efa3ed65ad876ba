"""One factor at a time within each level of another: every setting on every kernel, compared with that kernel's own
baseline.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design import one_at_a_time
from leadline.design.kinds import DesignError, DesignKind
from leadline.model.design import Design
from leadline.model.errors import nearest
from leadline.model.plan import Factor, Treatment

_PATH = ("design", "each")


def _split(factors: Sequence[Factor], design: Design) -> tuple[Factor, list[Factor]]:
    """The factor of ``each``, and the others. Raises DesignError."""
    names = [factor.name for factor in factors]
    if design.each is None:
        raise DesignError(
            "design: within-each changes one factor at a time within each level of another; name it in "
            "`each`, such as guest.kernel",
            _PATH,
        )
    if design.each not in names:
        near = nearest(design.each, names)
        hint = f"did you mean {near}?" if near else f"factors: {', '.join(names)}"
        raise DesignError(f"design: each is {design.each}, which is no factor; {hint}", _PATH)
    others = [factor for factor in factors if factor.name != design.each]
    if not others:
        raise DesignError(f"design: nothing is left to change within each {design.each}; use one-at-a-time", _PATH)
    return factors[names.index(design.each)], others


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The baseline first, then its level's other settings, then the same at every other level."""
    outer, others = _split(factors, design)
    levels = (outer.baseline, *(level for level in outer.levels if level != outer.baseline))
    inner = [treatment.as_dict() for treatment in one_at_a_time.treatments(others)]
    return tuple(Treatment.of({**changed, outer.name: level}) for level in levels for changed in inner)


def count(factors: Sequence[Factor], design: Design) -> int:
    outer, others = _split(factors, design)
    return len(outer.levels) * one_at_a_time.count(others)


def notes(factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    """What the runs can tell."""
    outer, others = _split(factors, design)
    meaning = f"An effect is the mean over the levels of {outer.name}, all other factors at their baseline."
    if len(others) == 1:
        return (meaning,)
    alone = "those of the other factors are not: they never change together"
    return (meaning, f"Interactions with {outer.name} are seen, {alone}.")


KIND = DesignKind("within-each", treatments, count, notes, options=frozenset({"each"}))
