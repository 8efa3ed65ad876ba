"""What a plan will find at a given noise, what would halve that, and what an effect needs.

Also where its blocks run on several hosts, between which effects differ.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.across_hosts import FEWEST
from leadline.analysis.comparisons import KNOWN
from leadline.analysis.hosts import RANDOM_FROM
from leadline.analysis.linear import detectable
from leadline.analysis.table import as_one_factor
from leadline.design.kinds import KINDS
from leadline.design.order import williams_rows
from leadline.layouts import between_blocks, layout_of, steady_seconds, switchback_plan, wash_out_of, work
from leadline.model import distributions
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.guest import FORKS
from leadline.model.plan import Factor, Plan, Role
from leadline.model.result import ResponseAnalysis
from leadline.model.units import format_duration, rounded
from leadline.model.workload import Workload
from leadline.planning.looks import final_level
from leadline.planning.noise import (
    OF_MACHINE,
    OF_SECONDS,
    OF_START,
    OF_TRIAL,
    Between,
    Noise,
    between_trials,
    cv_of,
    variance_of,
)
from leadline.planning.power import Precision, log_effect, percent, precision_of

# Other plans that answer the same question: other kinds of designs, other blocks, slots.


_KINDS = (
    *("one-at-a-time", "full-factorial", "fractional-factorial", "plackett-burman", "definitive-screening"),
    "d-optimal",
)
_IN_SLOTS = ("one-at-a-time", "fractional-factorial", "plackett-burman", "definitive-screening", "d-optimal")
_EXCHANGED = 60  # comparisons for which a D-optimal design is still searched
_SQUARE = 12  # runs of a replicate up to which squares are worth naming
_NOTES = {
    "fractional-factorial": "main effects, if interactions are small",
    "plackett-burman": "main effects, if interactions are small",
    "d-optimal": "main effects, if interactions are small",
    "definitive-screening": "main effects free of two-factor interactions",
}
_BLOCKS = {
    "latin": "free of what comes with a trial's place in its block",
    "williams": "free of places, and balanced for what a trial leaves behind",
    "incomplete": "short blocks, for a machine that changes within a replicate; that they are calmer is not forecast",
}


def name_of(plan: Plan) -> str:
    """The kind of a plan, and what its blocks are if they are not replicates."""
    layout = "in slots" if any(trial.slots for trial in plan.trials) else layout_of(plan).words.plan
    if layout:
        return f"{plan.kind}, {layout}"
    return plan.kind if plan.blocks == "by-replicate" else f"{plan.kind}, {plan.blocks} blocks"


def rows_of_a_square(plan: Plan) -> int:
    """Replicates that a plan can grow by: those of a whole square, else one."""
    treatments = len({trial.treatment for trial in plan.trials})
    return {"latin": treatments, "williams": williams_rows(treatments), "abba": 2}.get(plan.blocks, 1)


def alternatives(factors: Sequence[Factor], design: Design, workload: Workload) -> Iterator[tuple[Plan, str]]:
    """Plans and what must be known of each; those that the factors do not allow are left out."""
    levels = sum(len(factor.levels) - 1 for factor in factors)
    kinds = [kind for kind in _KINDS if kind != "d-optimal" or levels <= _EXCHANGED]
    layout = layout_of(design)
    beside = {"rotation": design.rotation} if layout.side_by_side else {}
    tried: list[tuple[Design, str]] = [(_as(kind, design, beside), _NOTES.get(kind, "")) for kind in kinds]
    tried += [] if beside else _in_blocks(factors, design)
    for chosen, note in tried:
        try:
            yield layout_of(chosen).plan(factors, chosen, workload), note
        except UsageError:
            continue
    if beside:  # its noise is not that of slots in one instance
        return
    for kind in [kind for kind in _IN_SLOTS if kind in kinds]:
        switched = _as(kind, design, {"switchback": design.switchback or Switchback()})
        try:
            notes = (_NOTES.get(kind, ""), "all factors change inside warm trials")
            yield switchback_plan(factors, switched, workload), "; ".join(filter(None, notes))
        except UsageError:
            continue


def _in_blocks(factors: Sequence[Factor], design: Design) -> Iterator[tuple[Design, str]]:
    kind = design.kind if design.kind in _KINDS else "one-at-a-time"
    try:
        runs = KINDS[kind].count(factors, _as(kind, design))
    except UsageError:
        return
    notes = _NOTES.get(kind, "")
    for blocks, rows in (("latin", runs), ("williams", williams_rows(runs))):
        if runs <= _SQUARE:
            replicates = rows * max(1, round(design.replicates / rows))
            changed = _as(kind, design, {"blocks": blocks, "replicates": replicates})
            yield changed, "; ".join(filter(None, (notes, _BLOCKS[blocks])))
    size = max(2, round(runs**0.5) + 1)
    if size < runs:
        changed = _as(kind, design, {"blocks": "incomplete", "block_size": size})
        yield changed, "; ".join(filter(None, (notes, _BLOCKS["incomplete"])))


def _as(kind: str, design: Design, changed: Mapping[str, object] | None = None) -> Design:
    """The same design as another kind, or in other blocks, or in slots; keys of a kind stay with that kind."""
    changed = changed or {}
    kept_keys = {"sentinels", "seed"} | (
        KINDS[kind].options & design.model_fields_set if kind == design.kind else set()
    )
    keys = {key: getattr(design, key) for key in kept_keys}
    replicates = design.replicates if "switchback" in changed else max(2, design.replicates)
    return Design.model_validate({**keys, "kind": kind, "replicates": replicates, **changed})


POWERS = (0.8, 0.9)
_NO_NOISE_OF_SLOTS = "the noise of slots is not known: it is read from the seconds of earlier trials, so run one first"
_LONGEST = 20  # times today's steady state that is still worth naming
_SEARCHED = 400  # comparisons of a plan for which other designs are tried


@dataclass(frozen=True)
class Forking:
    """Wall seconds of a guest's boot, of the start and warm-up of its services, and of a fork; so many run at once."""

    boot: float
    start: float
    fork: float
    at_once: int = 1

    @classmethod
    def of(cls, workload: Workload, cpus: int) -> Forking:
        """As measured under emulation (docs/guides/virtual-time.md): a loaded second takes several."""
        loaded = workload.steady + workload.ramp_down
        return cls(BOOT, START + SLOWER * workload.ramp_up, FORK + SLOWER * loaded, max(1, cpus))

    def seconds(self, plan: Plan) -> float:
        boots, starts, forks = work(plan)
        return (boots * self.boot + starts * self.start + forks * self.fork) / self.at_once


BOOT, START, FORK = 20.0, 35.0, 3.0  # seconds of wall time: a kernel, a server and its database, the load of a guest
JOB = 6.0  # seconds of a block on a host of a pool beside its trials (docs/evidence/pools.md)
SLOWER = 7.0  # seconds of wall time for a second of load in virtual time


@dataclass(frozen=True)
class Setup:
    """What a trial takes: seconds beside its steady state, its steady state, and a slot's wash-out. ``forking``: what
    forks take instead. ``hosts``: of a pool, each of which runs one
    block at a time as a job, None where trials run here.
    """

    overhead: float
    steady: float
    wash_out: float = 0.0
    forking: Forking | None = None
    hosts: int | None = None

    def seconds(self, plan: Plan) -> float:
        """Wall time of a plan."""
        if self.forking is not None:
            return self.forking.seconds(plan)
        return self.wall(
            plan,
            [self.overhead + (steady_seconds(trial) or self.steady) for trial in plan.trials],
        )

    def wall(self, plan: Plan, trials: Sequence[float]) -> float:
        """Wall time where the plan's trials take so many seconds each: a block goes to the host that is free first."""
        if self.hosts is None:
            return sum(trials)
        blocks: dict[int, float] = {}
        for trial, seconds in zip(plan.trials, trials, strict=True):
            blocks[trial.block] = blocks.get(trial.block, JOB) + seconds
        free = [0.0] * self.hosts
        for seconds in blocks.values():
            heapq.heapreplace(free, free[0] + seconds)
        return max(free)


@dataclass(frozen=True)
class Need:
    """What an effect needs. ``kind`` is the design's, ``replicates`` and ``trials`` None where none would do."""

    kind: str
    replicates: int | None
    trials: int | None
    seconds: float | None
    note: str = ""
    repeats: str = "replicate"


@dataclass(frozen=True)
class Forecast:
    """``smallest``: power -> smallest effect in percent found with it. ``chance``: probability of finding ``effect``.

    Where nothing can be said the figures are None and ``reason`` says why.
    """

    trials: int
    slots: int
    seconds: float
    comparisons: int
    level: float
    df: int | None
    cv: float | None
    smallest: dict[float, float | None]
    halve: tuple[str, ...]
    effect: float | None = None
    chance: float | None = None
    need: Need | None = None
    others: tuple[Need, ...] = ()
    reason: str = ""
    lasting: str = ""  # whether longer trials could halve it
    between: Between | None = None  # factors that change between trials with slots
    hosts: OverHosts | None = None  # of a study on several hosts


def sigma_of(plan: Plan, noise: Noise, setup: Setup) -> float | None:
    """Noise (of logarithms) of one row of the plan: a slot's beside its neighbours, or a trial's of that length."""
    slot = next((trial.slots[0] for trial in plan.trials if trial.slots), None)
    if slot is not None:
        variance = noise.slot(slot.seconds, setup.wash_out)
        return None if variance is None else math.sqrt(variance)
    if noise.assumed and layout_of(plan).side_by_side:  # they do not meet what moves the machine from trial to trial
        measured = sum(turn.seconds - setup.wash_out for turn in plan.trials[0].turns if not turn.warm_up)
        second = OF_SECONDS * OF_TRIAL
        apart = max(0.0, 1 - second / setup.steady)
        return math.sqrt(noise.sigma2 * (apart * OF_START / (OF_START + OF_MACHINE) + second / measured))
    if noise.beyond is None or noise.second is None:
        return math.sqrt(noise.sigma2)
    return math.sqrt(max(noise.beyond + noise.second / setup.steady, 1e-12))


def forecast(
    plan: Plan,
    noise: Noise,
    setup: Setup,
    level: float = 0.95,
    effect: float | None = None,
    power: float = POWERS[0],
    design: Design | None = None,
    workload: Workload | None = None,
    hosts: Hosting | None = None,
) -> Forecast:
    """What ``plan`` will find. ``effect`` in percent: also what it needs, in this design and, where ``design`` is
    given, in others that answer the same question. A plan that may end early is taken to its end. ``hosts`` run its
    blocks in turn, one host if absent.
    """
    plan, _ = as_one_factor(plan)
    comparisons = len(plan.comparisons)
    slots = sum(len(trial.slots) for trial in plan.trials)
    seconds = setup.seconds(plan)
    judged = final_level(plan, design.looks if design is not None else 1, level)
    precision = precision_of(plan, judged)
    sigma = sigma_of(plan, noise, setup)
    if isinstance(precision, str) or sigma is None:
        counts = (len(plan.trials), slots, seconds, comparisons, level)
        reason = precision if isinstance(precision, str) else _NO_NOISE_OF_SLOTS
        return Forecast(*counts, None, None, dict.fromkeys(POWERS), (), effect, reason=reason)
    smallest = {power: precision.smallest(sigma, power) for power in POWERS}
    need: Need | None = None
    others: tuple[Need, ...] = ()
    chance: float | None = None
    if effect is not None:
        chance = precision.power(log_effect(effect), sigma)
        need = needed(plan, precision, sigma, setup, effect, power)
        if design is not None and workload is not None:
            others = _others(plan, design, workload, noise, setup, effect, power, level)
    between = between_trials(plan, noise, sigma**2, level, POWERS, effect)
    unknown = comparisons - len(precision.errors) if between is None else 0
    return Forecast(
        trials=len(plan.trials),
        slots=slots,
        seconds=seconds,
        comparisons=comparisons,
        level=level,
        df=precision.df,
        cv=cv_of(sigma**2),
        smallest={power: None if value is None else percent(value) for power, value in smallest.items()},
        halve=tuple(_halve(plan, precision, sigma, noise, setup, smallest[POWERS[0]])),
        effect=effect,
        chance=chance,
        need=need,
        others=others,
        reason=_not_forecast(plan, unknown),
        lasting=_lasting(precision, noise, smallest[POWERS[0]]) if not slots else "",
        between=between,
        hosts=over_hosts(plan, sigma, hosts, POWERS, judged) if hosts is not None else None,
    )


def _not_forecast(plan: Plan, unknown: int) -> str:
    """Why ``unknown`` comparisons have no forecast."""
    if not unknown:
        return ""
    subject = "1 comparison is" if unknown == 1 else f"{unknown} comparisons are"
    if between := between_blocks(plan):
        names = ", ".join(factor.name for factor in between)
        return f"{subject} between rotations ({names}), whose noise is known only from the run itself"
    return f"{subject} between whole plots, whose noise the plan cannot estimate"


def replicates_of(plan: Plan) -> int:
    """How often the plan repeats its treatments; the baseline and sentinels may come more often."""
    return 1 + max(trial.replicate for trial in plan.trials if trial.role is Role.TREATMENT or trial.slots)


def needed(plan: Plan, found: Precision, sigma: float, setup: Setup, effect: float, power: float) -> Need:
    """Replicates, trials and time with which this plan finds ``effect`` percent with probability ``power``."""
    replicates = replicates_of(plan)
    whole = max(1, replicates // rows_of_a_square(plan))
    times = found.times_for(log_effect(effect), sigma, power, whole)
    if times is None:
        return Need(name_of(plan), None, None, None, "no reasonable number of trials is enough")
    trials = math.ceil(len(plan.trials) * times - 1e-9)
    seconds = setup.seconds(plan) * trials / len(plan.trials)
    return Need(name_of(plan), round(times * replicates), trials, seconds, repeats=layout_of(plan).words.repeats)


def _halve(plan: Plan, found: Precision, sigma: float, noise: Noise, setup: Setup, smallest: float | None) -> list[str]:
    if smallest is None:
        return []
    goal = math.log1p(math.expm1(smallest) / 2)
    sentences = []
    need = needed(plan, found, sigma, setup, percent(goal), POWERS[0])
    if need.replicates is not None and need.trials is not None and need.seconds is not None:
        repeats = layout_of(plan).words.repeats
        sentences.append(
            f"{need.replicates} {repeats}s instead of {replicates_of(plan)}: {need.trials} trials, "
            f"about {format_duration(need.seconds)}"
        )
    if any(trial.slots for trial in plan.trials):
        return sentences
    if noise.beyond is not None and noise.second is not None:
        room = (goal / smallest) ** 2 * sigma**2 - noise.beyond
        length = noise.second / room if room > 0 else math.inf
        if length <= _LONGEST * setup.steady:
            total = setup.wall(plan, [setup.overhead + length] * len(plan.trials))
            sentences.append(
                f"a steady state of {format_duration(math.ceil(length))} instead of {format_duration(setup.steady)}: "
                f"about {format_duration(total)}"
            )
    return sentences


def _lasting(found: Precision, noise: Noise, smallest: float | None) -> str:
    if smallest is None or noise.beyond is None or noise.second is None:
        return ""
    limit = found.smallest(math.sqrt(max(noise.beyond, 1e-12)), POWERS[0])
    if limit is None or math.expm1(limit) < math.expm1(smallest) / 2:
        return ""
    return (
        f"longer trials cannot halve it: however long, {rounded(percent(limit), 3)} % remain, from noise between trials"
    )


def _others(
    plan: Plan,
    design: Design,
    workload: Workload,
    noise: Noise,
    setup: Setup,
    effect: float,
    power: float,
    level: float,
) -> tuple[Need, ...]:
    """The same effect in other designs; those that the factors do not allow, or that are as large, are left out."""
    comparisons = len(plan.comparisons)
    if comparisons > _SEARCHED or layout_of(plan).exact:
        return ()
    needs = []
    for other, note in alternatives(plan.factors, design, workload):
        if name_of(other) == name_of(plan) or len(other.trials) > 20 * len(plan.trials):
            continue
        if noise.assumed and noise.between_slots is not None and not any(trial.slots for trial in other.trials):
            continue  # what was told is the noise of slots, that of trials is not known
        precision = precision_of(other, level)
        sigma = sigma_of(other, noise, setup)
        if isinstance(precision, str) or sigma is None or len(precision.errors) < comparisons:
            continue
        need = needed(other, precision, sigma, setup, effect, power)
        if need.trials is not None:
            needs.append(Need(need.kind, need.replicates, need.trials, need.seconds, note))
    return tuple(sorted(needs, key=lambda each: each.seconds or 0.0))


def setup_of(design: Design, workload: Workload, overhead: float, cpus: int = 1, hosts: int | None = None) -> Setup:
    """What a trial of a study takes; ``overhead``: seconds beside its load; ``cpus``: of this machine, for forks;
    ``hosts``: of a pool.
    """
    forking = Forking.of(workload, cpus) if design.kind == FORKS else None
    ramps = workload.before_steady + workload.ramp_down
    return Setup(overhead + ramps, workload.steady, wash_out_of(design), forking, hosts)


HOSTS_CV = 2.0  # percent by which an effect is taken to differ from host to host where no study tells


@dataclass(frozen=True)
class Hosting:
    """``count`` hosts (2 or more) that run a plan's blocks in turn. ``differ``: standard deviation of an effect between
    them, percent, from ``source``.
    """

    count: int
    differ: float = HOSTS_CV
    source: str = "assumed"


@dataclass(frozen=True)
class OverHosts:
    """``used``: hosts that run a block. ``random``: whether the answer is for hosts like these, else for these alone.
    ``smallest``: power -> smallest effect of the mean over hosts, percent; None where nothing can be said.
    """

    hosts: Hosting
    used: int
    random: bool
    df: float | None
    smallest: Mapping[float, float | None]


def over_hosts(plan: Plan, sigma: float, hosts: Hosting, powers: Sequence[float], level: float = 0.95) -> OverHosts:
    """The forecast of ``plan``; ``sigma``: noise of one row, of logarithms. Raises ValueError for one host."""
    if hosts.count < 2:
        raise ValueError(f"{hosts.count} host: nothing can differ between hosts")
    used = min(hosts.count, len({trial.block for trial in plan.trials}))
    random, precision = used >= RANDOM_FROM, precision_of(plan, level)
    if isinstance(precision, str):
        return OverHosts(hosts, used, random, None, dict.fromkeys(powers))
    error, df, critical = precision.error * sigma, precision.own, precision.critical
    if random:  # each comparison has the noise between hosts for itself, as the analysis has it
        error = math.hypot(error, math.sqrt(variance_of(hosts.differ) / used))
        df = used - 1.0
        critical = _of_family(_independent(len(precision.errors), level), df)
    elif (alone := _on_one(plan, used)) and isinstance(inside := precision_of(alone, level), Precision):
        df = min(used * inside.own, float(precision.df))
        critical = _of_family(precision.law.quantile(level, KNOWN), df)
    smallest = {power: percent(detectable(critical, error, df, power)) for power in powers}
    return OverHosts(hosts, used, random, df, smallest)


def differs_by(one: ResponseAnalysis) -> float | None:
    """Standard deviation of an effect between hosts, percent, as a study found it: the median of its levels."""
    spreads = [] if one.across_hosts is None else [spread.percent for spread in one.across_hosts.spreads]
    known_percents = [percent for percent in spreads if percent is not None]
    return float(np.median(known_percents)) if known_percents else None


def _on_one(plan: Plan, hosts: int) -> Plan | None:
    """What the last host runs: of unequal shares the smallest. None for a single block, which says nothing of noise."""
    trials = [trial for trial in plan.trials if trial.block % hosts == hosts - 1]
    if len({trial.block for trial in trials}) < FEWEST:
        return None
    return replace(plan, trials=tuple(replace(trial, position=at) for at, trial in enumerate(trials)))


def _independent(comparisons: int, level: float) -> float:
    """The critical value of the largest of so many |z| that have nothing in common."""
    return float(distributions.norm.isf((1 - level ** (1 / comparisons)) / 2))


def _of_family(normal: float, df: float) -> float:
    """The t value with the p value of a normal one."""
    return float(distributions.t.isf(distributions.norm.sf(normal), df))
