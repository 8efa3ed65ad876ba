"""The answer of a study: its question in plain words, what matters over all its responses, by how much, at which cost,
and what stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.analysis.contrasts import Change
from leadline.analysis.returns import Returns
from leadline.analysis.selection import Key, claim_key, claimed
from leadline.analysis.table import response_kind
from leadline.conclude.explanation import told_frames, told_waits
from leadline.conclude.loads import of_loads
from leadline.conclude.question import (
    Asked,
    Question,
    instead,
    plain_change,
    plain_names,
    plain_sentence,
    ranking,
    unknown,
)
from leadline.conclude.wording import MOST, listed, noun, on_hosts, scope_of_hosts, signed, size
from leadline.design.kinds import KINDS
from leadline.design.properties import Mixed, describe_design
from leadline.model.errors import BLAMED
from leadline.model.judgement import NO_ANSWER, Judgement
from leadline.model.naming import Describe
from leadline.model.plan import Factor, Plan
from leadline.model.record import StudyRecord
from leadline.model.result import Effect, Interaction, ResponseAnalysis, Scope, StudyAnalysis, Verdict
from leadline.model.units import format_duration
from leadline.model.workload import is_load

SIMULATED = "SIMULATED: "  # before the answer of a study on a simulated host
_WHOLE, _SHARE = 0.99, 0.2  # of an interaction in a main effect: all of it; worth a word
_TOLD = (Verdict.BETTER, Verdict.WORSE)
_SAME = (Verdict.EQUIVALENT, Verdict.IDENTICAL)


@dataclass(frozen=True)
class Facts:
    """What the answer needs to know of a study beside its analysis. ``factors``: those that were analysed; ``returns``:
    levels of those with three or more against each other. ``seconds``: wall time of a trial, as it ran.
    """

    describe: Describe
    judgement: Judgement
    seconds: float | None = None
    load: float = 0.0  # seconds of a trial's load up to its end
    loads: tuple[str, ...] = ()  # of a study that varies its load alone: sentences that tell how far it goes
    factors: tuple[Factor, ...] = ()
    returns: tuple[Returns, ...] = ()
    repeated: bool = False  # several analyses: only adjusted p values hold
    claims: frozenset[Key] = frozenset()  # made by ``answer``
    mixed: Mapping[str, Sequence[Mixed]] = field(default_factory=dict)  # interactions in each factor's main effect

    @classmethod
    def of(
        cls,
        record: StudyRecord,
        judgement: Judgement,
        describe: Describe,
        factors: Sequence[Factor] = (),
        returns: Sequence[Returns] = (),
    ) -> Facts:
        return cls(
            describe,
            judgement,
            seconds=record.seconds_per_trial,
            load=record.study.workload.before_steady + record.study.workload.steady,
            loads=tuple(of_loads(record, describe)),
            factors=tuple(factors),
            returns=tuple(returns),
            repeated=record.study.design.looked_at,
            mixed=_mixed(record.plan),
        )


def _mixed(plan: Plan) -> dict[str, Sequence[Mixed]]:
    """Interactions of two factors that each main effect holds a share of, in a design that cannot tell them apart."""
    if plan.kind not in KINDS or not KINDS[plan.kind].screening:
        return {}
    return {main.name: main.aliases for main in describe_design(plan).mains if main.aliases}


@dataclass(frozen=True)
class _Setting:
    """A level that is not its factor's baseline, with its effect on every response that was analysed."""

    name: str
    effects: tuple[tuple[ResponseAnalysis, Effect], ...]

    @property
    def is_load(self) -> bool:
        """No setting to choose: more load neither helps nor hurts."""
        return is_load(self.effects[0][1].factor)

    def of(self, *verdicts: Verdict) -> list[tuple[ResponseAnalysis, Effect]]:
        return [(pair, effect) for pair, effect in self.effects if effect.verdict in verdicts]

    def where(self, holds: bool, facts: Facts) -> _Setting:
        """Of the changes only those that hold beside all others, or only those that do not."""
        pairs = [pair for pair in self.effects if pair[1].verdict not in _TOLD or _holds(pair[1], facts) is holds]
        return _Setting(self.name, tuple(pairs))


@dataclass(frozen=True)
class Answer:
    """``text``: the conclusion in a line. ``head``: its beginning, up to the sentence that answers the question.
    ``caveats``: its sentences that limit it, without their stops.
    """

    text: str
    head: str
    caveats: tuple[str, ...] = ()


def answer(analysis: StudyAnalysis, facts: Facts) -> Answer:
    """The question's answer in plain words, then the figures: the first response leads only where it has something to
    say. What puts the figures in doubt comes before them, what was taken out of them or hardly touched them after them.
    """
    judgement, facts = facts.judgement, replace(facts, claims=claimed(analysis, facts.repeated))
    simulated = SIMULATED if analysis.simulated else ""
    if judgement.standing == NO_ANSWER:
        return Answer(f"{simulated}{judgement.sentence}.", f"{simulated}{judgement.sentence}.")
    sentences = [judgement.sentence] if judgement.sentence else []
    others = analysis.disturbance
    disturbed = [others.sentence.removesuffix(".")] if others is not None and others.found else []
    last = others is not None and others.found and (others.taken_out or others.slight)
    if not last:
        sentences += disturbed
    scopes = {effect.scope for response in analysis.responses for effect in response.effects}
    if Scope.THIS_INSTANCE in scopes:
        sentences.append("Of this server instance alone, as no other was started")
    if Scope.THIS_WORLD in scopes:
        sentences.append("Of one world alone: differences without intervals, which another world may not show")
    settings, first = _settings(analysis, facts.describe), len(sentences) + 1
    caveats: list[str] = []
    if analysis.confirmations:
        sentences += [confirmation.sentence.removesuffix(".") for confirmation in analysis.confirmations]
        sentences += _elsewhere(analysis, settings, facts)
    elif not analysis.responses:
        sentences.append("The study has no response to analyse")
    elif judgement.figures:
        (found, caveats), hosts = _findings(analysis, facts, settings), scope_of_hosts(analysis)
        sentences += [f"{hosts}: {found[0]}", *found[1:]] if hosts and found else found
    if last:
        sentences += disturbed
    if analysis.profile is not None and judgement.figures:
        sentences += [level.sentence.removesuffix(".") for level in told_frames(analysis.profile)]
    if analysis.waits is not None and judgement.figures:
        sentences += [level.sentence.removesuffix(".") for level in told_waits(analysis.waits)]
    text, head = (simulated + ". ".join(part) + "." for part in (sentences, sentences[:first]))
    return Answer(text, head, tuple(caveats))


def _settings(analysis: StudyAnalysis, describe: Describe) -> list[_Setting]:
    pairs: dict[tuple[str, str], list[tuple[ResponseAnalysis, Effect]]] = {}
    for response in analysis.responses:
        for effect in response.effects:
            pairs.setdefault((effect.factor, describe(effect.factor, effect.level)), []).append((response, effect))
    return [_Setting(f"{factor}={level}", tuple(effects)) for (factor, level), effects in pairs.items()]


def _findings(analysis: StudyAnalysis, facts: Facts, settings: Sequence[_Setting]) -> tuple[list[str], list[str]]:
    """All sentences, and those of them that limit what the others say."""
    silent = [response for response in analysis.responses if response.reason and not _judged(response)]
    if len(silent) == len(analysis.responses):
        return [*_of_failures(settings), *_nothing(silent)], []
    if facts.loads:
        return [*facts.loads, *_of_cold(facts), *_of_failures(settings)], list(facts.loads[1:])
    first = analysis.responses[0]
    questions = _asked(analysis, facts)
    settings_moved = [setting for setting in settings if setting.of(*_TOLD)]
    moved = [firm for setting in settings_moved if (firm := setting.where(True, facts)).of(*_TOLD)]
    moved.sort(key=lambda one: (one.is_load, first.response not in _names(one.of(*_TOLD)), -_largest(one.of(*_TOLD))))
    plain = _plain(questions, moved, analysis, facts)
    failures = _of_failures(settings)
    open_ = {effect.factor for effect in first.effects if effect.verdict not in _SAME}
    if not plain and open_ >= {effect.factor for effect in first.effects}:
        known = {effect.factor for effect in first.effects if effect.verdict is Verdict.FAILED}
        asked = [one for one in questions if one.question is not Question.HOW_FAR and one.factor.name not in known]
        plain, failures = [*failures, *unknown(asked)], []
    plain += [_matters(setting, first, analysis, facts) for setting in moved[:MOST]]
    plain += on_hosts(analysis, facts.describe)
    if len(moved) > MOST:
        plain.append(f"Changed as well: {listed(setting.name for setting in moved[MOST:])}")
    plain += _of_cold(facts) if moved else []
    plain += (shared := _shared(moved, facts))
    plain += (luck := _luck(moved))
    plain += [text for text in _of_interactions(analysis, facts) if text not in plain]
    plain += failures
    plain += (perhaps := _perhaps(settings_moved, analysis, facts))
    still = [setting for setting in settings if setting not in settings_moved]
    if len(questions) == 1 and len(questions[0].factor.levels) == 2:
        still = [_Setting(instead(questions[0], setting.effects[0][1]), setting.effects) for setting in still]
    plain += _same(analysis, still)
    plain += (unknown_ := _open(analysis, facts, settings, bool(settings_moved)))
    plain += _nothing(
        [response for response in silent if response.baseline_mean != 0]
    )  # no error in any trial is no news
    return plain, [*shared, *luck, *perhaps, *unknown_]


def _asked(analysis: StudyAnalysis, facts: Facts) -> list[Asked]:
    names = plain_names(facts.factors)
    returns = {(returns.factor, returns.response): returns for returns in facts.returns}
    judged = [response for response in analysis.responses if not response.reason or _judged(response)]
    questions = []
    for factor in facts.factors:
        ranked = tuple(
            ranking(one, factor, returns.get((factor.name, one.response)), lambda effect: _holds(effect, facts))
            for one in judged
        )
        questions.append(Asked(factor, names[factor.name], ranked, facts.describe))
    return questions


def _plain(asked: Sequence[Asked], moved: Sequence[_Setting], analysis: StudyAnalysis, facts: Facts) -> list[str]:
    """A sentence for each factor of which something is known: those that move most first, at most three."""
    by_factor = {setting.effects[0][1].factor: setting for setting in reversed(moved)}
    order = [setting.effects[0][1].factor for setting in moved]
    sentences = []
    for one in sorted(asked, key=lambda one: order.index(one.factor.name) if one.factor.name in order else len(order)):
        setting = by_factor.get(one.factor.name)
        if one.question is Question.HOW_FAR or not one.rankings:
            continue
        joint = [pair.sentence for pair in _interactions(analysis, facts) if one.factor.name in pair.factors]
        if joint:
            sentences.append(joint[0])
        elif len(one.factor.levels) > 2:
            sentences.append(plain_sentence(one))
        elif setting is not None:
            sentences.append(plain_change(one, setting.of(*_TOLD)) + _or_together(one.factor, facts))
    return list(dict.fromkeys(text for text in sentences if text))[:MOST]


def _or_together(factor: Factor, facts: Facts) -> str:
    """What else may be the whole of a factor's main effect."""
    pairs = [mixed.effect.split(" x ") for mixed in facts.mixed.get(factor.name, ()) if abs(mixed.weight) > _WHOLE]
    if not pairs:
        return ""
    names = plain_names(facts.factors)
    first = " and ".join(names[name] for name in pairs[0])
    more = f", or one of {len(pairs) - 1} others" if len(pairs) > 1 else ""
    return f"; or the interaction of {first} does{more}: this design aliases them"


def _shared(moved: Sequence[_Setting], facts: Facts) -> list[str]:
    """Where changes may be those of interactions."""
    factors = {setting.effects[0][1].factor for setting in moved}
    weights = [abs(mixed.weight) for name in factors for mixed in facts.mixed.get(name, ())]
    if max(weights, default=0.0) < _SHARE:
        return []
    aliased = max(weights) > _WHOLE
    share = (
        "are aliased with two-factor interactions" if aliased else f"hold up to {max(weights):.2f} of an interaction"
    )
    return [f"Main effects {share}: a higher resolution, a foldover or full-factorial tells them apart"]


def _holds(effect: Effect, facts: Facts) -> bool:
    """Whether a verdict holds beside those on all other responses: at most 5 in 100 answers have a false one."""
    return effect.p_adjusted is None or claim_key(effect) in facts.claims


def _perhaps(settings: Sequence[_Setting], analysis: StudyAnalysis, facts: Facts) -> list[str]:
    """What differs among the comparisons of its own response, and not when all responses are taken together."""
    weak = [(setting.name, setting.where(False, facts).of(*_TOLD)) for setting in settings]
    names = [f"{name} ({_changes(effects)})" for name, effects in weak if effects]
    if not names:
        return []
    names_text = listed(names if len(names) <= MOST else [*names[:MOST], f"{len(names) - MOST} more"])
    responses = _count(len(analysis.responses), "response")
    return [
        f"Not significant after correction for all comparisons of {responses}: {names_text}; fresh trials would tell"
    ]


def _of_cold(facts: Facts) -> list[str]:
    """Where most trials ended cold, what they tell is not what a server does that has run for long."""
    cold, done = facts.judgement.cold, facts.judgement.done
    if not cold or 2 * cold < done:
        return []
    sentence = f"In {cold} of {_count(done, 'trial')} the server was still warming up"
    return [f"{sentence}: this holds for its first {format_duration(facts.load)}, and a longer ramp_up tells of later"]


def _judged(one: ResponseAnalysis) -> bool:
    return any(effect.verdict not in (Verdict.UNDETERMINED, Verdict.FAILED) for effect in one.effects)


def _matters(setting: _Setting, first: ResponseAnalysis, analysis: StudyAnalysis, facts: Facts) -> str:
    """``a=1 helps: throughput +9 % [+5, +13], at the cost of p99 +40 % [+31, +50]``. What the first response loses is
    told first, whatever others gain. Where the effect depends on other factors it is the mean over their levels.
    """
    gains, losses = setting.of(Verdict.BETTER), setting.of(Verdict.WORSE)
    if setting.is_load:
        text = f"{setting.name} changes {_changes(setting.of(*_TOLD))}"
    elif gains and first.response in _names(losses):
        text = f"{setting.name} hurts: {_changes(losses)}; it gains {_changes(gains)}"
    elif gains and losses:
        text = f"{setting.name} helps: {_changes(gains)}; at the cost of {_changes(losses)}"
    else:
        text = f"{setting.name} {'helps' if gains else 'hurts'}: {_changes(gains or losses)}"
    if others := _partners(setting, analysis, facts):
        text += f", averaged over the levels of {listed(others)}"
    same = [response for response, _ in setting.of(Verdict.EQUIVALENT) if response is first]
    return text + (f"; {noun(first.response)} stays within {first.margin:g} %" if same else "")


def _partners(setting: _Setting, analysis: StudyAnalysis, facts: Facts) -> list[str]:
    """Factors on whose levels the setting's effects depend."""
    effect = setting.effects[0][1]
    pairs = _interactions(analysis, facts)
    both = [
        (pair.factors, pair.factors[side]) for pair in pairs for side in (0, 1) if pair.levels[side] == effect.level
    ]
    own_pairs = [names for names, factor in both if factor == effect.factor]
    return list(dict.fromkeys(name for names in own_pairs for name in names if name != effect.factor))


def _changes(found: Sequence[tuple[ResponseAnalysis, Effect]]) -> str:
    return changes([(response.response, effect) for response, effect in found])


def changes(found: Sequence[tuple[str, Effect | Change]]) -> str:
    """``throughput +9 % [+5, +13], p99 +40 % [+31, +50]``: responses, changes, simultaneous intervals."""
    parts = []
    for response, change in found[:MOST]:
        if change.percent is None:
            parts.append(f"{noun(response)} ({change.reason})")
            continue
        wide = change.simultaneous
        interval = f" [{signed(wide.low)}, {signed(wide.high)}]" if wide is not None else ""
        parts.append(f"{noun(response)} {signed(change.percent)} %{interval}")
    rest = len(found) - MOST
    return ", ".join(parts) + (f" and {_count(rest, 'more response')}" if rest > 0 else "")


def _luck(moved: Sequence[_Setting]) -> list[str]:
    """What a chosen gain must be held against: the expected maximum where nothing helps."""
    gains = [pair for setting in moved if not setting.is_load for pair in setting.of(Verdict.BETTER)]
    if not gains:
        return []
    first = gains[0][0]
    if first.luck is None or first.luck.comparisons < 2:
        return ["Confirm the gain by fresh trials"]
    return [
        f"Confirm the gain by fresh trials: luck alone would give the best of {first.luck.comparisons} about "
        f"{size(first.luck.expected_gain)} % of {noun(first.response)}"
    ]


def _of_interactions(analysis: StudyAnalysis, facts: Facts) -> list[str]:
    sentences: dict[tuple[object, ...], str] = {}
    for pair in _interactions(analysis, facts):
        sentences.setdefault((*pair.factors, *pair.levels), pair.sentence)
    return list(sentences.values())[:MOST]


def _interactions(analysis: StudyAnalysis, facts: Facts) -> list[Interaction]:
    every = [pair for response in analysis.responses for pair in response.interactions]
    return [pair for pair in every if pair.sentence and _holds(pair, facts)]


def _of_failures(settings: Sequence[_Setting]) -> list[str]:
    """Settings without a figure: by their own doing, or by what judges no setting."""
    failed = [setting for setting in settings if setting.effects[0][1].verdict is Verdict.FAILED]
    lost = [
        setting
        for setting in settings
        if setting not in failed and 0 < setting.effects[0][1].trials == setting.effects[0][1].failures
    ]
    sentences = (
        [f"Every trial of {listed(setting.name for setting in failed)} failed ({_classes(failed)})"] if failed else []
    )
    return sentences + [f"{setting.name} has no figure: {setting.effects[0][1].reason}" for setting in lost]


def _classes(failed: Sequence[_Setting]) -> str:
    reasons = [setting.effects[0][1].reason for setting in failed]
    return ", ".join(kind.value for kind in BLAMED if any(kind.value in reason for reason in reasons))


def _same(analysis: StudyAnalysis, still: Sequence[_Setting]) -> list[str]:
    """``b=2 and c=3 make no difference to throughput (within 2 %)``, responses with the same settings together."""
    groups = _by_settings(analysis, still, Verdict.EQUIVALENT)
    sentences = []
    for names, responses in _by_settings(analysis, still, Verdict.IDENTICAL):
        every = len(responses) == len(analysis.responses)
        what = "nothing" if every else f"nothing of {listed(noun(response.response) for response in responses)}"
        verb = "changes" if len(names) == 1 else "change"
        sentences.append(f"{listed(names)} {verb} {what}, to the last digit in every world")
    for names, responses in groups:
        every = len(responses) == len(analysis.responses)
        what = (
            "" if every and len(responses) > 1 else f" to {listed(noun(response.response) for response in responses)}"
        )
        verb = "makes" if len(names) == 1 else "make"
        sentences.append(f"{listed(names)} {verb} no difference{what} (within {responses[0].margin:g} %)")
    return sentences[:MOST]


def _open(analysis: StudyAnalysis, facts: Facts, settings: Sequence[_Setting], moved: bool) -> list[str]:
    """What is inconclusive, and what it would take."""
    judged = [
        setting for setting in settings if setting.of(*Verdict) and setting.effects[0][1].verdict is not Verdict.FAILED
    ]
    groups = _by_settings(analysis, judged, Verdict.UNDETERMINED)
    if not groups:
        return []
    every = len(groups) == 1 and len(groups[0][0]) == len(settings) and not moved
    if every and len(groups[0][1]) == len(analysis.responses):
        text = (
            f"No change of {listed((noun(group.response) for group in groups[0][1]), 'or')} is distinguishable "
            "from noise"
        )
        return [text + _takes(groups[0][1], facts), *_best_of_rest(analysis.responses[0], facts.describe)]
    takes = _takes([one for _, many in groups for one in many], facts)
    if len(groups) > 1 and not any(one.of(Verdict.EQUIVALENT) for one in judged):
        known = moved or any(one.of(Verdict.IDENTICAL) for one in judged)
        return [("All else" if known else "Everything") + f" is inconclusive{takes}"]
    parts = []
    for names, responses in groups:
        who = "all settings" if len(names) == len(settings) > 1 else listed(names)
        parts.append(f"{listed(noun(response.response) for response in responses)} of {who}")
    return [f"Not known: {'; '.join(parts[:MOST])}" + takes]


def _takes(responses: Iterable[ResponseAnalysis], facts: Facts) -> str:
    """What the design detects, and what half of that costs: four times the trials, less where these add degrees of
    freedom to few.
    """
    detectables = {response.response: response.detectable for response in responses if response.detectable is not None}
    if not detectables:
        return ""
    least = {
        name: f"{size(percent)} %" if percent <= 100 else "more than 100 %" for name, percent in detectables.items()
    }
    needs = listed(f"{percent} of {noun(name)}" for name, percent in least.items())
    trials = 4 * (facts.judgement.done or facts.judgement.trials)
    time = "" if facts.seconds is None else f", about {format_duration(trials * facts.seconds)}"
    return f". This design detects changes of {needs} (80 % power); half of that takes at most {trials} trials{time}"


def _best_of_rest(one: ResponseAnalysis, describe: Describe) -> list[str]:
    """What to think of the best level where nothing was found."""
    if one.luck is None or len(one.effects) < 2 or one.effects[0].percent is None:
        return []
    best = one.effects[0]
    percent = best.percent or 0.0
    gain = percent if response_kind(one.response).higher_is_better else -percent
    if gain <= 0:
        return []
    more = "more" if gain > one.luck.gain_95 else "no more"
    return [
        f"The best level, {best.factor}={describe(best.factor, best.level)} ({noun(one.response)} {signed(percent)} "
        f"%), gains {more} than luck may give the best of {one.luck.comparisons} ({size(one.luck.expected_gain)} % on "
        f"average, up to {size(one.luck.gain_95)} %)"
    ]


def _nothing(silent: Sequence[ResponseAnalysis]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for response in silent:
        reasons.setdefault(response.reason, []).append(noun(response.response))
    return [f"Nothing can be said about {listed(names)}: {reason}" for reason, names in reasons.items()]


def _elsewhere(analysis: StudyAnalysis, settings: Sequence[_Setting], facts: Facts) -> list[str]:
    """What a confirmed setting does to the other responses."""
    confirmed = {confirmation.response for confirmation in analysis.confirmations}
    sentences, others = [], []
    for setting in settings:
        others.append(
            _Setting(setting.name, tuple(pair for pair in setting.effects if pair[0].response not in confirmed))
        )
        if firm := others[-1].where(True, facts).of(*_TOLD):
            who = f" of {setting.name}" if len(settings) > 1 else ""
            sentences.append(f"Elsewhere{who}: {_changes(firm)}")
    return sentences + _perhaps(others, analysis, facts)


def _by_settings(
    analysis: StudyAnalysis, settings: Sequence[_Setting], verdict: Verdict
) -> list[tuple[list[str], list[ResponseAnalysis]]]:
    """Names of the settings with the verdict, with the responses for which they are these."""
    names_by_responses: dict[tuple[str, ...], list[ResponseAnalysis]] = {}
    for response in analysis.responses:
        if response.reason and not _judged(response):
            continue
        names = tuple(setting.name for setting in settings if response.response in _names(setting.of(verdict)))
        if names:
            names_by_responses.setdefault(names, []).append(response)
    return [(list(names), responses) for names, responses in names_by_responses.items()]


def _names(found: Iterable[tuple[ResponseAnalysis, Effect]]) -> list[str]:
    return [response.response for response, _ in found]


def _largest(found: Iterable[tuple[ResponseAnalysis, Effect]]) -> float:
    return max((abs(effect.percent or 0.0) for _, effect in found), default=0.0)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
