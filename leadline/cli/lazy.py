"""Commands are imported when they are called: a command pays for its own libraries only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from leadline.cli.named import hold, name_values
from leadline.model.errors import UsageError, nearest

# name: module in leadline.cli.commands, summary (the first line of the command's own help)
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a first study file that runs; ask on a terminal for what is not given."),
    "run": ("run", "Run a study or a tuning, or go on with an unfinished run of it; write its report."),
    "try": (
        "trying",
        "Write and run a first study: the dozen settings that matter to this kind of application, within a budget.",
    ),
    "quickstart": ("run", "Run the built-in study ``quickstart``: about ten minutes on two cores."),
    "demo": (
        "demo",
        "Look at a stored lab of two real runs: report, live page, comparison. Nothing is installed or run.",
    ),
    "studies": ("studies", "List the built-in studies and tunings."),
    "plan": ("plan", "Print a study's plan, what it can tell and what it mixes up; save it; check a saved one."),
    "power": ("plan_power", "What a study will find at the noise of earlier trials, and what an effect needs."),
    "simulate": ("simulated", "How often a study would be right: many simulated studies against a known truth."),
    "confirm": ("confirm", "Confirm the best setting of a finished study by fresh trials against the baseline."),
    "bisect": ("bisect", "Find which change between two ends makes the difference: levels of a factor, or settings."),
    "knee": ("knee", "Search for the largest load that keeps the limits: whole trials, steps, bisection, an interval."),
    "show": ("results", "Print what a study or a tuning found. Ends with code 4 where it has no answer."),
    "report": (
        "results",
        "Write the report: one HTML file that needs no network, or a summary for pull requests and CI.",
    ),
    "export": (
        "results",
        "Write the trials and effects of a study, or the steps of a tuning, as CSV and its figures as PNG or SVG.",
    ),
    "advise": (
        "advise",
        "List what a run suggests to try next, by layer, with the evidence; and what later studies found.",
    ),
    "capacity": (
        "capacity",
        "Fit a queueing model to a study of load: knee, what saturates first, untested loads, error on loads left out.",
    ),
    "figures": (
        "figures",
        "Study A's figures: gains against luck, failures, sensitivities, ranking over systems, test of a grouping.",
    ),
    "compare": ("compare", "Compare two runs of a lab: what moved, with intervals, and which facts differ."),
    "history": ("compare", "A figure over all runs of a study, with change points and what differed between runs."),
    "ui": ("ui", "A live page of the lab on this machine: what runs, all studies, two runs compared, one over time."),
    "pool": ("pool", "Pools of hosts: their state, and what runs there."),
    "lab": ("labs", "Make a lab, list it, show its disk use; remove and copy studies."),
    "doctor": ("host", "What a machine can do and how noisy it is, each finding with the command that mends it."),
    "knobs": ("knobs", "List knobs: unit, range, default, risk, apply cost; for the host's also today's value."),
    "kernels": (
        "kernels",
        "List the kernels that guests can have: line and flavour, version, suite, whether it is here, size.",
    ),
    "restore": (
        "host",
        "Put a host back after any crash: undo every open entry of the journal, end what was started.",
    ),
    "up": ("stack", "Start a stack and leave it running; print its address."),
    "down": ("stack", "Stop the stack that ``up`` started and put the host back."),
    "stack": (
        "stackfile",
        "An application of your own: a first stack file from its jar, and a check of a stack file.",
    ),
    "load": ("load", "Load a server and sum up how it did."),
    "soak": (
        "soak",
        "Load a stack for hours or days, or go on with it; tell whether it degrades, since when and by what.",
    ),
    "command": ("command", "Time programs as whole processes in a mixed order and compare them, with intervals."),
    "gate": (
        "gate",
        "Tell whether a change does harm: two builds side by side, until it is decided or the budget is over.",
    ),
    "record": ("record", "Write a scenario from what a browser does: a proxy on the loopback records it until Ctrl-C."),
    "scenario": (
        "scenario",
        "Make a first scenario from a recording (HAR) or an interface description (OpenAPI), or export one.",
    ),
    "explain": (
        "explain",
        "Which frames carry the difference between recordings before and after a change, with intervals.",
    ),
    "gc": (
        "gc",
        "What happened by JVM GC logs, then pauses, shares of time, rates, heap after collection and leak test.",
    ),
}

GROUPS = {
    "Study": (
        "init",
        "try",
        "run",
        "quickstart",
        "studies",
        "plan",
        "power",
        "simulate",
        "confirm",
        "bisect",
        "knee",
        "gate",
    ),
    "Results": ("demo", "show", "report", "export", "advise", "compare", "history", "capacity", "figures", "ui", "lab"),
    "Load and stack": ("load", "soak", "record", "scenario", "up", "down", "stack", "command"),
    "Host": ("doctor", "knobs", "kernels", "restore", "pool", "gc", "explain"),
}


class LazyCommands(TyperGroup):
    """A group whose commands are known by name and imported on demand."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            near = nearest(cmd_name, list(COMMANDS))
            hint = f"did you mean {near}?" if near else "leadline --help lists them"
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
