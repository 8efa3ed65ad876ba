"""Sentences on noise, rank intervals and failures, the same in the terminal and on the page."""

from __future__ import annotations

from leadline.model.record import StudyRecord
from leadline.model.result import HostEffect, Interaction, ResponseAnalysis, Robust, StudyAnalysis, Verdict
from leadline.report import words

_MOVED = (Verdict.BETTER, Verdict.WORSE)
CHANCE = 0.5  # from this adjusted p on a level's failures get no sentence of their own


def noise(one: ResponseAnalysis) -> list[str]:
    """Which model was used and where the noise comes from; nothing for plain least squares."""
    if not one.components:
        return []
    parts = [f"{part.name} {words.number(part.percent)} %" for part in one.components if part.percent is not None] + [
        f"{part.name} no more than those below them" for part in one.components if part.percent is None
    ]
    return [one.model, f"Standard deviation between {', '.join(parts)}."]


def shared(analysis: StudyAnalysis) -> list[str]:
    """Notes, and settings that are not distinguishable: once for all responses of which they hold."""
    settings: dict[str, list[str]] = {}
    for response in analysis.responses:
        groups = [f"Not distinguishable: {words.several(group)}." for group in response.groups if len(group) > 1]
        for sentence in (*response.notes, *groups):
            settings.setdefault(sentence, []).append(response.response)
    every = len(analysis.responses)
    return [text if len(names) == every else f"{', '.join(names)}: {text}" for text, names in settings.items()]


def ranks(record: StudyRecord, one: ResponseAnalysis) -> list[str]:
    """A row for each level with an interval by ranks; none where no level has enough trials."""
    judged = [(effect, effect.robust) for effect in one.effects if effect.robust is not None]
    return [
        f"{words.setting(record.study, effect.factor, effect.level)}: {_robust(effects)}"
        for effect, effects in judged
        if effects.interval is not None
    ]


def interactions(one: ResponseAnalysis) -> list[str]:
    """A row for each pair of levels that is distinguishable from none, and how many were looked at."""
    if not one.interactions:
        return []
    rows = [f"Interaction: {pair.sentence}; {interaction_text(pair)}." for pair in one.interactions if pair.sentence]
    looked = words.plural(len(one.interactions), "interaction")
    if not rows and any(pair.verdict is Verdict.EQUIVALENT for pair in one.interactions):
        return [f"None of {looked} is distinguishable from none and more than {words.number(one.margin)} %."]
    return rows or [f"None of {looked} is distinguishable from none."]


def hosts(record: StudyRecord, one: ResponseAnalysis) -> list[str]:
    """A row for each level that is better or worse on some host: what it does on each of them."""
    rows: dict[str, list[HostEffect]] = {}
    for effect in by_host(one):
        rows.setdefault(words.setting(record.study, effect.factor, effect.level), []).append(effect)
    moved = {name: effects for name, effects in rows.items() if any(effect.verdict in _MOVED for effect in effects)}
    return [f"By host, {name}: {'; '.join(_on_host(effect) for effect in effects)}." for name, effects in moved.items()]


def by_host(one: ResponseAnalysis) -> tuple[HostEffect, ...]:
    """Effects on each host, level by level as the response's effects are ranked; empty on one host."""
    across = one.across_hosts
    return () if across is None else tuple(effect for of in one.effects for effect in across.of(of.factor, of.level))


def _on_host(effect: HostEffect) -> str:
    if effect.percent is None:
        return f"{effect.host} {effect.reason or 'not estimated'}"
    change = f"{words.signed(effect.percent)} % {words.change_interval(effect.simultaneous)}".strip()
    return f"{effect.host} {change} {effect.verdict.value}"


def quantiles(record: StudyRecord, analysis: StudyAnalysis) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Names of the quantiles, and a row for each level: its change of each of them."""
    names = list(dict.fromkeys(effect.response for effect in analysis.quantiles))
    rows: dict[str, dict[str, str]] = {}
    for effect in analysis.quantiles:
        cell = "–" if effect.percent is None else f"{words.signed(effect.percent)} % "
        cell += words.change_interval(effect.simultaneous) if effect.percent is not None else ""
        rows.setdefault(words.setting(record.study, effect.factor, effect.level), {})[effect.response] = cell
    return names, [(setting, [row.get(name, "–") for name in names]) for setting, row in rows.items()]


def interaction_text(pair: Interaction) -> str:
    """How far both together differ from what each alone would give."""
    return f"together {words.signed(pair.percent)} % {words.change_interval(pair.simultaneous)} beyond each alone"


def _robust(found: Robust) -> str:
    text = f"by ranks {words.signed(found.percent)} % {words.change_interval(found.interval)}"
    if found.simultaneous is not None:
        text += f", all comparisons {words.change_interval(found.simultaneous)}"
    return text


def failing(record: StudyRecord, analysis: StudyAnalysis) -> list[str]:
    """A sentence for each level that failed by its own making; one for all those that chance explains."""
    lines, by_chance = [], []
    for rate in analysis.failing:
        setting = words.setting(record.study, rate.factor, rate.level)
        if rate.p_adjusted is not None and rate.p_adjusted >= CHANCE:
            by_chance.append(f"{setting} ({rate.failed} of {rate.trials})")
            continue
        low, high = words.share(rate.interval.low), words.share(rate.interval.high)
        text = (
            f"{setting} fails in {words.share(rate.share)} of its trials [{low}, {high}]: "
            f"{rate.failed} of {rate.trials}, its baseline level {rate.baseline_failed} of {rate.baseline_trials}"
        )
        tested = "" if rate.p_adjusted is None else f" (p = {words.probability(rate.p_adjusted)}, adjusted)"
        verdict = ": it fails more often" if rate.worse else ""
        lines.append(f"{text}{tested}{verdict}.")
    if by_chance:
        lines.append(f"Failures that chance explains (adjusted p of {CHANCE:g} or more): {', '.join(by_chance)}.")
    return lines
