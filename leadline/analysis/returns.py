"""A factor's levels against each other: which are as good as the best, what each doubling of a size gains, and the
smallest level that is enough.

All comparisons of a factor's levels are held together: the intervals are simultaneous over all pairs (Tukey-Kramer with
the design's own correlation, as ``leadline.analysis.comparisons``), so they hold for whichever level turns out best,
and for the choice of the smallest that comes close to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations

import numpy as np

from leadline.analysis.columns import Model
from leadline.analysis.comparisons import EXACT, NO_NOISE, Family
from leadline.analysis.effects import fitted_response
from leadline.analysis.table import Cell, Floats, Sample, Scale, StudyTable, response_kind
from leadline.model.knob import Level
from leadline.model.naming import Describe, plain_level
from leadline.model.plan import Factor, Plan
from leadline.model.result import Interval, Observation

FEWEST = 3  # levels
MOST = 6  # combinations of the other factors' levels that are told apart
MARGIN = 2.0  # percent


@dataclass(frozen=True)
class Step:
    """One level. Percent; positive where the response grows, None where nothing could be estimated.

    ``change`` is per doubling from the level before, or of the whole step where that is 0 (``doublings`` None); the
    smallest level has none. ``against_best`` compares with the best level. With the confidence of the intervals,
    ``enough``: worse than the best by no more than the margin; ``short``: worse by more than it.
    """

    level: Level
    trials: int
    doublings: float | None = None
    change: float | None = None
    change_interval: Interval | None = None
    against_best: float | None = None
    against_best_interval: Interval | None = None
    enough: bool = False
    short: bool = False


@dataclass(frozen=True)
class Returns:
    """``smallest``: the smallest level that is enough; None where the noise is not known, with the reason in
    ``sentence``. ``steps`` ascend; of levels that are no sizes they are as the plan has them. ``pairs``: percent and
    interval of the first level against the second, of every pair of different levels.
    """

    factor: str
    response: str
    higher_is_better: bool
    steps: tuple[Step, ...]
    best: Level | None
    smallest: Level | None
    margin: float
    sentence: str
    pairs: Mapping[tuple[Level, Level], tuple[float | None, Interval | None]] = field(default_factory=dict)
    under: str = ""  # the other factors' levels, empty where it is averaged over them


def diminishing_returns(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    level: float = 0.95,
    describe: Describe = plain_level,
    margin: float = MARGIN,
    judged: Callable[[Factor], bool] | None = None,
) -> list[Returns]:
    """Of every factor with three or more levels that ``judged`` chooses, else of every such size, averaged over the
    other factors' levels.

    Where the model has interactions, also within each combination of the other factors' levels (``under``), if there
    are no more than six; each has its own family of pairs. Empty where there is no such factor or nothing can be
    estimated for the response. ``margin`` in percent.
    """
    table = StudyTable.of(plan, observations, describe)
    places = [
        place
        for place, factor in enumerate(table.factors)
        if len(factor.levels) >= FEWEST and (judged or is_size)(factor)
    ]
    response_curve = fitted_response(table, response, level) if places else None
    if response_curve is None:
        return []
    scale, sample, model, fit = response_curve
    higher = response_kind(response).higher_is_better
    result = []
    for place in places:
        factor = table.factors[place]
        order = list(range(len(factor.levels)))
        if is_size(factor):
            order.sort(key=lambda index: float(factor.levels[index]))
        for under, rows, counts in [_averaged(place, order, model, sample), *_within(place, order, model, sample)]:
            measured = [index for index in order if index in rows]
            if len(measured) < FEWEST:
                continue
            pairs = list(combinations(measured, 2))
            family = Family.of(fit, [rows[high] - rows[low] for low, high in pairs], level)
            differences = _Differences(dict(zip(pairs, family.place, strict=True)), family, scale, level)
            row = _returns(factor, measured, counts, differences, higher, response, describe, margin)
            result.append(replace(row, under=under))
    return result


_Curve = tuple[str, dict[int, Floats], dict[int, int]]  # under, contrast by level, trials by level


def _averaged(place: int, order: Sequence[int], model: Model, sample: Sample) -> _Curve:
    table = model.table
    factor = table.factors[place]
    cells = [table.cells[cell][place] for cell in sample.cells.tolist()]
    counts = {index: cells.count(index) for index in order}
    rows = {
        index: np.zeros(model.width) if factor.levels[index] == factor.baseline else model.effect((place, index))
        for index in order
        if counts[index]
    }
    return "", rows, counts


def _within(place: int, order: Sequence[int], model: Model, sample: Sample) -> list[_Curve]:
    table = model.table
    others = dict.fromkeys(_without(place, cell) for cell in table.cells)
    if not model.pairs or not 2 <= len(others) <= MOST:
        return []
    cells = [table.cells[cell] for cell in sample.cells.tolist()]
    curves = []
    for other in others:
        there = {index: (*other[:place], index, *other[place:]) for index in order}
        counts = {index: cells.count(cell) for index, cell in there.items()}
        names = [factor for number, factor in enumerate(table.factors) if number != place]
        under = ", ".join(
            f"{factor.name} = {table.describe(factor.name, factor.levels[index])}"
            for factor, index in zip(names, other, strict=True)
        )
        curves.append((under, {index: model.cell(cell) for index, cell in there.items() if counts[index]}, counts))
    return curves


def _without(place: int, cell: Cell) -> Cell:
    return (*cell[:place], *cell[place + 1 :])


def is_size(factor: Factor) -> bool:
    """Whether the levels are numbers from 0 on, which have an order."""
    numbers = all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in factor.levels)
    return numbers and all(float(level) >= 0 for level in factor.levels)


@dataclass(frozen=True)
class _Differences:
    """Differences between levels on the scale of the model."""

    places: dict[tuple[int, int], int | None]
    family: Family
    scale: Scale
    level: float

    def of(self, low: int, high: int) -> tuple[float, float | None] | None:
        """``high`` less ``low`` with half the width of its interval; None where the data do not determine it."""
        if low == high:
            return 0.0, 0.0
        sign, pair = (1.0, (low, high)) if (low, high) in self.places else (-1.0, (high, low))
        place = self.places[pair]
        if place is None:
            return None
        reach = None
        if self.family.law is not None:
            reach = float(self.family.critical[place] * self.family.errors[place])
        return sign * float(self.family.estimates[place]), reach

    def percent(self, value: float, reach: float | None) -> tuple[float | None, Interval | None]:
        interval = None if reach is None else self.scale.interval(value, reach, self.level)
        return self.scale.percent(value), interval


def _returns(
    factor: Factor,
    known: Sequence[int],
    counts: dict[int, int],
    differences: _Differences,
    higher: bool,
    response: str,
    describe: Describe,
    margin: float,
) -> Returns:
    first = known[0]
    heights = {index: difference[0] for index in known if (difference := differences.of(first, index)) is not None}
    best = (max if higher else min)(heights, key=lambda index: heights[index])
    steps = []
    for before, index in zip([None, *known], known, strict=False):
        doublings = change = interval = None
        if before is not None and is_size(factor) and (difference := differences.of(before, index)) is not None:
            low, high = float(factor.levels[before]), float(factor.levels[index])
            doublings = math.log2(high / low) if low > 0 else None
            value, reach = difference
            by = doublings or 1.0
            change, interval = differences.percent(value / by, None if reach is None else reach / by)
        against, against_interval, enough, short = None, None, index == best, False
        if (difference := differences.of(best, index)) is not None and index != best:
            against, against_interval = differences.percent(*difference)
            if against_interval is not None:
                enough = against_interval.low > -margin if higher else against_interval.high < margin
                short = against_interval.high < -margin if higher else against_interval.low > margin
        steps.append(
            Step(
                factor.levels[index],
                counts[index],
                doublings,
                change,
                interval,
                against,
                against_interval,
                enough,
                short,
            )
        )
    judged = differences.family.law is not None
    smallest = next((step.level for step in steps if step.enough), None) if judged else None
    sentence = _sentence(factor, steps, factor.levels[best], smallest, differences.family, describe, margin)
    pairs = {
        (factor.levels[level], factor.levels[other]): differences.percent(*found)
        for level, other in permutations(known, 2)
        if (found := differences.of(other, level)) is not None
    }
    return Returns(factor.name, response, higher, tuple(steps), factor.levels[best], smallest, margin, sentence, pairs)


def _sentence(
    factor: Factor,
    steps: Sequence[Step],
    best: Level,
    smallest: Level | None,
    family: Family,
    describe: Describe,
    margin: float,
) -> str:
    top = describe(factor.name, best)
    if smallest is None:
        return f"The best {factor.name} was {top}; {NO_NOISE if family.df <= 0 else EXACT}."
    within = f"no more than {margin:g} % worse than the best"
    if smallest != best:
        return (
            f"Point of diminishing returns of {factor.name}: {describe(factor.name, smallest)} is the smallest level "
            f"shown to be {within}, {top}."
        )
    if best == steps[0].level:
        rest = [describe(factor.name, step.level) for step in steps[1:] if not step.short]
        others = f", and {', '.join(rest)} may be as good" if rest else ""
        return f"No larger {factor.name} is shown to pay: the smallest, {top}, was the best{others}."
    open_ = [describe(factor.name, step.level) for step in steps if not step.short and step.level != best]
    if open_:
        return (
            f"No level of {factor.name} is shown to be {within}, {top}, nor are all shown to be worse: "
            f"{', '.join(open_)} may be as good. More replicates would tell."
        )
    text = f"Every level of {factor.name} but the best, {top}, is shown to be more than {margin:g} % worse"
    return f"{text}: a larger one may pay yet." if best == steps[-1].level else f"{text}."
