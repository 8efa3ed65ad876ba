"""Looks and races where one level has up to five times the noise of the others: error rates hold as without looks."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from witnesses import matrix

from leadline.analysis import analyse
from leadline.design import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import Observation, Verdict
from leadline.planning.boundary import boundary_of
from leadline.planning.course import course
from leadline.planning.looks import schedule

LONGER = matrix("some hundred simulated studies more")

STUDIES = 80
FACTORS = [Factor(f"k{number}", (0, 1), 0) for number in range(4)]


def noisy(plan: Plan, ratios: Mapping[Treatment, float], seed: int, cv: float = 0.03) -> list[Observation]:
    """Null observations of a plan; ``ratios``: noise of a treatment over that of the others."""
    rng = np.random.default_rng(seed)
    blocks = rng.normal(0.0, 0.05, 1 + max(trial.block for trial in plan.trials))
    found = []
    for trial in plan.trials:
        value = math.exp(blocks[trial.block] + rng.normal(0.0, cv * ratios.get(trial.treatment, 1.0)))
        begun = 60.0 * trial.position
        found.append(
            Observation(
                *(trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, trial.treatment),
                *(begun, {"throughput": value}),
            )
        )
    return found


def rates(plan: Plan, ratios: Mapping[Treatment, float], looks: int, studies: int) -> float:
    """Share of null studies in which any look calls any level better or worse."""
    blocks = schedule(plan, looks)
    wrong = 0
    for seed in range(studies):
        every = noisy(plan, ratios, seed)
        called = False
        for number, end in enumerate(blocks, 1):
            seen = [each for each in every if each.block < end]
            strict = boundary_of(plan, seen, "throughput", blocks, number).interim(number)
            found = analyse(plan, seen, ["throughput"], verdicts_only=True, interim=lambda _, strict=strict: strict)
            called |= any(each.verdict in (Verdict.BETTER, Verdict.WORSE) for each in found.responses[0].effects)
        wrong += called
    return wrong / studies


def upper(rate: float, studies: int) -> float:
    return rate + 3 * math.sqrt(rate * (1 - rate) / studies)


@pytest.mark.parametrize("noisy_baseline", [pytest.param(False, marks=LONGER), True])
def test_looks_keep_the_error_rate_where_one_level_is_five_times_as_noisy(noisy_baseline: bool) -> None:
    plan = make_plan(FACTORS, Design(replicates=9, sentinels=None))
    baseline = plan.baseline.as_dict()
    which = plan.baseline if noisy_baseline else Treatment.of(baseline | {"k0": 1})
    assert rates(plan, {which: 5.0}, 3, STUDIES) <= upper(0.05, STUDIES)


def test_a_race_rarely_loses_a_noisy_best_level() -> None:
    """Six equal levels, one with five times the noise: it leaves in no more than its share of races."""
    plan = make_plan([Factor("k", tuple(range(6)), 0)], Design(kind="racing", replicates=6, looks=5))
    assert lost(plan, 5, 5.0, 3, STUDIES)[0] <= upper(0.05, STUDIES)


def lost(plan: Plan, rounds: int, ratio: float, level: int, races: int) -> tuple[float, float]:
    """Shares of races of equal levels that lose the noisy ``level``, and any given other one."""
    name = plan.factors[0].name
    which = Treatment.of({name: level})
    own = others = 0
    for seed in range(races):
        rng = np.random.default_rng(seed)
        state, ran = course(plan, [], "throughput", rounds), list[Observation]()
        noise = rng.normal(0.0, 0.03, len(plan.trials))
        blocks = rng.normal(0.0, 0.05, len(plan.trials))
        while not state.over and len(ran) < len(plan.trials):
            for trial in state.plan.trials[len(ran) : state.next_position or len(plan.trials)]:
                size = ratio if trial.treatment == which else 1.0
                value = math.exp(blocks[trial.block] + size * noise[trial.position])
                place = trial.position
                ran.append(
                    Observation(
                        *(place + 1, place, trial.block, trial.replicate, trial.role, trial.treatment),
                        *(60.0 * place, {"throughput": value}),
                    )
                )
            state = course(state.plan, ran, "throughput", rounds)
        own += which not in state.race.running
        others += len(plan.factors[0].levels) - 1 - len([each for each in state.race.running if each != which])
    return own / races, others / races / (len(plan.factors[0].levels) - 1)


if __name__ == "__main__":
    number = int(sys.argv[1])
    for replicates, looks in ((6, 3), (9, 3), (10, 5)):
        plan = make_plan(FACTORS, Design(replicates=replicates, sentinels=None))
        noisy_level = Treatment.of(plan.baseline.as_dict() | {"k0": 1})
        for ratio in (1.0, 3.0, 5.0):
            for which in (noisy_level, plan.baseline):
                print(replicates, looks, ratio, which == plan.baseline, rates(plan, {which: ratio}, looks, number))
    for levels, replicates, rounds in ((3, 6, 5), (6, 6, 5), (12, 4, 3)):
        plan = make_plan(
            [Factor("k", tuple(range(levels)), 0)], Design(kind="racing", replicates=replicates, looks=rounds)
        )
        for ratio in (1.0, 3.0, 5.0):
            print(levels, replicates, rounds, ratio, lost(plan, rounds, ratio, levels // 2, number))
