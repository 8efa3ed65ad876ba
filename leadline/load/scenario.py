"""Scenarios by their built-in name or their path, and the presets on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import Any

from leadline.host.textfile import expanded, is_file, read_text
from leadline.load.generators.base import split_url
from leadline.model.errors import UsageError, did_you_mean, quoted, shortened
from leadline.model.knob import Level
from leadline.model.shapes import PRESETS, Preset
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
    hint = did_you_mean(scenario, list(built_in)) or f"built in: {', '.join(built_in)}; or give the path of a YAML file"
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


FLAGS = ("--insecure", "--replace", "--transactions")  # options of leadline-load without a value
LOOPBACK = "127.0.0.2-127.0.0.254"


def find_preset(name: str) -> Preset:
    """Raises UsageError naming the nearest one."""
    if name in PRESETS:
        return PRESETS[name]
    hint = did_you_mean(name, list(PRESETS)) or f"presets: {', '.join(PRESETS)}"
    raise UsageError(f"no preset {name!r}; {hint}")


def preset_variables(name: str, scenario: str, variables: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of the scenario that the preset sets, unless ``variables`` has them. Raises UsageError for a scenario
    that cannot take the preset's shape.
    """
    preset = find_preset(name)
    path = find_scenario(scenario)
    tree = read_scenario(path)
    if preset.embedded and not any("embedded" in request for request in _requests(tree)):
        raise UsageError(
            f"preset {name}: no request of {path.name} has `embedded: true`, so pages would come without what they "
            "embed; add it to the requests that are pages"
        )
    if preset.think is None or "think" in variables:
        return {}
    if tree.get("populations"):
        raise UsageError(f"preset {name} has users of one kind; {path.name} has populations: leave preset out")
    pause = tree.get("pause")
    if not isinstance(pause, Mapping) or pause.get("shape", "none") == "none":
        return {}
    if "${think}" not in str(pause.get("mean")):
        raise UsageError(
            f"preset {name} has no think time, and the pause of {path.name} is fixed: give the scenario a parameter "
            '`think` and `pause: { mean: "${think}" }`, or `pause: { shape: none }`'
        )
    return {"think": preset.think}


def source_address(name: str | None, url: str) -> str | None:
    """Where the users of a preset connect from: many loopback addresses for a server on this host. Raises UsageError
    for a URL that is none.
    """
    host = split_url(url).hostname or ""
    here = host == "localhost" or host.startswith("127.")
    return LOOPBACK if name is not None and find_preset(name).addresses and here else None


def preset_options(name: str, scenario: str, options: Sequence[str]) -> list[str]:
    """The command line's options with those of the preset. ``--clients`` and ``--threads`` are taken out. Raises
    UsageError.
    """
    preset = find_preset(name)
    words, given_options = _split(options)
    product = 1
    for key in preset.needs:
        if key in ("clients", "threads"):
            product *= _whole(f"--{key}", given_options.get(f"--{key}"), name)
        elif f"--{key}" not in given_options and "--profile" not in given_options:
            raise UsageError(f"--preset {name} needs --{key}")
    for key, value in preset.sets.items():
        if given_options.setdefault(f"--{key}", str(value)) != str(value):
            raise UsageError(f"--preset {name} has --{key} {value}, not {given_options[f'--{key}']}")
        if f"--{key}" not in words:
            words += [f"--{key}", str(value)]
    if "clients" in preset.needs:
        if "--users" in given_options:
            raise UsageError(f"--preset {name} has clients x threads users: leave --users out")
        words += ["--users", str(product)]
    addresses = source_address(name, given_options.get("--url", ""))
    if addresses is not None and "--source-address" not in given_options:
        words += ["--source-address", addresses]
    variables = {word.partition("=")[0]: "" for flag, word in pairwise(words) if flag == "--var"}
    for key, text in preset_variables(name, scenario, variables).items():
        words += ["--var", f"{key}={text}"]
    return words


def _split(options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The options as name, value, name, value, ... without those only presets have; and all by name."""
    words: list[str] = []
    values: dict[str, str] = {}
    rest = iter(options)
    for option in rest:
        if option in FLAGS:
            words.append(option)
            continue
        key, equals, value = option.partition("=")
        value = value if equals else next(rest, "")
        values[key] = value
        if key not in ("--clients", "--threads"):
            words += [key, value]
    return words, values


def _whole(option: str, text: str | None, preset: str) -> int:
    if text is None:
        raise UsageError(f"--preset {preset} needs {option}")
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise UsageError(f"{option} {shortened(text)}: not a whole number of at least 1")
    return int(text)


def _requests(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping of the transactions, loops and requests alike."""
    items: Any = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
    for item in items:
        if isinstance(item, Mapping):
            yield item
        yield from _requests(item)
