"""The same question by other layouts: plain trials, switchback, rotation; what each finds in the same minutes.

A figure's noise has three components (variances of logarithms): of its seconds; of the start of its instance; and of
the machine's minutes, which instances side by side share and slots of one instance do not see. How long an instance is
measured follows Kalibera and Jones (``leadline.planning.repeat``), where factors differ between instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from leadline.analysis.composite import as_one_factor
from leadline.design import make_plan
from leadline.design.rotation import rotation_plan
from leadline.design.slot_treatments import slot_treatments
from leadline.design.switchback import assumed_wash_out, is_live, switchback_plan, wash_out_of
from leadline.model.design import Design, Rotation, Switchback
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Plan
from leadline.model.units import format_duration
from leadline.model.workload import Workload
from leadline.planning.between import whole_trials
from leadline.planning.forecast import Setup, replicates_of, setup_of
from leadline.planning.looks import final_level
from leadline.planning.noise import Noise
from leadline.planning.power import Precision, log_effect, percent, precision_of
from leadline.planning.repeat import optimal_counts

Name = Literal["plain", "switchback", "rotation"]
NAMES: tuple[Name, ...] = ("plain", "switchback", "rotation")
SECONDS, START, MACHINE = 0.25, 0.25, 0.5  # shares of a trial's variance where no pilot tells them apart
SHORTEST = 10.0  # seconds: no plain trial that is shorter is proposed
_INSTANCES = range(2, 9)  # of which the best number is searched where every factor changes in slots
_LARGEST = 1_000  # trials or slots of another layout that are compared; the minutes may hold more
_ALIKE = 1.05  # times the best figure: the layout that the study has stays
_MINUTES = 1.02  # a layout is filled up to so many times the minutes of the study's own
_LONGER = 1.1  # times these minutes that still count as the same
_TRIAL = 30.0  # seconds of the trials that assumed noise is of, where the study has slots


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
class Layout:
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

    @property
    def name(self) -> Name:
        """The layout that the study has."""
        if self.design.rotation is not None:
            return "rotation"
        return "switchback" if self.design.switchback is not None else "plain"


def components_of(noise: Noise, other: Noise | None, question: Question) -> Components:
    """From the noise of the study's own layout, and that of ``other`` studies: of rotations for a study that is none,
    of the rest for a rotation.
    """
    design, workload = question.design, question.workload
    sources = [source for source in (noise, other) if source is not None]
    kept_seconds = _kept(design)
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
    turned = question.name == "rotation" and not noise.assumed  # what is assumed is of plain trials
    plain, beside = (other, noise) if turned else (noise, other)
    whole = next((source.sigma2 for source in sources if source.between_slots is None), None)
    assumed = []
    if second is None:
        assumed.append("seconds")
        second = SECONDS * (whole or 0.0) * (workload.steady if question.name == "plain" else _TRIAL)
    seconds = second / workload.steady
    apart = _beyond(plain, seconds)
    start = None if beside is None or beside.assumed else _beyond(beside, seconds)
    if apart is None:
        assumed.append("machine")
        apart = (start if start is not None else seconds * START / SECONDS) * (1 + MACHINE / START)
    if start is None:
        assumed.append("start")
        start = apart * START / (START + MACHINE)
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


def _kept(design: Design) -> float:
    """Seconds of a slot that count."""
    slot = (design.rotation or design.switchback or Rotation()).slot
    return slot - wash_out_of(design if design.switchback or design.rotation else _with(design, rotation=Rotation()))


@dataclass(frozen=True)
class Compared:
    """The layouts of one question, in about the same ``seconds``, at these ``components`` of the noise."""

    seconds: float
    components: Components
    layouts: tuple[Layout, ...]
    steady: float
    effect: float | None = None

    @property
    def parts(self) -> dict[str, float]:
        """Variance of a trial's figure as the study measures it, by what it comes from."""
        noise = self.components
        return {"seconds": noise.second / self.steady, "start": noise.start, "machine": noise.machine}

    @property
    def best(self) -> Layout | None:
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
        if name == question.name:
            tried = iter([(own, question.design, question.workload)])
        else:
            tried = _candidates(name, question, parts, seconds)
        try:
            if name != question.name and 2 * different > _LARGEST:  # before it is laid out
                raise _too_large(2 * different)
            rows = [_row(name, question, parts, effect, *attempt) for attempt in tried]
        except UsageError as error:
            layouts.append(Layout(name, reason=_clause(str(error)), own=name == question.name))
            continue
        rated = [row for row in rows if row.smallest is not None]
        layouts.append(min(rated, key=lambda row: row.smallest or 0.0) if rated else rows[0])
    return Compared(seconds, parts, tuple(layouts), question.workload.steady, effect)


def _clause(text: str) -> str:
    return text.removeprefix("design: ").partition("; ")[0]


def _with(design: Design, **keys: object) -> Design:
    return design.model_copy(update={"rotation": None, "switchback": None, **keys})


def _candidates(
    name: Name, question: Question, noise: Components, seconds: float
) -> Iterator[tuple[Plan, Design, Workload]]:
    """Plans of a layout that take about so many seconds. Raises UsageError where the layout cannot be."""
    design, workload = question.design, question.workload
    live = [factor for factor in question.factors if is_live(factor)]
    before = question.overhead + workload.before_steady + workload.ramp_down
    apart = noise.start + noise.machine
    if name == "plain":
        length = workload.steady
        if question.name != "plain":
            (count,) = optimal_counts((noise.second, apart), (1.0, before))
            smallest, _, _ = _laid_out(question, _with(design, replicates=2), workload)
            length = max(SHORTEST, math.floor(min(count or math.inf, seconds / len(smallest.trials) - before)))
        yield _filled(question, _with(design), _lasting(workload, length), seconds)
        return
    if name == "switchback":
        left_out = None if design.rotation is None else design.rotation.wash_out
        switched = _with(design, switchback=Switchback(slot=_slot(design), wash_out=left_out))
        if not live:
            switchback_plan(question.factors, switched, workload)  # says why not
        yield from _in_slots(question, switched, workload, noise.second, apart, before, seconds)
        return
    beside = Rotation()
    if live:
        beside = beside.model_copy(update={"slot": _slot(design)})
        left_out = float(math.ceil(assumed_wash_out(design.switchback or Switchback())))
        beside = beside.model_copy(update={"wash_out": left_out})
    if workload.ramp_up != round(workload.ramp_up):
        workload = workload.model_copy(update={"ramp_up": float(math.ceil(workload.ramp_up))})
    yield from _in_slots(question, _with(design, rotation=beside), workload, noise.second, noise.start, before, seconds)


def _slot(design: Design) -> float:
    return (design.switchback or design.rotation or Switchback()).slot


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
    kept_seconds = _kept(design)
    live = [factor for factor in question.factors if is_live(factor)]
    unit = _slot(design) * _treatments(live, design)
    if len(live) < len(question.factors):
        (count,) = optimal_counts((second / kept_seconds, apart), (_slot(design), before))
        longest = max(unit, seconds / 4 - before)
        length = min(longest, (count or math.inf) * _slot(design))
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
        yield _laid_out(question, _with_instances(design, instances), lasting)


def _too_large(rows: int) -> UsageError:
    return UsageError(f"{rows:,} trials or slots at least, more than {_LARGEST:,} are not compared")


def _treatments(live: Sequence[Factor], design: Design) -> int:
    return len(slot_treatments(live, design)[0]) if live else 1


def _with_instances(design: Design, instances: int) -> Design:
    keys: dict[str, object] = {"replicates": instances}
    if design.rotation is not None:
        keys["rotation"] = design.rotation.model_copy(update={"instances": instances})
    return design.model_copy(update=keys)


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
    if design.rotation is None:
        if design.switchback is not None:
            return switchback_plan(question.factors, design, workload), design, workload
        return make_plan(question.factors, design), design, workload
    plan = rotation_plan(question.factors, design, workload, question.of_host)
    refused, fit = question.room(plan)
    if not refused:
        return plan, design, workload
    if fit < 2:
        raise UsageError(refused)
    if design.rotation.instances > 1:
        fewer = design.rotation.model_copy(update={"instances": min(fit, design.rotation.instances - 1)})
        return _laid_out(question, design.model_copy(update={"rotation": fewer}), workload)
    if design.blocks == "incomplete":
        raise UsageError(refused)
    smaller = design.model_copy(update={"blocks": "incomplete", "block_size": fit})
    return _laid_out(question, smaller, workload)


def _row(
    name: Name,
    question: Question,
    noise: Components,
    effect: float | None,
    plan: Plan,
    design: Design,
    workload: Workload,
) -> Layout:
    setup = question.setup(design, workload)
    plan, _ = as_one_factor(plan)
    row = Layout(
        name,
        len(plan.trials),
        sum(len(trial.slots) or sum(not turn.warm_up for turn in trial.turns) for trial in plan.trials),
        setup.seconds(plan),
        write={} if name == question.name else _keys(question, design, workload),
        own=name == question.name,
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
    apart = noise.start + (0.0 if plan.rotates else noise.machine)
    slotted = [trial for trial in plan.trials if trial.slots]
    parts = []
    if slotted:
        kept_seconds = slotted[0].slots[0].seconds - wash_out
        precision = precision_of(plan, level)
        measured = kept_seconds * sum(len(trial.slots) for trial in slotted) / len(slotted)
        parts.append((precision, math.sqrt(noise.second / kept_seconds)))
    elif plan.rotates:
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
    keys: dict[str, str] = {}
    was = question.design
    if was.rotation is not None and design.rotation is None:
        keys["design.rotation"] = "null"
    if was.switchback is not None and design.switchback is None:
        keys["design.switchback"] = "null"
    if design.switchback is not None:
        keys["design.switchback.slot"] = format_duration(design.switchback.slot)
        if design.switchback.wash_out is not None:
            keys["design.switchback.wash_out"] = format_duration(design.switchback.wash_out)
    if design.rotation is not None:
        keys["design.rotation.slot"] = format_duration(design.rotation.slot)
        if design.rotation.instances > 1:
            keys["design.rotation.instances"] = str(design.rotation.instances)
        if design.rotation.wash_out != Rotation().wash_out:
            keys["design.rotation.wash_out"] = format_duration(design.rotation.wash_out)
    if design.blocks != was.blocks:
        keys["design.blocks"], keys["design.block_size"] = design.blocks, str(design.block_size)
    keys["design.replicates"] = str(design.replicates)
    keys["workload.steady"] = format_duration(workload.steady)
    begins_to_rotate = design.rotation is not None and was.rotation is None  # its ramp-up is `auto` unless named
    if workload.ramp_up != question.workload.ramp_up or (begins_to_rotate and workload.warm_up is None):
        keys["workload.ramp_up"] = format_duration(workload.ramp_up)
    return keys
