"""Factors that only ever change together, as one factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leadline.model.knob import ApplyCost
from leadline.model.naming import Describe, plain_level, treatment_name
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import Observation

WHOLE = ("confirmation", "configurations")  # kinds that compare settings of all factors as wholes
SETTING = "setting"  # name of the factor that stands for all
_DEAREST = tuple(reversed(ApplyCost))


def as_one_factor(
    plan: Plan,
    observations: Sequence[Observation] = (),
    describe: Describe = plain_level,
    named: Mapping[Treatment, str] | None = None,
) -> tuple[Plan, list[Observation]]:
    """Plan and observations of a confirmation, or of configurations, with one factor in place of several; any other
    plan as it is. ``named``: names of treatments; the levels that differ from the baseline name the others.
    """
    if plan.kind not in WHOLE or len(plan.factors) < 2:
        return plan, list(observations)
    used = [slot.treatment for trial in plan.trials for slot in trial.slots]
    used += [trial.treatment for trial in plan.trials]
    every = dict.fromkeys([plan.baseline, *used])
    names = {
        treatment: (named or {}).get(treatment) or treatment_name(plan, treatment, describe) for treatment in every
    }

    def one(treatment: Treatment) -> Treatment:
        return Treatment.of({SETTING: names.get(treatment, "unknown")})

    cost = next(cost for cost in _DEAREST if any(factor.apply_cost is cost for factor in plan.factors))
    levels = tuple(dict.fromkeys(names.values()))
    factor = Factor(SETTING, levels, names[plan.baseline], all(factor.pseudo for factor in plan.factors), cost)
    trials = tuple(
        replace(
            trial,
            treatment=one(trial.treatment),
            slots=tuple(replace(slot, treatment=one(slot.treatment)) for slot in trial.slots),
        )
        for trial in plan.trials
    )
    return replace(plan, factors=(factor,), trials=trials), [
        replace(observation, treatment=one(observation.treatment)) for observation in observations
    ]
