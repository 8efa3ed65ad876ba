"""Duets: pairs of instances loaded at the same time, each on half of the machine's CPUs.

A pair is a block with two columns, the halves. Half-way through the measured load the instances change halves, so that
each of them has been on each half, before and after: a 2x2 Latin square of halves and periods, in which neither can be
taken for the difference of the instances (Fisher, The Design of Experiments, 1935, chapter 5). Whatever the machine
does at a moment meets both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.design.errors import DesignError
from leadline.model.design import Design, Duet
from leadline.model.plan import Plan, Turn
from leadline.model.units import format_duration
from leadline.model.workload import Workload

KEY = ("design", "duet")
HALVES = 2


def in_pairs(design: Design, treatments: int) -> Design:
    """The design with blocks of two trials: complete ones where there are two treatments. Raises DesignError."""
    if design.block_size not in (None, HALVES):
        raise DesignError(
            f"design.block_size is {design.block_size}, but the machine has two halves; leave it out",
            ("design", "block_size"),
        )
    if treatments <= HALVES:
        return design.model_copy(update={"blocks": "by-replicate", "block_size": None})
    return design.model_copy(update={"blocks": "incomplete", "block_size": HALVES})


def check_pairs(plan: Plan, blocks: Sequence[Sequence[object]]) -> None:
    """Raises DesignError unless every block is a pair."""
    if any(len(block) != HALVES for block in blocks):
        raise DesignError(
            f"design.duet: {plan.kind} of these factors cannot be put into pairs; use one-at-a-time, an even number of "
            "replicates, or design.rotation",
            KEY,
        )


def slot_of(duet: Duet, treatments: int, workload: Workload) -> tuple[float, int]:
    """Length of a slot, and how many each instance has: with ``treatments`` in slots as many on each half, each as
    often; with one a single slot on each half. Raises DesignError where the steady state is too short.
    """
    slot = duet.slot if treatments > 1 else float(math.floor(workload.steady / HALVES))
    slots = math.floor(round(workload.steady / slot, 9)) // (HALVES * treatments) * HALVES * treatments if slot else 0
    if not slots or slot < duet.wash_out + 1:
        least = HALVES * treatments * (duet.slot if treatments > 1 else duet.wash_out + 1)
        raise DesignError(
            f"workload.steady of {format_duration(workload.steady)} is too short for {HALVES * treatments} slots, as "
            f"many on each half of the machine; say {format_duration(least)} or more",
            ("workload", "steady"),
        )
    return slot, slots


def turns_in_halves(slot: float, slots: int, workload: Workload) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Turns of the two instances of a pair: at the same time, always on different halves."""
    halves = []
    for first in range(HALVES):
        warm_up = [Turn(0.0, workload.ramp_up, True, first)] if workload.ramp_up else []
        turns = [
            Turn(workload.ramp_up + at * slot, slot, False, first if at < slots // 2 else 1 - first)
            for at in range(slots)
        ]
        halves.append((*warm_up, *turns))
    return halves[0], halves[1]


def facing(order: Sequence[int], treatments: int) -> list[int]:
    """The other instance's order: in every slot another treatment, and each as often in every block of slots."""
    blocks = [list(order[at : at + treatments]) for at in range(0, len(order), treatments)]
    return [treatment for block in blocks for treatment in (*block[1:], *block[:1])]


def duet_notes(duet: Duet, workload: Workload, blocks: int, slots: int, live: bool) -> list[str]:
    """What the plan is, in sentences."""
    warm = format_duration(workload.ramp_up)
    stretch = f"{slots // 2} slots of {format_duration(duet.slot)}" if live else "one stretch"
    return [
        f"Duet: {blocks} pairs of instances, both loaded at the same time, each on half of the CPUs, which they change "
        f"half-way; after {warm} of load to warm up each has {stretch} on either half; the first "
        f"{format_duration(duet.wash_out)} of each are left out.",
        "All figures are those of half the machine, and of an instance beside which another one works.",
    ]
