"""What values are called in help, and how they complete: by the parameter's name, the same in every command."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

VALUES = {
    "against": "DIR",
    "budget": "TIME",
    "commands": "COMMAND",
    "cv": "PERCENT",
    "database": "DATABASE",
    "drivers": "HOSTS",
    "effect": "PERCENT",
    "equivalent": "PERCENT",
    "factor": "KNOB=LEVELS",
    "fail": "CONDITION",
    "file": "FILE",
    "files": "FILE",
    "finding": "FINDING",
    "format": "FORMAT",
    "from": "SETTINGS",
    "limit": "CONDITION",
    "limit_errors": "PERCENT",
    "limit_p99": "TIME",
    "name": "NAME",
    "names": "NAME",
    "older_than": "TIME",
    "out": "PATH",
    "pattern": "PATTERN",
    "power": "PERCENT",
    "response": "RESPONSE",
    "scenario": "SCENARIO",
    "server": "SERVER",
    "set": "KEY=VALUE",
    "setting": "SETTING",
    "stack": "STACK",
    "studies": "STUDY",
    "study": "STUDY",
    "timeout": "SECONDS",
    "to": "SETTINGS",
    "to_size": "SIZE",
}
_TYPES = (("path", "PATH"), ("int", "NUMBER"), ("float", "NUMBER"))


def name_values(command: Any) -> Any:
    """Name the values of a command and of those below it; no type of the code is shown. Returns the command."""
    for below in getattr(command, "commands", {}).values():
        name_values(below)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            _name_argument(parameter)
        elif not parameter.is_flag and not parameter.type_descriptor.is_choice:
            parameter.metavar = _value(parameter)
        words = _WORDS.get(parameter.name.rstrip("_"))
        if words is _factors and parameter.metavar == "KNOB":
            words = _knobs
        if words is not None and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = _completing(words)
    return command


def _name_argument(parameter: Any) -> None:
    name = parameter.metavar or VALUES.get(parameter.name, parameter.name.upper())
    metavar = f"{name}..." if parameter.nargs != 1 else name
    parameter.metavar = name
    parameter.display_type_rich = lambda ctx: None  # noqa: ARG005
    parameter._rich_display_name = lambda: metavar
    parameter._usage_display_name = lambda: metavar if parameter.required else f"[{metavar}]"


def _value(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar).strip("<>").upper()
    values = VALUES.get(parameter.name.rstrip("_"))
    kind = str(parameter.type_descriptor.annotation).lower()
    described = next((word for part, word in _TYPES if part in kind), "")
    if described == "NUMBER" and values not in ("PERCENT", "SECONDS"):
        return described
    if parameter.name == "factor" and not parameter.type_descriptor.is_list:
        return "KNOB"
    return values or described or parameter.name.rstrip("_").upper().replace("_", "-")


def _completing(words: Callable[[str], Iterable[str]]) -> Callable[[Any, Any, str], list[Any]]:
    def complete(_ctx: Any, _parameter: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        try:
            return [CompletionItem(word) for word in words(incomplete) if word.startswith(incomplete)]
        except Exception:  # completion is never in the way of typing
            return []

    return complete


def _studies(incomplete: str) -> Iterable[str]:
    """Built-in ones, those of the lab, and files of studies."""
    from leadline.api.studies import builtin_studies, builtin_tunings

    folder, _, begun = incomplete.rpartition("/")
    here = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir())
    names = [path for path in here if path.name.startswith(begun) and not path.name.startswith(".")]
    files = [os.path.join(folder, path.name) for path in names if path.suffix in (".yaml", ".yml")]  # noqa: PTH118
    folders = [os.path.join(folder, path.name, "") for path in names if path.is_dir()] if folder else []  # noqa: PTH118
    return [*builtin_studies(), *builtin_tunings(), *_kept(), *files, *folders]


def _kept() -> list[str]:
    from leadline.api.names import names_in

    return names_in(Path(os.environ.get("LEADLINE_LAB", "lab")))


def _knobs(_incomplete: str) -> Iterable[str]:
    from leadline.api.knobs import every_knob

    return every_knob().names()


def _factors(incomplete: str) -> Iterable[str]:
    return [f"{name}=" for name in _knobs(incomplete)]


def _levels(_incomplete: str) -> Iterable[str]:
    """Keys of a study that are often changed."""
    keys = ("design.kind", "design.replicates", "design.seed", "stack.server", "stack.database", "stack.mode")
    loads = ("workload.users", "workload.rate", "workload.ramp_up", "workload.steady", "workload.scenario")
    return [f"{key}=" for key in (*keys, *loads, "responses", "question")]


def _servers(_incomplete: str) -> Iterable[str]:
    from leadline.api.stacks import SERVERS

    return SERVERS


def _databases(_incomplete: str) -> Iterable[str]:
    from leadline.api.stacks import DATABASES

    return DATABASES


def _responses(_incomplete: str) -> Iterable[str]:
    from leadline.model.result import RESPONSES

    return RESPONSES


_WORDS: dict[str, Callable[[str], Iterable[str]]] = {
    "study": _studies,
    "studies": _studies,
    "stack": _servers,
    "server": _servers,
    "database": _databases,
    "pattern": _knobs,
    "factor": _factors,
    "response": _responses,
    "set": _levels,
}
