"""A comparison of a tuning as a study file, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.checks.files.study import StudyFile, study_of
from leadline.checks.files.tuning import TuningFile
from leadline.conclude.wording import planned_level, same_level
from leadline.model.bounds import RawLevel
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation
from leadline.model.tuning import MODE, Tuning
from leadline.planning.sequence import Measured, Part, Stage

_SHARED = ("reset", "placement", "limits", "equivalence", "dead_man", "ready_timeout", "observe", "responses")


@dataclass(frozen=True)
class PartFile(StudyFile):
    """A comparison's study whose keys are looked up in the file of the tuning."""

    origin: TuningFile

    def where(self, path: Sequence[str | int]) -> str:
        if len(path) > 1 and path[0] in ("factors", "settings", "baseline"):
            if path[1] == MODE:
                return self.origin.where(("modes",))
            for at, step in enumerate(self.origin.tuning.steps):
                if path[1] in step.levels:
                    return self.origin.where(("steps", at, "levels", path[1]))
        if tuple(path[:2]) == ("design", "rotation"):
            return self.origin.where(("rotation", *path[2:]))
        if tuple(path[:2]) == ("design", "replicates"):
            return self.origin.where(("blocks",))
        return self.origin.where(path)


def located_part(file: TuningFile, part: Part) -> PartFile:
    """``part_file`` of a tuning that is at hand: errors name its file and line."""
    study = part_file(file.tuning, part)
    return PartFile(study.study, study.text, replace(study.places, source=file.source), file)


def study_name(tuning: Tuning, part: Part) -> str:
    """``daytrader-heap``, ``daytrader-heap-confirm``, ``daytrader-compare``, ``daytrader-factorial-orm``."""
    words = {
        Stage.STEP: [part.step],
        Stage.CONFIRM: [part.step, "confirm"],
        Stage.COMPARE: ["compare"],
        Stage.FACTORIAL: ["factorial", part.mode],
    }[part.stage]
    return "-".join([tuning.tuning, *words])


def _question(tuning: Tuning, part: Part) -> str:
    return {
        Stage.STEP: f"Does the step {part.step} of {tuning.tuning} help on top of what is kept so far?",
        Stage.CONFIRM: f"Do fresh trials confirm the step {part.step} of {tuning.tuning}?",
        Stage.COMPARE: f"What does {tuning.tuning} gain altogether, untuned against tuned, in trials of their own?",
        Stage.FACTORIAL: f"How do the steps of {tuning.tuning} work together in mode {part.mode}?",
    }[part.stage]


def part_file(tuning: Tuning, part: Part) -> StudyFile:
    """The study that runs a part. A knob with one level in all configurations is a setting, the others are factors;
    a mode that is the same in all is the stack's.
    """
    rows = list(part.configurations.values())
    first = rows[0]
    factors: dict[str, list[RawLevel]] = {}
    settings: dict[str, RawLevel] = dict(tuning.settings)
    for knob in first:
        levels = _distinct([row[knob] for row in rows])
        if len(levels) > 1:
            factors[knob] = levels
        elif knob != MODE:
            settings[knob] = levels[0]
    named = {
        name: {knob: row[knob] for knob in factors if not same_level(row[knob], first[knob])}
        for name, row in part.configurations.items()
    }
    document: dict[str, Any] = {
        "study": study_name(tuning, part),
        "question": _question(tuning, part),
        "stack": {**tuning.stack.model_dump(mode="json", exclude_none=True), "mode": first[MODE]},
        "workload": tuning.workload_of(part.step).model_dump(mode="json", exclude_unset=True),
        "factors": factors,
        "settings": settings,
        "design": {
            "kind": "configurations",
            "configurations": named,
            "replicates": part.blocks,
            "sentinels": None,
            "seed": part.seed,
        },
    }
    if rotation := tuning.rotation_of(part.step):
        # Modes are compared with each other at the end, so every configuration has instances of its own there.
        design = {} if part.step else {"live": "between-instances"}
        document["design"]["rotation"] = rotation.model_dump(mode="json", exclude_unset=True) | design
    dumped = tuning.model_dump(mode="json", exclude_unset=True)
    document |= {key: dumped[key] for key in _SHARED if key in dumped}
    return study_of(document)


def treatments_of(file: StudyFile, plan: Plan, part: Part) -> dict[str, Treatment]:
    """The part's configurations with levels as the plan holds them."""
    raws = file.study.factors
    return {
        name: Treatment.of(
            {factor.name: planned_level(factor, raws[factor.name], row[factor.name]) for factor in plan.factors}
        )
        for name, row in part.configurations.items()
    }


def measured(file: StudyFile, part: Part, plan: Plan, observations: Sequence[Observation], complete: bool) -> Measured:
    """What a part gave, for the rule that decides."""
    return Measured(plan, observations, treatments_of(file, plan, part), complete)


def _distinct(levels: Sequence[RawLevel]) -> list[RawLevel]:
    raw_levels: list[RawLevel] = []
    for level in levels:
        if not any(same_level(level, level_) for level_ in raw_levels):
            raw_levels.append(level)
    return raw_levels
