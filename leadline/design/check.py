"""Whether a plan is what it says: complete, balanced, in order, safe against drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leadline.design.kinds import KINDS
from leadline.model.errors import UsageError
from leadline.model.plan import Plan, Role


def check_plan(plan: Plan) -> None:
    """Raises UsageError with everything that is wrong with the plan, in one message."""
    problems = plan_problems(plan)
    if problems:
        raise UsageError("plan: " + "; ".join(problems))


def plan_problems(plan: Plan) -> tuple[str, ...]:
    """One clause for each thing that is wrong; empty when the plan is sound."""
    if plan.kind not in KINDS:
        return (f"unknown kind {plan.kind!r}, known are {', '.join(KINDS)}",)
    if not plan.trials:
        return ("it has no trials",)
    if not plan.factors:
        return ("it has no factors",)
    return tuple(_problems(plan))


def _problems(plan: Plan) -> Iterator[str]:
    if [trial.position for trial in plan.trials] != list(range(len(plan.trials))):
        yield "positions do not count from 0 without gaps"
    blocks = [trial.block for trial in plan.trials]
    if blocks != sorted(blocks) or set(blocks) != set(range(max(blocks) + 1)):
        yield "blocks are not in order from 0 without gaps"
    wanted = Counter(treatment.key for treatment in KINDS[plan.kind].treatments(plan.factors))
    baseline = plan.baseline.key
    for trial in plan.trials:
        key = trial.treatment.key
        if key not in wanted:
            yield f"trial {trial.position} has a treatment that the design does not have"
        elif (key == baseline) != (trial.role is not Role.TREATMENT):
            yield f"trial {trial.position} is called {trial.role.value} but its treatment says otherwise"
    for block in sorted(set(blocks)):
        members = [trial for trial in plan.trials if trial.block == block]
        if Counter(trial.treatment.key for trial in members if trial.role is not Role.SENTINEL) != wanted:
            yield f"block {block} does not hold every treatment exactly once"
        if len({trial.seed for trial in members}) != 1:
            yield f"the trials of block {block} do not share one seed"
    sentinels = any(trial.role is Role.SENTINEL for trial in plan.trials)
    ends = (plan.trials[0], plan.trials[-1])
    if sentinels and any(trial.role is Role.TREATMENT for trial in ends):
        yield "it has sentinels, but does not start and end with a baseline trial"
    if len(set(blocks)) == 1 and sum(trial.role is not Role.TREATMENT for trial in plan.trials) < 2:
        yield "one block with one baseline trial cannot tell a drift from an effect; add a replicate or sentinels"
