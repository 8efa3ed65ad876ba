"""Scenarios by their built-in name or their path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import Any

from leadline.host.textfile import expanded, is_file, read_text
from leadline.model.errors import UsageError, nearest, quoted
from leadline.model.knob import Level
from leadline.model.workload import Workload
from leadline.model.yamltext import SCENARIO, load_yaml

_BUILT_IN = Path(__file__).parent.parent / "scenarios"


def built_in_scenarios() -> dict[str, Path]:
    """Name and file of every built-in scenario."""
    return {path.stem: path for path in sorted(_BUILT_IN.glob("*.yaml"))}


def find_scenario(scenario: str) -> Path:
    """The file of a scenario: a built-in name, or a path. Raises UsageError naming the nearest built-in one."""
    built_in = built_in_scenarios()
    if scenario in built_in:
        return built_in[scenario]
    path = expanded(scenario)
    if is_file(path):
        return path.resolve()
    if path.suffix in (".yaml", ".yml") or "/" in scenario:
        raise UsageError(f"scenario file {scenario} does not exist, or is no file")
    close = nearest(scenario, list(built_in))
    hint = f"did you mean {close}?" if close else f"built in: {', '.join(built_in)}; or give the path of a YAML file"
    raise UsageError(f"no scenario {quoted(scenario)}; {hint}")


def read_scenario(path: Path) -> Any:
    """The tree of a scenario, all scalars as texts; what is right in it leadline-load says. Raises UsageError, which
    tells nothing of a file that is no scenario.
    """
    text = read_text(path)
    try:
        tree = load_yaml(text, str(path), SCENARIO)
    except UsageError:
        if "transactions:" not in text:
            raise UsageError(f"{path} is no scenario: it is no mapping with `transactions`") from None
        raise
    if not isinstance(tree, Mapping) or "transactions" not in tree:
        raise UsageError(f"{path} is no scenario: it is no mapping with `transactions`")
    return tree


def parameters(path: Path) -> dict[str, str]:
    """The parameters that a scenario declares, with their defaults. Raises UsageError."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        changed = 0  # read_scenario says what is wrong
    return dict(_parameters(path, changed))


@lru_cache(maxsize=16)
def _parameters(path: Path, changed: int) -> Mapping[str, str]:  # noqa: ARG001 - a new file is read again
    parameters_ = read_scenario(path).get("parameters")
    return (
        {str(name): str(default) for name, default in parameters_.items()} if isinstance(parameters_, Mapping) else {}
    )


def sent_variables(load: Workload) -> dict[str, Level]:
    """The parameters that a trial's driver is given: those of the workload, and ``units`` where the scenario declares
    it. Raises UsageError.
    """
    units = {"units": load.load_units} if "units" in parameters(find_scenario(load.scenario)) else {}
    return {**units, **load.variables}


_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "mul": mul,
    "max": max,
    "min": min,
    "mod": lambda a, b: a % abs(b) if b else 0,
}


def populations(load: Workload) -> list[dict[str, Any]]:
    """The populations of the workload's scenario, its parameters put in and their expressions worked out. Raises
    UsageError, AttributeError without populations, ValueError and KeyError for an expression without a fixed value.
    """
    path = find_scenario(load.scenario)
    given = parameters(path) | {name: str(value) for name, value in sent_variables(load).items()}

    def value(match: re.Match[str]) -> str:
        name, *arguments = match[1].split(":")
        return str(_FUNCTIONS[name.strip()](*map(int, arguments))) if arguments else given[name.strip()]

    def filled(node: Any) -> Any:
        if isinstance(node, Mapping):
            return {name: filled(part) for name, part in node.items()}
        while isinstance(node, str) and _INNERMOST.search(node):
            node = _INNERMOST.sub(value, node)
        return node

    described = read_scenario(path).get("populations")
    return [filled({key: part.get(key) for key in ("users", "pause")}) for part in described.values()]


def limits_response_times(load: Workload) -> bool:
    """Whether a transaction of its scenario has a percentile as a limit. Raises UsageError."""
    if load.generator is not None:
        return False
    transactions = read_scenario(find_scenario(load.scenario))["transactions"]
    parts = transactions.values() if isinstance(transactions, Mapping) else ()
    stated = (part.get("limits") for part in parts if isinstance(part, Mapping))
    return any(measure.startswith("p") for limits in stated if isinstance(limits, Mapping) for measure in limits)
