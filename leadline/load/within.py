"""What the limits of a scenario say of a window of its load: how far each is used, and what ended within them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from leadline.load.result import LimitResult
from leadline.load.series import ALL, Outcomes, outcomes_in, recorded, some_seconds
from leadline.model.errors import UsageError, nearest
from leadline.model.result import AtLeast


def limit_sets() -> dict[str, dict[str, dict[str, str]]]:
    """Scenario -> name of the set -> parameter -> level."""
    return tomllib.loads((resources.files("leadline") / "scenarios" / "limits.toml").read_text(encoding="utf-8"))


def limit_set(name: str, scenario: str) -> dict[str, str]:
    """The parameters of a set. Raises UsageError naming those that the scenario has."""
    sets = limit_sets().get(scenario, {})
    if name in sets:
        return sets[name]
    near = nearest(name, list(sets))
    hint = f"sets of {scenario}: {', '.join(sets)}" if sets else f"{scenario} has none: limits are in its file"
    raise UsageError(f"--limits {name}: no set of that name; {f'did you mean {near}?' if near else hint}")


QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
WORST, WITHIN = "limit_use", "within_limits"  # responses
_MS = 1e6  # nanoseconds


@dataclass(frozen=True)
class TypeWithin:
    """One type of transaction. ``within``: successful transactions a second inside the shortest of its limits, of
    ``throughput`` in all; ``uses``: percentile by limit, where there are enough to tell the percentile.
    """

    transaction: str
    throughput: float
    within: float
    uses: dict[str, float]


def within_limits(directory: Path, from_s: float, until_s: float, limits: Sequence[LimitResult]) -> list[TypeWithin]:
    """Every type that was due in the whole seconds inside [from_s, until_s); empty where no percentile is limited."""
    stated: dict[str, list[LimitResult]] = {}
    for limit in limits:
        if limit.measure in QUANTILES:
            stated.setdefault(limit.transaction, []).append(limit)
    if not stated:
        return []
    seconds = some_seconds(from_s, until_s)
    named = outcomes_in(directory, [seconds], None)[0]
    return [
        _type(name, named[name], stated.get(name, []), len(seconds))
        for name in sorted(named)
        if name != ALL and named[name].histogram.get_total_count()
    ]


def responses_of(types: Sequence[TypeWithin]) -> dict[str, float]:
    """The worst use of a limit, and transactions a second within the limits; nothing where there are no limits."""
    if not types:
        return {}
    uses = [use for type_ in types for use in type_.uses.values()]
    return {WITHIN: sum(type_.within for type_ in types), **({WORST: max(uses)} if uses else {})}


def _type(name: str, outcomes: Outcomes, limits: Sequence[LimitResult], seconds: int) -> TypeWithin:
    count = outcomes.histogram.get_total_count()
    uses = {}
    for limit in limits:
        if count * (1 - QUANTILES[limit.measure]) >= 1 - 1e-9:
            value = outcomes.percentile(100 * QUANTILES[limit.measure])
            use = value / limit.bound
            uses[limit.measure] = AtLeast(use) if isinstance(value, AtLeast) else use
    shortest = min((limit.bound for limit in limits), default=None)
    inside = outcomes.ok if shortest is None else _no_longer(outcomes, shortest)
    return TypeWithin(name, outcomes.ok / seconds, inside / seconds, uses)


def _no_longer(outcomes: Outcomes, ms: float) -> int:
    """Successful transactions that took no longer than that."""
    count = sum(count for ns, count in recorded(outcomes.histogram) if ns <= ms * _MS)
    return count if ms < outcomes.unanswered_from else max(0, count - outcomes.unanswered)
