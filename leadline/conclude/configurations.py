"""Names of a study's configurations."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.model.bounds import RawLevel
from leadline.model.knob import Level
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.study import Study


def configuration_names(study: Study, plan: Plan) -> dict[Treatment, str]:
    """The name that the study gives each treatment; empty for designs of another kind."""
    if plan.kind != "configurations":
        return {}
    raws: dict[str, Sequence[RawLevel]] = {**study.factors, **study.pseudo_factors}
    baseline = plan.baseline.as_dict()
    names = {}
    for name, levels in study.design.configurations.items():
        held = dict(baseline)
        for factor in plan.factors:
            if factor.name in levels:
                held[factor.name] = planned_level(factor, raws[factor.name], levels[factor.name])
        names[Treatment.of(held)] = name
    return names


def planned_level(factor: Factor, raws: Sequence[RawLevel], level: RawLevel) -> Level:
    """The level of the plan for one of a file, which stands in the same place among the file's levels."""
    return factor.levels[next(at for at, raw in enumerate(raws) if same_level(raw, level))]


def same_level(one: RawLevel, other: RawLevel) -> bool:
    """Whether two levels of a file are one; a switch is no number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
