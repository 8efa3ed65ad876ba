"""Observations of one response, on the scale on which effects are ratios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.scale import Scale, response_kind
from leadline.model.plan import Plan, Role
from leadline.model.result import Observation
from leadline.planning.shape import Floats, Rows, rows_of


@dataclass(frozen=True)
class Readings:
    """Trials with a usable figure: rows of the model, values (n) on the scale, blocks (n)."""

    rows: Rows
    values: Floats
    blocks: tuple[int, ...]
    scale: Scale
    higher_is_better: bool


def usable(observations: Iterable[Observation], response: str) -> list[Observation]:
    """Observations that did not fail and have a finite figure, in the order of the plan."""
    found = [
        each
        for each in observations
        if each.failure is None and each.responses.get(response) is not None and math.isfinite(each.responses[response])
    ]
    return sorted(found, key=lambda each: (each.position, -1 if each.slot is None else each.slot))


def readings_of(plan: Plan, observations: Sequence[Observation], response: str) -> Readings:
    """The readings of a response; treatments the plan's factors do not have are left out."""
    levels = {factor.name: set(factor.levels) for factor in plan.factors}
    kept = [
        each
        for each in usable(observations, response)
        if {name for name, _ in each.treatment.levels} == set(levels)
        and all(level in levels[name] for name, level in each.treatment.levels)
    ]
    kind = response_kind(response)
    values = np.array([each.responses[response] for each in kept], dtype=np.float64)
    baseline = values[[each.treatment == plan.baseline or each.role is Role.SENTINEL for each in kept]]
    scale = Scale(kind.unit != "share" and bool(np.all(values > 0)), float(baseline.mean()) if len(baseline) else 0.0)
    units = [(each.treatment, _group(each)) for each in kept]
    return Readings(
        rows_of(plan, units), scale.into(values), tuple(each.block for each in kept), scale, kind.higher_is_better
    )


def _group(each: Observation) -> int:
    if each.slot is not None:
        return each.position
    return each.block if each.plot is None else each.plot
