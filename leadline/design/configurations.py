"""Named configurations, compared as they are: each is the baseline with some factors at other levels."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.kinds import DesignError, DesignKind
from leadline.model.design import Design
from leadline.model.errors import nearest
from leadline.model.plan import Factor, Treatment

_PATH = ("design", "configurations")


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """One treatment for each configuration, in their order; the baseline is one of them.

    Levels are the factors' own. Raises DesignError for an unknown factor or level, for two names of one treatment, for
    a factor that no configuration varies, and where the baseline is missing.
    """
    named = design.configurations
    if len(named) < 2:
        raise DesignError(
            "design: configurations compares two or more of them; name them under `configurations`", _PATH
        )
    baseline = {factor.name: factor.baseline for factor in factors}
    labels: dict[Treatment, str] = {}
    for name, levels in named.items():
        for factor, level in levels.items():
            _check(factors, name, factor, level)
        treatment = Treatment.of(baseline | levels)
        if treatment in labels:
            raise DesignError(
                f"design: configurations {labels[treatment]!r} and {name!r} are the same; leave one out",
                (*_PATH, name),
            )
        labels[treatment] = name
    if Treatment.of(baseline) not in labels:
        raise DesignError(
            "design: no configuration is the baseline, with which the others are compared; add one without levels, "
            "such as `untuned: {}`",
            _PATH,
        )
    for varied in factors:
        if all(treatment[varied.name] == varied.baseline for treatment in labels):
            raise DesignError(
                f"design: no configuration varies {varied.name}; give one of them another of its levels, or make it a"
                " setting",
                ("factors", varied.name),
            )
    return tuple(labels)


def _check(factors: Sequence[Factor], name: str, factor: str, level: object) -> None:
    entry = next((candidate for candidate in factors if candidate.name == factor), None)
    if entry is None:
        near = nearest(factor, [candidate.name for candidate in factors])
        hint = f"did you mean {near}?" if near else "list it under `factors`"
        raise DesignError(f"design: configuration {name!r} names {factor}, which is no factor; {hint}", (*_PATH, name))
    if level not in entry.levels:
        listed = ", ".join(str(value) for value in entry.levels)
        raise DesignError(
            f"design: configuration {name!r} has {factor}={level}, which is none of its levels {listed}", (*_PATH, name)
        )


def notes(_factors: Sequence[Factor], _design: Design) -> tuple[str, ...]:
    """What it cannot tell."""
    return ("Configurations are compared as wholes, not factor by factor.",)


KIND = DesignKind(
    "configurations",
    treatments,
    lambda _factors, design: len(design.configurations),
    notes,
    cells=True,
    options=frozenset({"configurations"}),
)
