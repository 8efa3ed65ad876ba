"""Scenarios by their built-in name or their path."""

from __future__ import annotations

from pathlib import Path

from leadline.model.errors import UsageError, nearest

_BUILT_IN = Path(__file__).parent.parent / "scenarios"


def built_in_scenarios() -> dict[str, Path]:
    """Name and file of every built-in scenario."""
    return {path.stem: path for path in sorted(_BUILT_IN.glob("*.yaml"))}


def find_scenario(scenario: str) -> Path:
    """The file of a scenario: a built-in name, or a path. Raises UsageError naming the nearest built-in one."""
    known = built_in_scenarios()
    if scenario in known:
        return known[scenario]
    path = Path(scenario).expanduser()
    if path.is_file():
        return path.resolve()
    if path.suffix in (".yaml", ".yml") or "/" in scenario:
        raise UsageError(f"scenario file {scenario} does not exist")
    close = nearest(scenario, list(known))
    hint = f"did you mean {close}?" if close else f"built in: {', '.join(known)}; or give the path of a YAML file"
    raise UsageError(f"no scenario {scenario!r}; {hint}")
