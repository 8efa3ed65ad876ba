"""Whether a plan is what it says: complete, balanced, in order, safe against drift."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from leadline.design.coding import level_indices, model_matrix
from leadline.design.definitive_screening import ordered_levels
from leadline.design.forks import WORLDS
from leadline.design.kinds import KINDS
from leadline.design.order import dear_factors, dear_levels
from leadline.layouts.switchback import slot_problems
from leadline.layouts.whole_host import between_blocks, without
from leadline.model.errors import UsageError, quoted
from leadline.model.plan import Plan, PlannedTrial, Role, Treatment

BLOCKS = ("by-replicate", "incomplete", "latin", "williams", "abba")  # that a study can ask for
REBUILT = ("one-at-a-time", "full-factorial", "confirmation")  # kinds whose runs follow from the factors alone


def check_plan(plan: Plan) -> None:
    """Raises UsageError with everything that is wrong with the plan, in one message."""
    problems = plan_problems(plan)
    if problems:
        raise UsageError("plan: " + "; ".join(problems))


def plan_problems(plan: Plan) -> tuple[str, ...]:
    """One clause for each thing that is wrong; empty when the plan is sound."""
    if plan.kind not in KINDS:
        return (f"unknown kind {quoted(plan.kind)}, known are {', '.join(KINDS)}",)
    if plan.blocks not in (*BLOCKS, WORLDS):
        return (f"unknown blocks {quoted(plan.blocks)}, known are {', '.join((*BLOCKS, WORLDS))}",)
    if not plan.trials:
        return ("it has no trials",)
    if not plan.factors:
        return ("it has no factors",)
    levels = {factor.name: factor.levels for factor in plan.factors}
    treatments = [treatment for trial in plan.trials for treatment in (trial.treatment, *_slots(trial))]
    for treatment in treatments:
        held = treatment.as_dict()
        if set(held) != set(levels) or any(held[name] not in levels[name] for name in levels):
            return ("some trial has a factor or level that the factors do not have",)
    host = between_blocks(plan) if plan.layout == "rotation" else []
    return tuple(_problems(without(plan, host) if 0 < len(host) < len(plan.factors) else plan))


def _slots(trial: PlannedTrial) -> list[Treatment]:
    return [slot.treatment for slot in trial.slots]


def _problems(plan: Plan) -> Iterator[str]:
    if [trial.position for trial in plan.trials] != list(range(len(plan.trials))):
        yield "positions do not count from 0 without gaps"
    blocks = [trial.block for trial in plan.trials]
    if blocks != sorted(blocks) or set(blocks) != set(range(max(blocks) + 1)):
        yield "blocks are not in order from 0 without gaps"
    members = [[trial for trial in plan.trials if trial.block == block] for block in sorted(set(blocks))]
    for block, trials in enumerate(members):
        if len({trial.seed for trial in trials}) != 1:
            yield f"the trials of block {block} do not share one seed"
    if any(trial.slots for trial in plan.trials):
        yield from slot_problems(plan)
        return
    baseline = plan.baseline.key
    for trial in plan.trials:
        if (trial.treatment.key == baseline) != (trial.role is not Role.TREATMENT):
            yield f"trial {trial.position} is called {trial.role.value} but its treatment says otherwise"
    runs = [[trial.treatment for trial in trials if trial.role is not Role.SENTINEL] for trials in members]
    yield from _block_problems(plan, runs)
    if plan.layout == "forks":
        return
    yield from _plot_problems(plan)
    sentinels = any(trial.role is Role.SENTINEL for trial in plan.trials)
    ends = (plan.trials[0], plan.trials[-1])
    if sentinels and any(trial.role is Role.TREATMENT for trial in ends):
        yield "it has sentinels, but does not start and end with a baseline trial"
    if len(members) == 1 and plan.blocks != "abba" and sum(t.role is not Role.TREATMENT for t in plan.trials) < 2:
        yield "one block with one baseline trial cannot distinguish a drift from an effect; add replicates or sentinels"


def _block_problems(plan: Plan, blocks: Sequence[Sequence[Treatment]]) -> Iterator[str]:
    counted = [Counter(treatment.key for treatment in block) for block in blocks]
    every = [treatment for block in blocks for treatment in block]
    if plan.kind in REBUILT:
        wanted = Counter(treatment.key for treatment in KINDS[plan.kind].treatments(plan.factors))
        for trial in plan.trials:
            if trial.treatment.key not in wanted:
                yield f"trial {trial.position} has a treatment that the design does not have"
    else:
        wanted = counted[0] if plan.blocks != "incomplete" else Counter(treatment.key for treatment in every)
        once = list(blocks[0]) if plan.blocks != "incomplete" else every
        yield from _kind_problems(plan, once)
    if plan.blocks == "incomplete":
        yield from _incomplete_problems(plan, every, wanted)
        return
    if plan.blocks == "abba" and plan.kind in REBUILT:
        wanted = Counter({key: 2 * times for key, times in wanted.items()})
    for block, counts in enumerate(counted):
        times = (
            min(counts.values()) if plan.layout == "rotation" and counts else 1
        )  # a rotation may take several replicates together
        if counts != Counter({key: times * number for key, number in wanted.items()}):
            yield f"block {block} does not hold every treatment exactly once"
    yield from _order_problems(plan.blocks, [[treatment.key for treatment in block] for block in blocks])


def _incomplete_problems(plan: Plan, every: Sequence[Treatment], wanted: Counter[str]) -> Iterator[str]:
    counts = Counter(treatment.key for treatment in every)
    if KINDS[plan.kind].cells:
        counts.pop(plan.baseline.key, None)
        if len(set(counts.values())) > 1 or set(counts) != set(wanted) - {plan.baseline.key}:
            yield "treatments do not come equally often over the incomplete blocks"
    elif plan.kind in REBUILT and len(set(counts.values())) > 1:
        yield "treatments do not come equally often over the incomplete blocks"


def _order_problems(name: str, blocks: Sequence[Sequence[str]]) -> Iterator[str]:
    if name in ("latin", "williams"):
        for place in range(len(blocks[0])):
            if len(set(Counter(block[place] for block in blocks if len(block) > place).values())) > 1:
                yield f"treatments do not come equally often at place {place} of the blocks"
                break
    if name == "williams":
        pairs = Counter(pair for block in blocks for pair in itertools.pairwise(block))
        treatments = len(set(blocks[0]))
        if len(set(pairs.values())) > 1 or len(pairs) != treatments * (treatments - 1):
            yield "treatments do not follow each other equally often"
    if name == "abba" and any(list(block) != list(block)[::-1] for block in blocks):
        yield "a block is not its own mirror image, as ABBA blocks are"


def _kind_problems(plan: Plan, runs: Sequence[Treatment]) -> Iterator[str]:
    """What the runs of one replicate must be, by kind."""
    if plan.kind == "configurations":  # compared as wholes
        return
    indices = level_indices(plan.factors, runs)
    mains = model_matrix(plan.factors, indices, interactions=False)
    if np.linalg.matrix_rank(mains) < mains.shape[1]:
        yield "some main effects are not distinguishable"
        return
    if plan.kind in ("fractional-factorial", "plackett-burman"):
        if any(len(factor.levels) != 2 for factor in plan.factors):
            yield f"{plan.kind} takes two levels of every factor"
        elif not np.array_equal(np.rint(mains.T @ mains), len(runs) * np.eye(mains.shape[1])):
            yield "the runs are not balanced and orthogonal"
    if plan.kind == "definitive-screening":
        if any(len(factor.levels) != 3 for factor in plan.factors):
            yield "definitive-screening takes three levels of every factor"
        else:
            yield from _screening_problems(plan, runs)


def _screening_problems(plan: Plan, runs: Sequence[Treatment]) -> Iterator[str]:
    orders = [ordered_levels(factor) for factor in plan.factors]
    coded = np.array(
        [
            [order.index(run[factor.name]) - 1 for factor, order in zip(plan.factors, orders, strict=True)]
            for run in runs
        ]
    )
    rows = Counter(map(tuple, coded.tolist()))
    if any(rows[tuple(-value for value in row)] != times for row, times in rows.items()):
        yield "some run lacks its mirror image"
    if not rows[(0,) * len(plan.factors)]:
        yield "the centre run is missing"
    products = coded.T @ coded
    if np.any(products != np.diag(np.diag(products))):
        yield "the runs are not orthogonal"


def _plot_problems(plan: Plan) -> Iterator[str]:
    if not dear_factors(plan.factors):
        return
    plots = [trial.plot for trial in plan.trials]
    if any(plot is None for plot in plots):
        yield "factors are hard to change, but trials are not in whole plots"
        return
    numbers = [plot for plot in plots if plot is not None]
    if numbers != sorted(numbers):
        yield "the trials of a whole plot do not stand together"
    levels: dict[int, set[object]] = {}
    for trial, plot in zip(plan.trials, numbers, strict=True):
        levels.setdefault(plot, set()).add((trial.block, dear_levels(plan.factors, trial.treatment)))
    if any(len(states) > 1 for states in levels.values()):
        yield "a hard-to-change factor changes inside a whole plot"
