"""Looks at a study before its end: error-spending boundaries, repeated intervals, conditional power.

A look comes after complete blocks, in a switchback study of complete trials. It is the study's own analysis of what ran
until then, so that what a look decides is what the results would show at that moment. The family of all comparisons of
one response shares one boundary, so that over all looks together at most 1 - level of the studies without effects call
anything better or worse. Intervals are repeated confidence intervals (Jennison and Turnbull 1989): valid at every look,
whatever rule ended the study. A comparison is open until its interval excludes zero, lies within the margin of no
interest, or has little chance left to be settled by the trials still planned (conditional power at an optimistic
effect); looking at that last rule never raises the error rate, as it can only end a study with fewer findings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from leadline.analysis.sequential import FEWEST, Interim
from leadline.analysis.study import analyse
from leadline.analysis.table import Floats, as_one_factor, cell_of
from leadline.analysis.within import Information, planned_sample
from leadline.design.order import dear_factors, is_live
from leadline.model import distributions
from leadline.model.design import Looks
from leadline.model.errors import UsageError
from leadline.model.plan import Comparison, Plan, Treatment
from leadline.model.result import Effect, Interval, Observation, Verdict
from leadline.model.units import signed
from leadline.planning.boundary import NOTHING, Boundary, boundary_of, interim_at, shares_of, simulate

CHANCE = 0.1  # conditional power below which a comparison cannot be settled
OPTIMISM = 1.0  # standard errors added to the estimate when that power is computed


class State(StrEnum):
    """What a look says of a comparison. ``beyond`` the budget: the trials left would hardly settle it."""

    OPEN = "open"
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    BEYOND = "beyond"


_STATES = {
    Verdict.BETTER: State.BETTER,
    Verdict.WORSE: State.WORSE,
    Verdict.EQUIVALENT: State.SAME,
}


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
    """The decision after ``blocks`` blocks.

    ``drop``: treatments whose comparison is closed, to be left out of later blocks, each with the reason.
    """

    number: int
    of: int
    blocks: int
    response: str
    settlings: tuple[Settling, ...]
    stop: bool
    reason: str
    drop: Mapping[Treatment, str] = field(default_factory=dict)


def schedule(plan: Plan, looks: Looks) -> tuple[int, ...]:
    """Numbers of complete blocks after which a plan is looked at; the last is the whole plan. One that is watched is
    asked after every block, from the first that can tell anything.

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
    if looks == "watched":
        return tuple(range(min(FEWEST, blocks), blocks + 1))
    if looks > blocks:
        raise UsageError(
            f"design: {looks} interim analyses need {looks} blocks, and this plan has {blocks}; set "
            f"looks to {blocks}, or "
            f"replicates to {looks} or more"
        )
    return tuple(math.floor(blocks * number / looks + 0.5) for number in range(1, looks + 1))


def final_level(plan: Plan, looks: Looks, level: float = 0.95) -> float:
    """The level at which the last analysis of a complete plan judges."""
    if looks == 1:
        return level
    blocks = schedule(plan, looks)
    if looks == "watched":
        return interim_at(plan, np.ones(len(plan.comparisons)), level).level
    boundary = Boundary(simulate(_ahead(plan, (0, *blocks), 1, {})), tuple(block / blocks[-1] for block in blocks))
    strict = boundary.interim(len(blocks), level)
    return level if strict is None else strict.level


def look(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    blocks: Sequence[int],
    number: int,
    level: float = 0.95,
    margin: float | None = None,
    watch: bool = False,
) -> Look:
    """The look ``number`` (from 1) of ``blocks`` (see ``schedule``): go on, or stop and why. ``watch``: one of a study
    that may be looked at whenever one likes, none of whose levels is dropped.

    Decides by the study's own analysis of the trials so far, at the level of the look. Pure: earlier looks are made
    again from the same observations, so that a study that was interrupted decides as one that was not. ``margin`` in
    percent: a comparison whose interval lies within it is settled as the same.
    """
    plan, observations = as_one_factor(plan, observations)
    looked = _Looked(plan, response, blocks, level, margin, watch)
    alone = watch or any(trial.slots for trial in plan.trials)
    closed: dict[Comparison, Settling] = {}
    result: Look | None = None
    for current in range(number if alone else 1, number + 1):  # where no level is dropped no look needs another
        observed = [observation for observation in observations if observation.block < blocks[current - 1]]
        result = _one(looked, observed, current, closed)
        closed = {settling.comparison: settling for settling in result.settlings if settling.state is not State.OPEN}
    assert result is not None, "looks count from 1"
    return result


def _ahead(plan: Plan, blocks: Sequence[int], current: int, closed: Mapping[Comparison, Settling]) -> list[Information]:
    """What each later look would add, without the treatments dropped so far."""
    table, sample = planned_sample(plan)
    gone = {cell_of(plan.factors, treatment) for treatment in treatments_of(plan, closed)}
    remaining = np.array([cell not in gone for cell in table.cells])[sample.cells]
    return [
        Information.of(table, sample.only(remaining & (low <= sample.blocks) & (sample.blocks < high)))
        for low, high in zip(blocks[current - 1 :], blocks[current:], strict=False)
    ]


def treatments_of(plan: Plan, closed: Mapping[Comparison, object]) -> dict[Treatment, Comparison]:
    """Treatments that serve one comparison alone and it is closed: later blocks can do without them."""
    if plan.kind != "one-at-a-time":
        return {}
    baseline = plan.baseline.as_dict()
    return {Treatment.of(baseline | {comparison.factor: comparison.level}): comparison for comparison in closed}


@dataclass(frozen=True)
class _Looked:
    """What is looked at, and how: the same at every look."""

    plan: Plan
    response: str
    blocks: Sequence[int]
    level: float
    margin: float | None
    watch: bool


def _one(asked: _Looked, seen: Sequence[Observation], number: int, closed: Mapping[Comparison, Settling]) -> Look:
    plan, response, blocks = asked.plan, asked.response, asked.blocks
    strict, final, shrinks = _stage(asked, seen, number, closed)
    analysis = analyse(
        plan,
        seen,
        [response],
        asked.level,
        equivalence_margin=asked.margin,
        verdicts_only=True,
        interim=lambda _: strict,
    )
    effects = {(effect.factor, effect.level): effect for effect in analysis.responses[0].effects}
    last = number == len(blocks)
    settlings = []
    for index, comparison in enumerate(plan.comparisons):
        effect, before = effects.get((comparison.factor, comparison.level)), closed.get(comparison)
        state, chance = State.OPEN if effect is None else _STATES.get(effect.verdict, State.OPEN), None
        if state is State.OPEN and effect is not None and not last:
            chance = _chance(effect, final, float(shrinks[index]))
            state = State.BEYOND if chance is not None and chance < CHANCE else State.OPEN
        if before is not None and state in (State.OPEN, State.BEYOND):
            state = before.state
        since = before.since if before is not None else number if state is not State.OPEN else 0
        percent, interval = (None, None) if effect is None else (effect.percent, effect.simultaneous)
        settlings.append(Settling(comparison, state, percent, interval, chance, since))
    stop, reason = verdict_of(settlings, number, len(blocks))
    dropped = (
        {}
        if stop or asked.watch
        else treatments_of(
            plan, {settling.comparison: settling for settling in settlings if settling.state is not State.OPEN}
        )
    )
    named = {settling.comparison: settling for settling in settlings}
    return Look(
        number,
        len(blocks),
        blocks[number - 1],
        response,
        tuple(settlings),
        stop,
        reason,
        {treatment: sentence(named[comparison], len(blocks)) for treatment, comparison in dropped.items()},
    )


def _stage(
    asked: _Looked, seen: Sequence[Observation], number: int, closed: Mapping[Comparison, Settling]
) -> tuple[Interim | None, float, Floats]:
    """How a look judges, the bound at the end of the plan, and standard errors (k) then over those of now."""
    plan, response, blocks, level = asked.plan, asked.response, asked.blocks, asked.level
    if asked.watch:
        shares, complete = shares_of(plan, seen, response), np.ones(len(plan.comparisons))
        if shares is None:
            return NOTHING, math.inf, complete
        end = (1 - interim_at(plan, complete, level).level) / len(complete)
        return interim_at(plan, shares, level), float(distributions.norm.isf(end / 2)), np.sqrt(shares)
    boundary = boundary_of(plan, seen, response, blocks, number, _ahead(plan, blocks, number, closed))
    now, end = (np.linalg.norm(boundary.paths.known[at].fit.half, axis=1) for at in (number - 1, -1))
    ratios = np.divide(end, now, out=np.ones_like(now), where=now > 0)
    return boundary.interim(number, level), boundary.bound(len(blocks), level), ratios


def _chance(effect: Effect, final: float, shrink: float) -> float | None:
    """Conditional power of an effect at the last look; None where nothing is known yet."""
    if effect.p_value is None or effect.df is None or not math.isfinite(final) or shrink <= 0:
        return None
    ratio = float(distributions.t.isf(max(effect.p_value, 1e-300) / 2, effect.df))
    return conditional_power(ratio, 1.0, shrink, final)


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
    return float(
        distributions.norm.sf((bound * goal - mean) / spread) + distributions.norm.cdf((-bound * goal - mean) / spread)
    )


def verdict_of(settlings: Sequence[Settling], number: int, of: int) -> tuple[bool, str]:
    """Whether a study ends with these states, and why or why not."""
    open_ = [settling for settling in settlings if settling.state is State.OPEN]
    if number == of:
        return True, f"at interim analysis {number} of {of}: the plan is complete"
    if open_:
        names = ", ".join(str(settling.comparison) for settling in open_[:4]) + (" ..." if len(open_) > 4 else "")
        return (
            False,
            f"interim analysis {number} of {of}: {len(open_)} of {len(settlings)} comparisons are open ({names})",
        )
    settled = sum(settling.state is not State.BEYOND for settling in settlings)
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
    figure = "" if settling.percent is None else f", {signed(settling.percent, 2)} %"
    if settling.interval is not None:
        figure += f" [{signed(settling.interval.low, 2)}, {signed(settling.interval.high, 2)}]"
    head = f"closed at interim analysis {settling.since} of {of}"
    if settling.state is State.BEYOND:
        return f"{head}: the trials left would hardly settle it{figure}"
    word = "within the margin" if settling.state is State.SAME else settling.state.value
    return f"{head}: {word}{figure}"


def due(plan: Plan, left: Sequence[int], blocks: Sequence[int]) -> int:
    """Number of the latest look whose blocks are complete, 0 if none; ``left``: blocks of trials still to run."""
    first = min(left, default=1 + max(trial.block for trial in plan.trials))
    return sum(block <= first for block in blocks)
