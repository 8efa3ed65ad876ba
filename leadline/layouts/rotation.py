"""Rotations: the trials of a block as instances side by side, the load going round them in short slots.

An instance is a trial and is replicated over the blocks, so that an analysis by block and treatment has the noise
between instances in its residual. In every round each instance has one slot, in random order balanced for carry-over
(``leadline.design.slots.random_blocks``). Factors that are live change from slot to slot of an instance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from leadline.design.kind import DesignError
from leadline.design.kinds import KINDS
from leadline.design.make import make_plan
from leadline.design.order import blocked_order, dear_factors, is_live
from leadline.design.seeds import block_seed
from leadline.design.slots import LARGEST, baseline_of, random_blocks, slot_treatments, trial_treatments
from leadline.layouts.plain import Layout, Words, assumed_wash_out
from leadline.layouts.whole_host import check_host, with_host
from leadline.model.design import Design, Rotation, Switchback
from leadline.model.plan import Factor, Plan, PlannedTrial, Slot, Treatment, Turn
from leadline.model.units import format_duration
from leadline.model.workload import IN_NO_CYCLES, Workload

KEY = ("design", "rotation")
FEWEST_ROUNDS = 2
Inside = Mapping[Treatment, tuple[Treatment, ...]]  # levels of an instance -> live levels of its slots
_ALONE = (
    "design.rotation: all factors are live, so every instance is the same and one of them has nobody to take turns "
    "with; set rotation.instances to 2 or more"
)


def rotation_plan(
    factors: Sequence[Factor], design: Design, workload: Workload, /, of_host: Collection[str] = ()
) -> Plan:
    """The plan of ``design`` without its rotation, its trials with turns. ``workload.ramp_up`` and
    ``workload.steady`` are of each instance, so a trial has as much load as a plain one; ``steady`` is rounded down to
    whole slots. ``of_host``: names of knobs of the whole host.

    Live factors change between the slots of an instance, as in a switchback, the others between the instances of a
    block, those of the host between blocks where ``rotation.host`` says so. There are no sentinels: the baseline is in
    every block, and a drift of the machine meets all instances of a block. Raises DesignError (a UsageError), naming
    the key.
    """
    layout = design.rotation or Rotation()
    if design.replicates < 2:
        raise DesignError(
            "design.rotation: one instance of a treatment cannot be told from the treatment; set replicates to 2 or "
            "more",
            ("design", "replicates"),
        )
    configurations = _configurations(factors, design)
    everything, host = factors, list[Factor]()
    if layout.host == "between-rotations":
        host = [factor for factor in factors if factor.name in of_host]
        factors = [factor for factor in factors if factor not in host]
        check_host(host, factors, design)
    live = [factor for factor in factors if is_live(factor)] if _in_slots(layout, configurations) else []
    shared = [factor for factor in factors if factor.name in of_host and factor not in live]
    _check(factors, design, workload, layout, shared)
    plan, instances_note = _instances(factors, live, design, configurations)
    alone = bool(live) and len({trial.treatment for trial in plan.trials}) == 1 and bool(configurations)
    plan = _merged(plan, max(layout.instances, 2) if alone else layout.instances, alone)
    blocks = _blocks(plan)
    if min(len(block) for block in blocks) < 2:
        small = "design: a block of one trial has nobody to take turns with; set another block_size"
        raise DesignError(_ALONE if live else small, KEY)
    inside, told_inside = configurations, list[str]()
    if live and not configurations:
        per_slot, told_inside = slot_treatments(live, design)
        inside = dict.fromkeys((trial.treatment for trial in plan.trials), per_slot)
    treatments = math.lcm(*map(len, inside.values())) if live else 1
    rounds = _rounds(treatments, layout, workload)
    trials: dict[int, PlannedTrial] = {}
    for block in blocks:
        laid_out = _turns(len(block), layout, workload, rounds, block[0].seed)
        for trial, turns in zip(block, laid_out, strict=True):
            trials[trial.position] = replace(trial, turns=turns)
    rotated = replace(plan, trials=tuple(trials[trial.position] for trial in plan.trials))
    if live:
        rotated = _with_slots(rotated, inside, rounds)
    sizes = sorted(map(len, blocks))
    notes = _notes(rotated, sizes, layout, workload, rounds * layout.slot, rounds, live, of_host)
    notes += [*told_inside, *instances_note, *plan.notes]
    if design.sentinels is not None and "sentinels" in design.model_fields_set:
        notes.append("No sentinels are added: every block of a rotation holds the baseline.")
    if host:
        rotated, told_host = with_host(rotated, host, design)
        notes += told_host
    return replace(rotated, factors=tuple(everything), notes=tuple(notes))


def _check(
    factors: Sequence[Factor], design: Design, workload: Workload, layout: Rotation, held_by_host: Sequence[Factor]
) -> None:
    """``held_by_host``: factors of the whole host whose levels cannot change for one instance alone. Raises
    DesignError, naming the key.
    """
    key, name = KEY, ".".join(KEY)
    if design.switchback is not None:
        raise DesignError(
            f"{name} and design.switchback are two layouts; keep one: switchback for levels that change in the "
            f"running system, rotation for those that need a restart",
            key,
        )
    if design.blocks not in ("by-replicate", "incomplete"):
        raise DesignError(
            f"design.blocks {design.blocks} orders trials one after the other; with {name} leave it out or say "
            "incomplete",
            ("design", "blocks"),
        )
    if dear := dear_factors(factors):
        raise DesignError(
            f"{dear[0].name} needs a {dear[0].apply_cost.value} of the host, so its levels cannot stand side by side; "
            f"leave {name} out",
            ("factors", dear[0].name),
        )
    for factor in held_by_host:
        when = "" if is_live(factor) else " and takes effect when a service starts"
        raise DesignError(
            f"{factor.name} is of the whole host{when}: its levels cannot stand side by side; leave {name} out",
            ("factors", factor.name),
        )
    for part in ("slot", "wash_out", "warm_up_slot"):
        seconds = getattr(layout, part)
        if seconds != round(seconds):
            low, high = format_duration(math.floor(seconds)), format_duration(math.ceil(seconds))
            raise DesignError(
                f"{name}.{part} is {format_duration(seconds)}, but responses are kept for whole seconds; say "
                f"{low} or {high}",
                (*key, part),
            )
    if workload.ramp_up != round(workload.ramp_up):
        raise DesignError(
            f"workload.ramp_up is {format_duration(workload.ramp_up)}, but responses are kept for whole seconds",
            ("workload", "ramp_up"),
        )
    if "warm_up_slot" in layout.model_fields_set and layout.warm_up_slot > workload.ramp_up:
        raise DesignError(
            f"{name}.warm_up_slot {format_duration(layout.warm_up_slot)} is longer than workload.ramp_up; "
            f"say {format_duration(workload.ramp_up)} or less, or leave it out",
            (*key, "warm_up_slot"),
        )
    if layout.wash_out > layout.slot - 1:
        raise DesignError(
            f"{name}.wash_out {format_duration(layout.wash_out)} leaves no whole second of a slot of "
            f"{format_duration(layout.slot)}; say {format_duration(layout.slot - 1)} or less",
            (*key, "wash_out"),
        )
    for kind in IN_NO_CYCLES:
        if getattr(workload, kind) is not None:
            raise DesignError(
                f"workload.{kind}: the load of {name} comes in slots of `users` or `rate`; leave {kind} out",
                ("workload", kind),
            )


def _configurations(factors: Sequence[Factor], design: Design) -> Inside:
    """Of ``configurations``: those that differ in live levels alone, by what they have in common."""
    if design.kind != "configurations":
        return {}
    groups: dict[Treatment, list[Treatment]] = {}
    for treatment in KINDS[design.kind].treatments(factors, design):
        levels = treatment.as_dict()
        live = Treatment.of({factor.name: levels[factor.name] for factor in factors if is_live(factor)})
        others = Treatment.of({factor.name: levels[factor.name] for factor in factors if not is_live(factor)})
        groups.setdefault(others, []).append(live)
    return {treatment: tuple(inside) for treatment, inside in groups.items()}


def _in_slots(layout: Rotation, configurations: Inside) -> bool:
    """Whether live factors change in slots: of configurations only where some differ in nothing else."""
    differ = not configurations or any(len(inside) > 1 for inside in configurations.values())
    return differ and layout.live == "in-slots"


def _instances(
    factors: Sequence[Factor], live: Sequence[Factor], design: Design, configurations: Inside
) -> tuple[Plan, list[str]]:
    """The trials before they have turns, over the factors that are not live."""
    design = design.model_copy(update={"sentinels": None, "rotation": None})
    if not live:
        return make_plan(factors, design), []
    if design.blocks != "by-replicate":
        raise DesignError(
            f"design.blocks {design.blocks} is of trials, but {live[0].name} changes in slots in them; leave it out",
            ("design", "blocks"),
        )
    others = [factor for factor in factors if not is_live(factor)]
    treatments, notes = trial_treatments(others, design) if not configurations else (tuple(configurations), [])
    trials = [
        PlannedTrial(at, row.block, row.block, row.role, row.treatment, block_seed(design.seed, row.block))
        for at, row in enumerate(blocked_order(treatments, baseline_of(others), design.replicates, design.seed))
    ]
    return Plan(design.kind, design.seed, tuple(factors), tuple(trials)), notes


def _with_slots(plan: Plan, inside: Inside, rounds: int) -> Plan:
    """Every measured turn of an instance as a slot: blocks of slots hold each treatment once."""
    if rounds * len(plan.trials) > LARGEST:
        raise DesignError(
            f"this plan has {rounds * len(plan.trials):,} slots, more than {LARGEST:,}",
            KEY,
        )
    sizes = {len(treatments) for treatments in inside.values()}
    orders = {size: random_blocks(size, rounds // size, len(plan.trials), plan.seed) for size in sizes}
    ramp_ups = [phases_of(block)[0] for block in _blocks(plan) for _ in block]
    trials = []
    for number, (trial, ramp_up) in enumerate(zip(plan.trials, ramp_ups, strict=True)):
        levels, turns = trial.treatment.as_dict(), [turn for turn in trial.turns if not turn.warm_up]
        treatments = inside[trial.treatment]
        slots = [
            Slot(at, turn.begin - ramp_up, turn.seconds, Treatment.of(levels | treatments[index].as_dict()))
            for at, (turn, index) in enumerate(zip(turns, orders[len(treatments)][number], strict=True))
        ]
        trials.append(replace(trial, treatment=slots[0].treatment, slots=tuple(slots)))
    return replace(plan, trials=tuple(trials))


def one_by_one(design: Design, live: bool) -> Design:
    """The same design with instances one after the other; ``live``: some factors change in slots of the same length,
    but for configurations, which are trials then.
    """
    rotation = design.rotation or Rotation()
    slots = live and rotation.live == "in-slots" and design.kind != "configurations"
    switchback = Switchback(slot=rotation.slot, wash_out=rotation.wash_out) if slots else None
    return design.model_copy(update={"rotation": None, "switchback": switchback})


def _blocks(plan: Plan) -> list[list[PlannedTrial]]:
    """Trials by block, in order, before they have turns."""
    return [list(block) for _, block in itertools.groupby(plan.trials, key=lambda trial: trial.block)]


def _rounds(treatments: int, rotation: Rotation, workload: Workload) -> int:
    """Slots of an instance that are measured: whole blocks of so many treatments."""
    rounds = math.floor(round(workload.steady / rotation.slot, 9)) // treatments * treatments
    if rounds < max(FEWEST_ROUNDS, treatments):
        fewest = max(FEWEST_ROUNDS, treatments)
        raise DesignError(
            f"workload.steady of {format_duration(workload.steady)} is too short for {fewest} slots of "
            f"{format_duration(rotation.slot)}; say {format_duration(fewest * rotation.slot)} or more",
            ("workload", "steady"),
        )
    return rounds


def phases_of(trials: Sequence[PlannedTrial]) -> tuple[float, float]:
    """Seconds of a rotation's ramp-up and steady state, over all its instances."""
    turns = [turn for trial in trials for turn in trial.turns]
    ramp_up = max((turn.end for turn in turns if turn.warm_up), default=0.0)
    return ramp_up, max(turn.end for turn in turns) - ramp_up


def measured(turns: Sequence[Turn], wash_out: float) -> list[tuple[float, float]]:
    """From and until, seconds since the start of the load, of what counts of an instance's turns."""
    return [(turn.begin + wash_out, turn.end) for turn in turns if not turn.warm_up]


def _merged(plan: Plan, instances: int, alone: bool) -> Plan:
    """So many blocks as one; where each is one instance ``alone``, those left over go with the last. Raises DesignError
    where there are fewer.
    """
    blocks = len(_blocks(plan))
    if instances > blocks:
        has = "replicate" if plan.blocks == "by-replicate" else "block"
        raise DesignError(
            f"design.rotation.instances: {instances} {has}s are to stand side by side, and the design has {blocks}; "
            f"say {blocks} or less",
            ("design", "rotation", "instances"),
        )
    if instances == 1:
        return plan
    last = blocks // instances - 1 if alone else blocks
    numbers = {trial.position: min(trial.block // instances, last) for trial in plan.trials}
    trials = (
        replace(trial, block=numbers[trial.position], seed=block_seed(plan.seed, numbers[trial.position]))
        for trial in plan.trials
    )
    return replace(plan, trials=tuple(trials))


def _turns(
    instances: int, rotation: Rotation, workload: Workload, rounds: int, seed: int
) -> Iterator[tuple[Turn, ...]]:
    """Turns of each instance of a block."""
    cycles = [rotation.warm_up_slot] * math.floor(round(workload.ramp_up / rotation.warm_up_slot, 9))
    if rest := round(workload.ramp_up - sum(cycles)):
        cycles.append(float(rest))
    lengths = [*((seconds, True) for seconds in cycles), *[(rotation.slot, False)] * rounds]
    order = random_blocks(instances, len(lengths), 1, seed)[0]
    turns_: list[list[Turn]] = [[] for _ in range(instances)]
    now = 0.0
    for at, (seconds, warm_up) in enumerate(lengths):
        for instance in order[at * instances : (at + 1) * instances]:
            turns_[instance].append(Turn(now, seconds, warm_up))
            now += seconds
    return (tuple(turns) for turns in turns_)


def _notes(
    plan: Plan,
    sizes: Sequence[int],
    layout: Rotation,
    workload: Workload,
    steady: float,
    rounds: int,
    live: Sequence[Factor],
    of_host: Collection[str],
) -> list[str]:
    """What the plan is, in sentences. ``sizes``: trials of each block, ascending; ``steady``: seconds of load that each
    instance is measured under.
    """
    several = f"{sizes[-1]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    notes = [
        f"Rotation: {several} instances side by side, {rounds} slots of {format_duration(layout.slot)} each after "
        f"{format_duration(workload.ramp_up)} of load to warm up, in {len(sizes)} blocks; the first "
        f"{format_duration(layout.wash_out)} of every slot are left out."
    ]
    if warm := workload.warm_up:
        pause = f" and {format_duration(warm.pause)} without load" if warm.pause else ""
        notes.append(
            f"Before that all instances of a block are warmed, in cycles of {format_duration(warm.load)} for each"
            f"{pause}: {'at most ' if warm.until == 'steady' else ''}{warm.cycles} cycles, "
            f"{format_duration(workload.warm_up_seconds(sizes[-1]))} with all around them."
        )
    if live:
        between = [factor.name for factor in plan.factors if factor not in live]
        notes.append(
            f"In slots inside an instance: {', '.join(factor.name for factor in live)}; between instances: "
            f"{', '.join(between) or 'nothing, they are alike'}."
        )
    if shared := [factor.name for factor in live if factor.name in of_host]:
        notes.append(
            f"{', '.join(shared)}: of the whole host, so what a level leaves behind meets another instance's slot; "
            "only the wash-out keeps it out."
        )
    if steady < workload.steady:
        duration = format_duration(workload.steady)
        notes.append(f"The steady state is {format_duration(steady)} instead of {duration}: whole slots.")
    return notes


class RotationLayout(Layout):
    """Instances side by side; one at a time has load."""

    words = Words("side by side")
    side_by_side = True

    plan = staticmethod(rotation_plan)

    def slots(self, design: Design) -> tuple[float, float]:
        rotation = design.rotation or Rotation()
        return rotation.slot, rotation.wash_out

    def same_question(self, design: Design, live: bool) -> Design:
        rotation, switchback = Rotation(), design.switchback or Switchback()
        if live:
            left_out = float(math.ceil(assumed_wash_out(switchback)))
            rotation = rotation.model_copy(update={"slot": switchback.slot, "wash_out": left_out})
        return design.model_copy(update={"rotation": rotation, "switchback": None})

    def keys(self, design: Design) -> dict[str, str]:
        rotation = design.rotation or Rotation()
        keys = {"design.rotation.slot": format_duration(rotation.slot)}
        if rotation.instances > 1:
            keys["design.rotation.instances"] = str(rotation.instances)
        if rotation.wash_out != Rotation().wash_out:
            keys["design.rotation.wash_out"] = format_duration(rotation.wash_out)
        return keys

    def with_instances(self, design: Design, instances: int) -> Design:
        rotation = (design.rotation or Rotation()).model_copy(update={"instances": instances})
        return design.model_copy(update={"replicates": instances, "rotation": rotation})

    def smaller(self, design: Design, fit: int) -> Design | None:
        rotation = design.rotation or Rotation()
        if rotation.instances > 1:
            fewer = rotation.model_copy(update={"instances": min(fit, rotation.instances - 1)})
            return design.model_copy(update={"rotation": fewer})
        if design.blocks == "incomplete":
            return None
        return design.model_copy(update={"blocks": "incomplete", "block_size": fit})

    def fresh(self, design: Design, kind: str, replicates: int, live: Collection[bool]) -> dict[str, Any]:
        keys, rotation = super().fresh(design, kind, replicates, live), design.rotation or Rotation()
        kinds = set(live)
        if len(kinds) == 1:  # what is both would be crossed in slots
            # It may have fewer than the study had; where only live levels differ one has nobody to take turns with.
            instances = min(max(rotation.instances, 1 + kinds.pop()), replicates)
            keys["rotation"] = {**rotation.model_dump(mode="json", exclude_unset=True), "instances": instances}
        return keys


LAYOUT = RotationLayout()


def idle_cpus(design: Design) -> float:
    """CPUs that all instances without load together may use."""
    return (design.rotation or Rotation()).idle


def must_fit(design: Design) -> bool:
    """Whether instances that do not fit into memory side by side are refused, in place of run one by one."""
    return (design.rotation or Rotation()).otherwise == "refuse"
