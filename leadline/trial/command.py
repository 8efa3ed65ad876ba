"""Any programs timed as whole processes, in an order that was fixed beforehand, and compared (workload ``command``)."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np

from leadline.analysis import robust
from leadline.analysis.drift import OrderEffect, last_against_first, order_effects
from leadline.analysis.study import analyse
from leadline.design.kind import DesignError
from leadline.design.make import make_plan
from leadline.design.seeds import derived
from leadline.host.bystanders import Bystanders
from leadline.host.timed import Stopwatch, Timed
from leadline.model.design import Design
from leadline.model.disturbance import BOUND
from leadline.model.errors import FailureClass, UsageError, quoted
from leadline.model.knob import Level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.result import PROCESS_RESPONSES, Observation, Robust, StudyAnalysis

Order = Literal["random", "abba", "latin", "williams", "unknown"]
Cache = Literal["as-is", "warm", "cold", "unknown"]
FACTOR = "command"
FEWEST, MOST = 10, 200  # runs of each command where their number is not given
TOGETHER = 0.5  # seconds of runs that are told together
LONG_ENOUGH = 5.0  # seconds of each command that are wanted where they are short
_SPECIAL = frozenset("|&;<>()$`*?[]#~!{}\n")


@dataclass(frozen=True)
class Command:
    """One program and its arguments; ``shell``: run by ``sh -c``."""

    text: str
    argv: tuple[str, ...]
    shell: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Timing:
    """How programs are timed. ``runs`` of each, None for as many as the first runs suggest; ``margin`` in percent. Of
    times that were read from a file, order and cache may be unknown.
    """

    runs: int | None = None
    warmup: int = 1
    order: Order = "random"
    cache: Cache = "as-is"
    seed: int = 1
    timeout: float = 600.0
    prepare: str = ""
    setup: str = ""
    cleanup: str = ""
    ignore_failure: bool = False
    margin: float = 2.0


@dataclass(frozen=True)
class Run:
    """One run: its place in the plan and its figures (``PROCESS_RESPONSES``), or why it failed. ``started``: seconds;
    NaN where it is not known.
    """

    position: int
    block: int
    command: int
    started: float
    figures: Mapping[str, float] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class CommandComparison:
    """Programs compared. ``analysis`` is None where luck cannot be told from a difference, with the reason ``nothing``.
    ``outliers``: runs far from the others of their command; ``by_ranks``: what they hardly move, for each command that
    is compared where there are any. ``notes``: what the reader must know.
    """

    commands: tuple[Command, ...]
    how: Timing
    plan: Plan
    runs: tuple[Run, ...]
    analysis: StudyAnalysis | None
    order: tuple[OrderEffect, ...] = ()
    outliers: tuple[Run, ...] = ()
    by_ranks: Mapping[int, Robust] = field(default_factory=dict)
    nothing: str = ""
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def of(self, command: int, response: str) -> list[float]:
        """Figures of the runs of a command that did not fail, in their order."""
        return [run.figures[response] for run in self.runs if run.command == command and response in run.figures]

    @property
    def answered(self) -> bool:
        """Whether the times of any command are compared; of one command alone nothing is asked."""
        wall = [one for one in self.analysis.responses if one.response == "wall"] if self.analysis else []
        compared = any(effect.percent is not None for one in wall for effect in one.effects)
        return compared or len(self.commands) < 2

    @property
    def unordered(self) -> bool:
        """The order of the runs is not known, so a drift of the machine would look like a difference."""
        return self.how.order == "unknown"

    @property
    def failed(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.why)


def commands_of(texts: Sequence[str], lists: Mapping[str, Sequence[str]], shell: bool | None = None) -> list[Command]:
    """The commands with every combination of the parameters they name in braces. ``shell``: None where only those
    that need one get one. Raises UsageError.
    """
    commands: list[Command] = []
    for text in texts:
        named = [name for name in lists if "{" + name + "}" in text]
        for values in itertools.product(*(lists[name] for name in named)):
            parameters = dict(zip(named, values, strict=True))
            filled = text
            for name, value in parameters.items():
                filled = filled.replace("{" + name + "}", value)
            commands.append(_command(filled, parameters, shell))
    for name in lists:
        if not any("{" + name + "}" in text for text in texts):
            raise UsageError(f"--parameter-list {name}: no command names {{{name}}}")
    twice = next((command.text for at, command in enumerate(commands) if command in commands[:at]), "")
    if twice:
        raise UsageError(
            f"command {quoted(twice)} is given twice; to see what luck alone does, add a comment: '... #2'"
        )
    return commands


def _command(text: str, parameters: Mapping[str, str], shell: bool | None) -> Command:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"command {quoted(text)}: {error}") from None
    if not words:
        raise UsageError("command '': name a program")
    by_shell = (bool(set(text) & _SPECIAL) or "=" in words[0]) if shell is None else shell
    return Command(text, ("/bin/sh", "-c", text) if by_shell else tuple(words), by_shell, parameters)


def compare(
    commands: Sequence[Command],
    how: Timing,
    drop_caches: Callable[[], None],
    told: Callable[[str], None] = lambda _: None,
) -> CommandComparison:
    """Time the commands in a mixed order and compare them with the first. Raises UsageError before anything is timed:
    where a program cannot be started or a first run fails. An interruption ends it with what was measured.
    """
    accept = None if how.ignore_failure else frozenset({0})
    runs: list[Run] = []
    notes: list[str] = []
    interrupted = is_left = False
    with Stopwatch() as watch:
        floor = watch.floor(how.timeout)
        _aside(watch, "--setup", how.setup, how)
        try:
            first = [_warm(watch, command, how, accept) for command in commands]
            count = how.runs or min(MOST, max(FEWEST, math.ceil(LONG_ENOUGH / max(min(first), 1e-3))))
            plan = _plan(len(commands), count, how)
            told(f"{len(plan.trials)} runs, about {_seconds(len(plan.trials) * fmean(first))}")
            beside = Bystanders()
            together = 1 if how.prepare or how.cache == "cold" else max(1, min(MOST, int(TOGETHER / max(first))))
            for trials in (plan.trials[at : at + together] for at in range(0, len(plan.trials), together)):
                unprepared = _fails(watch, "--prepare", how.prepare, how)
                if how.cache == "cold":
                    drop_caches()
                chosen = [commands[int(trial.treatment[FACTOR])].argv for trial in trials]
                runs_ = [Timed({}, unprepared)] if unprepared else watch.times(chosen, how.timeout, accept)
                for trial, run_ in zip(trials, runs_, strict=True):
                    is_left = is_left or run_.left
                    runs.append(_run(trial, run_))
            if (used := beside.used()) is not None and used.others > BOUND:
                by = f" ({', '.join(used.programs)})" if used.programs else ""
                notes.append(f"Other programs{by} used {used.others:.0%} of the CPUs meanwhile.")
        except KeyboardInterrupt:
            interrupted = True
            plan = _plan(len(commands), how.runs or FEWEST, how) if not runs else plan
        if why := _fails(watch, "--cleanup", how.cleanup, how):
            notes.append(why)
    if is_left:
        notes.append("A program left processes behind in its group; they were ended, and their CPU is not counted.")
    if any(command.shell for command in commands):
        notes.append("Commands with signs of the shell run by sh -c; its start is in their figures.")
    if any(0 < run.figures.get("peak_memory", 0) <= floor for run in runs):
        notes.append(f"Peak memory is left out: below {floor:.0f} MiB it is that of who starts the program.")
        runs = [_without(run, "peak_memory") for run in runs]
    notes += _as_said(how.cache, runs)
    return compared(commands, how, plan, runs, interrupted, tuple(notes))


def _as_said(cache: Cache, runs: Sequence[Run]) -> list[str]:
    """Whether what the runs read agrees with the stated condition of the page cache."""
    read = [run.figures["read"] > 0 for run in runs if "read" in run.figures]
    if cache == "cold" and read and not any(read):
        return ["Cold in name only: no run read from a disk; what the programs read does not lie on one (tmpfs?)."]
    if cache == "warm" and any(read):
        return [f"Not warm throughout: {sum(read)} of {len(read)} runs read from a disk; --warmup takes more runs."]
    return []


def compared(
    commands: Sequence[Command], how: Timing, plan: Plan, runs: Sequence[Run], interrupted: bool, notes: tuple[str, ...]
) -> CommandComparison:
    """What the runs say; those of a plan may not all be there."""
    good = [run for run in runs if not run.why]
    nothing = ""
    if len(commands) < 2:
        nothing = "one command: nothing to compare it with"
    elif any(sum(run.command == at for run in good) < 2 for at in range(len(commands))):
        nothing = (
            "one pair of times; how much two runs of one command differ is not known"
            if all(sum(run.command == at for run in runs) == 1 for at in range(len(commands)))
            else "too few runs to tell a difference from luck"
        )
    comparison = CommandComparison(
        tuple(commands), how, plan, tuple(runs), None, nothing=nothing, interrupted=interrupted, notes=notes
    )
    walls, kinds = [run.figures["wall"] for run in good], [run.command for run in good]
    trend = None if comparison.unordered else last_against_first(walls, kinds)
    if trend is not None:
        comparison = replace(comparison, order=(trend,))
    if nothing:
        return comparison
    responses = [name for name in PROCESS_RESPONSES if all(run.figures.get(name, 0) > 0 for run in good)]
    observations = [_observation(plan.trials[run.position], run) for run in runs]
    analysis = analyse(
        plan,
        observations,
        responses,
        describe=lambda _, level: commands[int(level)].text,
        equivalence_margin=how.margin,
        verdicts_only=True,
    )
    order = comparison.order
    if not comparison.unordered:
        order = (*order_effects(walls, kinds, [run.block for run in good]), *order)
    outliers = tuple(run for at in range(len(commands)) for run in _far(good, at))
    by_ranks = _by_ranks(good) if outliers else {}
    return replace(comparison, analysis=analysis, order=order, outliers=outliers, by_ranks=by_ranks)


def _far(good: Sequence[Run], command: int) -> list[Run]:
    runs = [run for run in good if run.command == command]
    return [runs[at] for at in robust.outliers(np.log([run.figures["wall"] for run in runs]))]


def _by_ranks(good: Sequence[Run]) -> dict[int, Robust]:
    """Each command but the first; the intervals hold at 95 % together."""
    logs = np.log([run.figures["wall"] for run in good])
    return robust.against_first(logs, np.array([run.command for run in good]), np.array([run.block for run in good]))


def _observation(trial: PlannedTrial, run: Run) -> Observation:
    return Observation(
        trial=run.position,
        position=run.position,
        block=run.block,
        replicate=trial.replicate,
        role=trial.role,
        treatment=trial.treatment,
        started=run.started,
        responses=dict(run.figures),
        failure=FailureClass.WORKLOAD if run.why else None,
    )


def _plan(commands: int, runs: int, how: Timing) -> Plan:
    if commands > 1 and runs > 1:
        factor = Factor(FACTOR, tuple(range(commands)), 0)
        blocks: Any = "by-replicate" if how.order == "random" else how.order
        try:
            return make_plan([factor], Design(replicates=runs, seed=how.seed, sentinels=None, blocks=blocks))
        except DesignError as error:
            raise UsageError(f"--order {how.order} with {runs} runs of each of {commands} commands: {error}") from None
    order = sorted(range(commands), key=lambda one: derived(how.seed, "commands", one)) * runs
    return plan_of_runs(commands, [Run(at, 0, at_run, 0.0) for at, at_run in enumerate(order)])


def _warm(watch: Stopwatch, command: Command, how: Timing, accept: frozenset[int] | None) -> float:
    """Seconds of the last of the first runs; with none asked for, one is run all the same to know that it can be."""
    for _ in range(max(1, how.warmup)):
        _aside(watch, "--prepare", how.prepare, how)
        time = watch.time(command.argv, how.timeout, accept)
        if time.why:
            hint = "; --ignore-failure takes every exit code" if time.why.startswith("exit code") else ""
            raise UsageError(f"command {quoted(command.text)} fails: {time.why}{hint}")
    return time.figures["wall"]


def _aside(watch: Stopwatch, option: str, text: str, how: Timing) -> None:
    if why := _fails(watch, option, text, how):
        raise UsageError(why)


def _fails(watch: Stopwatch, option: str, text: str, how: Timing) -> str:
    """Runs what is not timed; why it failed, else empty."""
    timed = watch.time(["/bin/sh", "-c", text], how.timeout) if text else Timed({})
    return f"{option} {quoted(text)} fails: {timed.why}" if timed.why else ""


def _run(trial: PlannedTrial, found: Timed) -> Run:
    command, started = int(trial.treatment[FACTOR]), found.figures.get("started", 0.0)
    figures = {} if found.why else figures_of(found)
    return Run(trial.position, trial.block, command, started, figures, found.why)


def figures_of(found: Timed) -> dict[str, float]:
    """``PROCESS_RESPONSES`` of a run that did not fail."""
    raw = found.figures
    return {
        "wall": raw["wall"],
        "cpu": raw["user"] + raw["system"],
        "user": raw["user"],
        "system": raw["system"],
        "minor_faults": raw["minor"],
        "major_faults": raw["major"],
        "switches": raw["voluntary"] + raw["involuntary"],
        "peak_memory": raw["peak_kib"] / 1024,
        "read": raw["read_blocks"] / 2048,
        "written": raw["written_blocks"] / 2048,
        **({"instructions": raw["instructions"]} if "instructions" in raw else {}),
    }


def _without(run: Run, response: str) -> Run:
    figures = {name: value for name, value in run.figures.items() if name != response}
    return Run(run.position, run.block, run.command, run.started, figures, run.why)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def plan_of_runs(commands: int, runs: Sequence[Run]) -> Plan:
    """The plan of runs that were made before."""
    factor = Factor(FACTOR, tuple(range(max(commands, 2))), 0)
    levels_seen: dict[Level, int] = {}
    trials = []
    for run in runs:
        replicate = levels_seen[run.command] = levels_seen.get(run.command, -1) + 1
        role = Role.TREATMENT if run.command else Role.BASELINE
        trials.append(PlannedTrial(run.position, run.block, replicate, role, Treatment.of({FACTOR: run.command}), 1))
    return Plan("one-at-a-time", 1, (factor,), tuple(trials))
