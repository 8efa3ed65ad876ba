"""Looks over simulated studies: errors, findings and trials run. docs/evidence/layouts.md.

python bench/statistics/sequential.py [studies] [--only looks slots]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_study import SimulatedSystem, pseudo_factors  # noqa: E402

from leadline.design import make_plan  # noqa: E402
from leadline.layouts import switchback_plan  # noqa: E402
from leadline.model.design import Design, Switchback  # noqa: E402
from leadline.model.knob import ApplyCost, Level  # noqa: E402
from leadline.model.plan import Factor, Plan, Role, Treatment  # noqa: E402
from leadline.model.result import Observation  # noqa: E402
from leadline.model.workload import Workload  # noqa: E402
from leadline.places.simulated import Model, Truth, simulate_observations  # noqa: E402
from leadline.planning.looks import Look, State, look, schedule  # noqa: E402

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


def slots_table(studies: int) -> None:
    """Three looks at a switchback study of two factors in six lives."""
    print("| true effects of 2 live factors | studies | any wrong finding | each true effect found | lives run |")
    print("| --- | --- | --- | --- | --- |")
    load = Workload(users=20, ramp_up=5, steady=90)
    factors = [Factor(f"vm.k{number}", (0, 1), 0, apply_cost=ApplyCost.LIVE) for number in (1, 2)]
    design = Design(replicates=6, sentinels=None, switchback=Switchback(slot=6, wash_out=1))
    plan = switchback_plan(factors, design, load)
    for name, change in (("none", 0.0), ("one of +5 %", 0.05)):
        effects = [{"when": {"vm.k1": 1}, "percent": {"throughput": change}}] if change else []
        truth = Truth.model_validate(
            {"noise": {"trials": 0.05, "seconds": 0.05, "autocorrelation": 0.5}, "effects": effects}
        )
        model, ends = Model(truth, load), schedule(plan, 3)
        wrong = hits = lives = 0
        for seed in range(studies):
            every = simulate_observations(plan, truth, load, seed, model=model, wash_out=1)
            for number, end in enumerate(ends, 1):
                seen = [each for each in every if each.block < end]
                state = look(plan, seen, "throughput", ends, number)
                if state.stop:
                    break
            called = {each.comparison.factor: each.state in FOUND for each in state.settlings}
            hits += bool(change) and called["vm.k1"]
            wrong += called["vm.k2"] or (not change and called["vm.k1"])
            lives += end
        share = f"{hits / studies:.2f}" if change else ""
        print(
            f"| {name} | {studies} | {wrong / studies:.3f} | {share} | {lives / studies / ends[-1]:.0%} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="?", type=int, default=400)
    parser.add_argument("--only", nargs="*", choices=list(TABLES), default=list(TABLES))
    options = parser.parse_args()
    for name in options.only:
        TABLES[name](options.studies)
        print()


TABLES: dict[str, Callable[[int], None]] = {
    "looks": looks_table,
    "slots": slots_table,
}

if __name__ == "__main__":
    main()
