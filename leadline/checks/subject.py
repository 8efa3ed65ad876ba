"""What a study measures, a stack under load or a command timed: its knobs, checks and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from leadline.checks.files.study import StudyFile
from leadline.checks.load import check_load, check_loads
from leadline.checks.stack import check_levels, check_servers, located, stack_knobs, starved_calls
from leadline.checks.web import check_web
from leadline.host import kvm
from leadline.host.base import Ability, Host, PlannedHost
from leadline.host.java import find_java
from leadline.host.registry import is_machine
from leadline.host.timed import instructions
from leadline.load.knobs import load_knobs
from leadline.load.scenario import sent_variables
from leadline.model.command import CACHE, COLD, MOUNT, PLACE, CommandLoad
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.model.places import MOUNTED
from leadline.model.plan import Factor, Plan, all_levels
from leadline.model.study import Study
from leadline.model.units import format_duration
from leadline.planning.forecast import BOOT, START

Problem = tuple[tuple[str | int, ...], str]


def refused(study: Study, command: CommandLoad, host: Host, levels: Mapping[str, Sequence[Level]]) -> list[Problem]:
    """Why a study of a command cannot run here, with the key to blame. ``levels``: all of each factor and setting."""
    problems: list[Problem] = []
    if command.java is not None:
        try:
            find_java(command.java)
        except UsageError as error:
            problems.append((("command", "java"), str(error)))
    for path in command.files:
        if not Path(path).exists():
            problems.append((("command", "files"), f"{path} is not there"))
    key = "factors" if CACHE in study.factors else "settings"
    if COLD in levels.get(CACHE, ()) and (why := host.lacks(Ability.DROP_PAGE_CACHE)):
        problems.append(((key, CACHE), f"the page cache cannot be dropped here ({why}); leave cold out"))
    if "instructions" in study.responses and instructions() is None:
        sentence = (
            "this host counts no instructions (a virtual machine without counters, or kernel.perf_event_paranoid)"
        )
        problems.append((("responses",), f"{sentence}; leave the response out"))
    if MOUNT in levels and set(levels.get(PLACE, ())) - set(MOUNTED) != set():
        of = "factors" if MOUNT in study.factors else "settings"
        some = ", ".join(MOUNTED)
        problems.append(
            ((of, MOUNT), f"{MOUNT} is of a file system of its own: all levels of {PLACE} must be of {some}")
        )
    return problems


OVERHEAD = 22.0  # seconds a trial needs beside its load before any trial has been timed: restore, starts, audits
EMULATED = BOOT + START  # of a virtual machine without hardware virtualisation
_BESIDE_RUNS = 0.5  # of a trial of a command: what is written down


class Subject(Protocol):
    """What a study measures."""

    def knobs(self) -> list[Knob]:
        """What can be set of it, the host's knobs aside. Raises StackError."""

    def unchecked(self, file: StudyFile) -> list[str]:
        """Checks what it is loaded with; a sentence for what only a run can tell. Raises UsageError with file and
        line, as ``check`` does.
        """

    def check(
        self,
        file: StudyFile,
        host: PlannedHost,
        factors: Sequence[Factor],
        settings: Mapping[str, Level],
        idle_settings: bool,
        of: Callable[[str], PlannedHost] | None,
    ) -> None:
        """Checks its levels; ``idle_settings`` and ``of`` as :func:`leadline.checks.plan.plan_study` says."""

    def warnings(self, file: StudyFile, plan: Plan, settings: Mapping[str, Level]) -> list[str]:
        """What some of its trials risk. Raises UsageError with file and line for one that cannot be."""

    def first_overhead(self) -> float:
        """Seconds that a trial needs beside its load, before any has been timed."""

    def load_document(self) -> dict[str, object]:
        """What every trial is loaded with, as JSON types."""

    def load_lines(self) -> list[str]:
        """The same as sentences."""


def subject_of(study: Study) -> Subject:
    if study.command:
        return TimedCommand(study, study.command)
    return StackUnderLoad(study) if study.stack.url is None else ServedUrl(study)


def study_catalogue(file: StudyFile) -> list[Knob]:
    """The knobs of what a study measures. Raises UsageError with file and line."""
    with located(file.where):
        return subject_of(file.study).knobs()


class StackUnderLoad:
    """Servers and databases under the load of the driver."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def knobs(self) -> list[Knob]:
        return [*stack_knobs(self._study), *load_knobs(self._study.workload)]

    def unchecked(self, file: StudyFile) -> list[str]:
        return check_load(file)

    def check(
        self,
        file: StudyFile,
        host: PlannedHost,
        factors: Sequence[Factor],
        settings: Mapping[str, Level],
        idle_settings: bool,
        of: Callable[[str], PlannedHost] | None,
    ) -> None:
        check_loads(file, factors, settings)
        check_levels(file, factors, settings, idle_settings)
        check_web(file, host, factors, settings, idle_settings, of)

    def warnings(self, file: StudyFile, plan: Plan, settings: Mapping[str, Level]) -> list[str]:
        check_servers(file, plan, settings)
        return starved_calls(file, plan, settings)

    def first_overhead(self) -> float:
        return EMULATED if self._study.stack.in_guest and kvm.known() != "works" else OVERHEAD

    def load_document(self) -> dict[str, object]:
        """In seconds; variables as the driver is given them."""
        load = self._study.workload
        phases: dict[str, object] = {
            name: getattr(load, name) for name in ("ramp_up", "steady", "ramp_down", "timeout")
        }
        if load.warm_up is not None:
            phases["warm_up"] = {**load.warm_up.model_dump(), "seconds_at_most": load.warm_up_seconds()}
        return phases | {"variables": dict(load.variables if load.generator else sent_variables(load))}

    def load_lines(self) -> list[str]:
        """With its units, also where the file has bare numbers."""
        load = self._study.workload
        ramp_up, steady, ramp_down, timeout = map(
            format_duration, (load.ramp_up, load.steady, load.ramp_down, load.timeout)
        )
        lines = [
            f"load of a trial: ramp-up {ramp_up}, steady {steady}, ramp-down {ramp_down}; a request may take {timeout}"
        ]
        if warm := load.warm_up:
            by_rule = warm.until == "steady"
            often = f"{'at most ' if by_rule else ''}{warm.cycles} cycles of {format_duration(warm.load)} load"
            ends = "; over once a cycle is no faster than those before and the compiler rests" if by_rule else ""
            pause = f" and {format_duration(warm.pause)} pause" if warm.pause else ""
            most = format_duration(load.warm_up_seconds())
            lines.append(f"before it a warm-up: {often}{pause}, {most} with all around it{ends}")
        if load.generator is None and load.rate is not None:
            lasts = format_duration(load.max_sessions / load.rate)
            lines.append(
                f"{load.rate:,.10g} sessions/s, at most {load.max_sessions:,} at a time: enough if one lasts {lasts}"
            )
        if load.generator is None:
            sent = ", ".join(f"{name} = {value}" for name, value in sent_variables(load).items())
            lines.append(f"scenario {load.scenario}" + (f" with {sent}" if sent else ""))
        if services := self._study.stack.services:
            lines.append(f"before the application each trial starts {', then '.join(services)}")
        return lines


class ServedUrl(StackUnderLoad):
    """A server that runs already under the load of the driver: nothing of it is set."""

    def knobs(self) -> list[Knob]:
        return list(load_knobs(self._study.workload))

    def check(
        self,
        file: StudyFile,
        host: PlannedHost,  # noqa: ARG002
        factors: Sequence[Factor],
        settings: Mapping[str, Level],
        idle_settings: bool,  # noqa: ARG002
        of: Callable[[str], PlannedHost] | None,  # noqa: ARG002
    ) -> None:
        check_loads(file, factors, settings)

    def warnings(self, file: StudyFile, plan: Plan, settings: Mapping[str, Level]) -> list[str]:  # noqa: ARG002
        return []

    def first_overhead(self) -> float:
        return _BESIDE_RUNS


class TimedCommand:
    """A program timed as a whole process."""

    def __init__(self, study: Study, command: CommandLoad) -> None:
        self._study, self._command = study, command

    def knobs(self) -> list[Knob]:
        return self._command.knobs()

    def unchecked(self, file: StudyFile) -> list[str]:  # noqa: ARG002 - the model has checked it
        return []

    def check(
        self,
        file: StudyFile,
        host: PlannedHost,
        factors: Sequence[Factor],
        settings: Mapping[str, Level],
        idle_settings: bool,  # noqa: ARG002
        of: Callable[[str], PlannedHost] | None,  # noqa: ARG002
    ) -> None:
        if not is_machine(host):
            key = ("stack", "host") if "stack" in file.places.tree else ("command",)
            raise UsageError(f"{file.where(key)}: a command runs on this host only")
        for path, problem in refused(self._study, self._command, host, all_levels(factors, settings)):
            raise UsageError(f"{file.where(path)}: {problem}")

    def warnings(self, file: StudyFile, plan: Plan, settings: Mapping[str, Level]) -> list[str]:  # noqa: ARG002
        return []

    def first_overhead(self) -> float:
        return _BESIDE_RUNS

    def load_document(self) -> dict[str, object]:
        return self._command.model_dump()

    def load_lines(self) -> list[str]:
        command = self._command
        warm = f", after {command.warmup} that are not measured" if command.warmup else ""
        runs = f"a trial is {command.runs} runs{warm}, each ended after {format_duration(command.timeout)}"
        return [f"timed as a whole process: {command.run}", runs]
