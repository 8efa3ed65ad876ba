"""Looks at a study before its end: error-spending boundaries, repeated intervals, conditional power.

A look comes after complete blocks. The family of all comparisons of one response shares one boundary, so that over all
looks together at most 1 - level of the studies without effects call anything better or worse. Intervals are repeated
confidence intervals (Jennison and Turnbull 1989): valid at every look, whatever rule ended the study. A comparison is
open until its interval excludes zero, lies within the margin of no interest, or has little chance left to be settled
by the trials still planned (conditional power at an optimistic effect); looking at that last rule never raises the
error rate, as it can only end a study with fewer findings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from scipy import stats

from leadline.design.plots import dear_factors
from leadline.design.switchback import is_live
from leadline.model.errors import UsageError
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Interval, Observation, Verdict
from leadline.planning.data import Readings, readings_of
from leadline.planning.paths import simulate
from leadline.planning.shape import Comparison, Evidence, Information, evidence, information, rows_of

CHANCE = 0.1  # conditional power below which a comparison cannot be settled
OPTIMISM = 1.0  # standard errors added to the estimate when that power is computed


class State(StrEnum):
    """What a look says of a comparison. ``beyond`` the budget: the trials left would hardly settle it."""

    OPEN = "open"
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    BEYOND = "beyond"


@dataclass(frozen=True)
class Settling:
    """A comparison at a look. ``percent`` and ``interval`` (repeated, simultaneous) are None where nothing can be
    said. ``chance``: conditional power, None where it was not needed. ``since``: the look that closed it, 0 if open.
    """

    comparison: Comparison
    state: State
    percent: float | None
    interval: Interval | None
    chance: float | None
    since: int

    @property
    def verdict(self) -> Verdict:
        if self.state is State.SAME:
            return Verdict.EQUIVALENT
        return Verdict(self.state.value) if self.state in (State.BETTER, State.WORSE) else Verdict.UNDETERMINED


@dataclass(frozen=True)
class Look:
    """The decision after ``blocks`` blocks. ``critical``: the bound of the largest |t|, None if no noise is known.

    ``drop``: treatments whose comparison is closed, to be left out of later blocks, each with the reason.
    """

    number: int
    of: int
    blocks: int
    response: str
    critical: float | None
    settlings: tuple[Settling, ...]
    stop: bool
    reason: str
    drop: Mapping[Treatment, str] = field(default_factory=dict)


def schedule(plan: Plan, looks: int) -> tuple[int, ...]:
    """Numbers of complete blocks after which a plan is looked at; the last is the whole plan.

    Raises UsageError where the plan has fewer blocks than looks, or factors whose noise a look could not judge.
    """
    blocks = 1 + max(trial.block for trial in plan.trials)
    if looks == 1:
        return (blocks,)
    between = [factor.name for factor in plan.factors if not is_live(factor)]
    if any(trial.slots for trial in plan.trials) and between:
        raise UsageError(
            f"design: interim analyses of slots need factors that are all changed live, and "
            f"{', '.join(between)} changes between "
            "trials; set looks to 1, or leave switchback out, or hold such factors under settings"
        )
    if any(trial.plot is not None for trial in plan.trials):
        dear = ", ".join(factor.name for factor in dear_factors(plan.factors))
        raise UsageError(
            f"design: interim analyses need blocks of trials, and {dear} makes whole plots, too few "
            f"at an interim analysis to judge their "
            f"noise; set looks to 1, or run one study with interim analyses for each level of {dear}"
        )
    if looks > blocks:
        raise UsageError(
            f"design: {looks} interim analyses need {looks} blocks, and this plan has {blocks}; set "
            f"looks to {blocks}, or "
            f"replicates to {looks} or more"
        )
    return tuple(math.floor(blocks * number / looks + 0.5) for number in range(1, looks + 1))


def look(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    blocks: Sequence[int],
    number: int,
    level: float = 0.95,
    margin: float | None = None,
) -> Look:
    """The look ``number`` (from 1) of ``blocks`` (see ``schedule``): go on, or stop and why.

    Pure: earlier looks are made again from the same observations, so that a study that was interrupted decides as one
    that was not. ``margin`` in percent: a comparison whose interval lies within it is settled as the same.
    """
    readings = readings_of(plan, observations, response)
    starts = [0, *blocks[:-1]]
    parts = [_between(readings, low, high) for low, high in zip(starts[:number], blocks[:number], strict=True)]
    closed: dict[Comparison, Settling] = {}
    result: Look | None = None
    for current in range(1, number + 1):
        ahead = _ahead(plan, blocks, current, closed)
        result = _one(plan, readings, response, blocks, current, parts[:current], ahead, closed, level, margin)
        closed = {each.comparison: each for each in result.settlings if each.state is not State.OPEN}
    assert result is not None, "looks count from 1"
    return result


def _between(readings: Readings, low: int, high: int) -> Evidence:
    chosen = np.array([low <= block < high for block in readings.blocks], dtype=bool)
    return evidence(readings.rows.pick(chosen), readings.values[chosen])


def _ahead(plan: Plan, blocks: Sequence[int], current: int, closed: Mapping[Comparison, Settling]) -> list[Information]:
    """What each later look would add, without the treatments dropped so far."""
    gone = set(treatments_of(plan, closed))
    found = []
    for low, high in zip(blocks[current - 1 :], blocks[current:], strict=False):
        units = [
            (trial.treatment, trial.block)
            for trial in plan.trials
            if low <= trial.block < high and trial.treatment not in gone
        ]
        found.append(information(rows_of(plan, units)))
    return found


def treatments_of(plan: Plan, closed: Mapping[Comparison, object]) -> dict[Treatment, Comparison]:
    """Treatments that serve one comparison alone and it is closed: later blocks can do without them."""
    if plan.kind != "one-at-a-time":
        return {}
    baseline = plan.baseline.as_dict()
    return {Treatment.of(baseline | {comparison.factor: comparison.level}): comparison for comparison in closed}


def _one(
    plan: Plan,
    readings: Readings,
    response: str,
    blocks: Sequence[int],
    number: int,
    parts: Sequence[Evidence],
    ahead: Sequence[Information],
    closed: Mapping[Comparison, Settling],
    level: float,
    margin: float | None,
) -> Look:
    comparisons = readings.rows.comparisons
    count = len(comparisons)
    fractions = [each / blocks[-1] for each in blocks]
    informations = [part.information for part in parts]
    paths = simulate([*informations, *ahead], count)
    bounds = paths.bounds(fractions, 1 - level)
    solution, final = paths.solutions[number - 1], paths.solutions[-1]
    weighted = sum((part.information.root.T @ part.scores for part in parts), np.zeros(readings.rows.columns.shape[1]))
    estimates = solution.inverse @ weighted
    squares = sum(part.rss + float(part.scores @ part.scores) for part in parts) - float(estimates @ weighted)
    sigma = math.sqrt(max(0.0, squares) / solution.df) if solution.df > 0 else 0.0
    bound = bounds[number - 1]
    last = number == len(blocks)
    settlings = []
    for index, comparison in enumerate(comparisons):
        if not solution.known[index] or sigma == 0:
            before = closed.get(comparison)
            settlings.append(before or Settling(comparison, State.OPEN, None, None, None, 0))
            continue
        value, error = float(estimates[index]), sigma * float(solution.errors(count)[index])
        percent = readings.scale.percent(value)
        interval = readings.scale.interval(value, bound * error, level) if math.isfinite(bound) else None
        state, chance = _state(value, error, bound, interval, readings.higher_is_better, margin), None
        if state is State.OPEN and not last and math.isfinite(bounds[-1]):
            goal = sigma * float(final.errors(count)[index])
            chance = conditional_power(value, error, goal, bounds[-1])
            state = State.BEYOND if chance < CHANCE else State.OPEN
        before = closed.get(comparison)
        if before is not None and state in (State.OPEN, State.BEYOND):
            state = before.state
        since = before.since if before is not None else number if state is not State.OPEN else 0
        settlings.append(Settling(comparison, state, percent, interval, chance, since))
    stop, reason = verdict_of(settlings, number, len(blocks))
    dropped = (
        {}
        if stop
        else treatments_of(plan, {each.comparison: each for each in settlings if each.state is not State.OPEN})
    )
    named = {each.comparison: each for each in settlings}
    return Look(
        number,
        len(blocks),
        blocks[number - 1],
        response,
        bound if math.isfinite(bound) else None,
        tuple(settlings),
        stop,
        reason,
        {treatment: sentence(named[comparison], len(blocks)) for treatment, comparison in dropped.items()},
    )


def _state(
    value: float, error: float, bound: float, interval: Interval | None, higher_is_better: bool, margin: float | None
) -> State:
    if abs(value) > bound * error:
        return State.BETTER if (value > 0) == higher_is_better else State.WORSE
    if margin is not None and interval is not None and -margin < interval.low and interval.high < margin:
        return State.SAME
    return State.OPEN


def conditional_power(value: float, error: float, goal: float, bound: float, optimism: float = OPTIMISM) -> float:
    """Chance that the final |t| passes ``bound``, given the estimate ``value`` with standard error ``error`` now and
    ``goal`` at the end, if the true effect is ``optimism`` standard errors beyond the estimate.
    """
    truth = abs(value) + optimism * error
    now, end = 1 / error**2, 1 / goal**2
    if end <= now * (1 + 1e-9):
        return 1.0 if abs(value) > bound * goal else 0.0
    mean = (now * abs(value) + (end - now) * truth) / end
    spread = math.sqrt(end - now) / end
    return float(stats.norm.sf((bound * goal - mean) / spread) + stats.norm.cdf((-bound * goal - mean) / spread))


def verdict_of(settlings: Sequence[Settling], number: int, of: int) -> tuple[bool, str]:
    """Whether a study ends with these states, and why or why not."""
    left = [each for each in settlings if each.state is State.OPEN]
    if number == of:
        return True, f"at interim analysis {number} of {of}: the plan is complete"
    if left:
        names = ", ".join(str(each.comparison) for each in left[:4]) + (" ..." if len(left) > 4 else "")
        return (
            False,
            f"interim analysis {number} of {of}: {len(left)} of {len(settlings)} comparisons are open ({names})",
        )
    settled = sum(each.state is not State.BEYOND for each in settlings)
    beyond = len(settlings) - settled
    if not beyond:
        why = "every comparison is settled"
    elif not settled:
        why = "no comparison can be settled by the trials left"
    else:
        why = f"{settled} of {len(settlings)} comparisons are settled, the others cannot be by the trials left"
    return True, f"at interim analysis {number} of {of}: {why}"


def sentence(settling: Settling, of: int) -> str:
    """Why a comparison needs no more trials."""
    figure = "" if settling.percent is None else f", {settling.percent:+.2g} %"
    if settling.interval is not None:
        figure += f" [{settling.interval.low:+.2g}, {settling.interval.high:+.2g}]"
    head = f"closed at interim analysis {settling.since} of {of}"
    if settling.state is State.BEYOND:
        return f"{head}: the trials left would hardly settle it{figure}"
    word = "within the margin" if settling.state is State.SAME else settling.state.value
    return f"{head}: {word}{figure}"


def due(plan: Plan, left: Sequence[int], blocks: Sequence[int]) -> int:
    """Number of the latest look whose blocks are complete, 0 if none; ``left``: blocks of trials still to run."""
    first = min(left, default=1 + max(trial.block for trial in plan.trials))
    return sum(each <= first for each in blocks)
