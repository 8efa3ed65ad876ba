"""What a study says about its stack, checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from leadline.checks.files.study import StudyFile
from leadline.load.arrivals import most_users
from leadline.model.errors import UsageError
from leadline.model.knob import Knob, Level
from leadline.model.plan import Factor, Plan
from leadline.model.study import StackChoice, Study
from leadline.model.units import format_size
from leadline.model.workload import Workload
from leadline.stack import registry
from leadline.stack.base import Application, Feature
from leadline.stack.options import KNOBS as LIMITS
from leadline.stack.servers import jvm, knobs

_BOUNDS = ((knobs.MIN_CONNECTIONS, knobs.MAX_CONNECTIONS), (knobs.MIN_THREADS, knobs.THREADS))
_MEMORY = (("jvm.heap", "server_memory"), ("database.shared_buffers", "database_memory"))
_OF_QUEUE = frozenset(knob.name for knob in knobs.KNOBS if knob is not knobs.LOG_PLACE)


def stack_knobs(study: Study) -> list[Knob]:
    """The knobs of its stack; those that all of its servers have, where the server is a factor. Raises StackError."""
    catalogues = [registry.stack_catalogue(choice) for choice in stacks_of(study)]
    return registry.common_knobs(catalogues) if _varies_server(study) else catalogues[0]


def _varies_server(study: Study) -> bool:
    stack = study.stack
    return registry.SERVER_KNOB.name in study.factors and stack.own is None and stack.is_here


def stacks_of(study: Study) -> list[StackChoice]:
    """The study's stack; one for each server where that is a factor, which it can be on this host alone; none where a
    command is timed, or a server that runs already is loaded.
    """
    if not study.under_load or study.stack.url is not None:
        return []
    names = study.factors.get(registry.SERVER_KNOB.name, ()) if _varies_server(study) else ()
    servers = [str(name) for name in names if name in registry.SERVERS]  # what is wrong with others the plan says
    return [study.stack.model_copy(update={"server": name}) for name in servers] or [study.stack]


def servers_of(study: Study) -> list[str]:
    """Names of the servers where the server is a factor, the first one first."""
    servers = [stack.server for stack in stacks_of(study)]
    return servers if len(servers) > 1 else []


@contextmanager
def located(
    where: Callable[[Sequence[str | int]], str], mode: Sequence[str | int] = ("stack", "mode")
) -> Iterator[None]:
    """The registry's refusals of a stack as UsageError with file and line; ``mode``: the key that names the mode."""
    try:
        yield
    except registry.StackError as error:
        raise UsageError(f"{where(mode if error.key == 'mode' else ('stack', error.key))}: {error}") from None


def check_levels(
    file: StudyFile, factors: Sequence[Factor], settings: Mapping[str, Level], idle_settings: bool = False
) -> None:
    """Raises UsageError with file and line for levels that contradict each other in every trial, and for levels that
    change nothing; ``idle_settings`` lets those pass among the settings.
    """
    levels: dict[str, Sequence[Level]] = {factor.name: factor.levels for factor in factors}
    levels |= {name: (level,) for name, level in settings.items()}

    def where(name: str) -> str:
        return file.where(("factors" if name in file.study.factors else "settings", name))

    _check_flags(file, levels, where)
    for name in levels:
        if name in _OF_QUEUE and not (idle_settings and name in settings):
            _check_messages(file, levels, where(name), name)
    _check_callers(file, levels, where)
    _check_limits(file, levels, where)
    for low, high in _BOUNDS:
        least, most = (
            [level for level in levels.get(knob.name, ()) if isinstance(level, (int, float))] for knob in (low, high)
        )
        # below zero: no bound
        if least and most and min(most) >= 0 and min(least) > max(most):
            raise UsageError(
                f"{where(low.name)}: {low.name} {low.format(min(least))} is above {high.name}"
                f" {high.format(max(most))}; lower it or raise {high.name}"
            )


def _check_limits(file: StudyFile, levels: Mapping[str, Sequence[Level]], where: Callable[[str], str]) -> None:
    """A limit is told once, and what must fit into it fits in some trial."""
    for knob in LIMITS:
        key = knob.name.removeprefix("placement.")
        if knob.name in file.study.settings:
            raise UsageError(f"{where(knob.name)}: what is fixed is no setting: write placement: {{ {key}: ... }}")
        if knob.name in levels and getattr(file.study.placement, key) is not None:
            raise UsageError(f"{where(knob.name)}: placement has {key}, too: leave it out there, or here")
    for name, role in _MEMORY:
        fixed = getattr(file.study.placement, role)
        limits = [int(level) for level in levels.get(f"placement.{role}", () if fixed is None else (fixed,)) if level]
        unlimited = 0 in levels.get(f"placement.{role}", ())
        sizes = [level for level in levels.get(name, ()) if isinstance(level, int)]
        if not limits or not sizes:
            continue
        # the largest size into the largest limit, the smallest size into the smallest limit
        pairs = [(min(sizes), min(limits)), *([] if unlimited else [(max(sizes), max(limits))])]
        for size, limit in pairs:
            if size >= limit:
                sentence = f"{name} {format_size(size)} does not fit into placement.{role} {format_size(limit)}"
                raise UsageError(f"{where(name)}: {sentence}; lower it, or raise {role}")


def check_servers(file: StudyFile, plan: Plan, settings: Mapping[str, Level]) -> None:
    """Where the server is a factor, each takes the levels of its trials. Raises UsageError with file and line."""
    if not servers_of(file.study):
        return
    knobs_of = {stack.server: registry.stack_catalogue(stack) for stack in stacks_of(file.study)}
    for levels in _treatments(plan, settings):
        server = str(levels[registry.SERVER_KNOB.name])
        for knob in knobs_of[server]:
            if knob.name in levels:
                try:
                    knob.accept(levels[knob.name], disposable=True)
                except ValueError as error:
                    key = "factors" if knob.name in file.study.factors else "settings"
                    where = file.where((key, knob.name))
                    raise UsageError(f"{where}: {knob.name}: {error} (on {server})") from None


def _treatments(plan: Plan, settings: Mapping[str, Level]) -> list[dict[str, Level]]:
    """All levels of each treatment of its trials and slots."""
    every = (mine for trial in plan.trials for mine in (trial.treatment, *(slot.treatment for slot in trial.slots)))
    return [{**settings, **treatment.as_dict()} for treatment in dict.fromkeys(every)]


def _check_flags(file: StudyFile, levels: Mapping[str, Sequence[Level]], where: Callable[[str], str]) -> None:
    """The JVM itself is asked whether it starts with each level of its flags."""
    named = [name for name in levels if name.startswith(jvm.PREFIX)]
    if not named:
        return
    server = registry.server_of(file.study.stack)
    home = server.find_java(Path(file.study.stack.java) if file.study.stack.java else None)
    flags = {knob.name: knob for knob in server.knobs()}
    for name in named:
        for level in levels[name]:
            if why := jvm.refusal(home, [jvm.option(flags[name], level)]):
                raise UsageError(f"{where(name)}: the JVM refuses {name} {level}: {why}")


def _check_messages(file: StudyFile, levels: Mapping[str, Sequence[Level]], where: str, name: str) -> None:
    stack = file.study.stack
    app = registry.application_of(stack)
    switches = [knob.name for knob in _switches(app) if knob.name in levels]
    for combined in product(*(levels[name] for name in switches)):
        if _needs(app, stack.mode, dict(zip(switches, combined, strict=True)), Feature.MESSAGING):
            return
    ways = " or ".join(f"{knob.name}: {level}" for knob, level in _ways_to(app, stack.mode, Feature.MESSAGING))
    remedy = f"set {ways}" if ways else f"{app.name} has none, leave it out"
    raise UsageError(f"{where}: {name} changes nothing without a queue; {remedy}")


def _check_callers(file: StudyFile, levels: Mapping[str, Sequence[Level]], where: Callable[[str], str]) -> None:
    """Agents that call the server remotely are those of the application's own scenario, and their driver is here."""
    study, app = file.study, registry.application_of(file.study.stack)
    ways = [(knob.name, level) for knob, level in _ways_to(app, study.stack.mode, Feature.REMOTE_CLIENTS)]
    used = next(((name, level) for name, level in ways if level in levels.get(name, ())), None)
    if used is None:
        return
    at, where_used = where(used[0]), f"{used[0]} {used[1]}"
    if study.workload.generator is not None or study.workload.scenario not in app.scenarios():
        raise UsageError(
            f"{at}: {where_used} is for the scenario {' or '.join(app.scenarios())} by leadline-load; set "
            "workload.scenario"
            f" to it, or leave {used[0]} out"
        )
    if any(driver.server for driver in study.drivers):
        raise UsageError(f"{at}: {where_used} takes its load from drivers on the services' host: leave drivers out")
    if True in levels.get(knobs.TLS.name, ()):
        raise UsageError(f"{at}: {where_used} calls over a plain port: leave {knobs.TLS.name} out")


def _switches(app: Application) -> list[Knob]:
    """Its knobs of named levels, which may decide what it needs."""
    return [knob for knob in app.knobs() if knob.choices]


def _needs(app: Application, mode: str, levels: Mapping[str, Level], feature: Feature) -> bool:
    switches = {knob.name: levels[knob.name] for knob in _switches(app) if knob.name in levels}
    return feature in app.deployment(mode, switches).features


def _ways_to(app: Application, mode: str, feature: Feature) -> list[tuple[Knob, Level]]:
    """Knobs of the application with the level that makes it need a feature."""
    pairs = ((knob, level) for knob in _switches(app) for level in knob.choices)
    return [(knob, level) for knob, level in pairs if _needs(app, mode, {knob.name: level}, feature)]


def starved_calls(file: StudyFile, plan: Plan, settings: Mapping[str, Level]) -> list[str]:
    """A sentence for each level of ``server.threads.max`` under which remote calls can come to a stand.

    Where a remote call inside the server runs on a second thread while the thread of the request waits for it, as many
    requests at once as there are threads wait for each other until the server gives up.
    """
    stack = file.study.stack
    server, app = registry.server_of(stack), registry.application_of(stack)
    if not server.second_thread:
        return []
    remote = [levels for levels in _treatments(plan, settings) if _needs(app, stack.mode, levels, Feature.REMOTE)]
    ways = _ways_to(app, stack.mode, Feature.REMOTE)
    how = "".join(f" with {knob.name} {level}" for knob, level in ways)
    instead = "".join(f", or take {knob.name} {knob.default}" for knob, _ in ways)
    sentences = []
    for level in sorted({levels[knobs.THREADS.name] for levels in remote if knobs.THREADS.name in levels}):
        threads = int(level)
        at_once, who = _requests_at_once(file.study.workload)
        if threads < 2 * at_once:
            sentences.append(
                f"Warning: {knobs.THREADS.name} {threads}{how}: on {server.title} a request holds two"
                f" of these threads, and {threads} requests at once stand still for minutes; {who} need"
                f" {2 * at_once}: raise it, leave it without a level{instead}"
            )
    return sentences


def _requests_at_once(load: Workload) -> tuple[int, str]:
    """The most that can be under way, and whose they are; 0 where another load generator decides it."""
    if load.generator is not None:
        return 0, ""
    if load.arrivals == "closed" and (users := most_users(load)):  # not capped by max_sessions
        return users, f"{users} users"
    return load.max_sessions, f"up to {load.max_sessions} sessions at once (workload.max_sessions)"
