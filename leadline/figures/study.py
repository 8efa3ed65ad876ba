"""A study of the lab as a table of results: one factor may play the system."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.analysis.table import response_kind
from leadline.figures.table import Parameter, ResultTable, Run
from leadline.model.errors import BLAMED, UsageError, did_you_mean
from leadline.model.knob import ApplyCost
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation

SYSTEMS = ("kernel", "server", "system")
THIS = "this system"


def system_factor(plan: Plan, wanted: str | None = None) -> Factor | None:
    """The factor that plays the system: the one asked for, else one that needs another kernel or is named so.

    None where the study has one system. Raises UsageError for a name that is no factor.
    """
    names = [factor.name for factor in plan.factors]
    if wanted is not None:
        if wanted not in names:
            hint = did_you_mean(wanted, names) or f"factors: {', '.join(names) or 'none'}"
            raise UsageError(f"--system {wanted}: the study has no such factor; {hint}")
        return plan.factors[names.index(wanted)]
    for factor in plan.factors:
        if factor.apply_cost is ApplyCost.KERNEL or factor.name.rpartition(".")[2] in SYSTEMS:
            return factor
    return None


def table_of(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    system: str | None = None,
    describe: Describe = plain_level,
) -> ResultTable:
    """The table of one response of a study.

    The system factor's levels are the systems; every other factor is a parameter whose default is its baseline level.
    Observations without a figure for the response and without a failure are left out with a note. Raises UsageError
    where nothing is left, or where a parameter never changes inside a block, whole plot or trial with slots.
    """
    chosen = system_factor(plan, system)
    factors = [factor for factor in plan.factors if factor is not chosen]
    names = tuple(describe(chosen.name, level) for level in chosen.levels) if chosen else (THIS,)
    blocks: dict[tuple[int | None, ...], int] = {}
    runs = []
    strange = 0
    for observation in sorted(observations, key=lambda o: (o.position, o.trial, o.slot or 0)):
        levels = observation.treatment.as_dict()
        value = observation.responses.get(response)
        good = observation.failure is None and value is not None and math.isfinite(value)
        valid = all(factor.name in levels and levels[factor.name] in factor.levels for factor in plan.factors)
        if not valid or (observation.failure is None and not good):
            strange += 1
            continue
        place = (observation.block, observation.plot, observation.trial if observation.slot is not None else None)
        runs.append(
            Run(
                system=chosen.levels.index(levels[chosen.name]) if chosen else 0,
                levels=tuple(factor.levels.index(levels[factor.name]) for factor in factors),
                value=float(value) if good and value is not None else None,
                failure=observation.failure.value if observation.failure else "",
                block=blocks.setdefault(place, len(blocks)),
                blamed=observation.failure in BLAMED,
            )
        )
    lost = _never_inside(runs, [factor.name for factor in factors])
    if lost:
        raise UsageError(
            f"{', '.join(lost)} change{'s' if len(lost) == 1 else ''} only between trials or whole plots, others "
            "inside them: the figures set all settings side by side, and these have another noise"
        )
    notes = [f"{strange} trials have no figure of {response} or a treatment the plan does not have; they are left out."]
    return ResultTable(
        response=response_kind(response),
        systems=names,
        parameters=tuple(
            Parameter(
                factor.name,
                tuple(describe(factor.name, level) for level in factor.levels),
                factor.levels.index(factor.baseline),
            )
            for factor in factors
        ),
        runs=tuple(runs),
        notes=tuple(notes) if strange else (),
    )


def _never_inside(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Parameters that have several levels, but only one in each block of each system."""
    lost = []
    for number, name in enumerate(names):
        levels: dict[tuple[int, int], set[int]] = {}
        for run in runs:
            if run.value is not None:
                levels.setdefault((run.system, run.block), set()).add(run.levels[number])
        if len(set().union(*levels.values())) > 1 and all(len(values) == 1 for values in levels.values()):
            lost.append(name)
    return lost
