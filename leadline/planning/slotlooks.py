"""Looks at a switchback study: after complete instances, by the analysis's own model.

Slots of one instance resemble their neighbours, which a look at whole trials does not know. So the study's own analysis
(mixed model, autocorrelated slots) is made of the instances that have ended, and its simultaneous intervals widened to
repeated ones by ``leadline.planning.adjust``: what a look decides is what the results would show at that moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

from leadline.analysis import analyse
from leadline.model.plan import Plan
from leadline.model.result import Effect, Observation, Verdict
from leadline.planning.adjust import adjusted
from leadline.planning.looks import CHANCE, Look, Settling, State, conditional_power, verdict_of
from leadline.planning.paths import simulate
from leadline.planning.shape import Comparison, comparisons_of, information, rows_of

_STATES = {
    Verdict.BETTER: State.BETTER,
    Verdict.WORSE: State.WORSE,
    Verdict.EQUIVALENT: State.SAME,
    Verdict.FAILED: State.BEYOND,
}


def look_at_slots(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    blocks: Sequence[int],
    number: int,
    level: float = 0.95,
    margin: float | None = None,
) -> Look:
    """The look ``number`` (from 1) of ``blocks``: go on, or stop and why. Levels are never dropped: every slot block
    holds all of them. Pure, and the same after an interruption, as it rests on the instances of its blocks alone.
    """
    end = blocks[number - 1]
    seen = [each for each in observations if each.block < end]
    analysis = analyse(plan, seen, [response], level=level, equivalence_margin=margin)
    analysis = adjusted(analysis, plan, seen, blocks, number, level)
    effects = {(each.factor, each.level): each for each in analysis.responses[0].effects}
    final = _final_bound(plan, blocks, level)
    share = end / blocks[-1]
    last = number == len(blocks)
    settlings = tuple(
        _settling(each, effects.get((each.factor, each.level)), number, share, final, last)
        for each in comparisons_of(plan)
    )
    stop, reason = verdict_of(settlings, number, len(blocks))
    return Look(number, len(blocks), end, response, None, settlings, stop, reason)


def _settling(
    comparison: Comparison, effect: Effect | None, number: int, share: float, final: float, last: bool
) -> Settling:
    if effect is None or effect.percent is None or effect.interval is None or effect.df is None:
        state = State.BEYOND if effect is not None and effect.verdict is Verdict.FAILED else State.OPEN
        return Settling(comparison, state, None, None, None, number if state is not State.OPEN else 0)
    state = _STATES.get(effect.verdict, State.OPEN)
    chance = None
    if state is State.OPEN and not last and math.isfinite(final) and effect.interval.low > -100:
        reach = math.log1p(effect.interval.high / 100) - math.log1p(effect.percent / 100)
        error = reach / float(stats.t.ppf((1 + effect.interval.level) / 2, effect.df))
        if error > 0:
            chance = conditional_power(math.log1p(effect.percent / 100), error, error * math.sqrt(share), final)
            state = State.BEYOND if chance < CHANCE else State.OPEN
    since = 0 if state is State.OPEN else number
    return Settling(comparison, state, effect.percent, effect.simultaneous, chance, since)


def _final_bound(plan: Plan, blocks: Sequence[int], level: float) -> float:
    parts = []
    for low, high in zip((0, *blocks), blocks, strict=False):
        units = [
            (slot.treatment, trial.position)
            for trial in plan.trials
            if low <= trial.block < high
            for slot in trial.slots
        ]
        parts.append(information(rows_of(plan, units)))
    paths = simulate(parts, len(comparisons_of(plan)))
    return paths.bounds([each / blocks[-1] for each in blocks], 1 - level)[-1]
