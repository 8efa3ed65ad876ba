"""Looks over simulated studies: errors, findings and trials run. docs/evidence/statistics.md, layouts.md.

python bench/statistics/sequential.py [studies] [--only looks slots watched session]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "statistics")]

from simulated_study import SimulatedSystem, pseudo_factors  # noqa: E402

from leadline.analysis.sequential import FEWEST, bounds  # noqa: E402
from leadline.analysis.table import Floats  # noqa: E402
from leadline.design.make import make_plan  # noqa: E402
from leadline.layouts import switchback_plan  # noqa: E402
from leadline.model import distributions  # noqa: E402
from leadline.model.design import Design, Switchback  # noqa: E402
from leadline.model.knob import ApplyCost, Level  # noqa: E402
from leadline.model.plan import Factor, Plan, Role, Treatment  # noqa: E402
from leadline.model.result import Observation  # noqa: E402
from leadline.model.workload import Workload  # noqa: E402
from leadline.places.simulated import Model, Truth, simulate_observations  # noqa: E402
from leadline.planning.gating import blocks_at, rate_of  # noqa: E402
from leadline.planning.looks import CHANCE, Look, State, conditional_power, look, schedule  # noqa: E402

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


def measured(helps: bool, random: np.random.Generator, rate: float, blocks: int) -> tuple[State, int]:
    """A proposal of a session on the simulated host: how it ends, and its blocks. As ``planning.looks.look`` decides of
    pairs, whose conditional power ends what is hopeless.
    """
    values, (limits, end) = random.choice(host_differences(helps), blocks), limits_of(blocks, rate)
    for number in range(FEWEST, blocks + 1):
        ratio = values[:number].mean() / values[:number].std(ddof=1) * math.sqrt(number)
        if abs(ratio) > limits[number - 1]:
            return (State.BETTER if ratio > 0 else State.WORSE), number
        deviate = float(distributions.norm.isf(distributions.t.sf(abs(ratio), number - 1)))
        if number < blocks and conditional_power(deviate, 1.0, math.sqrt(number / blocks), end) < CHANCE:
            return State.BEYOND, number
    return State.OPEN, blocks


@cache
def limits_of(blocks: int, rate: float) -> tuple[Floats, float]:
    """(blocks) limits of |t|, and the normal limit at the end."""
    law, numbers = bounds(blocks), np.arange(1, blocks + 1)
    nominal = np.array([law.nominal(number / blocks, 2 * rate) for number in numbers])
    limits = distributions.t.isf(nominal / 2, np.maximum(numbers - 1, 1))
    return np.asarray(limits), float(distributions.norm.isf(nominal[-1] / 2))


@cache
def host_differences(helps: bool) -> Floats:
    """Logarithms of throughput of one side over the other in 10,000 blocks of the simulated host."""
    load = Workload(users=20, ramp_up=5, steady=20)
    effects = [{"when": {"vm.k": 1}, "percent": {"throughput": 0.06}}] if helps else []
    truth = Truth.model_validate({"noise": {"trials": 0.055, "seconds": 0.02}, "effects": effects})
    factor = Factor("vm.k", (0, 1), 0, apply_cost=ApplyCost.LIVE)
    plan = make_plan([factor], Design(replicates=500, sentinels=None))
    sides, model = np.zeros((20, 2, 500)), Model(truth, load)
    for seed in range(20):
        for row in simulate_observations(plan, truth, load, seed, model=model):
            sides[seed, int(row.treatment != plan.baseline), row.block] = math.log(row.responses["throughput"])
    return np.asarray((sides[:, 1] - sides[:, 0]).ravel())


def session_table(sessions: int) -> None:
    """A greedy client of a session: it proposes one setting after the other and keeps what it may."""
    head = "| the true +6 % is proposed | sessions | something wrong kept | it is kept"
    print(f"{head} | its blocks / fixed | all blocks / fixed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    fixed, alone = 16, 20
    for place in (None, 1, 3, 5, 6, 8):
        wrong = hits = its = every = 0
        random = np.random.default_rng(9)
        for _ in range(sessions):
            shown: list[bool] = []
            for at in range(1, 31 if place is None else 9):
                rate = rate_of(shown)
                state, ran = measured(at == place, random, rate, blocks_at(rate, alone))
                every += ran
                its += ran * (at == place)
                shown.append(state is State.BETTER)
                hits += shown[-1] and at == place
            wrong += any(better and at != place for at, better in enumerate(shown, 1))
        name = "never, 30 proposals" if place is None else f"as number {place} of 8"
        found = "| " if place is None else f"{hits / sessions:.2f} | {its / sessions / fixed:.2f}"
        print(
            f"| {name} | {sessions} | {wrong / sessions:.3f} | {found} | {every / sessions / fixed:.1f} |", flush=True
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
    "watched": watched_table,
    "session": session_table,
}

if __name__ == "__main__":
    main()
