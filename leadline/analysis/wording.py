"""The answer of a study in a sentence."""

from __future__ import annotations

from leadline.analysis.comparisons import is_interaction
from leadline.analysis.scale import response_kind
from leadline.analysis.table import StudyTable
from leadline.model.result import Effect, Interval, ResponseAnalysis, Verdict

_MOST = 3  # effects told in full
_NOUN = {"mean": "the mean response time", "max": "the largest response time", "startup": "the start-up time"}


def answer(table: StudyTable, analyses: tuple[ResponseAnalysis, ...]) -> str:
    """One sentence about the first response: what changes it, what cannot be told, what luck explains."""
    if not analyses:
        return "The study has no response to analyse."
    first = analyses[0]
    mains = [effect for effect in first.effects if not is_interaction(effect)]
    failed = [effect for effect in mains if effect.verdict is Verdict.FAILED]
    clauses = []
    if first.reason and all(effect.verdict in (Verdict.UNDETERMINED, Verdict.FAILED) for effect in mains):
        clauses.append(f"nothing can be said about {_noun(first.response)}: {first.reason}")
    else:
        clauses += _findings(table, first, mains)
    if failed:
        clauses.append(f"every trial of {_list([_name(table, effect) for effect in failed])} failed")
    sentence = "; ".join(clauses) + "."
    named = clauses and any(clauses[0].startswith(factor.name) for factor in table.factors)
    return sentence if named else sentence[0].upper() + sentence[1:]


def _findings(table: StudyTable, analysis: ResponseAnalysis, mains: list[Effect]) -> list[str]:
    noun = _noun(analysis.response)
    better = [effect for effect in mains if effect.verdict is Verdict.BETTER]
    worse = [effect for effect in mains if effect.verdict is Verdict.WORSE]
    open_ones = [effect for effect in mains if effect.verdict is Verdict.UNDETERMINED]
    same = [effect for effect in mains if effect.verdict is Verdict.EQUIVALENT]
    clauses = []
    if better:
        clauses.append(_told(table, better, noun) + _against_luck(analysis, better[0]))
    if worse:
        clauses.append(_told(table, worse[::-1], noun if not better else "it"))
    if same:
        clauses.append(_no_difference(table, analysis, same, noun))
    if open_ones or not clauses:
        found = _smallest(analysis.detectable)
        many = len(open_ones) > 1
        if clauses:
            rest = "nothing else can" if many else f"{_name(table, open_ones[0])} cannot"
            clauses.append(f"{rest} be told apart from the baseline{found}")
        else:
            clauses.append(f"no change of {noun} can be told from noise{found}")
            clauses += _best_of_rest(table, analysis, open_ones)
    crossed = [effect for effect in analysis.effects if is_interaction(effect)]
    crossed = [effect for effect in crossed if effect.verdict in (Verdict.BETTER, Verdict.WORSE)]
    if crossed:
        pairs = dict.fromkeys(" with ".join(effect.crossed) for effect in crossed)
        clauses.append(f"effects that depend on each other: {_list(list(pairs)[:_MOST])}")
    return clauses


def _no_difference(table: StudyTable, analysis: ResponseAnalysis, same: list[Effect], noun: str) -> str:
    """``b=2 and c=3 make no difference to throughput (within 2 %)``."""
    names = [_name(table, effect) for effect in same[:_MOST]]
    rest = len(same) - _MOST
    text = _list(names) if rest <= 0 else f"{', '.join(names)} and {rest} more"
    verb = "makes" if len(same) == 1 else "make"
    return f"{text} {verb} no difference to {noun} (within {analysis.margin:g} %)"


def _smallest(percent: float | None) -> str:
    if percent is None:
        return ""
    size = f"{_size(percent)} %" if percent <= 100 else "more than 100 %"
    return f" (smallest effect this study would have found in 4 of 5 runs: {size})"


def _told(table: StudyTable, effects: list[Effect], noun: str) -> str:
    """``a=1 raises throughput by 9 % [5, 13] and a=2 by 7 % [3, 11]``."""
    parts = []
    for number, effect in enumerate(effects[:_MOST]):
        percent = effect.percent
        if percent is None:
            parts.append(f"{_name(table, effect)} changes {noun} ({effect.reason})")
            continue
        verb = "raises" if percent > 0 else "lowers"
        what = f"{verb} {noun} by" if number == 0 or parts[-1].find(" by ") < 0 else "by"
        if effect.simultaneous is not None:
            parts.append(f"{_name(table, effect)} {what} {_amount(percent, effect.simultaneous)}")
        else:
            parts.append(f"{_name(table, effect)} {what} {_size(abs(percent))} %")
    text = _list(parts)
    rest = len(effects) - _MOST
    return text + (f" ({rest} more levels too)" if rest > 1 else " (1 more level too)" if rest == 1 else "")


def _against_luck(analysis: ResponseAnalysis, best: Effect) -> str:
    if analysis.luck is None or best.percent is None or analysis.luck.comparisons < 2:
        return ", to be confirmed by fresh trials"
    return (
        f", where luck alone would give the best of {analysis.luck.comparisons} about "
        f"{_size(analysis.luck.expected_gain)} %: confirm it by fresh trials"
    )


def _best_of_rest(table: StudyTable, analysis: ResponseAnalysis, mains: list[Effect]) -> list[str]:
    """What to think of the best level when nothing was found."""
    if not mains or analysis.luck is None or mains[0].percent is None or len(mains) < 2:
        return []
    best = mains[0].percent
    gain = best if response_kind(analysis.response).higher_is_better else -best
    if gain <= 0:
        return []
    return [
        f"the best level, {_name(table, mains[0])} ({best:+.2g} %), gains "
        f"{'more' if gain > analysis.luck.gain_95 else 'no more'} than luck may give the best of "
        f"{analysis.luck.comparisons} ({_size(analysis.luck.expected_gain)} % on average, "
        f"up to {_size(analysis.luck.gain_95)} %)"
    ]


def _amount(percent: float, interval: Interval) -> str:
    ends = sorted((abs(interval.low), abs(interval.high)))
    return f"{_size(abs(percent))} % [{_size(ends[0])}, {_size(ends[1])}]"


def _size(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.1g}"


def _name(table: StudyTable, effect: Effect) -> str:
    return f"{effect.factor}={table.describe(effect.factor, effect.level)}"


def _noun(response: str) -> str:
    kind = response_kind(response)
    if response in _NOUN:
        return _NOUN[response]
    return kind.name.replace("_", " ")


def _list(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
