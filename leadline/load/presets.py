"""Presets on the command line and on a scenario: what they set, and what the scenario must have for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from leadline.load.generators.base import split_url
from leadline.load.scenario import find_scenario, read_scenario
from leadline.model.errors import UsageError, nearest, shortened
from leadline.model.shapes import PRESETS, Preset

FLAGS = ("--insecure", "--replace", "--transactions")  # options of leadline-load without a value
LOOPBACK = "127.0.0.2-127.0.0.254"


def find_preset(name: str) -> Preset:
    """Raises UsageError naming the nearest one."""
    if name in PRESETS:
        return PRESETS[name]
    close = nearest(name, list(PRESETS))
    hint = f"did you mean {close}?" if close else f"presets: {', '.join(PRESETS)}"
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


def preset_options(name: str, scenario: str, options: Sequence[str], searching: bool = False) -> list[str]:
    """The command line's options with those of the preset. ``--clients`` and ``--threads`` are taken out. When
    ``searching`` the load itself is left open. Raises UsageError.
    """
    preset = find_preset(name)
    words, given_options = _split(options)
    product = 1
    for key in () if searching else preset.needs:
        if key in ("clients", "threads"):
            product *= _whole(f"--{key}", given_options.get(f"--{key}"), name)
        elif f"--{key}" not in given_options and "--profile" not in given_options:
            raise UsageError(f"--preset {name} needs --{key}")
    for key, value in preset.sets.items():
        if given_options.setdefault(f"--{key}", str(value)) != str(value):
            raise UsageError(f"--preset {name} has --{key} {value}, not {given_options[f'--{key}']}")
        if f"--{key}" not in words:
            words += [f"--{key}", str(value)]
    if "clients" in preset.needs and not searching:
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
