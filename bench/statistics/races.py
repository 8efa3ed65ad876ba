"""Races of simulated levels, played as the lab plays them, and what is right of what they say at their end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis import analyse
from leadline.design import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import Observation, Verdict
from leadline.planning.course import Course, course, interim_of

NAME = "setting"


def field_plan(levels: int, replicates: int, rounds: int) -> Plan:
    """A race of so many levels of one factor; level 0 is the baseline."""
    return make_plan(
        [Factor(NAME, tuple(range(levels)), 0)], Design(kind="racing", replicates=replicates, looks=rounds)
    )


def play(
    plan: Plan, rounds: int, gains: Mapping[Treatment, float], cv: float, seed: Sequence[int], block_cv: float = 0.0
) -> tuple[Course, list[Observation]]:
    """A race to its end. ``gains``: logarithm of a treatment's truth over the baseline's, absent: 0."""
    rng = np.random.default_rng(list(seed))
    noise = rng.normal(0.0, cv, len(plan.trials))
    blocks = rng.normal(0.0, block_cv, len(plan.trials))
    ran: list[Observation] = []
    state = course(plan, ran, "throughput", rounds)
    while not state.over and len(ran) < len(plan.trials):
        for trial in state.plan.trials[len(ran) : state.next_position or len(plan.trials)]:
            value = math.exp(gains.get(trial.treatment, 0.0) + noise[trial.position] + blocks[trial.block])
            place = trial.position
            ran.append(
                Observation(
                    place + 1,
                    place,
                    trial.block,
                    trial.replicate,
                    trial.role,
                    trial.treatment,
                    60.0 * place,
                    {"throughput": value},
                )
            )
        state = course(state.plan, ran, "throughput", rounds)
    return state, ran


@dataclass(frozen=True)
class Judged:
    """Of one race: best levels that were lost, whether none of these is left, whether every simultaneous interval
    holds the truth and every verdict is right, whether nobody that is left is further behind the best in truth than the
    race says, whether one level is left, and trials run.
    """

    lost: frozenset[int]
    none_left: bool
    intervals: bool
    verdicts: bool
    bound: bool
    alone: bool
    trials: int


def judged(truth: Sequence[float], found: Course, ran: Sequence[Observation], rounds: int) -> Judged:
    """``truth``: what every level does, in any unit."""
    highest = max(truth)
    best = {level for level, ratio in enumerate(truth) if ratio == highest}
    running = {int(each[NAME]) for each in found.race.running}
    kept = {each.position for each in ran}
    played = replace(found.plan, trials=tuple(trial for trial in found.plan.trials if trial.position in kept))
    strict = interim_of(found, rounds, True)
    analysis = analyse(played, ran, ["throughput"], interim=lambda _: strict)
    intervals = verdicts = True
    for effect in analysis.responses[0].effects:
        percent = 100 * (truth[int(effect.level)] / truth[0] - 1)
        intervals &= effect.simultaneous is not None and effect.simultaneous.contains(percent)
        verdicts &= not (effect.verdict is Verdict.BETTER and percent <= 0)
        verdicts &= not (effect.verdict is Verdict.WORSE and percent >= 0)
    reach = {int(each.treatment[NAME]): each.at_most for each in found.race.standings}
    ahead = max(truth[level] for level in running)
    bound = all((most := reach[level]) is None or 100 * (1 - truth[level] / ahead) <= most + 1e-9 for level in running)
    return Judged(
        frozenset(best - running), not best & running, intervals, verdicts, bound, len(running) == 1, len(ran)
    )


def races(levels: int, replicates: int, rounds: int, truth: Sequence[float], studies: int, cv: float) -> list[Judged]:
    """So many races of these levels, with blocks that differ by 5 %."""
    plan = field_plan(levels, replicates, rounds)
    gains = {Treatment.of({NAME: level}): math.log(ratio) for level, ratio in enumerate(truth)}
    found = []
    for seed in range(studies):
        state, ran = play(plan, rounds, gains, cv, (seed, levels, rounds), 0.05)
        found.append(judged(truth, state, ran, rounds))
    return found
