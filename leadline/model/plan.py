"""Treatments and plans: what is run, in which order."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from leadline.model.design import LayoutName
from leadline.model.knob import ApplyCost, Level


class Role(StrEnum):
    """Why a trial is in the plan."""

    BASELINE = "baseline"
    TREATMENT = "treatment"
    SENTINEL = "sentinel"  # a baseline trial placed among the others to see drift


@dataclass(frozen=True)
class Factor:
    """A knob (or a pseudo-factor that changes nothing) and its levels; the baseline is one of them.

    ``apply_cost`` is the knob's: designs group trials so that dear changes are rare.
    """

    name: str
    levels: tuple[Level, ...]
    baseline: Level
    pseudo: bool = False
    apply_cost: ApplyCost = ApplyCost.RESTART

    def __post_init__(self) -> None:
        if self.baseline not in self.levels:
            raise ValueError(f"the baseline {self.baseline} of {self.name} is not among its levels")


@dataclass(frozen=True)
class Treatment:
    """One combination of levels, one for each factor, ordered by factor name."""

    levels: tuple[tuple[str, Level], ...]

    @classmethod
    def of(cls, levels: Mapping[str, Level]) -> Treatment:
        return cls(tuple(sorted(levels.items())))

    def as_dict(self) -> dict[str, Level]:
        return dict(self.levels)

    def __getitem__(self, factor: str) -> Level:
        return dict(self.levels)[factor]

    @cached_property
    def key(self) -> str:
        """Twelve hex digits of the canonical JSON: the same for the same levels everywhere."""
        text = json.dumps(self.levels, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Comparison:
    """A level against its factor's baseline level."""

    factor: str
    level: Level

    def __str__(self) -> str:
        return f"{self.factor}={self.level}"


@dataclass(frozen=True)
class Slot:
    """A stretch of a trial's steady state under one treatment: live knobs change between slots, nothing restarts.

    ``index`` counts from 0 in its trial, ``begin`` in seconds from the start of the steady state.
    """

    index: int
    begin: float
    seconds: float
    treatment: Treatment


@dataclass(frozen=True)
class Turn:
    """A stretch of the load of instances side by side that goes to one of them, seconds from the start of the load,
    ramp-up included.

    A ``warm_up`` turn is not measured.
    """

    begin: float
    seconds: float
    warm_up: bool = False

    @property
    def end(self) -> float:
        return self.begin + self.seconds


def stretches(turns: Iterable[Turn]) -> list[tuple[float, float]]:
    """From and until of the load that the turns are together: those that follow each other without a gap are one."""
    stretches: list[tuple[float, float]] = []
    for turn in sorted(turns, key=lambda one: one.begin):
        if stretches and stretches[-1][1] >= turn.begin:
            stretches[-1] = (stretches[-1][0], turn.end)
        else:
            stretches.append((turn.begin, turn.end))
    return stretches


@dataclass(frozen=True)
class PlannedTrial:
    """One row of a plan. ``position`` counts from 0 over the whole plan, ``block`` and ``replicate`` from 0.

    ``plot``: the whole plot it belongs to, from 0 over the plan (trials that share a state dearer to change than a
    restart, such as a kernel); None where the design has none. With ``slots``,
    ``treatment`` holds the levels at the start, and every slot its own; factors that are not live have one level in all
    slots of a trial. With ``turns`` the trial is one instance of a rotation: all trials of its block run side
    by side, and these stretches of the block's load are its own.
    """

    position: int
    block: int
    replicate: int
    role: Role
    treatment: Treatment
    seed: int
    plot: int | None = None
    slots: tuple[Slot, ...] = ()
    turns: tuple[Turn, ...] = ()

    @property
    def layout(self) -> str:
        """``rotation`` or ``switchback`` of a trial whose levels change in slots, else empty."""
        return ("rotation" if self.turns else "switchback") if self.slots else ""

    def held(self) -> Treatment:
        """The levels that are the same throughout: all of ``treatment`` without slots."""
        return Treatment(tuple((name, level) for name, level in self.treatment.levels if self._throughout(name, level)))

    def _throughout(self, name: str, level: Level) -> bool:
        return all(slot.treatment[name] == level for slot in self.slots)


@dataclass(frozen=True)
class Plan:
    """A seeded, ordered list of trials. ``blocks`` is the study's: how treatments were put into blocks; ``worlds`` of
    forks.
    """

    kind: str
    seed: int
    factors: tuple[Factor, ...]
    trials: tuple[PlannedTrial, ...]
    notes: tuple[str, ...] = ()
    blocks: str = "by-replicate"

    @property
    def layout(self) -> LayoutName:
        """How the trials stand in time."""
        if self.blocks == "worlds":
            return "forks"
        if any(trial.turns for trial in self.trials):
            return "rotation"
        return "switchback" if any(trial.slots for trial in self.trials) else "plain"

    @property
    def together(self) -> list[list[PlannedTrial]]:
        """Trials that run at the same time, in order: the instances of a rotation's block, all others each alone."""
        alone = {trial.position for trial in self.trials if not trial.turns}
        groups = itertools.groupby(self.trials, lambda one: (one.block, one.position if one.position in alone else -1))
        return [list(trials) for _, trials in groups]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every level that is not its factor's baseline."""
        return tuple(
            Comparison(factor.name, level)
            for factor in self.factors
            for level in factor.levels
            if level != factor.baseline
        )

    @property
    def baseline(self) -> Treatment:
        return Treatment.of({factor.name: factor.baseline for factor in self.factors})


def all_levels(factors: Sequence[Factor], settings: Mapping[str, Level]) -> dict[str, tuple[Level, ...]]:
    """All levels of each factor and setting, by name."""
    return {
        **{name: (level,) for name, level in settings.items()},
        **{factor.name: factor.levels for factor in factors},
    }
