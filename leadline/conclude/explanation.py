"""Where the change of CPU per transaction lies: by layer, and by frame of the server's JVM.

The CPU of application threads is shared out by their samples; that of the database, the collector and the compiler is
measured. So the changes of all frames sum to the change of CPU per transaction. A frame is compared as any response
is: within an instance whose live levels change, else within a block.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

import numpy as np

from leadline.analysis.frames import Recording, frame_effects
from leadline.conclude.wording import MOST, signed
from leadline.design.profiling import Place
from leadline.model import distributions, units
from leadline.model.frames import (
    AGENT,
    APPLICATION,
    DRIVER,
    JDK,
    JVM,
    MEASURED,
    NO_STACK,
    PARTS,
    SERVER,
    STATEMENT_TIME,
    FrameEffect,
    FrameEffects,
    LevelProfile,
    LevelWaits,
    StudyProfile,
    StudyWaits,
    is_jdk,
    is_layer,
    is_measured,
)
from leadline.model.knob import Level
from leadline.model.naming import Describe
from leadline.model.plan import Plan
from leadline.model.result import Interval, Observation

MOST_TOLD = 4  # frames of the sentence
_MOST_STATEMENTS, _LONGEST_STATEMENT = 2, 60  # of a sentence; characters of one in it


@dataclass(frozen=True)
class Unit:
    """Of figures: ``what`` was counted, ``factor`` from samples to the unit, ``name`` of the unit. ``shares``: samples
    are divided by all of their recording, so that the total is the same everywhere. ``absolute``: the total's change is
    told in the unit, not in percent. ``whole``: what the total is called.
    """

    what: str
    name: str
    factor: float = 1.0
    shares: bool = False
    absolute: bool = False
    whole: str = "all samples"


def short(name: str) -> str:
    """``Class.method``; a statement as it is."""
    return name if " " in name else ".".join(name.replace("/", ".").split(".")[-2:])


def sentence(effects: FrameEffects, unit: Unit) -> str:
    """Which frames carry which share of the difference, or that none is distinguishable."""
    total = effects.total
    head = f"{unit.what}: " if unit.shares else f"{unit.what}: {_change(total, unit)}"
    carriers, most_in = _together(effects)
    most, noun = (_MOST_STATEMENTS, "statement") if carriers and " " in carriers[0].name else (MOST_TOLD, "frame")
    parts = [_part(effect, total, unit) + most_in.get(effect.path, "") for effect in carriers[:most]]
    more = len(carriers) - len(parts)
    if effects.pair:
        frames = f"most of the difference is {', '.join(parts)}" if parts else "no frame differs much"
        return f"{head}{'' if unit.shares else '; '}{frames}. One pair of recordings: what of it is noise is not known."
    if not parts:
        return f"{head}{'' if unit.shares else '; '}no frame is distinguishable from no change."
    listed = ", ".join(parts) + (f" and {more} more {noun}{'s' * (more > 1)}" if more > 0 else "")
    return f"{head}{'' if unit.shares else ': '}{listed}."


def _together(effects: FrameEffects) -> tuple[list[FrameEffect], dict[tuple[str, ...], str]]:
    """Frames that a sentence names, and what follows some: a database, whose statements carry a change together, stands
    for them, with the first of them behind it.
    """
    carriers = list(effects.carriers) or [method for method in effects.methods if method.named]
    statements = [effect for effect in carriers if is_measured(effect.path[0]) and len(effect.path) > 1]
    whole = next((path for path in effects.paths if statements and path.path == statements[0].path[:1]), None)
    if len(statements) < _MOST_STATEMENTS or whole is None or not whole.named:
        return carriers, {}
    rest = [whole if effect is statements[0] else effect for effect in carriers if effect not in statements[1:]]
    return rest, {whole.path: f" (most in {_cut(statements[0].name)})"}


def _cut(statement: str) -> str:
    return statement if len(statement) <= _LONGEST_STATEMENT else f"{statement[: _LONGEST_STATEMENT - 1]}…"


def _part(effect: FrameEffect, total: FrameEffect, unit: Unit) -> str:
    where = below(effect) if effect.path[0] in PARTS else f"in {below(effect)}"
    if not unit.shares and (total.named or (total.interval is None and total.change)):
        return f"{100 * effect.change / total.change:.0f} % {where}"
    return f"{_change(effect, unit)} {where}"


def below(effect: FrameEffect) -> str:
    """A path by its last two frames: what a method costs is mostly its caller's doing. A method's own samples alone."""
    if effect.path[0] in PARTS or (is_measured(effect.path[0]) and len(effect.path) > 1):
        return " in ".join(f"the {name.strip('()')}" if is_measured(name) else _cut(name) for name in effect.path)
    if len(effect.path) == 1 and effect.own:
        return effect.name.strip("()") if is_measured(effect.name) else f"{short(effect.name)} itself"
    layer = effect.path[0] if is_layer(effect.path[0]) else ""
    if effect.name == layer:
        return f"the {effect.name.strip('()')}"
    names = [short(name) for name in effect.path[bool(layer) :][-2:]]
    return f"{' > '.join(names)} and below{f' ({layer})' if layer else ''}"


def _change(effect: FrameEffect, unit: Unit) -> str:
    """The change with its interval, in percent of the baseline where that is the total's, else in the unit."""
    whole = not effect.path and effect.baseline and not unit.absolute
    factor = 100 / effect.baseline if whole else unit.factor
    name = "%" if whole else unit.name
    interval = ""
    if effect.interval is not None:
        interval = (
            f" [{units.signed(effect.interval.low * factor, 3)}, {units.signed(effect.interval.high * factor, 3)}]"
        )
    return f"{units.signed(effect.change * factor, 3)} {name}{interval}"


def told_waits(waits: StudyWaits) -> list[LevelWaits]:
    """Of each level whose change some parts carry, the response furthest out, and statements: the largest
    change first.
    """
    named = [level for level in waits.levels if level.effects.named]
    last = {(level.factor, level.level, level.response == STATEMENT_TIME): level for level in named}
    return sorted(last.values(), key=lambda level: -abs(level.effects.total.change))[:MOST]


def told_frames(profile: StudyProfile) -> list[LevelProfile]:
    """Levels whose change of CPU some frames carry, the largest first."""
    named = [level for level in profile.levels if level.effects.named]
    return sorted(named, key=lambda level: -abs(level.effects.total.change))[:MOST]


Stacks = Mapping[str, float]  # samples by stack
Statements = Mapping[str, tuple[float, float]]  # of the database by text: calls and ms of them, a second
_LAYERS = {
    DRIVER: ("org.postgresql.", "org.mariadb.", "com.mysql.", "oracle.jdbc.", "com.microsoft.sqlserver."),
    SERVER: (
        "com.ibm.",
        "io.openliberty.",
        "org.apache.",
        "io.undertow.",
        "org.jboss.",
        "org.wildfly.",
        "org.xnio.",
        "org.glassfish.",
        "org.eclipse.",
        "jakarta.",
        "io.quarkus.",
        "io.vertx.",
        "io.netty.",
        "org.springframework.",
        "com.zaxxer.",
        "io.agroal.",
        "org.hibernate.",
    ),
    AGENT: ("leadline.agent.",),
}
JAVA_ALONE = (
    "Before JDK 25 only Java code is sampled: the CPU that its threads use in native code and the kernel is shared out "
    "over it."
)
SHARED = "The database's CPU is shared out over its statements by their time."
COMPILED = "In slots the JIT compiler's CPU is left out: it is the rest of the warm-up."
_SPARSE = 1.5  # times as long between samples as was asked for: some are missing
_PARTS = ("database", "web", "collector", "compiler")  # of MEASURED, in its order
_HALF = "half of the slots, of every treatment alike"
_MIDDLE, _TURNS = "the middle half of every trial", "every second turn of each instance"
_STEADY = "steady_cpu_per_transaction"
_FEWEST = 2  # blocks in which both levels must be for these to be compared within


@dataclass(frozen=True)
class ProfiledPart:
    """Of a trial: the seconds measured of it that have a profile, and the logarithm of CPU per transaction in these
    against the rest, None where that is not known.
    """

    seconds: float
    cost: float | None = None


class Measured(Protocol):
    """A slot or trial with what was recorded of it."""

    @property
    def observation(self) -> Observation: ...


_M = TypeVar("_M", bound=Measured)


@dataclass(frozen=True)
class _Profiled:
    """A slot, or part of a trial, with a profile: ms of CPU per transaction of application threads, and of what is
    measured.
    """

    observation: Observation
    stacks: Stacks  # by layer
    transactions: float
    application: float
    measured: Mapping[str, float]


def explain(
    plan: Plan,
    observations: Sequence[Observation],
    profiles: Mapping[Place, Stacks],
    describe: Describe,
    asked_ms: float | None = 0.0,
    statements: Mapping[Place, Statements] = MappingProxyType({}),
    parts: Mapping[Place, ProfiledPart] = MappingProxyType({}),
) -> StudyProfile | None:
    """``profiles``, ``statements`` and ``parts``: by number of the trial, and slot. ``asked_ms``: of CPU between two
    samples, None where running Java code alone is sampled. None where nothing was sampled.
    """
    both = profiles.keys() & statements.keys()  # a slot after one with a profile may have a few late samples alone
    statements = statements if 2 * len(both) > len(profiles) else {}
    profiled = [
        _profiled(observation, stacks, statements.get(place, {}), parts.get(place))
        for observation in observations
        if (stacks := profiles.get(place := (observation.trial, observation.slot)))
        and (not statements or place in both)
        and {"throughput", "server_cpu_per_transaction"} <= observation.responses.keys()
    ]
    samples = sum(sum(unit.stacks.values()) for unit in profiled)
    if not samples:
        return None
    ms = sum(unit.application * unit.transactions for unit in profiled) / samples
    compiled = all(unit.observation.slot is None for unit in profiled)
    levels = []
    for comparison in plan.comparisons:
        factor = next(factor for factor in plan.factors if factor.name == comparison.factor)
        name = f"{factor.name}={describe(factor.name, comparison.level)}"
        groups = grouped(profiled, factor.name, comparison.level, factor.baseline)
        try:
            effects = frame_effects([_recording(group, ms) for group in groups], comparisons=len(plan.comparisons))
        except ValueError:  # one of both levels has no profile
            continue
        if not effects.pair:
            text = sentence(effects, unit_of(name, ms, compiled))
            levels.append(LevelProfile(factor.name, comparison.level, ms, effects, text))
    cost = _cost_in_parts(parts)
    where = _HALF if cost is None else _TURNS if any(trial.turns for trial in plan.trials) else _MIDDLE
    cost = cost or profiling_cost(observations, frozenset(profiles))
    conditions = {JAVA_ALONE: asked_ms is None, SHARED: bool(statements), COMPILED: not compiled}
    notes = [_cost_sentence(cost, where), *(note for note, holds in conditions.items() if holds)]
    if asked_ms and ms > _SPARSE * asked_ms:
        notes.append(
            f"The JVM took a sample every {ms:.0f} ms of CPU, {asked_ms:g} were asked for: what it missed is shared "
            "out like the rest, so the layers and frames of the server's stacks may be off by as much."
        )
    percent, interval = cost or (None, None)
    return StudyProfile(tuple(levels), percent, interval, tuple(notes), compiled)


def unit_of(name: str, ms: float, compiled: bool) -> Unit:
    """Of the figures of a level, called ``name``."""
    whole = "all CPU" if compiled else "CPU without JIT compilation"
    return Unit(name, "ms of CPU per transaction", ms, absolute=True, whole=whole)


def _profiled(observation: Observation, stacks: Stacks, statements: Statements, part: ProfiledPart | None) -> _Profiled:
    responses = observation.responses

    def cpu(part: str) -> float:
        return responses.get(f"{part}_cpu_per_transaction", 0.0)

    server, application = cpu("server"), cpu("application") or cpu("server")
    measured = {name: cpu(part) for name, part in zip(MEASURED, _PARTS, strict=False)}
    measured[MEASURED[-1]] = max(0.0, server - application - cpu("collector") - cpu("compiler"))
    if observation.slot is not None:
        del measured[MEASURED[_PARTS.index("compiler")]]
    if all_ms := sum(ms for _, ms in statements.values()):
        database = measured.pop(MEASURED[0])
        measured |= {f"{MEASURED[0]};{text}": database * ms / all_ms for text, (_, ms) in statements.items()}
    by_layer = defaultdict[str, float](float)
    for stack, samples in stacks.items():
        by_layer[layered(stack)] += samples
    seconds = part.seconds if part else observation.seconds or 1.0
    transactions = seconds * responses["throughput"]
    return _Profiled(observation, by_layer, transactions, application, measured)


def layer_of(frame: str) -> str:
    """Empty for the JDK's, which works for its caller."""
    if is_jdk(frame):
        return ""
    if frame == NO_STACK:
        return JVM
    return next((layer for layer, names in _LAYERS.items() if frame.startswith(names)), APPLICATION)


@cache
def layered(stack: str) -> str:
    """The stack from where its last layer begins, below that layer's name: whoever called it is left out."""
    names = stack.split(";")
    layers = [layer_of(name) for name in names]
    last = next((layer for layer in reversed(layers) if layer), JDK)
    begin = len(names)
    for at in reversed(range(len(names))):
        if layers[at] == last:
            begin = at
        elif layers[at]:
            break
    return ";".join([last, *(() if last == JVM else names[begin:] if last != JDK else names)])


@dataclass(frozen=True)
class Group(Generic[_M]):
    """Units that are one recording: ``treated`` where they have the level rather than its baseline. ``block``: what
    they are compared within. ``others``: of each level of other factors, its share of the units.
    """

    units: Sequence[_M]
    treated: bool
    block: int | None
    others: tuple[float, ...]


def grouped(units: Sequence[_M], factor: str, level: Level, baseline: Level) -> Iterator[Group[_M]]:
    """Units of both levels: each slot where the level changes inside instances, else all of an instance together, in
    the blocks that hold most.
    """
    compared = [unit for unit in units if unit.observation.treatment[factor] in (level, baseline)]
    treated = [unit.observation.treatment[factor] == level for unit in compared]
    others = _others([unit.observation for unit in compared], factor)
    kinds = defaultdict[int, set[bool]](set)
    for unit, kind in zip(compared, treated, strict=True):
        kinds[unit.observation.trial].add(kind)
    groups = defaultdict[tuple[int, bool], list[int]](list)
    for at, (unit, kind) in enumerate(zip(compared, treated, strict=True)):
        groups[unit.observation.trial, kind].append(at)
    firsts = {group: compared[places[0]].observation for group, places in groups.items()}
    live = sum(len(both) == 2 for both in kinds.values())
    blocks = _blocks(firsts, factor, live > 0)
    alone = live >= _FEWEST or len(kinds) == 1  # slots are compared with those of their instance
    for group, places in groups.items():
        for together in [[at] for at in places] if alone else [places]:
            members, shares = [compared[at] for at in together], others[together].mean(axis=0).tolist()
            yield Group(members, group[1], blocks[group] if len(kinds) > 1 else None, tuple(shares))


def _others(observations: Sequence[Observation], factor: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """One column a level of the other factors, but for each factor's first."""
    rows = [[pair for pair in one.treatment.levels if pair[0] != factor] for one in observations]
    first = dict(reversed([pair for row in rows for pair in row]))
    levels = [pair for pair in dict.fromkeys(pair for row in rows for pair in row) if pair[1] != first[pair[0]]]
    return np.array([[float(pair in row) for pair in levels] for row in rows]).reshape(len(rows), len(levels))


def _blocks(
    firsts: Mapping[tuple[int, bool], Observation], factor: str, within: bool
) -> dict[tuple[int, bool], int | None]:
    """Of an instance and whether it is treated, by its first observation: the instance where live levels change in it,
    else block and levels of other factors, else the block; None where too few have both levels.
    """
    keys: list[dict[tuple[int, bool], object]] = [{group: group[0] for group in firsts}] if within else []
    others = {group: tuple(pair for pair in one.treatment.levels if pair[0] != factor) for group, one in firsts.items()}
    keys.append({group: (first.block, others[group]) for group, first in firsts.items()})
    keys.append({group: first.block for group, first in firsts.items()})
    for key in keys:
        both = defaultdict[object, set[bool]](set)
        for group, block in key.items():
            both[block].add(group[1])
        if sum(len(kinds) == 2 for kinds in both.values()) >= _FEWEST:
            numbers = {block: at for at, block in enumerate(both)}
            return {group: numbers[block] for group, block in key.items()}
    return dict.fromkeys(firsts)


def _recording(group: Group[_Profiled], ms: float) -> Recording:
    """``ms``: of CPU that a sample stands for in all recordings alike."""
    stacks: defaultdict[str, float] = defaultdict(float)
    for unit in group.units:
        share = unit.application * unit.transactions / ms / (sum(unit.stacks.values()) or 1.0)
        for stack, samples in unit.stacks.items():
            stacks[stack] += samples * share
        for name, cpu in unit.measured.items():
            stacks[name] += cpu * unit.transactions / ms
    transactions = sum(unit.transactions for unit in group.units)
    return Recording(stacks, group.treated, transactions, group.block, group.others)


def profiling_cost(observations: Sequence[Observation], profiled: frozenset[Place]) -> tuple[float, Interval] | None:
    """Percent of CPU per transaction by which those with a profile differ, all treatments and groups alike."""
    done = [one for one in observations if one.failure is None]
    steady = all(_STEADY in one.responses for one in done)
    name = _STEADY if steady else "cpu_per_transaction"  # JIT compilation is most of the noise
    rows = [one for one in done if one.responses.get(name, 0.0) > 0]
    values = np.log([one.responses[name] for one in rows])
    profile = np.array([(one.trial, one.slot) in profiled for one in rows], dtype=np.float64)
    treatments = _columns([one.treatment.key for one in rows])
    groups = _columns([str(one.trial if one.slot is not None else -1 - one.block) for one in rows])
    for others in (np.hstack([treatments, groups]), treatments):
        design = np.column_stack([others, profile])
        rank = int(np.linalg.matrix_rank(design)) if len(rows) else 0
        free = len(rows) - rank
        if free < 2 or rank == np.linalg.matrix_rank(others):
            continue
        inverse = np.linalg.pinv(design)
        beta = inverse @ values
        error = float(np.linalg.norm(values - design @ beta)) / math.sqrt(free) * float(np.linalg.norm(inverse[-1]))
        reach = float(distributions.t.ppf(0.975, free)) * error
        low, middle, high = (100 * math.expm1(float(beta[-1]) + side * reach) for side in (-1, 0, 1))
        return middle, Interval(low, high)
    return None


def _columns(names: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """One of 0 and 1 a name."""
    known = {name: at for at, name in enumerate(dict.fromkeys(names))}
    columns = np.zeros((len(names), len(known)))
    columns[np.arange(len(names)), [known[name] for name in names]] = 1.0
    return columns


def cpu_of(responses: Mapping[str, float]) -> float | None:
    """CPU per transaction, without JIT compilation where that is known apart; None where it is not known."""
    return responses.get(_STEADY) or responses.get("cpu_per_transaction") or None


def _cost_in_parts(parts: Mapping[Place, ProfiledPart]) -> tuple[float, Interval] | None:
    """As ``profiling_cost``, of trials that have a profile in a part of them: the mean over these trials."""
    costs = np.array([part.cost for part in parts.values() if part.cost is not None])
    if len(costs) < 3:
        return None
    reach = float(distributions.t.ppf(0.975, len(costs) - 1) * costs.std(ddof=1)) / math.sqrt(len(costs))
    low, middle, high = (100 * math.expm1(float(costs.mean()) + side * reach) for side in (-1, 0, 1))
    return middle, Interval(low, high)


def _cost_sentence(cost: tuple[float, Interval] | None, where: str) -> str:
    if cost is None:
        return "The cost of profiling is not known here; it is in all treatments alike."
    percent, interval = cost
    figures = f"{signed(percent)} % of CPU per transaction [{signed(interval.low)}, {signed(interval.high)}]"
    nothing = interval.low <= 0 <= interval.high
    head = (
        f"The cost of profiling is not distinguishable from 0: {figures}" if nothing else f"Profiling costs {figures}"
    )
    return f"{head}; profiles were taken in {where}, so no effect includes it."
