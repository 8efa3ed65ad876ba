"""Words that conclusions share, and names of configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.model.bounds import RawLevel
from leadline.model.knob import Level
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import AtLeast
from leadline.model.study import Study
from leadline.model.workload import RATE, USERS

MOST = 3  # settings told in full, responses of one setting, names in a list
MINUS = "\u2212"
_NOUN = {"mean": "the mean response time", "max": "the largest response time", "startup": "the start-up time"}


def signed(percent: float) -> str:
    """``+9.1`` or ``−13``, two digits or more."""
    least = ">= " if isinstance(percent, AtLeast) else ""
    return f"{least}{'+' if percent >= 0 else MINUS}{size(abs(percent))}"


def size(value: float) -> str:
    """``13``, ``9.1`` or ``0.4``: two digits or more."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.1g}"


def noun(response: str) -> str:
    """The response as a sentence names it."""
    return _NOUN.get(response, response.replace("_", " "))


def loaded(factor: str, load: str) -> str:
    """A load in a sentence: ``40 users``, ``300 sessions/s`` or ``load.batch 4``."""
    return {USERS: f"{load} users", RATE: f"{load} sessions/s"}.get(factor, f"{factor} {load}")


def listed(parts: Iterable[str], word: str = "and") -> str:
    """``a, b and c``; of many the first ones, and how many more."""
    names = list(parts)
    if len(names) > 2 * MOST:
        names = [*names[: 2 * MOST - 1], f"{len(names) - 2 * MOST + 1} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" {word} " + names[-1]


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
