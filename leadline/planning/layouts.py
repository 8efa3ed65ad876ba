"""The same question by other layouts: plain trials, switchback, rotation; what each finds in the same minutes.

A figure's noise has three components (variances of logarithms): of its seconds; of the start of its instance; and of
the machine's minutes, which instances side by side share and slots of one instance do not see. How long an instance is
measured follows Kalibera and Jones (``optimal_counts``), where factors differ between instances.

Where to repeat (seconds, trials, that is server starts, or blocks): Kalibera and Jones, Rigorous Benchmarking in
Reasonable Time (2013): from the variances T_i^2 at each level of repetition the counts r_i that reach a given precision
at the least cost. Level 1 is the innermost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leadline.analysis.table import as_one_factor
from leadline.design.order import is_live
from leadline.design.slots import slot_treatments
from leadline.layouts import LAYOUTS, layout_of
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Plan
from leadline.model.units import format_duration
from leadline.model.workload import Workload
from leadline.planning.forecast import Setup, replicates_of, setup_of
from leadline.planning.looks import final_level
from leadline.planning.noise import OF_MACHINE, OF_SECONDS, OF_START, OF_TRIAL, Noise, whole_trials
from leadline.planning.power import Precision, log_effect, percent, precision_of


def optimal_counts(variances: Sequence[float], costs: Sequence[float]) -> tuple[int | None, ...]:
    """r_i = ceil(sqrt(c_(i+1)/c_i T_i^2/T_(i+1)^2)) for every level but the outermost, innermost first.

    ``costs``: c_1 of one innermost repetition, c_i of starting one of level i without what lies inside. None: the level
    above adds no variance, so repeat inside it as long as the plan lasts.
    """
    if len(variances) != len(costs) or any(cost <= 0 for cost in costs[:-1]) or costs[-1] < 0:
        raise ValueError("one variance and one cost a level; costs must be positive")
    counts: list[int | None] = []
    for level in range(len(variances) - 1):
        inner, outer = variances[level], variances[level + 1]
        if outer <= 0:
            counts.append(None if inner > 0 else 1)
        else:
            best = math.sqrt(costs[level + 1] / costs[level] * max(inner, 0.0) / outer)
            counts.append(max(1, math.ceil(best - 1e-9)))
    return tuple(counts)


@dataclass(frozen=True)
class Advice:
    """Where a study should repeat. ``seconds``: best length of the steady state, None where only more seconds help.

    ``share``: of the variance of a trial's figure that comes from its seconds. ``longer``: time that ten times longer
    trials would take for the same precision, ``best``: that of the best length, both over the time that trials of
    today's length take.
    """

    seconds: int | None
    share: float
    longer: float
    best: float
    sentence: str


def advise(second: float, trial: float, steady: float, overhead: float, shortest: float = 1.0) -> Advice:
    """Longer trials, or more of them?

    ``second``: variance of the mean of one second, long-run (variance times autocorrelation time); ``trial``: variance
    between trials beyond their seconds; ``steady`` seconds of a trial today, ``overhead`` seconds it takes beside;
    ``shortest``: no steady state shorter than this is advised.
    """
    second, trial = max(second, 0.0), max(trial, 0.0)
    total = trial + second / steady
    share = second / steady / total if total > 0 else 0.0
    (count,) = optimal_counts((second, trial), (1.0, overhead))
    ideal = None if count is None else max(count, math.ceil(shortest))

    def relative(length: float) -> float:
        if total <= 0:
            return 1.0
        return (overhead + length) * (trial + second / length) / ((overhead + steady) * total)

    longer = relative(10 * steady)
    best = relative(ideal) if ideal is not None else 1 - share * overhead / (overhead + steady)
    return Advice(ideal, share, longer, best, _sentence(ideal, share, longer, best, steady))


def _sentence(ideal: int | None, share: float, longer: float, best: float, steady: float) -> str:
    now = format_duration(steady)
    cause = f"{100 * share:.0f} % of the noise of a trial's figure comes from its seconds, the rest from the start"
    if ideal is None:
        return (
            f"No noise from start to start can be seen beyond that of the seconds: longer trials are worth as much as "
            f"more of them (now {now})."
        )
    if best > 0.9:
        return f"The steady state of {now} is about right: {cause}."
    length = format_duration(ideal)
    if ideal < steady:
        return (
            f"Longer trials would not help: {cause}. Repeat server starts: with a steady state of {length} instead of "
            f"{now} and more trials the same precision takes {100 * best:.0f} % of the time"
            f"{f' (ten times longer trials: {longer:.1f} times the time)' if longer > 1 else ''}."
        )
    return (
        f"Longer trials help: {cause}. With a steady state of {length} instead of {now} the same precision takes "
        f"{100 * best:.0f} % of the time."
    )


Name = Literal["plain", "switchback", "rotation"]
NAMES: tuple[Name, ...] = ("plain", "switchback", "rotation")
SHORTEST = 10.0  # seconds: no plain trial that is shorter is proposed
_INSTANCES = range(2, 9)  # of which the best number is searched where every factor changes in slots
_LARGEST = 1_000  # trials or slots of another layout that are compared; the minutes may hold more
_ALIKE = 1.05  # times the best figure: the layout that the study has stays
_MINUTES = 1.02  # a layout is filled up to so many times the minutes of the study's own
_LONGER = 1.1  # times these minutes that still count as the same


@dataclass(frozen=True)
class Components:
    """Variances of logarithms: ``second`` of one second's mean in the long run, ``start`` from instance to instance,
    ``machine`` from minute to minute. ``assumed``: those that no earlier study tells.
    """

    second: float
    start: float
    machine: float
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayoutPower:
    """What one layout finds. ``trials`` (instances) of ``slots`` in ``seconds``; ``smallest``: percent, of the least
    known factor. ``need``: seconds until the effect asked for is found, None where none was asked for or no number of
    trials within reason would do. ``write``: keys of the study file. A layout that cannot be has a ``reason`` alone.
    """

    name: Name
    trials: int | None = None
    slots: int | None = None
    seconds: float | None = None
    smallest: float | None = None
    need: float | None = None
    write: Mapping[str, str] = field(default_factory=dict)
    own: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Question:
    """A study as planning sees it. ``room``: of the instances of a rotation's plan, why they do not fit into the
    machine and how many do; ``of_host``: names of knobs of the whole host.
    """

    factors: Sequence[Factor]
    design: Design
    workload: Workload
    overhead: float
    of_host: Collection[str] = ()
    room: Callable[[Plan], tuple[str, int]] = lambda _: ("", 0)
    level: float = 0.95
    power: float = 0.8

    def setup(self, design: Design, workload: Workload) -> Setup:
        return setup_of(design, workload, self.overhead)


def components_of(noise: Noise, other: Noise | None, question: Question) -> Components:
    """From the noise of the study's own layout, and that of ``other`` studies: of rotations for a study that is none,
    of the rest for a rotation.
    """
    design, workload = question.design, question.workload
    sources = [source for source in (noise, other) if source is not None]
    slot, left_out = (layout_of(design) if design.layout != "plain" else LAYOUTS["rotation"]).slots(design)
    kept_seconds = slot - left_out
    second = next((source.second for source in sources if source.second is not None), None)
    if second is None:
        second = next(
            (
                source.between_slots * (source.slot_seconds or kept_seconds)
                for source in sources
                if source.between_slots is not None
            ),
            None,
        )
    turned = layout_of(design).side_by_side and not noise.assumed  # what is assumed is of plain trials
    plain, beside = (other, noise) if turned else (noise, other)
    whole = next((source.sigma2 for source in sources if source.between_slots is None), None)
    assumed = []
    if second is None:
        assumed.append("seconds")
        second = OF_SECONDS * (whole or 0.0) * (workload.steady if question.design.layout == "plain" else OF_TRIAL)
    seconds = second / workload.steady
    apart = _beyond(plain, seconds)
    start = None if beside is None or beside.assumed else _beyond(beside, seconds)
    if apart is None:
        assumed.append("machine")
        apart = (start if start is not None else seconds * OF_START / OF_SECONDS) * (1 + OF_MACHINE / OF_START)
    if start is None:
        assumed.append("start")
        start = apart * OF_START / (OF_START + OF_MACHINE)
    return Components(second, start, max(0.0, apart - start), tuple(assumed))


def _beyond(noise: Noise | None, seconds: float) -> float | None:
    """Variance between instances beyond that of their seconds."""
    if noise is None:
        return None
    if noise.beyond is not None:
        return noise.beyond
    if noise.between_slots is not None:
        return None if noise.block is None else noise.block.variance
    return max(0.0, noise.sigma2 - seconds)


@dataclass(frozen=True)
class Compared:
    """The layouts of one question, in about the same ``seconds``, at these ``components`` of the noise."""

    seconds: float
    components: Components
    layouts: tuple[LayoutPower, ...]
    steady: float
    effect: float | None = None

    @property
    def parts(self) -> dict[str, float]:
        """Variance of a trial's figure as the study measures it, by what it comes from."""
        noise = self.components
        return {"seconds": noise.second / self.steady, "start": noise.start, "machine": noise.machine}

    @property
    def best(self) -> LayoutPower | None:
        """Finds the effect in the least time; where none was asked for, the smallest effect in the same minutes, given
        that effects shrink with the root of the time. Of those that are alike the study's.
        """
        able = (
            [] if self.effect is None else [(layout.need, layout) for layout in self.layouts if layout.need is not None]
        )
        candidates = able or [
            (layout.smallest * math.sqrt(layout.seconds / self.seconds), layout)
            for layout in self.layouts
            if layout.smallest is not None and layout.seconds is not None and layout.seconds <= _LONGER * self.seconds
        ]
        least = min((figure for figure, _ in candidates), default=0.0)
        alike = [layout for figure, layout in candidates if figure <= _ALIKE * least]
        return next((layout for layout in alike if layout.own), alike[0] if alike else None)


def compared(question: Question, own: Plan, noise: Noise, other: Noise | None, effect: float | None = None) -> Compared:
    """Each layout in about the minutes of the study's ``own`` plan. ``noise``, ``other``: as of ``components_of``;
    ``effect`` in percent: also what it needs.
    """
    parts = components_of(noise, other, question)
    seconds = question.setup(question.design, question.workload).seconds(own)
    layouts = []
    different = len({unit.treatment for trial in own.trials for unit in trial.slots or (trial,)})
    for name in NAMES:
        if name == question.design.layout:
            tried = iter([(own, question.design, question.workload)])
        else:
            tried = _candidates(name, question, parts, seconds)
        try:
            if name != question.design.layout and 2 * different > _LARGEST:  # before it is laid out
                raise _too_large(2 * different)
            rows = [_row(name, question, parts, effect, *attempt) for attempt in tried]
        except UsageError as error:
            layouts.append(LayoutPower(name, reason=_clause(str(error)), own=name == question.design.layout))
            continue
        rated = [row for row in rows if row.smallest is not None]
        layouts.append(min(rated, key=lambda row: row.smallest or 0.0) if rated else rows[0])
    return Compared(seconds, parts, tuple(layouts), question.workload.steady, effect)


def _clause(text: str) -> str:
    return text.removeprefix("design: ").partition("; ")[0]


def _candidates(
    name: Name, question: Question, noise: Components, seconds: float
) -> Iterator[tuple[Plan, Design, Workload]]:
    """Plans of a layout that take about so many seconds. Raises UsageError where the layout cannot be."""
    workload, layout = question.workload, LAYOUTS[name]
    live = [factor for factor in question.factors if is_live(factor)]
    design = layout.same_question(question.design, bool(live))
    before = question.overhead + workload.before_steady + workload.ramp_down
    apart = noise.start + noise.machine
    if name == "plain":
        length = workload.steady
        if question.design.layout != "plain":
            (count,) = optimal_counts((noise.second, apart), (1.0, before))
            smallest, _, _ = _laid_out(question, design.model_copy(update={"replicates": 2}), workload)
            length = max(SHORTEST, math.floor(min(count or math.inf, seconds / len(smallest.trials) - before)))
        yield _filled(question, design, _lasting(workload, length), seconds)
        return
    if not layout.side_by_side:
        if not live:
            layout.plan(question.factors, design, workload)  # says why not
        yield from _in_slots(question, design, workload, noise.second, apart, before, seconds)
        return
    if workload.ramp_up != round(workload.ramp_up):
        workload = workload.model_copy(update={"ramp_up": float(math.ceil(workload.ramp_up))})
    yield from _in_slots(question, design, workload, noise.second, noise.start, before, seconds)


def _lasting(workload: Workload, steady: float) -> Workload:
    return workload.model_copy(update={"steady": float(steady)})


def _in_slots(
    question: Question,
    design: Design,
    workload: Workload,
    second: float,
    apart: float,
    before: float,
    seconds: float,
) -> Iterator[tuple[Plan, Design, Workload]]:
    """Instances with slots: as long as Kalibera and Jones say where factors differ between them; where all change in
    slots, some instances of what fits.
    """
    slot, left_out = layout_of(design).slots(design)
    kept_seconds = slot - left_out
    live = [factor for factor in question.factors if is_live(factor)]
    unit = slot * _treatments(live, design)
    if len(live) < len(question.factors):
        (count,) = optimal_counts((second / kept_seconds, apart), (slot, before))
        longest = max(unit, seconds / 4 - before)
        length = min(longest, (count or math.inf) * slot)
        whole = max(1 if live else 2, round(length / unit)) * unit
        yield _filled(question, design, _lasting(workload, whole), seconds)
        return
    treatments = _treatments(live, design)
    for instances in _INSTANCES:
        most = _LARGEST // (instances * treatments)
        if not most and instances == _INSTANCES[0]:
            raise _too_large(instances * treatments)
        seconds_each = _MINUTES * seconds / instances - question.overhead
        blocks = min(most, math.floor((seconds_each - before + question.overhead) / unit))
        if blocks < 1 and instances > _INSTANCES[0]:
            return
        lasting = _lasting(workload, max(1, blocks) * unit)
        yield _laid_out(question, layout_of(design).with_instances(design, instances), lasting)


def _too_large(rows: int) -> UsageError:
    return UsageError(f"{rows:,} trials or slots at least, more than {_LARGEST:,} are not compared")


def _treatments(live: Sequence[Factor], design: Design) -> int:
    return len(slot_treatments(live, design)[0]) if live else 1


def _filled(question: Question, design: Design, workload: Workload, seconds: float) -> tuple[Plan, Design, Workload]:
    """With as many replicates as the seconds hold, two at least."""
    design = design.model_copy(update={"replicates": 2})
    plan, design, workload = _laid_out(question, design, workload)
    setup = question.setup(design, workload)
    per_replicate = setup.seconds(plan) / replicates_of(plan)
    rows = sum(len(trial.slots) or 1 for trial in plan.trials) / replicates_of(plan)
    if rows * 2 > _LARGEST:
        raise _too_large(round(rows * 2))
    replicates = min(math.floor(_MINUTES * seconds / per_replicate), math.floor(_LARGEST / rows))
    if replicates <= 2:
        return plan, design, workload
    return _laid_out(question, design.model_copy(update={"replicates": replicates}), workload)


def _laid_out(question: Question, design: Design, workload: Workload) -> tuple[Plan, Design, Workload]:
    """The plan; instances that do not fit side by side in blocks of so many as do."""
    layout = layout_of(design)
    plan = layout.plan(question.factors, design, workload, question.of_host)
    refused, fit = question.room(plan) if layout.side_by_side else ("", 0)
    if not refused:
        return plan, design, workload
    smaller = layout.smaller(design, fit)
    if fit < 2 or smaller is None:
        raise UsageError(refused)
    return _laid_out(question, smaller, workload)


def _row(
    name: Name,
    question: Question,
    noise: Components,
    effect: float | None,
    plan: Plan,
    design: Design,
    workload: Workload,
) -> LayoutPower:
    setup = question.setup(design, workload)
    plan, _ = as_one_factor(plan)
    row = LayoutPower(
        name,
        len(plan.trials),
        sum(len(trial.slots) or sum(not turn.warm_up for turn in trial.turns) for trial in plan.trials),
        setup.seconds(plan),
        write={} if name == question.design.layout else _keys(question, design, workload),
        own=name == question.design.layout,
    )
    parts = _parts(plan, final_level(plan, design.looks, question.level), noise, workload, setup.wash_out)
    if isinstance(parts, str):
        return replace(row, reason=parts)
    sizes = [part.smallest(sigma, question.power) for part, sigma in parts]
    if any(size is None for size in sizes):
        return replace(row, reason="too few degrees of freedom")
    row = replace(row, smallest=percent(max(size for size in sizes if size is not None)))
    if effect is None:
        return row
    whole = replicates_of(plan)
    times = [part.times_for(log_effect(effect), sigma, question.power, whole) for part, sigma in parts]
    finite = [time for time in times if time is not None]
    if len(finite) < len(times):
        return row
    trials = math.ceil(len(plan.trials) * max(finite) - 1e-9)
    return replace(row, need=setup.seconds(plan) * trials / len(plan.trials))


def _parts(
    plan: Plan, level: float, noise: Components, workload: Workload, wash_out: float
) -> list[tuple[Precision, float]] | str:
    """Of the factors that change in slots and of those between trials: how well they are known, at what noise."""
    beside = layout_of(plan).side_by_side
    apart = noise.start + (0.0 if beside else noise.machine)
    slotted = [trial for trial in plan.trials if trial.slots]
    parts = []
    if slotted:
        kept_seconds = slotted[0].slots[0].seconds - wash_out
        precision = precision_of(plan, level)
        measured = kept_seconds * sum(len(trial.slots) for trial in slotted) / len(slotted)
        parts.append((precision, math.sqrt(noise.second / kept_seconds)))
    elif beside:
        turns = [turn for turn in plan.trials[0].turns if not turn.warm_up]
        measured = sum(turn.seconds - wash_out for turn in turns)
    else:
        measured = workload.steady
    others = tuple(factor.name for factor in plan.factors if not slotted or not is_live(factor))
    if others:
        whole = whole_trials(plan, others) if slotted else plan
        precision = precision_of(whole, 1 - (1 - level) * len(whole.comparisons) / len(plan.comparisons))
        parts.append((precision, math.sqrt(max(apart + noise.second / measured, 1e-12))))
    sound = [(part, sigma) for part, sigma in parts if not isinstance(part, str)]
    return sound if len(sound) == len(parts) else next(part for part, _ in parts if isinstance(part, str))


def _keys(question: Question, design: Design, workload: Workload) -> dict[str, str]:
    """What of the study file would change, as ``--set`` takes it."""
    was = question.design
    keys = {} if was.layout in ("plain", design.layout) else {f"design.{was.layout}": "null"}
    keys |= layout_of(design).keys(design)
    if design.blocks != was.blocks:
        keys["design.blocks"], keys["design.block_size"] = design.blocks, str(design.block_size)
    keys["design.replicates"] = str(design.replicates)
    keys["workload.steady"] = format_duration(workload.steady)
    begins = layout_of(design).side_by_side and not layout_of(was).side_by_side  # its ramp-up is `auto` unless named
    if workload.ramp_up != question.workload.ramp_up or (begins and workload.warm_up is None):
        keys["workload.ramp_up"] = format_duration(workload.ramp_up)
    return keys
