"""Factors of the whole host in a rotation: one level for all instances side by side, another in the next rotation.

The rotations are whole plots: a factor of the host is compared between them, all other factors inside them (Jones and
Nachtsheim, 2009, J. Quality Technology 41, 340-361). In every stretch of as many blocks as there are combinations of
the host's levels each combination has one block, in random order, so that a drift meets all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from leadline.design.kind import DesignError
from leadline.design.order import dear_factors
from leadline.design.seeds import shuffled
from leadline.design.slots import trial_treatments
from leadline.model.design import Design
from leadline.model.knob import Level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment

KEY = ("design", "rotation", "host")
FEWEST_BLOCKS = 6  # with fewer the noise between rotations is not estimated (analysis.linear)


def check_host(host: Sequence[Factor], others: Sequence[Factor], design: Design) -> None:
    """Raises DesignError where factors of the host cannot change between rotations."""
    if dear := dear_factors(host):
        raise DesignError(
            f"{dear[0].name} needs a {dear[0].apply_cost.value} of the host, which instances side by side do not "
            "survive; leave design.rotation out",
            ("factors", dear[0].name),
        )
    if not others:
        raise DesignError(
            "design.rotation.host: all factors are of the whole host, so the instances of a rotation are all alike; "
            "leave design.rotation out, or host for slots of them",
            KEY,
        )
    if design.kind == "configurations":
        raise DesignError("design.rotation.host is for factors, not for configurations; leave it out", KEY)


def with_host(plan: Plan, host: Sequence[Factor], design: Design) -> tuple[Plan, list[str]]:
    """The rotation's plan with a combination of the host's levels for each block; and sentences on it.

    The combinations are those of the design's kind over ``host``, else one factor at a time. Raises DesignError where
    the blocks are too few to tell the noise between rotations.
    """
    treatments, notes = trial_treatments(host, design)
    blocks = list(dict.fromkeys(trial.block for trial in plan.trials))
    fewest = math.ceil(max(FEWEST_BLOCKS, 2 * len(treatments)) / len(treatments)) * len(treatments)
    if len(blocks) < fewest or len(blocks) % len(treatments):
        wanted = max(fewest, math.ceil(len(blocks) / len(treatments)) * len(treatments))
        instances = design.rotation.instances if design.rotation else 1
        raise DesignError(
            f"design.rotation.host: {len(blocks)} rotations for {len(treatments)} combinations of levels of "
            f"{', '.join(factor.name for factor in host)}; they need a multiple of {len(treatments)}, and {fewest} "
            "or more, for "
            f"the noise between rotations to be known: say {wanted * instances} replicates",
            ("design", "replicates"),
        )
    order: list[Treatment] = []
    for stretch in range(len(blocks) // len(treatments)):
        order += shuffled(treatments, plan.seed, "host of rotations", stretch)
    of_block = {block: levels.as_dict() for block, levels in zip(blocks, order, strict=True)}
    trials = tuple(
        replace(
            trial,
            treatment=Treatment.of(trial.treatment.as_dict() | of_block[trial.block]),
            slots=tuple(
                replace(slot, treatment=Treatment.of(slot.treatment.as_dict() | of_block[trial.block]))
                for slot in trial.slots
            ),
        )
        for trial in plan.trials
    )
    names = ", ".join(factor.name for factor in host)
    notes.append(
        f"Between rotations: {names}, of the whole host; {len(blocks) // len(treatments)} rotations of each of "
        f"{len(treatments)} "
        "combinations. It is compared with the noise between rotations, so its intervals are wider."
    )
    whole = replace(plan, factors=(*plan.factors, *host))
    trials = tuple(replace(trial, role=_role(whole, trial)) for trial in trials)
    return replace(whole, trials=trials), notes


def between_blocks(plan: Plan) -> list[Factor]:
    """The factors that have one level in each block of several trials, and not the same in all."""
    blocks: dict[int, list[Treatment]] = {}
    for trial in plan.trials:
        blocks.setdefault(trial.block, []).extend([slot.treatment for slot in trial.slots] or [trial.treatment])
    if max(map(len, blocks.values()), default=0) < 2:
        return []
    constant = {factor.name: factor for factor in plan.factors}
    first: list[dict[str, Level]] = []
    for block in blocks.values():
        levels = block[0].as_dict()
        for treatment in {entry for entry in block if entry != block[0]}:
            other = treatment.as_dict()
            constant = {name: factor for name, factor in constant.items() if other.get(name) == levels.get(name)}
        first.append(levels)
        if not constant:
            return []
    return [factor for name, factor in constant.items() if len({levels.get(name) for levels in first}) > 1]


def without(plan: Plan, host: Sequence[Factor]) -> Plan:
    """The plan of the other factors alone."""
    names = {factor.name for factor in host}
    factors = tuple(factor for factor in plan.factors if factor.name not in names)
    rest = replace(plan, factors=factors)
    reduced = [
        replace(
            trial,
            treatment=_only(factors, trial.treatment),
            slots=tuple(replace(slot, treatment=_only(factors, slot.treatment)) for slot in trial.slots),
        )
        for trial in plan.trials
    ]
    return replace(rest, trials=tuple(replace(trial, role=_role(rest, trial)) for trial in reduced))


def _only(factors: Sequence[Factor], treatment: Treatment) -> Treatment:
    return Treatment.of({factor.name: treatment[factor.name] for factor in factors})


def _role(plan: Plan, trial: PlannedTrial) -> Role:
    return Role.BASELINE if trial.treatment == plan.baseline else Role.TREATMENT
