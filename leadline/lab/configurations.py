"""Names of a study's configurations."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.model.plan import Plan, Treatment
from leadline.model.study import RawLevel, Study


def configuration_names(study: Study, plan: Plan) -> dict[Treatment, str]:
    """The name that the study gives each treatment; empty for designs of another kind."""
    if plan.kind != "configurations":
        return {}
    raws: dict[str, Sequence[RawLevel]] = {**study.factors, **study.pseudo_factors}
    baseline = plan.baseline.as_dict()
    found = {}
    for name, levels in study.design.configurations.items():
        held = dict(baseline)
        for factor in plan.factors:
            if factor.name in levels:
                at = next(i for i, raw in enumerate(raws[factor.name]) if same_level(raw, levels[factor.name]))
                held[factor.name] = factor.levels[at]
        found[Treatment.of(held)] = name
    return found


def same_level(one: RawLevel, other: RawLevel) -> bool:
    """Whether two levels of a file are one; a switch is no number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
