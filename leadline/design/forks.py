"""Forks: worlds as blocks, every treatment once in each, all from the same saved guest where they can be.

A world is a guest with a seed of its own. Trials that share all levels that a running system does not take (a boot's,
then a server start's) share their whole past and are forked from one saved guest. Order means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.design.arrange import ArrangedTrial, Arrangement
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Plan, Role, Treatment

WORLDS = "worlds"  # what the blocks of such a plan are
_BOOT = (ApplyCost.KERNEL, ApplyCost.REBOOT)
_START = (*_BOOT, ApplyCost.REMOUNT, ApplyCost.RESTART)
_State = tuple[Level, ...]


def booted(factors: Sequence[Factor], treatment: Treatment) -> _State:
    """The levels with which a guest is booted."""
    return _levels(factors, treatment, _BOOT)


def warmed(factors: Sequence[Factor], treatment: Treatment) -> _State:
    """The levels with which a guest is booted, and its services are started and warmed."""
    return _levels(factors, treatment, _START)


def _levels(factors: Sequence[Factor], treatment: Treatment, costs: Sequence[ApplyCost]) -> _State:
    levels = treatment.as_dict()
    return tuple(levels[factor.name] for cost in costs for factor in factors if factor.apply_cost is cost)


def in_worlds(factors: Sequence[Factor], treatments: Sequence[Treatment], worlds: int) -> Arrangement:
    """Every treatment once in each world: those of one boot together, among them those of one start, baseline first."""
    baseline = Treatment.of({factor.name: factor.baseline for factor in factors})
    once = list(dict.fromkeys([*(treatment for treatment in treatments if treatment == baseline), *treatments]))
    boots = list(dict.fromkeys(booted(factors, treatment) for treatment in once))
    by_boot = sorted(once, key=lambda one: boots.index(booted(factors, one)))
    starts = list(dict.fromkeys(warmed(factors, treatment) for treatment in by_boot))
    ordered = sorted(by_boot, key=lambda one: starts.index(warmed(factors, one)))
    entries = [
        ArrangedTrial(
            world,
            world,
            Role.BASELINE if treatment == baseline else Role.TREATMENT,
            treatment,
        )
        for world in range(worlds)
        for treatment in ordered
    ]
    return Arrangement(tuple(entries), (_told(worlds, len(boots), len(starts), len(once)),))


def _told(worlds: int, boots: int, starts: int, forks: int) -> str:
    number = f"{worlds} worlds" if worlds > 1 else "1 world"
    sentence = (
        f"Forks in {number}: {_count(worlds * boots, 'boot')}, {_count(worlds * starts, 'start')} with warm-up, "
        f"{_count(worlds * forks, 'fork')}; all treatments of a world have the same seed, so the same load."
    )
    if worlds == 1:
        sentence += " One world gives differences without intervals: set worlds to 3 or more."
    if worlds == 2:
        sentence += " Two worlds say little of how effects differ between worlds: set worlds to 3 or more."
    return sentence


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def work(plan: Plan) -> tuple[int, int, int]:
    """Boots, starts with their warm-up, and forks that a plan takes."""
    boots = {(trial.block, booted(plan.factors, trial.treatment)) for trial in plan.trials}
    starts = {(trial.block, warmed(plan.factors, trial.treatment)) for trial in plan.trials}
    return len(boots), len(starts), len(plan.trials)
