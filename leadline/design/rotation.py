"""Rotations: the trials of a block as instances side by side, the load going round them in short slots.

An instance is a trial and is replicated over the blocks, so that an analysis by block and treatment has the noise
between instances in its residual. In every round each instance has one slot, in random order balanced for carry-over
(``leadline.design.carryover.random_blocks``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from leadline.design.carryover import random_blocks
from leadline.design.errors import DesignError
from leadline.design.make import make_plan
from leadline.design.plots import dear_factors
from leadline.design.seeds import block_seed
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, PlannedTrial, Turn
from leadline.model.study import Design, Rotation, Workload
from leadline.model.units import format_duration

FEWEST_ROUNDS = 2
_KEY = ("design", "rotation")


def rotation_plan(factors: Sequence[Factor], design: Design, workload: Workload, of_host: Collection[str] = ()) -> Plan:
    """The plan of ``design`` without its rotation, its trials with turns. ``workload.ramp_up`` and ``workload.steady``
    are of each instance, so a trial has as much load as a plain one; ``steady`` is rounded down to whole slots.
    ``of_host``: names of knobs of the whole host.

    There are no sentinels: the baseline is in every block, and a drift of the machine meets all instances of a block.
    Raises DesignError (a UsageError), naming the key.
    """
    rotation = design.rotation or Rotation()
    _check(factors, design, workload, rotation, of_host)
    if design.replicates < 2:
        raise DesignError(
            "design.rotation: one instance of a treatment cannot be told from the treatment; set replicates to 2 or "
            "more",
            ("design", "replicates"),
        )
    plan = make_plan(factors, design.model_copy(update={"sentinels": None, "rotation": None}))
    plan = _merged(plan, rotation.instances)
    blocks = blocks_of(plan)
    if min(len(block) for block in blocks) < 2:
        raise DesignError("design: a block of one trial has nobody to take turns with; set another block_size", _KEY)
    trials: dict[int, PlannedTrial] = {}
    for block in blocks:
        for trial, turns in zip(block, _turns(len(block), rotation, workload, block[0].seed), strict=True):
            trials[trial.position] = replace(trial, turns=turns)
    rotated = replace(plan, trials=tuple(trials[trial.position] for trial in plan.trials))
    notes = [*_notes(rotated, rotation, workload), *plan.notes]
    if design.sentinels is not None and "sentinels" in design.model_fields_set:
        notes.append("No sentinels are added: every block of a rotation holds the baseline.")
    return replace(rotated, notes=tuple(notes))


def blocks_of(plan: Plan) -> list[list[PlannedTrial]]:
    """Trials by block, in order: what is started together."""
    return [list(block) for _, block in itertools.groupby(plan.trials, key=lambda trial: trial.block)]


def rounds_of(rotation: Rotation, workload: Workload) -> int:
    """Slots of an instance that are measured."""
    return math.floor(round(workload.steady / rotation.slot, 9))


def phases_of(trials: Sequence[PlannedTrial]) -> tuple[float, float]:
    """Seconds of a rotation's ramp-up and steady state, over all its instances."""
    turns = [turn for trial in trials for turn in trial.turns]
    ramp_up = max((turn.end for turn in turns if turn.warm_up), default=0.0)
    return ramp_up, max(turn.end for turn in turns) - ramp_up


def measured(turns: Sequence[Turn], wash_out: float) -> list[tuple[float, float]]:
    """From and until, seconds since the start of the load, of what counts of an instance's turns."""
    return [(turn.begin + wash_out, turn.end) for turn in turns if not turn.warm_up]


def _merged(plan: Plan, instances: int) -> Plan:
    """So many blocks as one. Raises DesignError where there are fewer."""
    blocks = len(blocks_of(plan))
    if instances > blocks:
        has = "replicate" if plan.blocks == "by-replicate" else "block"
        raise DesignError(
            f"design.rotation.instances: {instances} {has}s are to stand side by side, and the design has {blocks}; "
            f"say {blocks} or less",
            (*_KEY, "instances"),
        )
    if instances == 1:
        return plan
    numbers = {trial.position: trial.block // instances for trial in plan.trials}
    trials = (
        replace(trial, block=numbers[trial.position], seed=block_seed(plan.seed, numbers[trial.position]))
        for trial in plan.trials
    )
    return replace(plan, trials=tuple(trials))


def _turns(instances: int, rotation: Rotation, workload: Workload, seed: int) -> Iterator[tuple[Turn, ...]]:
    """Turns of each instance of a block."""
    cycles = [rotation.warm_up_slot] * math.floor(round(workload.ramp_up / rotation.warm_up_slot, 9))
    if rest := round(workload.ramp_up - sum(cycles)):
        cycles.append(float(rest))
    rounds = rounds_of(rotation, workload)
    lengths = [*((seconds, True) for seconds in cycles), *[(rotation.slot, False)] * rounds]
    order = random_blocks(instances, len(lengths), 1, seed)[0]
    found: list[list[Turn]] = [[] for _ in range(instances)]
    now = 0.0
    for at, (seconds, warm_up) in enumerate(lengths):
        for instance in order[at * instances : (at + 1) * instances]:
            found[instance].append(Turn(now, seconds, warm_up))
            now += seconds
    return (tuple(turns) for turns in found)


def _check(
    factors: Sequence[Factor], design: Design, workload: Workload, rotation: Rotation, of_host: Collection[str]
) -> None:
    if design.switchback is not None:
        raise DesignError(
            "design.rotation and design.switchback are two layouts; keep one: switchback for levels that change in the "
            "running system, rotation for those that need a restart",
            _KEY,
        )
    if design.kind == "racing":
        raise DesignError("design: a race replaces instances one by one; with design.rotation use looks", _KEY)
    if design.blocks not in ("by-replicate", "incomplete"):
        raise DesignError(
            f"design.blocks {design.blocks} orders trials one after the other; with design.rotation leave it out or "
            "say incomplete",
            ("design", "blocks"),
        )
    if dear := dear_factors(factors):
        name = dear[0].name
        raise DesignError(
            f"{name} needs a {dear[0].apply_cost.value} of the host, so its levels cannot stand side by side; leave "
            "design.rotation out",
            ("factors", name),
        )
    for factor in factors:
        if factor.name in of_host and factor.apply_cost is not ApplyCost.LIVE:
            raise DesignError(
                f"{factor.name} is of the whole host and takes effect when a service starts: its levels cannot stand "
                "side by side; leave design.rotation out",
                ("factors", factor.name),
            )
    for key, seconds in (
        ("slot", rotation.slot),
        ("wash_out", rotation.wash_out),
        ("warm_up_slot", rotation.warm_up_slot),
    ):
        if seconds != round(seconds):
            low, high = format_duration(math.floor(seconds)), format_duration(math.ceil(seconds))
            raise DesignError(
                f"design.rotation.{key} is {format_duration(seconds)}, but responses are kept for whole seconds; say "
                f"{low} or {high}",
                (*_KEY, key),
            )
    if workload.ramp_up != round(workload.ramp_up):
        raise DesignError(
            f"workload.ramp_up is {format_duration(workload.ramp_up)}, but responses are kept for whole seconds",
            ("workload", "ramp_up"),
        )
    if "warm_up_slot" in rotation.model_fields_set and rotation.warm_up_slot > workload.ramp_up:
        raise DesignError(
            f"design.rotation.warm_up_slot {format_duration(rotation.warm_up_slot)} is longer than workload.ramp_up; "
            f"say {format_duration(workload.ramp_up)} or less, or leave it out",
            (*_KEY, "warm_up_slot"),
        )
    if rotation.wash_out > rotation.slot - 1:
        raise DesignError(
            f"design.rotation.wash_out {format_duration(rotation.wash_out)} leaves no whole second of a slot of "
            f"{format_duration(rotation.slot)}; say {format_duration(rotation.slot - 1)} or less",
            (*_KEY, "wash_out"),
        )
    if rounds_of(rotation, workload) < FEWEST_ROUNDS:
        needed = FEWEST_ROUNDS * rotation.slot
        raise DesignError(
            f"workload.steady of {format_duration(workload.steady)} is too short for {FEWEST_ROUNDS} slots of "
            f"{format_duration(rotation.slot)}; say {format_duration(needed)} or more",
            ("workload", "steady"),
        )
    for name in ("profile", "bursts", "replay", "generator"):
        if getattr(workload, name) is not None:
            raise DesignError(
                f"workload.{name}: the load of design.rotation comes in slots of `users` or `rate`; leave {name} out",
                ("workload", name),
            )


def _notes(plan: Plan, rotation: Rotation, workload: Workload) -> list[str]:
    sizes = sorted({len(block) for block in blocks_of(plan)})
    several = f"{sizes[-1]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    rounds = rounds_of(rotation, workload)
    found = [
        f"Rotation: {several} instances side by side, {rounds} slots of {format_duration(rotation.slot)} each after "
        f"{format_duration(workload.ramp_up)} of load to warm up, in {len(blocks_of(plan))} blocks; the first "
        f"{format_duration(rotation.wash_out)} of every slot are left out."
    ]
    if rounds * rotation.slot < workload.steady:
        asked = format_duration(workload.steady)
        found.append(f"The steady state is {format_duration(rounds * rotation.slot)} instead of {asked}: whole slots.")
    return found
