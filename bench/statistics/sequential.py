"""Looks over simulated studies: errors, findings and trials run. docs/evidence/statistics.md, layouts.md.

python bench/statistics/sequential.py [studies] [--only looks slots watched session]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_study import SimulatedSystem, pseudo_factors  # noqa: E402

from leadline.analysis.sequential import FEWEST, bounds  # noqa: E402
from leadline.analysis.table import Floats  # noqa: E402
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


NOISES = ("normal", "t with 3 df", "AR 0.3 from trial to trial")


def differences(noise: str, studies: int, blocks: int, random: np.random.Generator) -> Floats:
    """(studies, blocks): differences of pairs of trials in random order, of standard deviation 1, of no effect."""
    if noise == "t with 3 df":
        return random.standard_t(3, (studies, blocks)) / math.sqrt(3)
    if noise.startswith("AR"):
        trials = random.standard_normal((studies, 2 * blocks)) * math.sqrt(1 - 0.3**2)
        trials[:, 0] /= math.sqrt(1 - 0.3**2)
        for at in range(1, 2 * blocks):
            trials[:, at] += 0.3 * trials[:, at - 1]
        order = random.choice([-1.0, 1.0], (studies, blocks))
        return order * (trials[:, 1::2] - trials[:, ::2]) / math.sqrt(2 * 0.7)
    return random.standard_normal((studies, blocks))


def t_ratios(values: Floats) -> Floats:
    """|t| of each study (rows) after every block; infinite after the first."""
    numbers = np.arange(1, values.shape[1] + 1)
    total, squares = values.cumsum(axis=1), (values**2).cumsum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(total) / np.sqrt((numbers * squares - total**2) / (numbers - 1))


def mixture(ratios: Floats, effect: float) -> Floats:
    """Whether a t mixture e-process passes 20 (Wang and Ramdas 2024); a normal prior of the effect's size."""
    numbers = np.arange(1, ratios.shape[1] + 1)
    prior, growth = 1 / effect**2, np.log1p(ratios**2 / np.maximum(numbers - 1, 1))
    shrunk = np.log1p(np.expm1(growth) * prior / (numbers + prior))
    passes = np.log(prior / (numbers + prior)) + numbers * (growth - shrunk) >= 2 * math.log(20)
    passes[:, : FEWEST - 1] = False
    return np.asarray(passes)


def watched_table(studies: int) -> None:
    """One comparison of paired blocks, looked at after each, against a fixed plan of 80 % power."""
    head = "| fixed plan | watched plan | noise | no effect: called | found | blocks of the fixed"
    print(f"{head} | e-process: called | found | blocks |")
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    random = np.random.default_rng(11)
    for fixed in (8, 16, 32):
        effects = np.linspace(0.2, 2.0, 3601)
        critical = stats.t.isf(0.025, fixed - 1)
        effect = float(effects[np.argmax(stats.nct.sf(critical, fixed - 1, effects * math.sqrt(fixed)) >= 0.8)])
        for blocks in (fixed, math.floor(1.25 * fixed)):
            numbers = np.arange(1, blocks + 1)
            bound = [bounds(blocks).nominal(number / blocks, 0.05) for number in numbers]
            limits = np.where(numbers < FEWEST, np.inf, stats.t.isf(np.array(bound) / 2, np.maximum(numbers - 1, 1)))
            for noise in NOISES:
                null = differences(noise, studies, blocks, random)
                cells = []
                before, after = t_ratios(null), t_ratios(null + effect)
                for called, found in (
                    ((before > limits) & np.isfinite(limits), (after > limits) & np.isfinite(limits)),
                    (mixture(before, effect), mixture(after, effect)),
                ):
                    ends = np.where(found.any(axis=1), found.argmax(axis=1) + 1, blocks)
                    cells.append(
                        f"{called.any(axis=1).mean():.3f} | {found.any(axis=1).mean():.2f} | {ends.mean() / fixed:.2f}"
                    )
                print(f"| {fixed} | {blocks} | {noise} | {' | '.join(cells)} |")


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
    "watched": watched_table,
}

if __name__ == "__main__":
    main()
