"""Words that conclusions share, names of configurations, and for which hosts a conclusion holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.model.bounds import RawLevel
from leadline.model.knob import Level
from leadline.model.naming import Describe
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import AcrossHosts, AtLeast, Effect, HostEffect, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.model.study import Study
from leadline.model.units import MINUS
from leadline.model.workload import RATE, USERS

MOST = 3  # settings told in full, responses of one setting, names in a list
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


_OPPOSITE = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}


def scope_of_hosts(analysis: StudyAnalysis) -> str:
    """For which hosts the intervals hold; empty on one host."""
    across = next((response.across_hosts for response in analysis.responses if response.across_hosts is not None), None)
    if across is None:
        return ""
    count = len(across.hosts)
    return f"On average over hosts like these {count}" if across.random else f"On these {count} hosts, not others"


def on_hosts(analysis: StudyAnalysis, describe: Describe) -> list[str]:
    """A sentence for each setting with a verdict, of its first response that has one: on how many hosts it holds. Then
    one for each setting that loses on a host what it keeps on the mean.
    """
    sentences: dict[tuple[str, Level], str] = {}
    losses: dict[tuple[str, Level], str] = {}
    for response in analysis.responses:
        for effect in response.effects if response.across_hosts is not None else ():
            setting = (effect.factor, effect.level)
            if effect.verdict in _OPPOSITE:
                sentences.setdefault(setting, _wins(response, effect, describe))
            elif text := _loses(response, effect, describe):
                losses.setdefault(setting, text)
    return [*list(sentences.values())[:MOST], *list(losses.values())[:MOST]]


def holding(across: AcrossHosts, effect: Effect, verdict: Verdict) -> list[HostEffect]:
    """The hosts on which a level has a verdict."""
    return [effect_ for effect_ in across.of(effect.factor, effect.level) if effect_.verdict is verdict]


def _wins(one: ResponseAnalysis, effect: Effect, describe: Describe) -> str:
    assert one.across_hosts is not None
    same, other = (holding(one.across_hosts, effect, kind) for kind in (effect.verdict, _OPPOSITE[effect.verdict]))
    measured = [effect_ for effect_ in one.across_hosts.of(effect.factor, effect.level) if effect_.percent is not None]
    verb, against = ("wins", "loses") if effect.verdict is Verdict.BETTER else ("loses", "wins")
    name, what = f"{effect.factor}={describe(effect.factor, effect.level)}", noun(one.response)
    text = f"Host by host {name} {verb} on {len(same)} of {len(measured)} ({what})"
    return text + (f", but {against} on {_places(other)}" if other else "")


def _loses(one: ResponseAnalysis, effect: Effect, describe: Describe) -> str:
    """A level without a verdict on the mean that is worse on a host; empty where it is on none."""
    assert one.across_hosts is not None
    lost = holding(one.across_hosts, effect, Verdict.WORSE)
    name = f"{effect.factor}={describe(effect.factor, effect.level)}"
    return f"Host by host {name} loses on {_places(lost)} ({noun(one.response)})" if lost else ""


def _places(found: Sequence[HostEffect]) -> str:
    """``app3, −6.1 % [−9, −3]``, the first ones."""
    return listed(f"{place.host or 'this host'}, {_change(place)}" for place in found)


def _change(effect: HostEffect) -> str:
    if effect.percent is None:
        return effect.reason
    wide = effect.simultaneous
    return f"{signed(effect.percent)} %" + ("" if wide is None else f" [{signed(wide.low)}, {signed(wide.high)}]")
