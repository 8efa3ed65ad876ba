"""Switchback plans: live factors change every few seconds inside one warm trial, all others between trials.

A trial is one server instance. Its steady state is cut into slots of equal length, its slots into blocks that hold
every slot treatment once. Orders are balanced for carry-over: how often each treatment follows each other one is kept
as even as possible over the whole plan (Williams, Aust. J. Sci. Res. A 2, 1949, for the squares; Cochran, Autrey and
Cannon, J. Dairy Sci. 24, 1941, for switchback trials).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from leadline.design.coding import level_indices, model_matrix
from leadline.design.kind import DesignError
from leadline.design.order import Row, blocked_order, is_live, with_sentinels
from leadline.design.seeds import block_seed
from leadline.design.slots import LARGEST, abba, baseline_of, random_blocks, slot_treatments, trial_treatments, williams
from leadline.layouts.plain import Layout, Words, assumed_wash_out
from leadline.model.design import Design, Switchback
from leadline.model.errors import UsageError
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, PlannedTrial, Slot, Treatment
from leadline.model.units import format_duration
from leadline.model.workload import Workload

SHORTEST = 2.0  # seconds of a slot: one to settle, one to measure
FEWEST_SECONDS = 2.0  # of a slot whose levels came late
LATE = 0.1  # of a slot: so late levels may come in any case
_ORDERS = {"random-blocks": random_blocks, "williams": williams, "abba": abba}


def latest_change(slot: float, wash_out: float) -> float:
    """Seconds after the start of a slot at which its levels must be in force: after half of the wash-out (seconds too)
    half of what was planned is left to measure, and two whole seconds where there were so many.
    """
    planned = slot - wash_out
    return max(LATE * slot, wash_out / 2 + planned - max(planned / 2, min(planned, FEWEST_SECONDS)))


def steady_seconds(trial: PlannedTrial) -> float:
    """Seconds of a trial's slots; 0 for a trial without."""
    return sum(slot.seconds for slot in trial.slots)


def switchback_plan(
    factors: Sequence[Factor], design: Design, workload: Workload, _of_host: Collection[str] = (), /
) -> Plan:
    """A complete, seeded plan whose trials have slots.

    Slot treatments are the baseline and the distinct runs of ``design.kind`` over the live factors, trial treatments
    the same over the others (one at a time where the kind cannot serve these; a note says so). There are
    ``design.replicates`` trials of each trial treatment, in random blocks; trials that share levels dearer than a
    restart are neighbours within their block (a whole plot). The steady state is rounded down to whole blocks of slots.
    Raises UsageError, naming the key, for a design that cannot be or cannot distinguish a drift from an effect.
    """
    switchback = design.switchback or Switchback()
    live = [factor for factor in factors if is_live(factor)]
    others = [factor for factor in factors if not is_live(factor)]
    _check(live, others, design, workload, switchback)
    inside, told_inside = slot_treatments(live, design)
    outside, told_outside = trial_treatments(others, design)
    blocks = _blocks(len(inside), switchback, workload.steady)
    rows = _rows(others, outside, design)
    slots = len(inside) * blocks
    if slots * len(rows) > LARGEST:
        raise UsageError(f"this plan has {slots * len(rows):,} slots, more than {LARGEST:,}; name fewer levels")
    if blocks * len(rows) < 2:
        raise UsageError(
            f"one block of {len(inside)} slots cannot distinguish a drift from an effect; set design.replicates to "
            f"2, or workload.steady to {format_duration(2 * len(inside) * switchback.slot)} or more"
        )
    orders = _ORDERS[switchback.order](len(inside), blocks, len(rows), design.seed)
    plots = _plots(rows, others)
    trials = []
    for position, row in enumerate(rows):
        levels = row.treatment.as_dict()
        ordered = [Treatment.of(levels | inside[index].as_dict()) for index in orders[position]]
        trials.append(
            PlannedTrial(
                position,
                row.block,
                row.block,
                row.role,
                ordered[0],
                block_seed(design.seed, row.block),
                plots[position],
                tuple(
                    Slot(index, index * switchback.slot, switchback.slot, treatment)
                    for index, treatment in enumerate(ordered)
                ),
            )
        )
    notes = _notes(live, others, len(inside), blocks, len(rows), switchback, workload)
    if "sentinels" in design.model_fields_set and design.sentinels != _sentinels(others, design):
        notes.append("No sentinels are added: slots hold the baseline of the factors that are changed live.")
    notes += [*told_inside, *told_outside]
    return Plan(design.kind, design.seed, tuple(factors), tuple(trials), tuple(notes))


def slot_problems(plan: Plan) -> tuple[str, ...]:
    """One clause for each thing that is wrong with the slots of a plan; empty when they are sound.

    Slots follow each other from 0 s without gaps, hold every slot treatment equally often, block by block, and change
    live factors only; a trial starts at the levels of its first slot. All trials have the same slot treatments, the
    baseline among them, and these tell all levels of the live factors apart.
    """
    problems = []
    live = {factor.name for factor in plan.factors if is_live(factor)}
    for trial in plan.trials:
        name = f"trial {trial.position}"
        if not trial.slots:
            problems.append(f"{name} has no slots, others have")
            continue
        if [slot.index for slot in trial.slots] != list(range(len(trial.slots))):
            problems.append(f"the slots of {name} do not count from 0 without gaps")
        ends = list(itertools.accumulate((slot.seconds for slot in trial.slots), initial=0.0))[:-1]
        if trial.turns:  # of a rotation: measured turns of its instance, in time from their block's first
            ends = [turn.begin for turn in trial.turns if not turn.warm_up]
        begins = [slot.begin for slot in trial.slots]
        shifts = {round(end - begin, 6) for begin, end in zip(begins, ends, strict=False)}
        if len(begins) != len(ends) or len(shifts) > 1 or (not trial.turns and shifts != {0.0}):
            problems.append(f"the slots of {name} do not follow each other without gaps")
        if trial.slots[0].treatment != trial.treatment:
            problems.append(f"{name} does not start at the levels of its first slot")
        fixed = {tuple(kv for kv in slot.treatment.levels if kv[0] not in live) for slot in trial.slots}
        if len(fixed) > 1:
            problems.append(f"{name} changes a factor inside that cannot be changed live")
        keys = [slot.treatment.key for slot in trial.slots]
        distinct = len(set(keys))
        chunks = [keys[at : at + distinct] for at in range(0, len(keys), distinct)]
        if any(len(set(chunk)) != distinct for chunk in chunks):
            problems.append(f"the slots of {name} are not in blocks that hold every treatment once")
    return (*problems, *_treatment_problems([factor for factor in plan.factors if factor.name in live], plan))


def _treatment_problems(live: Sequence[Factor], plan: Plan) -> Iterator[str]:
    names = {factor.name for factor in live}
    first: set[Treatment] | None = None
    for trial in plan.trials:
        treatments = {Treatment(tuple(kv for kv in slot.treatment.levels if kv[0] in names)) for slot in trial.slots}
        first = treatments if first is None and treatments else first
        if treatments and treatments != first:
            yield f"trial {trial.position} has other slot treatments than the first"
    if not first or not live:
        return
    if baseline_of(live) not in first:
        yield "no slot holds the baseline of the live factors"
    model = model_matrix(live, level_indices(live, sorted(first, key=lambda one: one.key)), interactions=False)
    if plan.kind != "confirmation" and np.linalg.matrix_rank(model) < model.shape[1]:
        yield "some main effects of the live factors are not distinguishable"


def _check(
    live: Sequence[Factor], others: Sequence[Factor], design: Design, workload: Workload, switchback: Switchback
) -> None:
    if not live:
        names = ", ".join(f"{factor.name} ({factor.apply_cost.value})" for factor in others) or "there are none"
        raise UsageError(
            f"design.switchback needs a factor that can be changed in the running system (apply cost live); {names}; "
            "leave switchback out to compare these between trials"
        )
    if workload.generator is not None:
        raise DesignError(
            "switchback slots are set while the load runs, by the seconds leadline-load writes as they pass; "
            f"{workload.generator.name} tells its seconds at the end: leave `generator` or the switchback out",
            ("workload", "generator"),
        )
    if design.blocks != "by-replicate":
        raise UsageError(
            f"design.blocks {design.blocks} orders whole trials; with design.switchback leave it out and say "
            "design.switchback.order, one of random-blocks, williams, abba"
        )
    for key, seconds in (("design.switchback.slot", switchback.slot), ("workload.ramp_up", workload.ramp_up)):
        if seconds != round(seconds):
            low, high = format_duration(math.floor(seconds)), format_duration(math.ceil(seconds))
            raise UsageError(
                f"{key} is {format_duration(seconds)}, but responses are kept for whole seconds; say {low} or {high}"
            )
    if switchback.slot < SHORTEST:
        raise UsageError(
            f"design.switchback.slot is {format_duration(switchback.slot)}; the shortest slot is "
            f"{format_duration(SHORTEST)}, one second to settle and one to measure"
        )
    wash_out = assumed_wash_out(switchback)
    if wash_out > switchback.slot - 1:
        raise UsageError(
            f"design.switchback.wash_out {format_duration(wash_out)} leaves no whole second of a slot of "
            f"{format_duration(switchback.slot)}; say {format_duration(switchback.slot - 1)} or less"
        )
    if others and design.replicates == 1 and design.sentinels is None:
        raise UsageError(
            f"one trial of each level of {', '.join(factor.name for factor in others)} without sentinels cannot tell "
            "a drift of the machine from an effect; set design.replicates to 2 or more, or design.sentinels to a number"
        )


def _blocks(treatments: int, switchback: Switchback, steady: float) -> int:
    """Whole blocks of slots that fit into the steady state; an even number for ABBA."""
    if switchback.order == "abba" and treatments != 2:
        raise UsageError(
            f"design.switchback.order abba takes two slot treatments, here are {treatments}; use williams or "
            "random-blocks"
        )
    unit = 2 if switchback.order == "abba" else 1
    needed = unit * treatments * switchback.slot
    count = math.floor(round(steady / needed, 9)) * unit
    if not count:
        raise UsageError(
            f"workload.steady of {format_duration(steady)} is too short for one block of {unit * treatments} slots of "
            f"{format_duration(switchback.slot)}: it takes {format_duration(needed)}"
        )
    return count


def _rows(others: Sequence[Factor], treatments: Sequence[Treatment], design: Design) -> list[Row]:
    """Trials before they have slots. Sentinels are needed only where something changes between trials: slots hold the
    baseline themselves.
    """
    baseline = baseline_of(others)
    rows = blocked_order(treatments, baseline, design.replicates, design.seed)
    dear = {factor.name for factor in others if _is_dear(factor)}
    if dear:
        first: dict[tuple[int, str], int] = {}
        for at, row in enumerate(rows):
            first.setdefault((row.block, _dear_key(row.treatment, dear)), at)
        rows.sort(key=lambda row: (row.block, first[row.block, _dear_key(row.treatment, dear)]))
    if (every := _sentinels(others, design)) is not None:
        rows = with_sentinels(rows, baseline, every)
    return rows


def _sentinels(others: Sequence[Factor], design: Design) -> int | None:
    """As the design says, where trials can have some."""
    return design.sentinels if others and not any(map(_is_dear, others)) else None


def _is_dear(factor: Factor) -> bool:
    return factor.apply_cost not in (ApplyCost.LIVE, ApplyCost.RUN, ApplyCost.RESTART)


def _dear_key(treatment: Treatment, dear: set[str]) -> str:
    return Treatment(tuple(pair for pair in treatment.levels if pair[0] in dear)).key


def _plots(rows: Sequence[Row], others: Sequence[Factor]) -> list[int | None]:
    """Number of each trial's whole plot: neighbours of one block with the same dear levels. None without such."""
    dear = {factor.name for factor in others if _is_dear(factor)}
    if not dear:
        return [None] * len(rows)
    groups = [(row.block, _dear_key(row.treatment, dear)) for row in rows]
    numbers = itertools.accumulate((int(group != before) for before, group in itertools.pairwise(groups)), initial=0)
    return list(numbers)


def _notes(
    live: Sequence[Factor],
    others: Sequence[Factor],
    treatments: int,
    blocks: int,
    trials: int,
    switchback: Switchback,
    workload: Workload,
) -> list[str]:
    slots = treatments * blocks
    length, steady = format_duration(switchback.slot), format_duration(slots * switchback.slot)
    names = ", ".join(factor.name for factor in live)
    notes = [
        f"Switchback: {names} every {length} in one warm system: {slots} slots a trial, {blocks} "
        f"{'block' if blocks == 1 else 'blocks'} of {treatments} treatments in order {switchback.order}, "
        f"{blocks * trials} slots of each treatment in all."
    ]
    wash_out = format_duration(assumed_wash_out(switchback))
    if switchback.wash_out is None:
        notes.append(f"The first {wash_out} of every slot are left out until the wash-out is estimated from the data.")
    else:
        notes.append(f"The first {wash_out} of every slot are left out.")
    if trials == 1:
        notes.append(
            "One server instance: verdicts will hold for it alone, and say nothing of another start; two or more "
            "trials (replicates) would."
        )
    if slots * switchback.slot < workload.steady:
        duration = format_duration(workload.steady)
        notes.append(f"The steady state is {steady} instead of {duration}: whole blocks of slots.")
    if others:
        notes.append(f"Between trials: {', '.join(factor.name for factor in others)}.")
    dear = [factor.name for factor in others if _is_dear(factor)]
    if dear:
        notes.append(f"Whole plots: {', '.join(dear)} change as rarely as the blocks allow.")
    return notes


class SwitchbackLayout(Layout):
    """Levels that change in slots of one warm trial."""

    words = Words("in slots")
    estimates_wash_out = True

    plan = staticmethod(switchback_plan)

    def same_question(self, design: Design, live: bool) -> Design:  # noqa: ARG002
        left_out = None if design.rotation is None else design.rotation.wash_out
        slot = (design.rotation or Switchback()).slot
        return design.model_copy(update={"rotation": None, "switchback": Switchback(slot=slot, wash_out=left_out)})

    def keys(self, design: Design) -> dict[str, str]:
        switchback = design.switchback or Switchback()
        keys = {"design.switchback.slot": format_duration(switchback.slot)}
        if switchback.wash_out is not None:
            keys["design.switchback.wash_out"] = format_duration(switchback.wash_out)
        return keys

    def fresh(self, design: Design, kind: str, replicates: int, live: Collection[bool]) -> dict[str, Any]:
        keys = super().fresh(design, kind, replicates, live)
        if set(live) == {True} and design.switchback is not None:
            keys["switchback"] = design.switchback.model_dump(mode="json", exclude_unset=True)
        return keys


LAYOUT = SwitchbackLayout()
