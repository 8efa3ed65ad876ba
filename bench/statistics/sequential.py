"""Looks and races over simulated studies: errors, findings and trials run. The tables of docs/planning.md.

python bench/statistics/sequential.py [studies]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "statistics"))

from simulated_study import SimulatedSystem, pseudo_factors

from leadline.design import make_plan
from leadline.model.knob import Level
from leadline.model.plan import Plan, Role, Treatment
from leadline.model.result import Observation
from leadline.model.study import Design
from leadline.planning.looks import Look, State, look, schedule
from leadline.planning.race import race

CV = 0.043
FOUND = (State.BETTER, State.WORSE)


def sequential(plan: Plan, observations: Sequence[Observation], looks: int) -> tuple[Look, int]:
    """A study as the lab runs it: its last look and the trials it took."""
    blocks = schedule(plan, looks)
    ran: list[Observation] = []
    gone: set[Treatment] = set()
    for number, (low, high) in enumerate(zip((0, *blocks), blocks, strict=False), 1):
        ran += [
            each
            for each in observations
            if low <= each.block < high and not (each.role is Role.TREATMENT and each.treatment in gone)
        ]
        found = look(plan, ran, "throughput", blocks, number)
        if found.stop:
            break
        gone = set(found.drop)
    return found, len(ran)


def looks_table(studies: int) -> None:
    print("| true effects of 5 factors | looks | any wrong finding | each true effect found | trials run |")
    print("| --- | --- | --- | --- | --- |")
    plan = make_plan(pseudo_factors(5), Design(replicates=10, sentinels=None))
    cases: list[tuple[str, dict[str, float]]] = [
        ("none", {}),
        ("one of +8 %", {"pseudo1": 1.08}),
        ("+20 %, -15 %, +8 %", {"pseudo1": 1.2, "pseudo2": 0.85, "pseudo3": 1.08}),
    ]
    for name, ratios in cases:
        effects: dict[tuple[str, Level], float] = {(factor, "b"): ratio for factor, ratio in ratios.items()}
        for looks in (1, 2, 5):
            wrong = hits = trials = 0
            for seed in range(studies):
                observations = SimulatedSystem(effects=effects, cv=CV).run(plan, 90_000 + seed)
                found, count = sequential(plan, observations, looks)
                trials += count
                states = {each.comparison.factor: each.state for each in found.settlings}
                wrong += any(state in FOUND and factor not in ratios for factor, state in states.items())
                hits += sum(states[factor] in FOUND for factor in ratios)
            share = f"{hits / studies / len(ratios):.2f}" if ratios else ""
            print(f"| {name} | {looks} | {wrong / studies:.3f} | {share} | {trials / studies / len(plan.trials):.0%} |")


def race_table(studies: int) -> None:
    print("| settings | lead of the best | best kept | alone at the end | trials run |")
    print("| --- | --- | --- | --- | --- |")
    for count, lead in ((12, 0.0), (12, 0.05), (12, 0.10)):
        field = tuple(Treatment.of({"setting": f"s{number:02d}"}) for number in range(count))
        means = [1 + lead, *np.linspace(1.0, 0.85, count - 1)] if lead else [1.0] * count
        kept = alone = trials = 0
        for seed in range(studies):
            rng = np.random.default_rng([5, count, seed])
            ran: list[Observation] = []
            state = race(field, ran, "throughput", 5)
            while not state.finished:
                for block in (2 * state.rounds, 2 * state.rounds + 1):
                    shared = rng.normal(0, 0.05)
                    for treatment in state.propose(seed + block):
                        value = means[field.index(treatment)] * math.exp(shared + rng.normal(0, CV))
                        number = len(ran)
                        ran.append(
                            Observation(
                                number, number, block, block, Role.TREATMENT, treatment, 0.0, {"throughput": value}
                            )
                        )
                state = race(field, ran, "throughput", 5)
            kept += field[0] in state.running
            alone += len(state.running) == 1
            trials += len(ran)
        share = trials / studies / (count * 10)
        print(f"| {count} | {lead:.0%} | {kept / studies:.2f} | {alone / studies:.2f} | {share:.0%} |")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    looks_table(wanted)
    print()
    race_table(max(10, wanted // 20))
