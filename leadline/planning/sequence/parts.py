"""The comparisons of a tuning: which configurations each one holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.design.seeds import derived
from leadline.model.bounds import RawLevel
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation
from leadline.model.tuning import MODE, Step, Tuning

Levels = Mapping[str, RawLevel]
Kept = Mapping[str, int]  # step -> which of its levels, 0 is untuned


class Stage(StrEnum):
    STEP = "step"  # the best so far against the candidates of a step
    CONFIRM = "confirm"  # fresh trials of the chosen candidates
    COMPARE = "compare"  # untuned against tuned, all modes
    FACTORIAL = "factorial"  # the steps of a mode as factors


@dataclass(frozen=True)
class Part:
    """One comparison, run as one study. ``configurations``: name -> all levels, the first is the baseline.

    ``key`` tells it from every other comparison of the tuning, by what is compared.
    """

    stage: Stage
    step: str  # of a step or a confirmation, else empty
    mode: str  # of a factorial, else empty
    configurations: Mapping[str, Levels]
    blocks: int
    seed: int

    @property
    def key(self) -> str:
        text = json.dumps([self.configurations, self.blocks], sort_keys=True, default=str)
        name = "/".join(word for word in (self.stage.value, self.step or self.mode) if word)
        return f"{name}/{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def trials(self) -> int:
        return len(self.configurations) * self.blocks


@dataclass(frozen=True)
class Measured:
    """What a comparison gave so far. ``treatments``: the configurations as the plan holds them."""

    plan: Plan
    observations: Sequence[Observation]
    treatments: Mapping[str, Treatment]
    complete: bool


def levels_of(tuning: Tuning, mode: str, kept: Kept, left_out: Mapping[str, str]) -> dict[str, RawLevel]:
    """All levels of a configuration: every knob of every step that can be tried, the mode, and what is held."""
    raw_levels: dict[str, RawLevel] = {MODE: mode}
    for step in tuning.steps:
        if step.name in left_out:
            continue
        raw_levels |= {knob: levels[kept.get(step.name, 0)] for knob, levels in step.levels.items()}
        if mode not in modes_of(tuning, step):
            raw_levels |= step.elsewhere
    return raw_levels


def describe(step: Step, candidate: int) -> str:
    """``knob=level, knob=level``."""
    return ", ".join(f"{knob}={_word(levels[candidate])}" for knob, levels in step.levels.items())


def _word(level: RawLevel) -> str:
    return ("off", "on")[level] if isinstance(level, bool) else str(level)


def part_of(
    tuning: Tuning,
    stage: Stage,
    configurations: Mapping[str, Levels],
    blocks: int,
    *,
    step: str = "",
    mode: str = "",
) -> Part:
    """The seed follows from the tuning's and from what is compared: other data and another order than in any other."""
    bare = Part(stage, step, mode, configurations, blocks, 0)
    seed = int.from_bytes(derived(tuning.seed, "part of a tuning", bare.key)[:4])
    return Part(stage, step, mode, configurations, blocks, seed)


def modes_of(tuning: Tuning, step: Step) -> list[str]:
    """The modes in which a step is tried, in the tuning's order."""
    return [mode for mode in tuning.modes if step.modes is None or mode in step.modes]
