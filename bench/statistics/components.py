"""Error rates of every layout where one source of noise acts on one factor alone: docs/evidence/layouts.md.

python bench/statistics/components.py [--studies 1000] [--layouts rotation ...] [--sources instance-effect ...]

Three factors of two levels (of forks and trials as well as of slots), none of which has an effect on average. What acts
on one factor alone acts on the first.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # these matrices are small: threads would only wait for each other

import numpy as np

from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.layouts import rotation_plan, switchback_plan
from leadline.model.design import Design, Rotation, Switchback
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, PlannedTrial, Treatment
from leadline.model.result import Observation, Verdict
from leadline.model.workload import Workload

LAYOUTS = (
    "plain",
    "one at a time",
    "switchback of 6",
    "switchback and restart",
    "rotation of 4",
    "rotation of 8",
    "two rotations of 4",
    "rotation of trials",
    "forks",
)


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logarithms; ``effect``: of the first factor's effect, from instance to instance (world to
    world, trial to trial); ``place``: what the last slot or trial of a block has beyond the first; ``drift`` over a
    study; ``noisier``: times the noise at the first factor's other level.
    """

    slot: float = 0.03
    instance: float = 0.01
    block: float = 0.01
    correlation: float = 0.0
    effect: float = 0.0
    arrivals: float = 0.0
    place: float = 0.0
    drift: float = 0.0
    noisier: float = 1.0


SOURCES = {
    "noise alone": Noise(),
    "effect by 1 %": Noise(effect=0.01),
    "effect by 2 %": Noise(effect=0.02),
    "effect by 4 %": Noise(effect=0.04),
    "effect by 10 %": Noise(effect=0.10),
    "block by 10 %": Noise(block=0.10),
    "instance by 10 %": Noise(instance=0.10),
    "arrivals by 5 %": Noise(arrivals=0.05),
    "order by 10 %": Noise(place=0.10),
    "drift of 20 %": Noise(drift=0.20),
    "AR(1) of 0.6": Noise(correlation=0.6),
    "AR(1) of 0.9": Noise(correlation=0.9),
    "level 3 times as noisy": Noise(noisier=3.0),
}


@cache
def plan_of(layout: str) -> Plan:
    live = [Factor(f"vm.k{number}", (0, 1), 0, apply_cost=ApplyCost.LIVE) for number in range(3)]
    restart = [Factor(f"server.k{number}", (0, 1), 0) for number in range(3)]
    load = Workload(users=20, ramp_up=12, steady=112)

    def rotation(instances: int, replicates: int, steady: float, factors: list[Factor] = live) -> Plan:
        layout = Rotation(slot=7, wash_out=3, instances=instances)
        design = Design(kind="full-factorial", replicates=replicates, rotation=layout, sentinels=None, seed=20)
        return rotation_plan(factors, design, load.model_copy(update={"steady": steady}))

    if layout == "plain":
        return make_plan(restart, Design(kind="full-factorial", replicates=4, sentinels=None))
    if layout == "one at a time":
        return make_plan(restart, Design(replicates=6, sentinels=None))
    if layout == "forks":
        return make_plan(restart, Design.model_validate({"kind": "forks", "of": "full-factorial", "worlds": 8}))
    if layout.startswith("switchback"):
        both = [*live[:2], restart[0]] if layout.endswith("restart") else live
        design = Design(kind="full-factorial", replicates=6, sentinels=None, switchback=Switchback(slot=7, wash_out=3))
        return switchback_plan(both, design, load)
    if layout == "rotation of trials":
        return rotation(1, 4, 28.0, restart)
    return {
        "rotation of 4": lambda: rotation(4, 4, 112.0),
        "rotation of 8": lambda: rotation(8, 8, 56.0),
        "two rotations of 4": lambda: rotation(4, 8, 56.0),
    }[layout]()


def observations(plan: Plan, noise: Noise, seed: int, gains: Sequence[float] = ()) -> list[Observation]:
    """One study's trials or slots. ``gains``: logarithms of the factors' effects, 0 if absent."""
    rng = np.random.default_rng([seed, 41])
    first, count = plan.factors[0].name, len(plan.trials)
    blocks = rng.normal(0, noise.block, 1 + max(trial.block for trial in plan.trials))
    worlds = rng.normal(0, noise.effect, len(blocks))
    longest = max(len(trial.slots) for trial in plan.trials)
    arrivals = rng.normal(0, noise.arrivals, (len(blocks), longest + 1))
    beside = any(trial.turns for trial in plan.trials)
    seen: list[Observation] = []

    def mean(treatment: Treatment, own: float) -> float:
        effects = dict.fromkeys((factor.name for factor in plan.factors), 0.0)
        effects |= dict(zip(effects, gains, strict=False))
        effects[first] += own
        return sum(effects[name] * (level == 1) for name, level in treatment.levels)

    def observed(trial: PlannedTrial, treatment: Treatment, value: float, slot: int | None, began: float) -> None:
        place = (trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, treatment)
        seen.append(Observation(*place, 1.7e9 + began, {"throughput": 100 * math.exp(value)}, slot=slot))

    for trial in plan.trials:
        began = 600.0 * (trial.block if beside else trial.position)
        level = blocks[trial.block] + rng.normal(0, noise.instance)
        own = worlds[trial.block] if plan.kind == "forks" else rng.normal(0, noise.effect)
        before = float(rng.normal())
        units = trial.slots or (None,)
        for number, slot in enumerate(units):
            treatment = slot.treatment if slot else trial.treatment
            time = (began + (slot.begin if slot else 0.0)) / (600.0 * count)
            place = number / len(units) if slot else (trial.position % 8) / 8
            size = noise.slot * (noise.noisier if treatment[first] == 1 else 1.0)
            value = level + mean(treatment, own) + size * before + noise.drift * time + noise.place * place
            value += arrivals[trial.block, number] if slot and beside else 0.0
            before = noise.correlation * before + math.sqrt(1 - noise.correlation**2) * float(rng.normal())
            observed(trial, treatment, value, slot.index if slot else None, began + (slot.begin if slot else 0.0))
    return seen


def study(layout: str, source: str, seed: int) -> list[float]:
    """Of one study: whether a verdict is wrong, wherever and on interactions alone; for each factor whether its
    interval holds 0; median width of the intervals as a log ratio; whether a planted effect of 5 % is found.
    """
    plan, noise = plan_of(layout), SOURCES[source]
    analysis = analyse(plan, observations(plan, noise, seed), ["throughput"]).responses[0]
    decided = (Verdict.BETTER, Verdict.WORSE)
    effects = sorted(analysis.effects, key=lambda effect: effect.factor != plan.factors[0].name)
    held = [effect.interval is not None and effect.interval.contains(0.0) for effect in effects]
    widths = [
        math.log((100 + effect.interval.high) / (100 + effect.interval.low)) for effect in effects if effect.interval
    ]
    planted = analyse(plan, observations(plan, noise, seed, (0.0, math.log(1.05))), ["throughput"], verdicts_only=True)
    found = [effect.verdict is Verdict.BETTER for effect in planted.responses[0].effects if effect.percent]
    names = [effect.factor for effect in planted.responses[0].effects if effect.percent]
    return [
        any(effect.verdict in decided for effect in effects),
        any(pair.verdict in decided for pair in analysis.interactions),
        held[0],
        float(np.mean(held[1:])),
        float(np.median(widths)),
        dict(zip(names, found, strict=True)).get(plan.factors[1].name, False),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--layouts", nargs="*", default=LAYOUTS)
    parser.add_argument("--sources", nargs="*", default=tuple(SOURCES))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print("| layout | source | wrong verdict | interaction | coverage: first | others | width | 5 % found |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with ProcessPoolExecutor(options.jobs) as pool:
        for layout in options.layouts:
            for source in options.sources:
                rows = np.array(list(pool.map(partial(study, layout, source), range(options.studies), chunksize=10)))
                cells = " | ".join(f"{cell:.3f}" for cell in rows.mean(axis=0))
                print(f"| {layout} | {source} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
