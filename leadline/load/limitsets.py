"""Named sets of limits of a scenario: parameters of it, in ``leadline/scenarios/limits.toml``."""

from __future__ import annotations

import tomllib
from importlib import resources

from leadline.model.errors import UsageError, nearest


def limit_sets() -> dict[str, dict[str, dict[str, str]]]:
    """Scenario -> name of the set -> parameter -> level."""
    return tomllib.loads((resources.files("leadline") / "scenarios" / "limits.toml").read_text(encoding="utf-8"))


def limit_set(name: str, scenario: str) -> dict[str, str]:
    """The parameters of a set. Raises UsageError naming those that the scenario has."""
    sets = limit_sets().get(scenario, {})
    if name in sets:
        return sets[name]
    near = nearest(name, list(sets))
    hint = f"sets of {scenario}: {', '.join(sets)}" if sets else f"{scenario} has none: limits are in its file"
    raise UsageError(f"--limits {name}: no set of that name; {f'did you mean {near}?' if near else hint}")
