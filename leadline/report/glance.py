"""The figure of the first screen: what every setting does to every response, with intervals, on one scale a unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leadline.conclude.loads import load_of
from leadline.model.knob import Level
from leadline.model.record import StudyRecord, TrialRecord
from leadline.model.result import Effect, ResponseAnalysis, StudyAnalysis, Verdict
from leadline.report import words

SETTINGS = 6  # shown first; the tables hold all
_LINEAR = 10.0  # percent up to which a wide axis stays linear
_WIDE = 6 * _LINEAR  # from this effect on the axis is logarithmic beyond _LINEAR


@dataclass(frozen=True)
class Mark:
    """Where an effect is drawn: percent of the drawing's width, from the left.

    ``low`` to ``high`` is the interval of this comparison alone, ``wide_low`` to ``wide_high`` that of all together.
    """

    at: float
    low: float
    high: float
    wide_low: float
    wide_high: float


@dataclass(frozen=True)
class Cell:
    """``mark`` is None where nothing was estimated; ``text`` then says why."""

    verdict: str
    text: str
    interval: str
    mark: Mark | None


@dataclass(frozen=True)
class Axis:
    """One scale for all effects on a response. ``zero`` and the band of luck as in :class:`Mark`."""

    response: str
    unit: str
    better: str
    baseline: str
    zero: float
    luck: tuple[float, float] | None
    logarithmic: bool
    cells: tuple[Cell, ...]  # in the order of the response's effects


@dataclass(frozen=True)
class Glance:
    """``rows`` hold a setting and, for each of ``axes``, its cell or None. ``loads`` stand in their place
    where the load alone varies, which neither helps nor hurts: each with its trials' figures.
    """

    axes: tuple[Axis, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    loads: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def first(self) -> tuple[tuple[str, tuple[Cell | None, ...]], ...]:
        """The rows of the first screen."""
        return self.rows[:SETTINGS]


def glance(record: StudyRecord, analysis: StudyAnalysis) -> Glance:
    """The most telling settings first; failed ones follow. Loads ascend before them."""
    ranked = strongest(analysis)
    if (load := load_of(record)) is not None:
        ranked = sorted(
            ranked, key=lambda effect: (effect.factor != load, effect.level if effect.factor == load else 0)
        )
    axes = tuple(axis(record, response, _of_unit(analysis, response)) for response in analysis.responses)
    by_setting: dict[str, dict[str, Cell]] = {}
    for effect in ranked:
        by_setting.setdefault(words.setting(record.study, effect.factor, effect.level), {})
    for one, drawn in zip(analysis.responses, axes, strict=True):
        for effect, cell in zip(one.effects, drawn.cells, strict=True):
            by_setting.setdefault(words.setting(record.study, effect.factor, effect.level), {})[one.response] = cell
    names = [axe.response for axe in axes]
    rows = tuple((name, tuple(cells.get(response) for response in names)) for name, cells in by_setting.items())
    loads = _loads(record, load, names) if load is not None and len(record.plan.factors) == 1 else ()
    return Glance(axes, rows, loads)


def strongest(analysis: StudyAnalysis) -> list[Effect]:
    """One effect for each setting, the strongest first; those told apart from the baseline come first."""
    best: dict[tuple[str, str], Effect] = {}
    for response in analysis.responses:
        for effect in response.effects:
            key = (effect.factor, repr(effect.level))
            if effect.percent is not None and (key not in best or _weight(effect) > _weight(best[key])):
                best[key] = effect
    return sorted(best.values(), key=_weight, reverse=True)


def _weight(effect: Effect) -> tuple[bool, float]:
    return effect.verdict in (Verdict.BETTER, Verdict.WORSE), abs(effect.percent or 0.0)


def _loads(record: StudyRecord, factor: str, responses: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Ascending: every load, and of each response the least and the greatest of its good trials."""
    trials: dict[Level, list[TrialRecord]] = {}
    for trial in record.trials:
        if not trial.is_left and (trial.failure is not None or trial.responses):
            trials.setdefault(trial.planned.treatment[factor], []).append(trial)
    rows = []
    for level, trials_of_level in sorted(trials.items(), key=lambda item: float(item[0])):
        failed = sum(trial.failure is not None for trial in trials_of_level)
        name = words.setting(record.study, factor, level) + (
            f" ({failed} of {len(trials_of_level)} failed)" if failed else ""
        )
        good = [trial.responses for trial in trials_of_level if trial.failure is None]
        rows.append(
            (
                name,
                tuple(_range([figures[response] for figures in good if response in figures]) for response in responses),
            )
        )
    return tuple(rows)


def _range(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = words.number(min(values)), words.number(max(values))
    return low if low == high else f"{low} to {high}"


def _of_unit(analysis: StudyAnalysis, one: ResponseAnalysis) -> list[ResponseAnalysis]:
    unit = words.kind_of(one.response).unit
    return [other for other in analysis.responses if words.kind_of(other.response).unit == unit]


def axis(record: StudyRecord, one: ResponseAnalysis, together: Sequence[ResponseAnalysis] = ()) -> Axis:
    """The scale of a response and every effect on it, drawn. ``together``: the responses that share the scale."""
    kind = words.kind_of(one.response)
    gain = _luck(one)
    bounds = [bound for other in together or [one] for effect in other.effects for bound in _bounds(effect)]
    bounds += [_luck(other) for other in together or [one]]
    logarithmic = max(map(abs, bounds)) > _WIDE
    low, high = (_bent(value, logarithmic) for value in (min([*bounds, -1.0]), max([*bounds, 1.0])))
    room = (high - low) * 0.06

    def place(value: float) -> float:
        return round(100 * (_bent(value, logarithmic) - low + room) / (high - low + 2 * room), 2)

    luck = (min(place(0), place(gain)), abs(place(gain) - place(0))) if one.luck else None
    baseline = f"{words.number(one.baseline_mean)} {kind.unit}".strip()
    cells = tuple(_cell(record, effect, place) for effect in one.effects)
    better = "more is better \u2192" if kind.higher_is_better else "\u2190 less is better"
    return Axis(one.response, kind.unit, better, baseline, place(0), luck, logarithmic, cells)


def _luck(one: ResponseAnalysis) -> float:
    return one.luck.gain_95 * (1 if words.kind_of(one.response).higher_is_better else -1) if one.luck else 0.0


def _bounds(effect: Effect) -> list[float]:
    wide = effect.simultaneous or effect.interval
    return [value for value in (effect.percent, *((wide.low, wide.high) if wide else ())) if value is not None]


def _bent(value: float, logarithmic: bool) -> float:
    """The value itself, or linear up to ``_LINEAR`` and logarithmic beyond."""
    return math.copysign(math.log1p(abs(value) / _LINEAR), value) if logarithmic else value


def _cell(record: StudyRecord, effect: Effect, place: Callable[[float], float]) -> Cell:
    if effect.percent is None:
        failed = effect.verdict is Verdict.FAILED
        return Cell(words.verdict(effect), "failed" if failed else "not estimated", effect.reason, None)
    plain = effect.interval or effect.simultaneous
    wide = effect.simultaneous or plain
    ends = [place(end) for of in (plain, wide) for end in ((of.low, of.high) if of else (effect.percent,) * 2)]
    digits = words.decimals(record.study)
    change_interval = words.change_interval(wide, digits)
    return Cell(
        words.verdict(effect),
        f"{words.signed(effect.percent, digits)} %",
        change_interval,
        Mark(place(effect.percent), *ends),
    )
