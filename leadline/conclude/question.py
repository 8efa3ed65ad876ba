"""What a study asks of each of its factors, and the sentence that answers it in plain words, for a reader who has not
seen the study. The figures with their intervals follow it in the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from leadline.analysis.returns import Returns, is_size
from leadline.analysis.table import response_kind
from leadline.conclude.wording import listed, noun, signed, size
from leadline.model.knob import Level
from leadline.model.naming import Describe
from leadline.model.plan import Factor
from leadline.model.result import AtLeast, Effect, Interval, ResponseAnalysis, Verdict
from leadline.model.units import format_number
from leadline.model.workload import is_load

_VERSIONS = ("version", "commit", "build", "release", "artefact")  # last part of a factor's name
_TIMES = ({"before", "after"}, {"old", "new"})
_COUNTED = ("connections", "threads", "users", "cpus", "workers", "sessions", "processes", "partitions", "consumers")
_MOST = 2  # changes of one setting in a plain sentence
_PLAIN = {
    "p50": "the median response time",
    "startup": "the start-up time",
    "steady_cpu_per_transaction": "CPU per transaction without JIT compilation",
}


class Question(StrEnum):
    """What a factor's levels ask."""

    HOW_LARGE = "how large"  # sizes: three or more numbers
    WHICH_OF = "which of"  # three or more of another kind
    DOES_IT_MATTER = "does it matter"  # two levels
    HOW_FAR = "how far"  # the load
    DID_IT_CHANGE = "did it change"  # two versions of the same


def question_of(factor: Factor) -> Question:
    """The question that a factor's name and levels ask."""
    if is_load(factor.name):
        return Question.HOW_FAR
    if len(factor.levels) > 2:
        return Question.HOW_LARGE if is_size(factor) else Question.WHICH_OF
    last = factor.name.rpartition(".")[2]
    times = {str(level).lower() for level in factor.levels} in _TIMES
    return Question.DID_IT_CHANGE if times or last.endswith(_VERSIONS) else Question.DOES_IT_MATTER


@dataclass(frozen=True)
class Ranking:
    """One response's levels of a factor. ``enough``: shown to be within the margin of the best level; ``short``: shown
    to be worse than it, with the change in percent; ``pairs`` as in :class:`Returns`.
    """

    response: ResponseAnalysis
    best: Level
    enough: tuple[Level, ...]
    short: Mapping[Level, float]
    pairs: Mapping[tuple[Level, Level], tuple[float | None, Interval | None]]

    @property
    def higher(self) -> bool:
        return response_kind(self.response.response).higher_is_better

    def gains_nothing(self, level: Level, other: Level) -> bool:
        """Whether ``level`` is shown to gain less than the margin over ``other``."""
        _, interval = self.pairs.get((level, other), (None, None))
        margin = self.response.margin
        if interval is None or margin is None:
            return False
        return interval.high < margin if self.higher else interval.low > -margin


def ranking(
    response: ResponseAnalysis, factor: Factor, returns: Returns | None, firm: Callable[[Effect], bool]
) -> Ranking:
    """From all pairs of levels where ``returns`` has them, else from the effects against the baseline. ``firm``: if a
    verdict holds beside all others.
    """
    effects = [effect for effect in response.effects if effect.factor == factor.name and effect.percent is not None]
    moved = [effect for effect in effects if effect.verdict in (Verdict.BETTER, Verdict.WORSE) and firm(effect)]
    short = {effect.level: effect.percent or 0.0 for effect in moved if effect.verdict is Verdict.WORSE}
    better = [effect for effect in moved if effect.verdict is Verdict.BETTER]
    best = max(better, key=lambda effect: abs(effect.percent or 0.0), default=None)
    if best is not None:
        ratio = 1 + (best.percent or 0.0) / 100
        short[factor.baseline] = 100 / ratio - 100 if ratio > 0 else math.inf
    differences = [
        factor.baseline,
        *(effect.level for effect in effects),
    ]  # others failed, or too little of them was measured
    if returns is not None and returns.smallest is not None and returns.best in differences and len(differences) > 1:
        steps = {step.level: step for step in returns.steps if step.level in differences}
        losses = {level: step.against_best or 0.0 for level, step in steps.items() if step.short}
        short = short | losses if factor.baseline in losses else losses | short
        enough = tuple(level for level, step in steps.items() if step.enough and level not in short)
        return Ranking(response, returns.best, enough, short, returns.pairs)
    if best is not None:
        return Ranking(response, best.level, (best.level,), short, {})
    same = [effect.level for effect in effects if effect.verdict in (Verdict.EQUIVALENT, Verdict.IDENTICAL)]
    return Ranking(response, factor.baseline, (factor.baseline, *same), short, {})


def _lost(percent: float) -> str:
    return f"{signed(percent)} %" if math.isfinite(percent) else "up from none"


@dataclass(frozen=True)
class Asked:
    """A factor with its levels that gave figures, in order, and their rankings by response. ``name``: its name in a
    sentence.
    """

    factor: Factor
    name: str
    rankings: tuple[Ranking, ...]
    describe: Describe

    @property
    def question(self) -> Question:
        return question_of(self.factor)

    @cached_property
    def levels(self) -> list[Level]:
        seen = {
            effect.level
            for ranking_ in self.rankings
            for effect in ranking_.response.effects
            if self._is_figure(effect)
        }
        levels = [level for level in self.factor.levels if level == self.factor.baseline or level in seen]
        return sorted(levels, key=float) if is_size(self.factor) else levels

    def _is_figure(self, effect: Effect) -> bool:
        return effect.factor == self.factor.name and effect.percent is not None

    @cached_property
    def leading(self) -> list[Ranking]:
        """Responses that tell levels apart, else the first one."""
        return [ranking_ for ranking_ in self.rankings if ranking_.short] or list(self.rankings[:1])

    @cached_property
    def costly(self) -> list[Level]:
        return [level for level in self.levels if any(level in ranking_.short for ranking_ in self.leading)]

    @cached_property
    def good(self) -> list[Level]:
        """Shown to be within the margin of the best level in all responses that tell levels apart."""
        return [
            level
            for level in self.levels
            if level not in self.costly and all(level in ranking_.enough for ranking_ in self.leading)
        ]

    def text(self, level: Level) -> str:
        return self.describe(self.factor.name, level)

    @property
    def counted(self) -> str:
        """The noun of a factor that counts things, else empty."""
        last = self.name.rpartition(" ")[2]
        return last.replace("cpus", "CPUs") if last in _COUNTED else ""

    def sized(self, level: Level) -> str:
        """``10 connections are`` or ``a heap of 512m is``."""
        text = self.text(level)
        if self.counted:
            return f"{text} {self.counted} are" if level != 1 else f"{text} {self.counted[:-1]} is"
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name} of {text} is"

    def costs(self, levels: Sequence[Level]) -> str:
        """``cost throughput (5: −12 %)``: what levels lose against the best, by the first response in which they do."""
        by: dict[str, list[Level]] = {}
        rankings = {ranking_.response.response: ranking_ for ranking_ in self.leading}
        for level in levels:
            by.setdefault(next(name for name, ranking_ in rankings.items() if level in ranking_.short), []).append(
                level
            )
        parts = []
        for name, levels_ in by.items():
            changes = ", ".join(f"{self.text(level)}: {_lost(rankings[name].short[level])}" for level in levels_)
            parts.append(f"{plain(name)} ({changes})")
        return f"hurt {listed(parts)}"

    def best(self, one: Ranking) -> str:
        """The levels that are shown to be as good as the best for one response."""
        return listed((self.text(level) for level in self.levels if level in (one.best, *one.enough)), "or")

    def loss(self, level: Level) -> str:
        """What a level that is not shown to be enough can lose at most; empty where nothing bounds it."""
        (ranking_, *_) = self.leading
        ends = [ranking_.pairs.get((level, other), (None, None))[1] for other in self.levels if other != level]
        if any(end is None for end in ends):
            return ""
        most = max((-end.low if ranking_.higher else end.high) for end in ends if end is not None)
        return (
            f": {self.text(level)} lose{_s(self, [level])} at most {size(most)} % of "
            f"{plain(ranking_.response.response)}"
        )

    @property
    def within(self) -> str:
        names = listed(plain(ranking_.response.response) for ranking_ in self.leading)
        return f"{names} within {self.leading[0].response.margin:g} %"


def plain_sentence(asked: Asked) -> str:
    """What is known of a factor with three levels or more; empty where nothing is."""
    if not asked.costly and asked.good != asked.levels:
        return ""
    if len(asked.costly) == len(asked.levels):
        best = [
            f"{plain(ranking_.response.response)} is best with {asked.best(ranking_)}" for ranking_ in asked.leading
        ]
        return f"No {asked.name} is best for everything: {listed(best)}"
    return _how_large(asked) if asked.question is Question.HOW_LARGE else _which_of(asked)


def _how_large(asked: Asked) -> str:
    fewer, more, s = ("fewer", "more", "") if asked.counted else ("less", "more", "s")
    if not asked.good:
        return _bounds(asked)
    enough = asked.good[0]
    at = asked.levels.index(enough)
    below, above = asked.levels[:at], asked.levels[at + 1 :]
    costly = [[level for level in side if level in asked.costly] for side in (below, above)]
    nothing = [
        level
        for level in above
        if level not in asked.costly and all(ranking_.gains_nothing(level, enough) for ranking_ in asked.leading)
    ]
    parts = [f"{fewer} {_verb(asked.costs(costly[0]), s)}"] if costly[0] else []
    parts += [] if below else [f"{fewer} {'was' if s else 'were'} not tried"]
    if nothing:
        parts.append(f"{more} gain{s} nothing ({asked.within})")
    if costly[1]:
        parts.append(f"{'and' if nothing else more} {_verb(asked.costs(costly[1]), s)}")
    least = [asked.text(level) for level in below if level not in asked.costly]
    most = [asked.text(level) for level in above if level not in (*nothing, *costly[1])]
    whether = [f"whether {listed(least, 'or')} {'is' if s or len(least) == 1 else 'are'} enough"] if least else []
    whether += [f"whether {listed(most, 'or')} gain{'s' if len(most) == 1 else ''}"] if most else []
    parts += [f"{listed(whether)} {'is' if len(whether) == 1 else 'are'} not known"] if whether else []
    if not above and below:
        return f"{_upper(asked.sized(enough))} the best of those tried: {', '.join(parts)}, and {more} may gain yet"
    return f"{_upper(asked.sized(enough))} enough: {', '.join(parts)}"


def _bounds(asked: Asked) -> str:
    """Which levels are shown to be too small or too large, where none is shown to be enough."""
    levels_left = [level for level in asked.levels if level not in asked.costly]
    first, last = asked.levels.index(levels_left[0]), asked.levels.index(levels_left[-1])
    words = ("too few", "too many") if asked.counted else ("too small", "too large")
    parts = []
    for word, side in zip(words, (asked.levels[:first], asked.levels[last + 1 :]), strict=True):
        for level in side:
            parts.append(f"{asked.sized(level)} {word}")
    parts += [f"{asked.sized(level)} worse" for level in asked.levels[first:last] if level in asked.costly]
    s = _s(asked, asked.costly)
    bounds = f"{_upper(listed(parts))}: {'it' if s else 'they'} {_verb(asked.costs(asked.costly), s)}"
    if len(levels_left) == 1:
        return bounds
    return (
        f"{bounds}; which of {listed(asked.text(level) for level in levels_left)} is enough is not "
        f"known{asked.loss(levels_left[0])}"
    )


def _s(asked: Asked, levels: Sequence[Level]) -> str:
    """The ending of a verb of these levels."""
    return "" if len(levels) > 1 or (asked.counted and list(levels) != [1]) else "s"


def _which_of(asked: Asked) -> str:
    levels_left = [level for level in asked.levels if level not in asked.costly]
    names = [asked.text(level) for level in levels_left]
    if not asked.costly:
        return f"It makes no difference which {asked.name}: {listed(names)} are equal ({asked.within})"
    is_single = len(asked.costly) == 1
    others = asked.text(asked.costly[0]) if is_single else "the others"
    costs = f"{others} {_verb(asked.costs(asked.costly), 's' if is_single else '')}"
    if len(levels_left) == 1:
        return f"The best {asked.name} is {names[0]}: {costs}"
    if asked.good == levels_left:
        return f"The best {asked.name}s are {listed(names)}, which are equal ({asked.within}): {costs}"
    return f"The best {asked.name} is {listed(names, 'or')}, and which of them is not known: {costs}"


def plain_change(asked: Asked, setting: Sequence[tuple[ResponseAnalysis, Effect]]) -> str:
    """What the level that is not the baseline's does, of a factor with two. ``setting``: its changes that hold."""
    effect = setting[0][1]
    level, baseline = asked.text(effect.level), asked.text(effect.baseline)
    gains, losses = (
        [_change(response, effect) for response, effect in setting if effect.verdict is verdict][:_MOST]
        for verdict in (Verdict.BETTER, Verdict.WORSE)
    )
    if asked.question is Question.DID_IT_CHANGE:
        head = f"{_upper(asked.name)} {level}"
        verb = ("is better than", "is worse than", "is a trade-off against")
        heads = [f"{head} {word} {baseline}" for word in verb]
    else:
        head = instead(asked, effect)
        heads = [f"{head} helps", f"{head} hurts", f"{head} is a trade-off"]
    if gains and losses:
        return f"{heads[2]}: {listed(gains)}, but {listed(losses)}"
    return f"{heads[0] if gains else heads[1]}: {listed(gains or losses)}"


def instead(asked: Asked, effect: Effect) -> str:
    """``Statement cache 0 instead of 60``."""
    return f"{_upper(asked.name)} {asked.text(effect.level)} instead of {asked.text(effect.baseline)}"


def _change(one: ResponseAnalysis, effect: Effect) -> str:
    """``the median response time is 46 % longer (0.86 ms instead of 0.59 ms)``."""
    if effect.percent is None:
        return f"{plain(one.response)}: {effect.reason}"
    kind = response_kind(one.response)
    more, less = ("longer", "shorter") if kind.unit in ("ms", "s") and "cpu" not in kind.name else ("higher", "lower")
    least = "at least " if isinstance(effect.percent, AtLeast) else ""
    text = f"{plain(one.response)} is {least}{size(abs(effect.percent))} % {more if effect.percent > 0 else less}"
    if not one.baseline_mean or one.baseline_mean < 0:
        return text
    unit = f" {kind.unit}" if kind.unit not in ("share", "ratio", "") else ""
    now = one.baseline_mean * (1 + effect.percent / 100)
    now_text = format_number(AtLeast(now) if least else now)
    return f"{text} ({now_text} instead of {format_number(one.baseline_mean)}{unit})"


def unknown(asked: Sequence[Asked]) -> list[str]:
    """What a study asked that nothing answers, in a sentence."""
    if len(asked) != 1:
        return [f"Not known: whether {listed((question.name for question in asked), 'or')} matters"] if asked else []
    (question,) = asked
    first, *rest = (question.text(level) for level in (question.factor.baseline, *question.factor.levels))
    if question.question is Question.HOW_LARGE:
        what = (
            f"how many {question.counted} are enough" if question.counted else f"how large a {question.name} is enough"
        )
    elif question.question is Question.WHICH_OF:
        what = f"which {question.name} is best"
    elif question.question is Question.DID_IT_CHANGE:
        what = f"whether {question.name} {next(level for level in rest if level != first)} differs from {first}"
    else:
        what = (
            f"whether {question.name} {next((level for level in rest if level != first), first)} instead of "
            f"{first} matters"
        )
    return [f"Not known: {what}"]


def plain(response: str) -> str:
    """The response in plain words."""
    if response in _PLAIN:
        return _PLAIN[response]
    if response in ("p90", "p95", "p99", "p999"):
        return f"the {response} response time"
    return noun(response).replace("cpu", "CPU").replace("gc ", "GC ")


def plain_names(factors: Sequence[Factor]) -> dict[str, str]:
    """Names of factors in a sentence: the last part, in words, where that is no other factor's."""
    last = {factor.name: _last(factor.name).replace("_", " ") for factor in factors}
    short = {name: text.removeprefix("max ").removeprefix("min ") for name, text in last.items()}
    short = {name: text if text in _COUNTED else last[name] for name, text in short.items()}
    names = dict[str, str]()
    for name in last:
        alone = [text[name] for text in (short, last) if list(text.values()).count(text[name]) == 1]
        names[name] = next(iter(alone), name)
    return names


def _last(name: str) -> str:
    """``max threads`` of ``server.threads.max``."""
    *_, before, last = ["", *name.split(".")]
    return f"{last} {before}" if last in ("max", "min") and before else last


def _verb(phrase: str, s: str) -> str:
    """``hurt throughput`` or ``hurts throughput``."""
    verb, _, rest = phrase.partition(" ")
    return f"{verb}{s} {rest}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
