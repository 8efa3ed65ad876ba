"""From a finished study to the one that confirms its best setting, and what that one says in the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from leadline.analysis.table import response_kind
from leadline.checks.files.study import StudyFile, study_of
from leadline.checks.plan import setup_for
from leadline.conclude.confirmation import raw_level, said
from leadline.design.kinds import KINDS
from leadline.design.order import is_live
from leadline.design.seeds import derived
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.layouts import layout_of
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import Level
from leadline.model.naming import Describe, level_text, plain_level
from leadline.model.plan import Factor
from leadline.model.record import StudyRecord
from leadline.model.result import Effect, Interval, StudyAnalysis, Verdict
from leadline.model.study import Study
from leadline.model.units import format_duration, rounded, signed
from leadline.places.testbed import Testbed
from leadline.planning.forecast import Need, forecast

Levels = dict[str, Level]
FEWEST = 3  # replicates, whatever the planning says: the noise must be seen, too


@dataclass(frozen=True)
class Choice:
    """A setting worth confirming: its levels, and what the first study says of it in percent (None: nothing)."""

    levels: Levels
    percent: float | None
    interval: Interval | None
    shrunken: float | None


def best_settings(record: StudyRecord, analysis: StudyAnalysis, response: str, count: int = 1) -> list[Choice]:
    """The ``count`` best settings of a study, by shrunken gain.

    A study that changes one factor at a time: its best levels. One that varies several at once: the level of each
    factor that is better than its baseline level, all together; where none is, the best single one. Raises UsageError
    where nothing has a figure.
    """
    _check_factors(record)
    effects = _gains(analysis, response)
    if not effects:
        raise UsageError(f"{_name(record)} has no estimate for {response}, so there is nothing to confirm")
    if count > len(effects):
        raise UsageError(f"--best {count}: {_name(record)} has {len(effects)} settings with a figure for {response}")
    better = [effect for effect in effects if effect.verdict is Verdict.BETTER]
    if KINDS[record.plan.kind].cells or count > 1 or len(better) < 2:
        return [_single(effect) for effect in effects[:count]]
    chosen: dict[str, Effect] = {}
    for each in better:
        chosen.setdefault(each.factor, each)
    return [_together(list(chosen.values()))]


def _check_factors(record: StudyRecord) -> None:
    if record.plan.kind == "configurations":
        raise UsageError(
            f"{_name(record)} compared whole configurations, which the command confirms by running it again: --new"
        )


def _gains(analysis: StudyAnalysis, response: str) -> list[Effect]:
    of_response = next((response_ for response_ in analysis.responses if response_.response == response), None)
    mains = [effect for effect in of_response.effects if effect.percent is not None] if of_response else []
    sign = 1.0 if response_kind(response).higher_is_better else -1.0
    return sorted(mains, key=lambda each: (-sign * (each.shrunken or 0.0), -sign * (each.percent or 0.0)))


def _single(effect: Effect) -> Choice:
    return Choice({effect.factor: effect.level}, effect.percent, effect.interval, _without_luck(effect))


def _without_luck(effect: Effect) -> float | None:
    """The shrunken estimate, never beyond the estimate itself (a baseline that was lucky may push it there)."""
    if effect.shrunken is None or effect.percent is None:
        return None
    return min(effect.shrunken, effect.percent, key=abs)


def _together(effects: Sequence[Effect]) -> Choice:
    levels = {effect.factor: effect.level for effect in effects}
    return Choice(
        levels,
        _product([effect.percent for effect in effects]),
        None,
        _product([_without_luck(effect) for effect in effects]),
    )


def _product(percents: Sequence[float | None]) -> float | None:
    """Effects taken together as if each worked alone."""
    if any(percent is None for percent in percents):
        return None
    return 100.0 * (math.prod(1 + (percent or 0.0) / 100 for percent in percents) - 1)


def named_setting(
    record: StudyRecord, analysis: StudyAnalysis, response: str, text: str, describe: Describe = plain_level
) -> Choice:
    """The setting ``factor=level[,factor=level]``. Raises UsageError with the nearest valid choice."""
    _check_factors(record)
    levels: Levels = {}
    for part in text.split(","):
        name, _, word = (piece.strip() for piece in part.partition("="))
        factor = next((factor for factor in record.plan.factors if factor.name == name), None)
        if factor is None:
            near = nearest(name, [factor.name for factor in record.plan.factors])
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"--setting {text}: {_name(record)} has no factor {name!r}{hint}")
        levels_ = [level for level in factor.levels if word in (describe(name, level), str(level))]
        others = [describe(name, level) for level in factor.levels if level != factor.baseline]
        if not levels_ or levels_[0] == factor.baseline:
            raise UsageError(f"--setting {text}: the levels of {name} to confirm are {', '.join(others)}")
        levels[name] = levels_[0]
    effects = [gain for gain in _gains(analysis, response) if levels.get(gain.factor) == gain.level]
    if len(effects) < len(levels):
        return Choice(levels, None, None, None)
    return _single(effects[0]) if len(levels) == 1 else _together(effects)


def effect_to_find(choices: Sequence[Choice], response: str) -> float:
    """Percent, the smallest shrunken gain. Raises UsageError where luck explains a whole gain."""
    sign = 1.0 if response_kind(response).higher_is_better else -1.0
    gains = [(sign * (choice.shrunken or 0.0), choice) for choice in choices]
    least, worst = min(gains, key=lambda pair: pair[0])
    if least < 0.05:
        without = f"{signed(worst.shrunken or 0.0, 2)} % without luck"
        figure = "no figure" if worst.percent is None else f"{signed(worst.percent, 2)} %, {without}"
        raise UsageError(
            f"nothing to confirm: the gain of {said(worst.levels)} in {response} is within chance ({figure}); to "
            "run it "
            "all the same, name an effect worth finding, such as --effect 3%"
        )
    return sign * least


def confirmation_study(
    record: StudyRecord, choices: Sequence[Choice], response: str, replicates: int, budget: str | None = None
) -> StudyFile:
    """The study that compares the choices with the baseline in fresh trials. Raises UsageError for several settings
    of which one changes more than one factor.
    """
    if len(choices) > 1 and any(len(choice.levels) > 1 for choice in choices):
        raise UsageError(
            "several settings are confirmed together only if each changes one factor; confirm one at a time"
        )
    study = record.study
    factors = {factor.name: factor for factor in record.plan.factors}
    chosen: dict[str, list[Level]] = {}
    for choice in choices:
        for name, level in choice.levels.items():
            chosen.setdefault(name, []).append(level)
    raws = {
        name: [raw_level(study, factors[name], level) for level in (factors[name].baseline, *levels)]
        for name, levels in chosen.items()
    }
    held_settings = {
        name: raw_level(study, factor, factor.baseline) for name, factor in factors.items() if name not in chosen
    }
    live = {is_live(factors[name]) for name in chosen}
    kind = "confirmation" if len(choices) == 1 else "one-at-a-time"
    design = layout_of(study.design).fresh(study.design, kind, replicates, live) | {"seed": fresh_seed(record)}
    document: dict[str, Any] = {
        "study": f"{study.study}-confirm",
        "question": f"Does {' or '.join(said(choice.levels) for choice in choices)} change {response} in fresh trials?",
        **kept_keys(study),
        "factors": {name: raw for name, raw in raws.items() if not factors[name].pseudo},
        "pseudo_factors": {name: raw for name, raw in raws.items() if factors[name].pseudo},
        "settings": {
            **study.settings,
            **{name: raw for name, raw in held_settings.items() if not factors[name].pseudo},
        },
        "design": design,
        "responses": list(dict.fromkeys([response, *study.responses])),
        "confirms": {
            "run": _name(record),
            "response": response,
            "settings": [_first(choice, study, factors) for choice in choices],
        },
    }
    if budget is not None:
        document["budget"] = budget
    return study_of(document)


def fresh_seed(record: StudyRecord) -> int:
    """Another seed than that of the study on which the choice was made: other data, other requests, another order."""
    return int.from_bytes(derived(record.plan.seed, "confirmation", record.id)[:4])


def kept_keys(study: Study) -> dict[str, Any]:
    """What both studies have in common."""
    keys = (
        "stack",
        "guest",
        "workload",
        "reset",
        "placement",
        "limits",
        "equivalence",
        "dead_man",
        "ready_timeout",
        "observe",
    )
    dumped = study.model_dump(mode="json", exclude_unset=True)
    return {key: dumped[key] for key in keys if key in dumped}


def _first(choice: Choice, study: Study, factors: Mapping[str, Factor]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "levels": {name: raw_level(study, factors[name], level) for name, level in choice.levels.items()},
        "percent": round(choice.percent or 0.0, 3),
    }
    if choice.interval is not None:
        document |= {"low": round(choice.interval.low, 3), "high": round(choice.interval.high, 3)}
    return document | ({} if choice.shrunken is None else {"shrunken": round(choice.shrunken, 3)})


def _name(record: StudyRecord) -> str:
    return f"{record.study.study}@{record.id}"


def confirmation(
    record: StudyRecord,
    analysis: StudyAnalysis,
    place: Testbed,
    *,
    settings: Sequence[str] = (),
    best: int = 1,
    response: str | None = None,
    effect: float | None = None,
    power: float = 0.8,
    budget: str | None = None,
) -> StudyFile:
    """With as many replicates as the effect needs (percent; that of the settings if None) at the first study's noise.

    ``settings``: ``knob=level[,knob=level]``, the ``best`` ones of the response if there are none. Raises UsageError
    for a study that cannot be confirmed and for an effect that would take longer than the study itself.
    """
    run = _name(record)
    if settings and best > 1:
        raise UsageError("--best chooses settings and --setting names them; leave one of the two out")
    if not analysis.judgement.answered:
        raise UsageError(f"{run} is not finished, or every trial failed: only a finished study can be confirmed")
    if record.study.confirms is not None:
        raise UsageError(f"{run} is a confirmation itself, of {record.study.confirms.run}; confirm that one --new")

    def describe(factor: str, level: Level) -> str:
        return level_text(record.study, factor, level)

    name = response or record.study.responses[0]
    if name not in record.study.responses:
        raise UsageError(
            f"--response: {record.study.study} has no {name!r}; it has {', '.join(record.study.responses)}"
        )
    choices = (
        [named_setting(record, analysis, name, text, describe) for text in settings]
        if settings
        else best_settings(record, analysis, name, best)
    )
    wanted = effect if effect is not None else effect_to_find(choices, name)
    smallest = confirmation_study(record, choices, name, FEWEST, budget)
    plan = place.plan(smallest).plan
    noise = noise_for(smallest.study, place.directory, source=run, response=name)
    setup = setup_for(smallest.study.design, smallest.study.workload, overhead_for(smallest.study, noise))
    outlook = forecast(plan, noise, setup, effect=wanted, power=power)
    if outlook.need is None or outlook.need.replicates is None:
        why = outlook.reason or "no reasonable number of trials is enough"
        raise UsageError(
            f"an effect of {signed(wanted, 2)} % on {name} cannot be confirmed: {why}; name a larger one (--effect)"
        )
    replicates = max(FEWEST, outlook.need.replicates)
    need_itself = max(
        setup_for(record.study.design, record.study.workload, setup.overhead).seconds(record.plan),
        smallest.study.budget or 0.0,
    )
    per_replicate = setup.seconds(plan) / FEWEST
    if replicates > FEWEST and replicates * per_replicate > need_itself:
        within = max(FEWEST, int(need_itself / per_replicate))
        most = place.plan(confirmation_study(record, choices, name, within, budget))
        _refuse(wanted, name, outlook.need, need_itself, forecast(most.plan, noise, setup).smallest.get(0.8))
    return confirmation_study(record, choices, name, replicates, budget)


def _refuse(wanted: float, name: str, need: Need, own: float, smallest: float | None) -> NoReturn:
    """A confirmation takes no longer than the study whose choice it confirms."""
    needed_text = (
        f"{need.trials:,} trials and {format_duration(need.seconds)}" if need.trials and need.seconds else "more"
    )
    could = "" if smallest is None else f"; in that time an effect of {rounded(smallest, 2)} % could be confirmed"
    raise UsageError(
        f"confirming {signed(wanted, 2)} % on {name} takes {needed_text}, longer than the study itself "
        f"({format_duration(own)})"
        f"{could}: name a larger one (--effect {rounded(max(smallest or 0.0, 2 * wanted), 2)}%), or allow the time "
        "(--budget)"
    )
