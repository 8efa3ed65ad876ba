"""Designs that list their settings around the baseline: one factor at a time, alone or within each level of another
(every setting on every kernel, compared with that kernel's own baseline); every combination; named configurations; a
confirmation of one setting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from leadline.design.kind import DesignError, DesignKind
from leadline.model.design import Design
from leadline.model.errors import did_you_mean
from leadline.model.plan import Factor, Treatment


def one_at_a_time(factors: Sequence[Factor]) -> tuple[Treatment, ...]:
    """The baseline first, then one treatment for each level that is not its factor's baseline."""
    baseline = {factor.name: factor.baseline for factor in factors}
    changed = (
        Treatment.of(baseline | {factor.name: level})
        for factor in factors
        for level in factor.levels
        if level != factor.baseline
    )
    return (Treatment.of(baseline), *changed)


def _alone(factors: Sequence[Factor]) -> int:
    return 1 + sum(len(factor.levels) - 1 for factor in factors)


_EACH = ("design", "each")


def _split(factors: Sequence[Factor], design: Design) -> tuple[Factor, list[Factor]]:
    """The factor of ``each``, and the others. Raises DesignError."""
    names = [factor.name for factor in factors]
    if design.each is None:
        raise DesignError(
            "design: within-each changes one factor at a time within each level of another; name it in "
            "`each`, such as guest.kernel",
            _EACH,
        )
    if design.each not in names:
        hint = did_you_mean(design.each, names) or f"factors: {', '.join(names)}"
        raise DesignError(f"design: each is {design.each}, which is no factor; {hint}", _EACH)
    others = [factor for factor in factors if factor.name != design.each]
    if not others:
        raise DesignError(f"design: nothing is left to change within each {design.each}; use one-at-a-time", _EACH)
    return factors[names.index(design.each)], others


def within_each(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The baseline first, then its level's other settings, then the same at every other level."""
    outer, others = _split(factors, design)
    levels = (outer.baseline, *(level for level in outer.levels if level != outer.baseline))
    inner = [treatment.as_dict() for treatment in one_at_a_time(others)]
    return tuple(Treatment.of({**changed, outer.name: level}) for level in levels for changed in inner)


def _in_each(factors: Sequence[Factor], design: Design) -> int:
    outer, others = _split(factors, design)
    return len(outer.levels) * _alone(others)


def _each_notes(factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    """What the runs can tell."""
    outer, others = _split(factors, design)
    meaning = f"An effect is the mean over the levels of {outer.name}, all other factors at their baseline."
    if len(others) == 1:
        return (meaning,)
    alone = "those of the other factors are not: they never change together"
    return (meaning, f"Interactions with {outer.name} are seen, {alone}.")


def full_factorial(factors: Sequence[Factor]) -> tuple[Treatment, ...]:
    """Every combination, the baseline first."""
    ordered = [(factor.baseline, *(level for level in factor.levels if level != factor.baseline)) for factor in factors]
    names = [factor.name for factor in factors]
    return tuple(Treatment.of(dict(zip(names, levels, strict=True))) for levels in itertools.product(*ordered))


_NAMED = ("design", "configurations")


def configurations(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """One treatment for each configuration, in their order; the baseline is one of them.

    Levels are the factors' own. Raises DesignError for an unknown factor or level, for two names of one treatment, for
    a factor that no configuration varies, and where the baseline is missing.
    """
    named = design.configurations
    if len(named) < 2:
        raise DesignError(
            "design: configurations compares two or more of them; name them under `configurations`", _NAMED
        )
    baseline = {factor.name: factor.baseline for factor in factors}
    labels: dict[Treatment, str] = {}
    for name, levels in named.items():
        for factor, level in levels.items():
            _check_levels(factors, name, factor, level)
        treatment = Treatment.of(baseline | levels)
        if treatment in labels:
            raise DesignError(
                f"design: configurations {labels[treatment]!r} and {name!r} are the same; leave one out",
                (*_NAMED, name),
            )
        labels[treatment] = name
    if Treatment.of(baseline) not in labels:
        raise DesignError(
            "design: no configuration is the baseline, with which the others are compared; add one without levels, "
            "such as `untuned: {}`",
            _NAMED,
        )
    for varied in factors:
        if all(treatment[varied.name] == varied.baseline for treatment in labels):
            raise DesignError(
                f"design: no configuration varies {varied.name}; give one of them another of its levels, or make it a"
                " setting",
                ("factors", varied.name),
            )
    return tuple(labels)


def _check_levels(factors: Sequence[Factor], name: str, factor: str, level: object) -> None:
    entry = next((candidate for candidate in factors if candidate.name == factor), None)
    if entry is None:
        hint = did_you_mean(factor, [candidate.name for candidate in factors]) or "list it under `factors`"
        raise DesignError(f"design: configuration {name!r} names {factor}, which is no factor; {hint}", (*_NAMED, name))
    if level not in entry.levels:
        listed = ", ".join(str(value) for value in entry.levels)
        raise DesignError(
            f"design: configuration {name!r} has {factor}={level}, which is none of its levels {listed}",
            (*_NAMED, name),
        )


def confirmation(factors: Sequence[Factor]) -> tuple[Treatment, ...]:
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


_TOGETHER = "All factors change together: their effect is told as a whole, not factor by factor."
KINDS = (
    DesignKind(
        "one-at-a-time", lambda factors, _: one_at_a_time(factors), lambda factors, _: _alone(factors), cells=True
    ),
    DesignKind("within-each", within_each, _in_each, _each_notes, options=frozenset({"each"})),
    DesignKind(
        "full-factorial",
        lambda factors, _: full_factorial(factors),
        lambda factors, _: math.prod(len(factor.levels) for factor in factors),
    ),
    DesignKind(
        "configurations",
        configurations,
        lambda _, design: len(design.configurations),
        lambda *_: ("Configurations are compared as wholes, not factor by factor.",),
        cells=True,
        options=frozenset({"configurations"}),
    ),
    DesignKind(
        "confirmation",
        lambda factors, _: confirmation(factors),
        lambda *_: 2,
        lambda factors, _: (_TOGETHER,) if len(factors) > 1 else (),
        cells=True,
    ),
)
