"""What a study's conclusion says of its hosts: for whom it holds, and on how many of them a setting wins."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.conclude.wording import MOST, listed, noun, signed
from leadline.model.knob import Level
from leadline.model.naming import Describe
from leadline.model.result import AcrossHosts, Effect, HostEffect, ResponseAnalysis, StudyAnalysis, Verdict

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
