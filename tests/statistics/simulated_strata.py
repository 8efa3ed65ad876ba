"""Simulated studies with whole plots, incomplete blocks and slots: plans, and observations with known truth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from leadline.analysis.columns import at_end
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Slot, Treatment
from leadline.model.result import Observation


@dataclass(frozen=True)
class SimulatedStrata:
    """Truth of a system whose noise has several sources, all lognormal and as shares: ``block_cv``, ``plot_cv``,
    ``trial_cv`` (a server's life), ``slot_cv`` with ``correlation`` of neighbouring slots. ``effects`` maps
    (factor, level) to a ratio; ``carried`` is the part of a slot's effect that the next slot still has;
    with ``lasting`` it fades exponentially, on and on. ``life_cv`` is
    the spread of each treatment's level between lives (beside that of the life), ``places`` the logs of ratios that
    the first, second, ... trial of a block has, whatever its treatment. ``arrivals_cv`` is what slots of one number
    have in common in all trials of a block.
    """

    baseline: float = 500.0
    effects: Mapping[tuple[str, Level], float] = field(default_factory=dict)
    block_cv: float = 0.05
    plot_cv: float = 0.04
    trial_cv: float = 0.03
    slot_cv: float = 0.02
    correlation: float = 0.4
    carried: float = 0.0
    lasting: bool = False
    life_cv: float = 0.0
    places: tuple[float, ...] = ()
    arrivals_cv: float = 0.0

    def run(self, plan: Plan, seed: int, response: str = "throughput") -> list[Observation]:
        """Every trial, or every slot of every trial, once."""
        rng = np.random.default_rng(seed)
        blocks = rng.normal(0, self.block_cv, 1 + max(trial.block for trial in plan.trials))
        plots = rng.normal(0, self.plot_cv, 2 + max(trial.plot or 0 for trial in plan.trials))
        longest = max(len(trial.slots) for trial in plan.trials)
        arrivals = rng.normal(0, self.arrivals_cv, (len(blocks), longest)) if self.arrivals_cv else None
        found = []
        for trial in plan.trials:
            level = math.log(self.baseline) + float(blocks[trial.block]) + float(rng.normal(0, self.trial_cv))
            level += 0.0 if trial.plot is None else float(plots[trial.plot])
            if self.places and trial.role is not Role.SENTINEL:
                first = min(t.position for t in plan.trials if t.block == trial.block and t.role is not Role.SENTINEL)
                level += self.places[(trial.position - first) % len(self.places)]
            noise, before = float(rng.normal()), None
            own: dict[Treatment, float] = {}
            for slot in trial.slots or (None,):
                treatment = slot.treatment if slot else trial.treatment
                here = self.effect(treatment)
                if self.life_cv:
                    here += own.setdefault(treatment, float(rng.normal(0, self.life_cv)))
                value = level + here
                if slot and arrivals is not None:
                    value += float(arrivals[trial.block, slot.index])
                if slot:
                    value += self.slot_cv * noise + (self.carried * (before - here) if before is not None else 0.0)
                    noise = self.correlation * noise + math.sqrt(1 - self.correlation**2) * float(rng.normal())
                held = before is not None and self.lasting
                before = here + at_end(self.carried, 0.0) * (before - here) if held and before is not None else here
                started = 1.7e9 + 600.0 * trial.position + (slot.begin if slot else 0.0)
                found.append(
                    Observation(
                        trial=trial.position + 1,
                        position=trial.position,
                        block=trial.block,
                        replicate=trial.replicate,
                        role=trial.role,
                        treatment=treatment,
                        started=started,
                        responses={response: math.exp(value)},
                        plot=trial.plot,
                        slot=slot.index if slot else None,
                        seconds=slot.seconds if slot else None,
                    )
                )
        return found

    def effect(self, treatment: Treatment) -> float:
        """Log of the treatment's ratio to the baseline."""
        return sum(math.log(self.effects.get(level, 1.0)) for level in treatment.levels)


def _plan(kind: str, factors: Sequence[Factor], trials: list[PlannedTrial]) -> Plan:
    return Plan(kind, 1, tuple(factors), tuple(trials))


def _role(treatment: Treatment, factors: Sequence[Factor]) -> Role:
    changed = any(treatment[factor.name] != factor.baseline for factor in factors)
    return Role.TREATMENT if changed else Role.BASELINE


def split_plot_plan(replicates: int = 4, whole: int = 3, seed: int = 1) -> Plan:
    """``kernel`` with ``whole`` levels changes between whole plots, ``heap`` and ``pool`` (crossed, two levels each)
    inside them; every block holds each kernel once.
    """
    kernels = tuple(f"k{number}" for number in range(1, whole + 1))
    factors = (
        Factor("kernel", kernels, "k1", apply_cost=ApplyCost.KERNEL),
        Factor("heap", (512, 256), 512),
        Factor("pool", (10, 40), 10),
    )
    rng = np.random.default_rng(seed)
    trials: list[PlannedTrial] = []
    for block in range(replicates):
        for number, kernel in enumerate(rng.permutation(kernels)):
            for cell in rng.permutation(4):
                levels = {"kernel": str(kernel), "heap": (512, 256)[cell // 2], "pool": (10, 40)[cell % 2]}
                treatment = Treatment.of(levels)
                plot = block * whole + number
                role = _role(treatment, factors)
                trials.append(PlannedTrial(len(trials), block, block, role, treatment, 1, plot))
    return _plan("full-factorial", factors, trials)


def slots_plan(trials: int = 6, blocks_of_slots: int = 8, levels: int = 4, heaps: int = 1, seed: int = 1) -> Plan:
    """Trials whose slots go through ``levels`` levels of ``vm.dirty_ratio`` in random blocks; with ``heaps`` above one
    a restart factor changes between trials, one of each level in a block.
    """
    values = tuple(range(10, 10 * levels + 1, 10))
    factors = [Factor("vm.dirty_ratio", values, 10, apply_cost=ApplyCost.LIVE)]
    sizes = (512, 256, 1024)[:heaps]
    factors += [Factor("heap", sizes, 512)] if heaps > 1 else []
    rng = np.random.default_rng(seed)
    planned = []
    for position in range(trials):
        order = [int(value) for _ in range(blocks_of_slots) for value in rng.permutation(values)]
        heap: dict[str, Level] = {"heap": sizes[position % heaps]} if heaps > 1 else {}
        slots = tuple(
            Slot(index, 5.0 * index, 5.0, Treatment.of({"vm.dirty_ratio": value, **heap}))
            for index, value in enumerate(order)
        )
        role = _role(slots[0].treatment, factors)
        planned.append(
            PlannedTrial(position, position // heaps, position // heaps, role, slots[0].treatment, 1, None, slots)
        )
    return _plan("one-at-a-time", factors, planned)


def parallel_plan(instances: int = 4, rounds: int = 2, seed: int = 1) -> Plan:
    """Alike instances of one block, each with slots of a factorial of three live factors in random blocks."""
    factors = [Factor(name, (1, 2), 1, apply_cost=ApplyCost.LIVE) for name in ("vm.a", "vm.b", "vm.c")]
    cells = [Treatment.of(dict(zip(("vm.a", "vm.b", "vm.c"), cell, strict=True))) for cell in product((1, 2), repeat=3)]
    rng = np.random.default_rng(seed)
    planned = []
    for position in range(instances):
        order = [cells[at] for _ in range(rounds) for at in rng.permutation(len(cells))]
        slots = tuple(Slot(at, 7.0 * at * instances, 7.0, treatment) for at, treatment in enumerate(order))
        planned.append(PlannedTrial(position, 0, position, Role.BASELINE, cells[0], 1, None, slots))
    return _plan("full-factorial", factors, planned)


def incomplete_plan(levels: int = 7, seed: int = 1) -> Plan:
    """Seven treatments in seven blocks of three, twice: the Fano plane, every pair together twice."""
    names = tuple("abcdefgh"[:levels])
    factor = Factor("setting", names, names[0])
    rng = np.random.default_rng(seed)
    trials: list[PlannedTrial] = []
    for block in range(2 * levels):
        members = [(block + shift) % levels for shift in (0, 1, 3)]
        for member in rng.permutation(members):
            treatment = Treatment.of({"setting": names[member]})
            trials.append(PlannedTrial(len(trials), block, block // levels, _role(treatment, [factor]), treatment, 1))
    return _plan("one-at-a-time", [factor], trials)
