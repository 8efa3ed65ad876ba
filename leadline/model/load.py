"""Names of the load's knobs, a study that varies its load, and the load of one of its trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from leadline.model.knob import Kind, Knob, Level
from leadline.model.shapes import expand

if TYPE_CHECKING:
    from leadline.model.workload import Workload

USERS, RATE = "load.users", "load.rate"
OPEN = ("poisson", "constant")  # arrivals with a rate
_OF = {USERS: "users", RATE: "rate"}  # key of the workload


def is_load(name: str) -> bool:
    """Whether a factor or setting of this name is the load's."""
    return name.startswith("load.")


def filled(study: Any) -> Any:
    """A study that varies or sets its users or its rate needs none in its workload: there the baseline's stand."""
    if not isinstance(study, Mapping):
        return study
    load = study.get("workload", {})
    if not isinstance(load, Mapping):
        return study
    arrivals = expand(load).get("arrivals", "closed")
    rates = {"closed": (USERS,), **dict.fromkeys((*OPEN, "open"), (RATE,))}.get(
        arrivals if isinstance(arrivals, str) else "", ()
    )
    levels = {_OF[name]: _level(study, name) for name in rates if load.get(_OF[name]) is None}
    more = {key: level for key, level in levels.items() if level is not None}
    return {**study, "workload": {**load, **more}} if more else study


def load_at(load: Workload, levels: Mapping[str, Level], knobs: Iterable[Knob]) -> Workload:
    """The load with these levels of its own ``knobs``; other names are left alone."""
    changed: dict[str, Any] = {}
    variables: dict[str, Level] = {}
    for knob in knobs:
        if knob.name not in levels or not is_load(knob.name):
            continue
        key, level = knob.name.partition(".")[2], levels[knob.name]
        if knob.name in _OF:
            changed[key] = level
        else:
            variables[key] = _seconds(float(level)) if knob.kind is Kind.DURATION else level
    if variables:
        changed["variables"] = {**load.variables, **variables}
    return load.model_copy(update=changed) if changed else load


def _seconds(level: float) -> str:
    """As a driver reads it, exactly to the nanosecond."""
    return f"{level:.9f}".rstrip("0").rstrip(".") + "s"


def _level(study: Mapping[str, Any], name: str) -> int | float | None:
    """The baseline's level, where it is a number that the workload could have."""
    tables = [study.get(table) for table in ("baseline", "settings", "factors")]
    for table in tables:
        raw = table.get(name) if isinstance(table, Mapping) else None
        for level in raw if isinstance(raw, list) else [raw]:
            if isinstance(level, int | float) and not isinstance(level, bool) and level > 0:
                return level if name == RATE or level == int(level) else None
    return None
