"""A race: the baseline and every other level, one at a time, in blocks from which levels leave on the way.

The plan begins as one-at-a-time in complete blocks. When levels leave, :func:`lay_out` writes the rest of the plan
again: as many trials as before, in blocks of those that still run and the baseline. Who leaves is decided elsewhere
(``leadline.planning.course``); here is only what a plan looks like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from leadline.design import one_at_a_time
from leadline.design.errors import DesignError
from leadline.design.kind import DesignKind
from leadline.design.order import CANDIDATES, HASHES, Balance
from leadline.design.plots import dear_factors
from leadline.design.seeds import block_seed, shuffled
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment

FEWEST = 3  # replicates: what a decision takes
MOST_ROUNDS = 5  # where the study does not say


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The baseline first, then every other level. Raises DesignError for what a race cannot be."""
    if design.replicates < FEWEST:
        raise DesignError(
            f"design: a race needs {FEWEST} or more replicates for its decisions; "
            f"set replicates to {FEWEST} or more, or kind to one-at-a-time",
            ("design", "replicates"),
        )
    if design.looks == "watched":
        raise DesignError(
            "design: a race decides after rounds; set looks to their number, or use one-at-a-time with looks: watched",
            ("design", "looks"),
        )
    if rounds_of(design) > design.replicates - 1:
        raise DesignError(
            f"design: {design.looks} rounds of a race need {design.looks + 1} replicates; set "
            f"looks to {design.replicates - 1}, or replicates to {design.looks + 1}",
            ("design", "looks"),
        )
    if design.switchback is not None:
        raise DesignError(
            "design: a race drops whole trials, slots have all levels in every trial; leave switchback out, or use "
            "one-at-a-time with looks",
            ("design", "kind"),
        )
    if design.blocks != "by-replicate":
        raise DesignError(
            f"design: a race makes its own blocks; leave blocks ({design.blocks}) out, or use one-at-a-time",
            ("design", "blocks"),
        )
    dear = dear_factors(factors)
    if dear:
        raise DesignError(
            f"design: {', '.join(factor.name for factor in dear)} would be changed for every trial of a race; use "
            "one-at-a-time, which keeps such levels together in whole plots",
            ("design", "kind"),
        )
    return one_at_a_time.treatments(factors)


def rounds_of(design: Design) -> int:
    """After how many rounds at most levels may leave: ``looks``, else one less than replicates, five at most."""
    return (
        design.looks
        if design.looks != "watched" and design.looks > 1
        else max(1, min(MOST_ROUNDS, design.replicates - 1))
    )


def notes(_factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    """What a reader of the plan must know."""
    sentence = (
        f"Race in {rounds_of(design)} rounds: a level that is shown worse than the best one leaves after a round, and "
        "its trials go to the others; the plan shows what runs if none leaves."
    )
    if design.sentinels is not None and "sentinels" in design.model_fields_set:
        return (sentence, "No sentinels are added: every block of a race holds the baseline.")
    return (sentence,)


def lay_out(plan: Plan, members: Sequence[Sequence[Treatment]]) -> Plan:
    """The race with these treatments in its blocks, in random order balanced for carry-over; all else is ``plan``'s.

    Depends on the plan's seed and factors and on ``members`` alone, so that equal first blocks have equal trials.
    """
    balance = Balance()
    baseline = plan.baseline
    counts: Counter[str] = Counter()
    trials: list[PlannedTrial] = []
    for block, member in enumerate(members):
        draws = max(1, min(CANDIDATES, HASHES // len(member)))
        candidates = [shuffled(member, plan.seed, "order", block, draw) for draw in range(draws)]
        order = min(candidates, key=balance.cost)
        balance.add(order)
        for treatment in order:
            role = Role.BASELINE if treatment == baseline else Role.TREATMENT
            trials.append(
                PlannedTrial(len(trials), block, counts[treatment.key], role, treatment, block_seed(plan.seed, block))
            )
            counts[treatment.key] += 1
    return replace(plan, trials=tuple(trials))


def problems(plan: Plan, blocks: Sequence[Sequence[Treatment]]) -> Iterator[str]:
    """What is wrong with the blocks of a race."""
    before = set(one_at_a_time.treatments(plan.factors))
    if set(blocks[0]) != before:
        yield "the first block of a race does not hold every treatment"
    for number, block in enumerate(blocks):
        if len(set(block)) != len(block):
            yield f"block {number} holds a treatment twice"
        if plan.baseline not in block:
            yield f"block {number} of a race has no baseline trial"
        if not set(block) <= before:
            yield f"block {number} holds a treatment that had left the race"
        before = set(block)


KIND = DesignKind("racing", treatments, lambda factors, _: one_at_a_time.count(factors), notes, cells=True)
