"""Coverage, family-wise error and power of every layout over simulated studies: docs/evidence/layouts.md.

python bench/statistics/layouts.py [studies] [layout ...]

Two factors of two levels, one of which raises throughput by 6 %. *Calm*: noise alone. *Rough*: server instances that
differ, effects that differ between them, three times the noise at the level that helps, a carry-over of 40 % from slot
to slot, and a drift over the study, all at once.
"""

from __future__ import annotations

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

from leadline.analysis.columns import at_end
from leadline.analysis.sequential import Interim
from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.layouts import switchback_plan
from leadline.model.design import Design, Looks, Switchback
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan, PlannedTrial, Treatment
from leadline.model.result import Effect, Observation, Verdict
from leadline.model.workload import Workload
from leadline.planning.boundary import boundary_of, interim_of
from leadline.planning.looks import look, schedule

GAIN = 0.06  # of level 1 of the first factor
LAYOUTS = ("plain", "rotation", "switchback", "looks: 3", "looks: watched", "switchback: watched")
LOAD = Workload(users=20, ramp_up=5, steady=96)


@dataclass(frozen=True)
class World:
    """Standard deviations, and shares; ``ratio`` of the noise at the level that helps, ``drift`` over a whole study."""

    instance: float
    between: float  # of the effect, from instance to instance
    ratio: float
    carried: float  # of how a slot began, on average over its measured seconds; it fades exponentially
    drift: float
    noise: float = 0.02
    block: float = 0.03


WORLDS = {
    "calm": World(0.01, 0.0, 1.0, 0.0, 0.0),
    "rough": World(0.02, 0.01, 3.0, 0.4, 0.2),
}


@cache
def plan_of(layout: str) -> Plan:
    factors = [Factor(f"vm.k{number}", (0, 1), 0, apply_cost=ApplyCost.LIVE) for number in (0, 1)]
    if layout.startswith("switchback"):
        return switchback_plan(factors, Design(replicates=6, sentinels=None, switchback=Switchback(slot=6)), LOAD)
    return make_plan(factors, Design(replicates=9, sentinels=None))


def helps(treatment: Treatment) -> bool:
    return treatment.levels[0][1] == 1


class System:
    """One study's luck."""

    def __init__(self, plan: Plan, layout: str, world: World, seed: int) -> None:
        self.plan, self.layout, self.world = plan, layout, world
        self.rng = np.random.default_rng([seed, LAYOUTS.index(layout)])
        self.blocks = self.rng.normal(0.0, world.block, len(plan.trials))

    def trial(self, trial: PlannedTrial) -> list[Observation]:
        """What a trial gives, one observation a slot where it has slots. A rotation's figure is of many slots, and its
        trials run at the same time.
        """
        world, rotated = self.world, self.layout == "rotation"
        begun = trial.block if rotated else trial.position
        last = self.plan.trials[-1].block if rotated else len(self.plan.trials)
        level = self.blocks[trial.block] + self.rng.normal(0.0, world.instance) + world.drift * begun / (1 + last)
        own = GAIN + self.rng.normal(0.0, world.between)
        if not trial.slots:
            gain = own * helps(trial.treatment)
            noise = world.noise * (0.5 if rotated else 1.0) * (world.ratio if helps(trial.treatment) else 1.0)
            return [self._observation(trial, trial.treatment, level + gain + self.rng.normal(0.0, noise), None)]
        found, kept = [], own * helps(trial.slots[0].treatment)
        left = at_end(world.carried, 1 / 6) if world.carried else 0.0
        for slot in trial.slots:
            on = helps(slot.treatment)
            value = level + own * on + world.carried * (kept - own * on)
            value += self.rng.normal(0.0, world.noise * (world.ratio if on else 1.0))
            kept = own * on + left * (kept - own * on)
            found.append(self._observation(trial, slot.treatment, value, slot.index))
        return found

    def _observation(self, trial: PlannedTrial, treatment: Treatment, value: float, slot: int | None) -> Observation:
        return Observation(
            *(trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, treatment),
            *(200.0 * trial.position + 6.0 * (slot or 0), {"throughput": math.exp(value)}),
            slot=slot,
            seconds=None if slot is None else 5.0,
        )


def effects_of(plan: Plan, seen: Sequence[Observation], strict: Interim | None) -> Sequence[Effect]:
    found = analyse(plan, seen, ["throughput"], verdicts_only=True, interim=lambda _: strict)
    return found.responses[0].effects


def study(layout: str, world: str, seed: int) -> tuple[int, int, bool, bool, float]:
    """Of one study: intervals, those that miss the truth, whether the effect is found, whether anything is called that
    is not so, and the share of the trials that ran.
    """
    plan = plan_of(layout)
    system = System(plan, layout, WORLDS[world], seed)
    seen: list[Observation] = []
    if ":" in layout:
        watch = layout.endswith("watched")
        looks: Looks = "watched" if watch else 3
        blocks = schedule(plan, looks)
        every = [one for trial in plan.trials for one in system.trial(trial)]
        gone: set[Treatment] = set()
        for number, end in enumerate(blocks, 1):
            begin = max((each.block for each in seen), default=-1) + 1
            seen += [each for each in every if begin <= each.block < end and each.treatment not in gone]
            found = look(plan, seen, "throughput", blocks, number, watch=watch)
            if found.stop:
                break
            gone = set(found.drop)
        if watch:
            strict = interim_of(plan, seen, "throughput")
        else:
            strict = boundary_of(plan, seen, "throughput", blocks, number).interim(number)  # type: ignore[assignment]
        effects = effects_of(plan, seen, strict)
    else:
        seen = [one for trial in plan.trials for one in system.trial(trial)]
        effects = effects_of(plan, seen, None)
    first = plan.factors[0].name
    known = missed = 0
    right = wrong = False
    for effect in effects:
        truth = 100 * math.expm1(GAIN) if effect.factor == first and effect.level == 1 else 0.0
        known += effect.simultaneous is not None
        missed += effect.simultaneous is not None and not effect.simultaneous.contains(truth)
        right |= truth > 0 and effect.verdict is Verdict.BETTER
        wrong |= effect.verdict in (Verdict.BETTER, Verdict.WORSE) and not (
            truth > 0 and effect.verdict is Verdict.BETTER
        )
    return known, missed, right, wrong, len({each.position for each in seen}) / len(plan.trials)


def main() -> None:
    names = [name for name in LAYOUTS if not sys.argv[2:] or name in sys.argv[2:]]
    studies = int(sys.argv[1]) if sys.argv[1:] else 1000
    print("| layout | system | coverage | family-wise error | wrong verdict | 6 % found | trials run |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    with ProcessPoolExecutor(2) as pool:
        for name in names:
            for world in WORLDS:
                found = np.array(list(pool.map(partial(study, name, world), range(studies), chunksize=25)), dtype=float)
                known, missed, right, wrong, ran = found.T
                cells = [1 - missed.sum() / max(known.sum(), 1), (missed > 0).mean(), wrong.mean()]
                told = " | ".join(f"{cell:.3f}" for cell in cells)
                print(f"| {name} | {world} | {told} | {right.mean():.2f} | {ran.mean():.0%} |", flush=True)


if __name__ == "__main__":
    main()
