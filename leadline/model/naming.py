"""How levels and treatments are named, for whoever prints them."""

from __future__ import annotations

from collections.abc import Callable

from leadline.model.bounds import RawLevel
from leadline.model.knob import Level
from leadline.model.plan import Plan, Treatment
from leadline.model.study import Study
from leadline.model.units import parse_duration, parse_size

Describe = Callable[[str, Level], str]


def plain_level(_factor: str, level: Level) -> str:
    """A level without its knob's unit."""
    if isinstance(level, bool):
        return "on" if level else "off"
    return f"{level:g}" if isinstance(level, float) else str(level)


def level_text(study: Study, factor: str, level: Level) -> str:
    """The level as the study file writes it (``512m``), else plainly."""
    for raw in study.factors.get(factor, []):
        if not isinstance(raw, bool) and _means(raw, level):
            return str(raw)
    return plain_level(factor, level)


def describing(study: Study) -> Describe:
    """Writes levels as the study file does."""
    return lambda factor, level: level_text(study, factor, level)


def _means(raw: RawLevel, level: Level) -> bool:
    if isinstance(level, bool):
        return False
    if raw == level:
        return True
    if not isinstance(raw, str) or isinstance(level, str):
        return False
    for parse in (parse_size, parse_duration):
        try:
            if parse(raw) == level:
                return True
        except ValueError:
            continue
    return False


def treatment_name(
    plan: Plan, treatment: Treatment, describe: Describe = plain_level, *, equals: str = "=", baseline: str = "baseline"
) -> str:
    """``baseline``, or the levels that differ from it: ``a=1, b=2``."""
    usual = plan.baseline.as_dict()
    changed = [
        f"{name}{equals}{describe(name, level)}"
        for name, level in treatment.levels
        if name not in usual or usual[name] != level or isinstance(usual[name], bool) != isinstance(level, bool)
    ]
    return ", ".join(changed) or baseline
