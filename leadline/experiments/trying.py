"""A ready-made first study of an application: what is started, what loads it, which settings are screened.

It is started once or twice before: what cannot be read back, set or started is left out, each with a line.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from leadline.checks.files.stack import is_stack_file, read_stack
from leadline.checks.files.study import StudyFile, parse_study
from leadline.checks.plan import Planned, cost
from leadline.checks.subject import subject_of
from leadline.experiments.stackfiles import first, name_of
from leadline.host import here
from leadline.host.base import Host
from leadline.host.java import java_home
from leadline.host.local import LocalHost
from leadline.host.paths import Scratch
from leadline.host.textfile import write_private
from leadline.load.convert.openapi import of_openapi
from leadline.load.driver import DriverRun
from leadline.load.result import read_summary
from leadline.load.scenario import sent_variables
from leadline.model.errors import LeadlineError, TrialFailure, UsageError
from leadline.model.knob import ApplyCost, Catalogue, Knob, Level
from leadline.model.ownstack import OwnFile
from leadline.model.study import StackChoice
from leadline.model.units import parse_duration
from leadline.model.workload import Workload
from leadline.model.yamltext import load_yaml
from leadline.places.testbed import LocalTestbed
from leadline.stack.assembly import Stack
from leadline.stack.options import StackOptions
from leadline.stack.own.application import fetched
from leadline.stack.own.artifact import read_artifact
from leadline.stack.own.words import artifact, tls_files
from leadline.stack.registry import server_of, stack_catalogue
from leadline.stack.running import require_none_running
from leadline.store.labfile import services_of

DESCRIPTIONS = ("/v3/api-docs", "/q/openapi?format=json", "/openapi?format=json", "/openapi.json")
ARCHIVE_OPTION, ARCHIVE = "jvm.flag.ArchiveClassesAtExit", "jvm.flag.SharedArchiveFile"
_ARCHIVE_MADE = "leadline.jsa"  # in the application's directory
_TRIED = 3.0  # seconds of load by one user that a new scenario is tried with
_LINES, _LONGEST = 400, 200  # of its log that are searched for a complaint; characters of one
_NO_TABLE = re.compile(r"(?i)\b(relation|table)\b.*(does not exist|doesn't exist|not found)")
_FEWEST = 2  # factors of a screening design
# replicates and seconds of load, the best that fits into the budget is taken
_SIZES = ((3, 30), (2, 30), (2, 20), (2, 12), (1, 30), (1, 20), (1, 12), (1, 6))
_FULL_SCREENINGS = (7, 3)  # factors that fill 8 and 4 runs: where all do not fit into the budget, the first of them
_FEW_SIZES = ((2, 20), (2, 6))  # of a design that changes one setting at a time, of at most three
_LIVE_SIZES = ((4, 120), (3, 120), (2, 120), (2, 60), (1, 60))
_VIRTUAL = "app.spring.threads.virtual.enabled"
# Settings by the knobs that are there: the first level is the baseline. A small budget drops the last of them.
SETTINGS: Mapping[str, str] = {
    "jvm.collector": "[g1, parallel]",
    "app.spring.datasource.hikari.maximum-pool-size": "[10, 30]",
    "app.quarkus.datasource.jdbc.max-size": "[20, 5]",
    _VIRTUAL: "[false, true]",
    "app.server.tomcat.threads.max": "[200, 20]",
    "app.quarkus.thread-pool.max-threads": "[200, 16]",
    "jvm.flag.UseCompactObjectHeaders": "[false, true]",
    "jvm.flag.TieredStopAtLevel": "[4, 1]",
    "mm.transparent_hugepage.enabled": "[madvise, always]",
    "app.spring.jpa.open-in-view": "[true, false]",
    "jvm.pre_touch": "[false, true]",
}
# Properties that are in the catalogue whether or not the application has what they are of.
NEEDS = {
    "app.spring.datasource.hikari.maximum-pool-size": "HikariCP",
    "app.server.tomcat.threads.max": "tomcat-embed-core",
    "app.spring.jpa.open-in-view": "spring-orm",
}
# Settings that fail or have no effect below the level of another.
ABOVE = {
    "app.quarkus.datasource.jdbc.max-size": ("min-size", "initial-size"),
    "app.quarkus.thread-pool.max-threads": ("core-threads",),
    "app.server.tomcat.threads.max": ("min-spare",),
}
# Words of a command that set one of them already, beside the names of flags and properties.
_WORDS = {
    "jvm.heap": r"-Xm[sx].+|-XX:(Max|Initial|Min)(HeapSize|RAMPercentage)=.+",
    "jvm.collector": r"-XX:\+Use\w+GC",
    "jvm.pre_touch": r"-XX:[+-]AlwaysPreTouch",
}
_VIRTUAL_SINCE = 21
_LEAST, _LONGER = 60.0, 4.0  # seconds of a start's limit, and how many times the first start, where that is more
_CHECKING, _MOST_CHECKING = 0.1, 0.25  # shares of what is left of a budget: two starts to check levels; all of them
_OF_STARTS, _BESIDE = 1.5, 8.0  # starts that a trial takes beside its load, and seconds: reset, audits, the end


@dataclass(frozen=True)
class Attempt:
    """The study file that was written, or would be; what was done on the way to it; the study and its plan."""

    study: Path
    notes: Sequence[str]
    file: StudyFile
    planned: Planned


class NotKnownError(LeadlineError):
    """No answer within the budget: what is in the way, and what to do."""


@dataclass(frozen=True)
class _Budget:
    text: str
    seconds: float
    began: float = field(default_factory=lambda: time.monotonic())

    def left(self) -> float:
        return self.seconds + self.began - time.monotonic()


@dataclass
class _Files:
    """Beside the current directory: what is written, by the name of the application."""

    name: str
    notes: list[str] = field(default_factory=list)
    start: float = 0.0  # seconds of the first start; 0: there was none
    dropped: set[str] = field(default_factory=set)  # settings that are not tried
    levels: dict[str, str] = field(default_factory=dict)  # in place of those that its other settings do not allow

    def drop(self, name: str, why: str) -> None:
        self.dropped.add(name)
        self.notes.append(f"{name} is left out: {why}")

    def path(self, ending: str) -> Path:
        return Path(f"{self.name}.{ending}").absolute()


def prepare(
    target: Path,
    scenario: Path | None,
    budget: str,
    lab: Path,
    message: Callable[[str], None],
    on_plan: Callable[[Attempt], None],
    *,
    dry_run: bool = False,
) -> Attempt:
    """Write a stack file where there is none, a scenario from the OpenAPI description of the running application where
    none is given, and a study that screens the settings that matter to this kind of application within ``budget``.
    ``on_plan`` hears the outcome. With ``dry_run`` nothing is started or kept.

    Raises UsageError, LeadlineError, NotKnownError once it was started.
    """
    try:
        seconds = parse_duration(budget)
    except ValueError as error:
        raise UsageError(f"--budget {budget}: {error}") from None
    with Scratch() as scratch:  # of a dry run: the stack file that would be written
        kept_scratch = scratch if dry_run else None
        own_file, files = _own(target, kept_scratch)
        attempt = _prepared(own_file, files, scenario, _Budget(budget, seconds), lab, message, kept_scratch)
        on_plan(attempt)
        return attempt


def _prepared(
    own: OwnFile,
    files: _Files,
    scenario: Path | None,
    budget: _Budget,
    lab: Path,
    message: Callable[[str], None],
    scratch: Path | None,
) -> Attempt:
    choice = StackChoice.model_validate({"own": own.model_dump(mode="json", exclude_unset=True)})
    load = scenario or (Path(own.file).parent / own.content.scenario if own.content.scenario else None)
    made = files.path("jsa") if _can_archive(choice) else None
    for name in factors_of(own, choice, None):
        if word := _set_by(own, name):
            files.drop(name, f"the command sets it ({word})")
    if scratch is not None:
        files.notes += [] if load else [f"the load will come from the OpenAPI description of {own.content.stack}"]
        load = load or _placeholder(scratch, own)
    else:
        with Scratch() as place:  # what cannot be planned is told before anything starts
            _study(own, choice, load or _placeholder(place, own), made, budget, lab, files)
        load = _first_start(own, choice, load, files, made, lab, message, budget)
    archive = made if made is not None and (scratch is not None or made.exists()) else None
    try:
        text, file, planned, dropped = _study(own, choice, load, archive, budget, lab, files, timed=scratch is None)
    except NotKnownError:
        for note in files.notes:
            message(note)
        raise
    if dropped:
        files.notes.append(f"left out, as they do not fit into {budget.text}: {', '.join(dropped)}")
    path = files.path("try.study.yaml")
    if scratch is None:
        write_private(path, text)
        path.chmod(0o644)
        files.notes.append(f"wrote {path.name}: edit it and run it again by leadline run {path.name}")
    return Attempt(path, tuple(files.notes), file, planned)


def _set_by(own: OwnFile, name: str) -> str:
    """The word of the command that sets a setting already; empty for none. A second one would not replace it."""
    plain = re.escape(name.removeprefix("app.").removeprefix("jvm.flag."))
    pattern = _WORDS.get(name, rf"(--|-D){plain}=.*" if name.startswith("app.") else rf"-XX:[+-]?{plain}(=.*)?")
    words = [*own.content.words, *own.content.environment.get("JAVA_TOOL_OPTIONS", "").split()]
    return next((word for word in words if re.fullmatch(pattern, word)), "")


def _own(target: Path, scratch: Path | None) -> tuple[OwnFile, _Files]:
    """The stack file, written where there is none; below ``scratch`` for a dry run."""
    if target.suffix in (".yaml", ".yml"):
        if not is_stack_file(str(target)):
            raise UsageError(f"{target} is no stack file: it says no `stack` with a `command` or `attach`")
        stack = read_stack(target)
        return stack, _Files(stack.content.stack)
    name = name_of(read_artifact(target))
    files = _Files(name)
    stack_path = files.path("stack.yaml")
    if stack_path.exists():
        files.notes.append(f"{stack_path.name} is there and used")
        return read_stack(stack_path), files
    path, _ = first(target, stack_path if scratch is None else scratch / stack_path.name)
    files.notes.append(f"{'wrote' if scratch is None else 'would write'} {stack_path.name}")
    return read_stack(path), files


def _can_archive(choice: StackChoice) -> bool:
    """Whether classes of the application can be archived: by its own command, on a JVM that has the flag."""
    assert choice.own is not None
    knobs = {knob.name for knob in stack_catalogue(choice)}
    return choice.own.content.managed and {ARCHIVE_OPTION, ARCHIVE} <= knobs


# the first start ---------------------------------------------------------------------------------------------------


def scenario_of(own: OwnFile, lab: Path, message: Callable[[str], None]) -> Path:
    """A scenario from the OpenAPI description of the application, which is started for it once; kept beside the current
    directory by its name. Raises as :func:`prepare`.
    """
    choice = StackChoice.model_validate({"own": own.model_dump(mode="json", exclude_unset=True)})
    files = _Files(own.content.stack)
    path = _first_start(own, choice, None, files, None, lab, message)
    for note in files.notes:
        message(note)
    return path


def _first_start(
    own: OwnFile,
    choice: StackChoice,
    load: Path | None,
    files: _Files,
    archive: Path | None,
    lab: Path,
    message: Callable[[str], None],
    budget: _Budget | None = None,
) -> Path:
    """Start it once: a scenario from its description, where ``load`` is None, an archive of its classes, and which
    settings it tells; once more, where ``budget`` has room, with their other levels.
    """
    if load is None and own.content.database.kind == "keep":
        problem = "its data are never put back, so nothing is written by guess"
        raise UsageError(f"{own.file}: {problem}: name what loads it by --scenario")
    lab.mkdir(parents=True, exist_ok=True)
    host = LocalHost()
    limit = StackOptions.ready_timeout if budget is None else max(_LEAST, budget.left() / 2)
    with host.lease():
        require_none_running(lab, host)
        options = StackOptions(observe=False, ready_timeout=limit)
        stack = Stack(choice, host, services_of(lab) / f"try-{files.name}", options)
        directory = lab / "try" / f"{files.name}-{int(time.time())}"
        try:
            stack.provision(message)
            stack.prepare_data(message)
            stack.reset_data(directory)
            message(f"starting {files.name} once")
            files.start = stack.up({ARCHIVE_OPTION: _ARCHIVE_MADE} if archive else {}, directory)
            files.notes.append(f"it is up after {files.start:.1f} s")
            if budget is not None:
                _read_settings(stack, choice, factors_of(own, choice, None), files)
            if load is None:
                load = _scenario(stack, files, directory, host)
        except TrialFailure as failure:
            if budget is not None and budget.left() < limit * 1.1:  # it used up its share of the budget
                problem = f"it is not up within {limit:.0f} s, half of --budget {budget.text}"
                raise NotKnownError(f"not known: {problem} ({failure}); give it more, as --budget 1h") from failure
            raise LeadlineError(str(failure)) from failure
        finally:
            try:
                stack.down()
            finally:
                host.restore()
        work = stack.homes()[-1] / _ARCHIVE_MADE
        if archive is not None and work.is_file():
            shutil.copyfile(work, archive)
            files.notes.append(f"wrote {archive.name}: its classes, for a start without loading them anew")
        if budget is not None and own.content.managed and 2 * files.start < _CHECKING * budget.left():
            message(f"starting {files.name} with other levels")
            factors = factors_of(own, choice, archive if archive and archive.exists() else None)
            _check_levels(stack, choice, factors, files, directory, budget.left() * _MOST_CHECKING)
    return load


def _read_settings(stack: Stack, choice: StackChoice, factors: Mapping[str, str], files: _Files) -> None:
    """Leave out what the running application does not tell; raise levels to those of others that they must not pass."""
    of_stack = {knob.name: knob for knob in stack_catalogue(choice)}
    for name in [name for name in factors if name in of_stack and name not in files.dropped]:
        try:
            stack.read_back(name)
        except LookupError as error:
            files.drop(name, f"it cannot be read back ({error})")
            continue
        levels = _levels(of_stack[name], factors[name])
        for partner in (f"{name.rpartition('.')[0]}.{last}" for last in ABOVE.get(name, ())):
            with suppress(LookupError):
                least = stack.read_back(partner)
                if isinstance(least, int) and any(isinstance(level, int) and level < least for level in levels):
                    levels = [max(int(level), least) for level in levels]
                    files.levels[name] = f"[{', '.join(map(str, levels))}]"
                    if levels[0] == levels[1]:
                        files.drop(name, f"{partner} is {least}, and its levels must not be below")
                    else:
                        files.notes.append(f"{name} is {levels[0]} or {levels[1]}, as {partner} is {least}")


def _check_levels(
    stack: Stack, choice: StackChoice, factors: Mapping[str, str], files: _Files, directory: Path, most: float
) -> None:
    """Start it with the second level of every setting, which drops what is not in force then; where it does not start,
    of halves of them until it is clear which level is to blame, for at most so many seconds.
    """
    of_stack = {knob.name: knob for knob in stack_catalogue(choice)}
    names = [name for name in factors if name in of_stack and name not in files.dropped]
    second = {name: _levels(of_stack[name], files.levels.get(name, factors[name]))[-1] for name in names}
    ends = time.monotonic() + most
    groups = [names]
    while groups:
        group = groups.pop(0)
        if not group:
            continue
        if time.monotonic() > ends:
            for name in group:
                files.drop(name, "the application does not start with this and others, and there is no time to look")
            continue
        try:
            stack.reset_data(directory)
            stack.up({name: second[name] for name in group}, directory)
            for name in group:
                try:
                    level = of_stack[name].format(stack.read_back(name))
                except LookupError as error:
                    files.drop(name, f"it cannot be read back ({error})")
                    continue
                if level != (wanted := of_stack[name].format(second[name])):
                    files.drop(name, f"{wanted} was set, and {level} is in force")
        except (TrialFailure, UsageError) as failure:
            if len(group) == 1:
                why = str(failure).splitlines()[0]
                files.drop(group[0], f"it does not start with {of_stack[group[0]].format(second[group[0]])} ({why})")
            else:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
        finally:
            stack.down()


def _levels(knob: Knob, text: str) -> list[Level]:
    """Of a factor as the study file has it."""
    return [knob.parse(level) for level in load_yaml(text, knob.name, typ="safe")]


def _scenario(stack: Stack, files: _Files, directory: Path, host: Host) -> Path:
    """From the first description that is served; transactions that fail at the first try have no weight."""
    base = stack.url().removesuffix(stack.deployment().path)
    for path in DESCRIPTIONS:
        try:
            status, text = fetched(base, path, own=stack.choice.own)
        except (OSError, ValueError):
            continue
        if status == 200:
            break
    else:
        paths = ", ".join(DESCRIPTIONS)
        raise UsageError(f"{files.name} serves no OpenAPI description ({paths}); name what loads it by --scenario")
    with Scratch() as scratch:
        description = scratch / f"{files.name}.json"
        description.write_text(text)
        scenario = of_openapi(description).text()
    scenario_path = files.path("scenario.yaml")
    if scenario_path.exists():
        files.notes.append(f"{scenario_path.name} is there and used")
        return scenario_path
    write_private(scenario_path, scenario)
    scenario_path.chmod(0o644)
    failed, succeeded = _tried(stack, scenario_path, directory, host)
    if not succeeded:
        said = _complaint(stack.server.log_tail(_LINES))
        names = ", ".join(failed)
        raise UsageError(
            f"{scenario_path}: no operation of {path} succeeded ({names}){said}; mend what is wrong, and run this again"
        )
    for name in failed:
        scenario = re.sub(rf"(?m)^(\s+{re.escape(name)}): [1-9]\d*$", r"\1: 0  # it failed at the first try", scenario)
    scenario_path.write_text(scenario)
    left_out = f"; left out as they failed: {', '.join(failed)}" if failed else ""
    files.notes.append(f"wrote {scenario_path.name} from {path}: {', '.join(succeeded)}{left_out}")
    return scenario_path


def _complaint(log: str) -> str:
    """What an application's log names as the cause of its last failure, else empty."""
    lines = [line.strip() for line in log.splitlines()]
    causes = [line for line in lines if line.startswith("Caused by: ")] or [line for line in lines if "ERROR" in line]
    if not causes:
        return ""
    hint = " (`sql` of `database` names files that make tables)" if _NO_TABLE.search(causes[-1]) else ""
    return f"; the application's log: {causes[-1][:_LONGEST]}{hint}"


def _tried(stack: Stack, scenario: Path, directory: Path, host: Host) -> tuple[list[str], list[str]]:
    """Transactions that failed and that succeeded under a moment of load."""
    workload = Workload(scenario=str(scenario), users=1, ramp_up=0, steady=_TRIED, ramp_down=0)
    ca, client = tls_files(stack.choice.own)
    out, variables = directory / "driver", sent_variables(workload)
    run = DriverRun(workload, stack.url(), 1, out, variables, ca=ca, client=client)
    log = directory / "logs" / "driver.log"
    from leadline.places.real import load_outcome  # its libraries take seconds to import

    process = host.start(run.spec(log))
    deadline = time.monotonic() + _TRIED + 30
    try:
        while process.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        process.stop(grace=1.0)
    counts = load_outcome(read_summary(directory / "driver")).counts
    failed = [name for name, count in counts.items() if count["failed"]]
    return failed, [name for name, count in counts.items() if count["ok"] and not count["failed"]]


# the study ---------------------------------------------------------------------------------------------------------


def _study(
    own: OwnFile,
    choice: StackChoice,
    load: Path,
    archive: Path | None,
    budget: _Budget,
    lab: Path,
    files: _Files,
    *,
    timed: bool = True,
) -> tuple[str, StudyFile, Planned, list[str]]:
    """The largest of the sizes that fits into what is left of the budget, with the settings that it leaves out. Where
    starts are too slow for any, one start whose live settings change. ``timed``: the start counts as it was, else as
    usual. Raises UsageError, NotKnownError after a start.
    """
    allowed, left = factors_of(own, choice, archive), budget.left() if files.start else budget.seconds
    factors = {name: files.levels.get(name, allowed[name]) for name in allowed if name not in files.dropped}
    if len(factors) < _FEWEST and own.content.restart is None and own.content.attach is not None:
        raise UsageError(f"{own.file}: it has {len(factors)} live knobs to try; a `restart` command would give more")
    if not factors:
        raise NotKnownError(f"not known: no setting is left to try; {own.file} can declare `knobs` of its own")
    live = own.content.attach is not None and own.content.restart is None
    live_names = {knob.name for knob in stack_catalogue(choice) if knob.apply_cost is ApplyCost.LIVE}
    while_it_runs = [name for name in factors if name in live_names]
    screenings = [len(factors), *(number for number in _FULL_SCREENINGS if number < len(factors))]
    ways = [(list(factors)[:number], "screening") for number in screenings if not live]
    ways += [(list(factors)[:number], "few") for number in (3, 2, 1) if number <= len(factors) and not live]
    ways += [(while_it_runs, "slots")] if while_it_runs and (live or files.start) else []
    needed = math.inf
    for names, kind in ways:
        for size in {"screening": _SIZES, "few": _FEW_SIZES, "slots": _LIVE_SIZES}[kind]:
            chosen_factors = {name: factors[name] for name in names}
            text = _text(own, load, chosen_factors, size, budget.text if not files.start else f"{left:.0f}s", kind)
            if files.start:  # it may take longer beside other work, and with other levels
                text += f"ready_timeout: {round(max(_LEAST, _LONGER * files.start))}s\n"
            parsed = parse_study(text, "the study that was written")
            planned = LocalTestbed(lab).plan(parsed)
            overhead = _OF_STARTS * files.start + _BESIDE if timed else subject_of(parsed.study).first_overhead()
            seconds = cost(parsed.study, planned.plan, overhead)
            if seconds <= left:
                return text, parsed, planned, [name for name in factors if name not in names]
            needed = min(needed, seconds)
    if files.start:
        why = f"a start takes {files.start:.0f} s, so the smallest study takes {needed / 60:.1f} min"
        total = math.ceil((budget.seconds - left + needed) / 60) + 1
        raise NotKnownError(f"not known: {why} of the {left / 60:.1f} that are left; write --budget {total}m")
    raise UsageError(f"--budget {budget.text}: the smallest study takes {needed / 60:.1f} min")


def _placeholder(scratch: Path, own: OwnFile) -> Path:
    path = scratch / "placeholder.scenario.yaml"
    path.write_text(
        f"scenario: placeholder\nmix: {{ ready: 1 }}\ntransactions:\n  ready:\n    - get: {own.content.ready.path}\n"
    )
    return path


def factors_of(own: OwnFile, choice: StackChoice, archive: Path | None) -> dict[str, str]:
    """Factors by the knobs of this stack and this host; the levels as a study file has them."""
    host = LocalHost()
    knobs = Catalogue([*host.knobs(), *stack_catalogue(choice)])
    live = own.content.attach is not None and own.content.restart is None
    factors: dict[str, str] = {}
    if "jvm.heap" in knobs and own.content.attach is None:
        heap = _heap_mib(host.machine().memory)
        factors["jvm.heap"] = f"[{heap}m, {heap // 2}m]"
    libraries = _libraries(own)
    server = server_of(choice)
    home = server.find_java(Path(choice.java) if choice.java else None) if own.content.jvm else None
    for name, levels in SETTINGS.items():
        lacks = name in NEEDS and libraries is not None and not libraries(NEEDS[name])
        if name not in knobs or lacks or (live and knobs.get(name).apply_cost is not ApplyCost.LIVE):
            continue
        if name == _VIRTUAL and (home is None or java_home(home).major < _VIRTUAL_SINCE):
            continue
        if name == "app.server.tomcat.threads.max" and _VIRTUAL in factors:  # no pool then
            continue
        if name.startswith("mm.") and host.writable(name):
            continue
        factors[name] = levels
    if archive is not None and home is not None:
        whole = home / "lib" / "server" / "classes.jsa"
        factors |= {ARCHIVE: f'["{whole}", "{archive}"]'} if whole.exists() else {}
    return factors


def _libraries(own: OwnFile) -> Callable[[str], bool] | None:
    try:
        return read_artifact(artifact(own)).has
    except UsageError:  # no jar
        return None


def _heap_mib(memory: int) -> int:
    """A power of two, about an eighth of memory: room for the database and for others."""
    return int(min(2048, max(256, 1 << (memory // 8 >> 20).bit_length() - 1)))


def _text(
    own: OwnFile, scenario: Path, factors: Mapping[str, str], size: tuple[int, int], budget: str, kind: str
) -> str:
    replicates, steady = size
    design = {
        "screening": f"{{ kind: plackett-burman, replicates: {replicates} }}",
        "few": f"{{ replicates: {replicates}, sentinels: null }}",
        "slots": f"{{ replicates: {replicates}, switchback: {{ slot: 5s }} }}",
    }[kind]
    responses = ["throughput", "p50", "p99", *([] if kind == "slots" else ["cpu_per_transaction", "startup"])]
    lines = [
        f"study: {own.content.stack}-try",
        f"question: Which of these settings matter to {own.content.stack}?",
        f"stack: {own.file}",
        f"workload: {{ scenario: {scenario}, users: {8 * here.cpus()}, ramp_up: 10s, steady: {steady}s }}",
        "factors:",
        *(f"  {name}: {levels}" for name, levels in factors.items()),
        f"design: {design}",
        f"responses: [{', '.join(responses)}]",
        f"budget: {budget}",
    ]
    return "\n".join([*lines, ""])
