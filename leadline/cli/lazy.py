"""Commands are imported when they are called: a command pays for its own libraries only.

What their values are called in help, and how they complete, goes by the parameter's name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from leadline.model.errors import UsageError, did_you_mean

# Command: with this option, only these of its options and arguments mean something.
ALONE: Mapping[str, Mapping[str, str]] = {
    "command": {
        "--import-json": "--equivalent --ignore-failure --export-json --fail --undecided --json",
        "--count": "commands --runs --parameter-list --shell --timeout --fail --undecided --json",
    },
    "gate": {"--count": "base head --fail --undecided --build --run --stack --scenario --md --junit --json"},
    "plan": {"--check": "--json"},
    "studies": {"--schema": "--json", "--tuning-schema": "--json"},
    "figures": {"--pages": "source --lab --out --system --json"},
    "confirm": {
        "--out": "study --lab --setting --best --response --effect --power --budget --disposable --simulate --json"
    },
    "soak": {"--verdict": "subject --for --lab --set --out --fail --undecided --json"},
    "load": {"--schema": "", "--check": "--drivers"},
    "gc": {"--csv": "files", "--study": "files", "--follow": "files --json --md --html"},
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
    },
}  # fmt: skip
# Command: two options that exclude each other, and why.
_BESIDE_ALTERNATE = ("--drivers", "--generator", "--against", "--html", "--preset")
APART: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "load": (
        *(
            (
                "--alternate",
                other,
                "--alternate loads two servers in turns: only options of leadline-load stand beside it",
            )
            for other in (*_BESIDE_ALTERNATE, "--limit-errors")
        ),
        ("--generator", "--preset", "another tool runs as it is"),
        ("--generator", "--drivers", "another tool runs here and alone"),
    ),
    "run": (
        ("--simulate", "--pool", "a simulated host stands in for all others"),
        ("--simulate", "--host", "a simulated host stands in for all others"),
    ),
    "power": (("--cv", "--from", "--cv is in place of a study's noise"),),
    "gc": (("--json", "--md", "both are printed"),),
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
    "folded": "FILE",
    "finding": "FINDING",
    "format": "FORMAT",
    "from": "SETTINGS",
    "limit_errors": "PERCENT",
    "name": "NAME",
    "names": "NAME",
    "older_than": "TIME",
    "out": "PATH",
    "pprof": "FILE",
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
    from leadline.checks.files.study import builtin_studies, builtin_tunings

    folder, _, begun = incomplete.rpartition("/")
    here = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir())
    names = [path for path in here if path.name.startswith(begun) and not path.name.startswith(".")]
    files = [os.path.join(folder, path.name) for path in names if path.suffix in (".yaml", ".yml")]  # noqa: PTH118
    folders = [os.path.join(folder, path.name, "") for path in names if path.is_dir()] if folder else []  # noqa: PTH118
    return [*builtin_studies(), *builtin_tunings(), *_kept(), *files, *folders]


def _kept() -> list[str]:
    from leadline.store.labfile import names_in

    return names_in(Path(os.environ.get("LEADLINE_LAB", "lab")))


def _knobs(_incomplete: str) -> Iterable[str]:
    from leadline.places.knobs import every_knob

    return every_knob().names()


def _factors(incomplete: str) -> Iterable[str]:
    return [f"{name}=" for name in _knobs(incomplete)]


def _levels(_incomplete: str) -> Iterable[str]:
    """Keys of a study that are often changed."""
    keys = ("design.kind", "design.replicates", "design.seed", "stack.server", "stack.database", "stack.mode")
    loads = ("workload.users", "workload.rate", "workload.ramp_up", "workload.steady", "workload.scenario")
    return [f"{key}=" for key in (*keys, *loads, "responses", "question")]


def _servers(_incomplete: str) -> Iterable[str]:
    from leadline.stack.registry import SERVERS

    return SERVERS


def _databases(_incomplete: str) -> Iterable[str]:
    from leadline.stack.registry import DATABASES

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


# By group: name, module in leadline.cli.commands, summary (the first line of the command's own help).
_TABLE = """
Study:
  init       init       Write a first study file that runs; ask on a terminal for what is not given.
  try        init       Write and run a first study: the dozen settings that matter to this kind of application, within a budget.
  run        run        Run a study or a tuning, or go on with an unfinished run of it; write its report.
  quickstart run        Run the built-in study ``quickstart``: about eight minutes on two cores.
  studies    init       List the built-in studies and tunings.
  plan       plan       Print a study's plan, what it can tell and what it mixes up; save it; check a saved one.
  power      plan       What a study will find at the noise of earlier trials, and what an effect needs.
  simulate   plan       How often a study would be right: many simulated studies against a known truth.
  confirm    confirm    Confirm the best setting of a finished study by fresh trials against the baseline.
  bisect     bisect     Find which change between two ends makes the difference: levels of a factor, or settings.
  knee       bisect     Search for the largest load that keeps the limits: whole trials, steps, bisection, an interval.
  gate       gate       Tell whether a change does harm: two builds side by side, until it is decided or the budget is over.
  mcp        mcp        Serve a session to a program that tunes (Model Context Protocol): propose, measure, keep what is better.
Results:
  demo       ui         Look at a stored lab of two real runs: report, live page, comparison. Nothing is installed or run.
  show       results    Print what a study or a tuning found. Ends with code 4 where it has no answer.
  report     results    Write the report: one HTML file that needs no network, or a summary for pull requests and CI.
  export     results    Write the trials and effects of a study, or the steps of a tuning, as CSV and its figures as PNG or SVG.
  advise     results    List what a run suggests to try next, by layer, with the evidence; and what later studies found.
  compare    compare    Compare two runs of a lab: what moved, with intervals, and which facts differ.
  history    compare    A figure over all runs of a study, with change points and what differed between runs.
  capacity   capacity   Fit a queueing model to a study of load: knee, what saturates first, untested loads, error on loads left out.
  figures    figures    Study A's figures: gains against luck, failures, sensitivities, ranking over systems, test of a grouping.
  analyse    analyse    Compare results that other tools wrote, with the intervals and verdicts of a study.
  ui         ui         A live page of the lab on this machine: what runs, all studies, two runs compared, one over time.
  lab        labs       Make a lab, list it, show its disk use; remove and copy studies.
Load and stack:
  load       load       Load a server and sum up how it did.
  soak       soak       Load a stack for hours or days, or go on with it; tell whether it degrades, since when and by what.
  record     record     Write a scenario from what a browser does: a proxy on the loopback records it until Ctrl-C.
  scenario   record     Make a first scenario from a recording, an access log, copied requests or an OpenAPI description.
  up         stackfile  Start a stack and leave it running; print its address.
  down       stackfile  Stop the stack that ``up`` started and put the host back.
  stack      stackfile  An application of your own: a first stack file from its jar, and a check of a stack file.
  command    command    Time programs as whole processes in a mixed order and compare them, with intervals.
Host:
  doctor     host       What a machine can do and how noisy it is, each finding with the command that mends it.
  knobs      knobs      List knobs: unit, range, default, risk, apply cost; for the host's also today's value.
  kernels    kernels    List the kernels that guests can have: line and flavour, version, suite, whether it is here, size.
  restore    host       Put a host back after any crash: undo every open entry of the journal, end what was started.
  pool       host       Pools of hosts: their state, and what runs there.
  gc         gc         What happened by JVM GC logs, then pauses, shares of time, rates, heap after collection and leak test.
  explain    analyse    Which frames carry the difference between recordings before and after a change, with intervals.
"""  # noqa: E501
GROUPS: dict[str, list[str]] = {}
COMMANDS: dict[str, tuple[str, str]] = {}
for _line in _TABLE.strip().splitlines():
    if _line.startswith(" "):
        _name, _module, _summary = _line.split(maxsplit=2)
        COMMANDS[_name] = (_module, _summary)
        GROUPS[next(reversed(GROUPS))].append(_name)
    else:
        GROUPS[_line.removesuffix(":")] = []


class LazyCommands(TyperGroup):
    """A group whose commands are known by name and imported on demand."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            hint = did_you_mean(cmd_name, list(COMMANDS)) or "leadline --help lists them"
            raise UsageError(f"No such command {cmd_name!r}; {hint}")
        app = typer.Typer(rich_markup_mode=None)
        app.callback()(_nothing)  # a group even where the module has one command
        import_module(f"leadline.cli.commands.{COMMANDS[cmd_name][0]}").register(app)
        group: Any = typer.main.get_command(app)
        return hold(name_values(group.commands[cmd_name]), cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])


def _nothing() -> None: ...
