"""Options that mean nothing beside each other are refused, and so is one that is given twice; none is ignored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from leadline.model.errors import UsageError

# Command: with this option, only these of its options and arguments mean something.
ALONE: Mapping[str, Mapping[str, str]] = {
    "command": {"--import-json": "--equivalent --ignore-failure --export-json --fail --undecided --json"},
    "plan": {"--check": "--json"},
    "studies": {"--schema": "--json", "--tuning-schema": "--json"},
    "capacity": {"--scaling": "study --lab --at --json"},
    "figures": {"--pages": "source --lab --out --system --json"},
    "confirm": {
        "--out": "study --lab --setting --best --response --effect --power --budget --disposable --simulate --json"
    },
    "soak": {"--verdict": "subject --for --lab --set --out --fail --undecided --json"},
    "load": {"--schema": "", "--check": "--drivers"},
}
# Command: the option means something only with one of these.
NEEDS: Mapping[str, Mapping[str, str]] = {
    "bisect": {"--levels": "--factor", "--effect": "--dry-run"},
    "run": {"--hosts": "--pool", "--undecided": "--fail"},
    **{command: {"--undecided": "--fail"} for command in ("compare", "confirm", "command", "soak")},
    "power": {"--differ": "--hosts"},
    "load": {
        "--check": "--drivers",
        "--options": "--generator",
        "--program": "--generator",
        "--undecided": "--fail",
        **dict.fromkeys(
            ("--limit", "--from", "--to", "--step-factor", "--resolution", "--repeats", "--budget", "--dry-run"),
            "--find-knee",
        ),
    },
}  # fmt: skip
# Command: two options that exclude each other, and why.
_BESIDE_ALTERNATE = ("--find-knee", "--drivers", "--generator", "--against", "--html", "--preset")
APART: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "load": (
        *(
            (
                "--alternate",
                other,
                "--alternate loads two servers in turns: only options of leadline-load stand beside it",
            )
            for other in (*_BESIDE_ALTERNATE, "--limit-p99", "--limit-errors")
        ),
        ("--html", "--find-knee", "--html is of one run"),
        ("--against", "--find-knee", "--against compares two runs"),
        ("--drivers", "--find-knee", "--find-knee has one driver"),
        ("--fail", "--find-knee", "--find-knee searches within --limit, --limit-p99 and --limit-errors"),
        ("--generator", "--find-knee", "a search needs leadline-load"),
        ("--generator", "--preset", "another tool runs as it is"),
        ("--generator", "--drivers", "another tool runs here and alone"),
    ),
    "run": (
        ("--simulate", "--pool", "a simulated host stands in for all others"),
        ("--simulate", "--host", "a simulated host stands in for all others"),
    ),
    "power": (("--cv", "--from", "--cv is in place of a study's noise"),),
    "knobs": (
        ("--stack", "--server", "--stack names a server already"),
        ("--stack", "--database", "--stack names a database already"),
    ),
}


def hold(command: Any, name: str) -> Any:
    """The command, with its rules and those below it held before it is run."""
    for below in getattr(command, "commands", {}).values():
        hold(below, f"{name} {below.name}")
    invoke, make_parser = command.invoke, command.make_parser

    def checked(context: Any) -> Any:
        check(name, [_shown(parameter) for parameter in command.params if _given(context, parameter)])
        return invoke(context)

    def strict(context: Any) -> Any:
        parser = make_parser(context)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            arguments = parse(args)
            for parameter, times in Counter(arguments[2]).items():
                if times > 1 and not parameter.multiple and (not parameter.is_flag or parameter.secondary_opts):
                    raise UsageError(f"{_shown(parameter)} is given {times} times; keep one")
            return arguments

        parser.parse_args = parse_once
        return parser

    command.invoke, command.make_parser = checked, strict
    return command


def check(command: str, given: list[str]) -> None:
    """Raises UsageError for options of ``given`` that mean nothing beside the others."""
    for option, beside in ALONE.get(command, {}).items():
        idle = [other for other in given if other not in (option, *beside.split())]
        if option in given and idle:
            raise UsageError(f"{idle[0]} means nothing beside {option}: leave one of them out")
    for option, needed in NEEDS.get(command, {}).items():
        if option in given and needed not in given:
            raise UsageError(f"{option} belongs to {needed}: give that too, or leave {option} out")
    for one, other, why in APART.get(command, ()):
        if one in given and other in given:
            raise UsageError(f"{one} cannot stand beside {other}: {why}")


def _given(context: Any, parameter: Any) -> bool:
    source = context.get_parameter_source(parameter.name)
    return source is not None and source.name == "COMMANDLINE"


def _shown(parameter: Any) -> str:
    """An option's long name, an argument's own."""
    if parameter.param_type_name == "argument":
        return str(parameter.name)
    return str(max(parameter.opts, key=len))
