"""What a rotation is, in sentences of its plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from leadline.model.design import Rotation
from leadline.model.plan import Factor, Plan
from leadline.model.units import format_duration
from leadline.model.workload import Workload


def notes_of(
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
