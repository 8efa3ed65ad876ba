"""A comparison of a tuning as a study file, and back; what it says of its stack and knobs, checked beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.checks.files.study import StudyFile, TuningFile, study_of
from leadline.checks.stack import located
from leadline.conclude.wording import planned_level, same_level
from leadline.host.base import TrialHost
from leadline.model.bounds import RawLevel
from leadline.model.errors import UsageError
from leadline.model.knob import Catalogue, Knob
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation
from leadline.model.study import StackChoice
from leadline.model.tuning import MODE, Step, Tuning
from leadline.places.testbed import Testbed
from leadline.planning.sequence import Measured, Part, Stage
from leadline.planning.sequence.compare import compare_part
from leadline.planning.sequence.keep import modes_of, step_part
from leadline.stack.registry import check_stack, knob_of_others, stack_catalogue

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


SKIPPED = "by `skip`"


def stack_of(tuning: Tuning) -> StackChoice:
    """The stack in one of the tuning's modes: one with session beans, which refuses fewest levels, if there is one."""
    mode = next((mode for mode in tuning.modes if mode != "direct"), tuning.modes[0])
    return StackChoice(**tuning.stack.model_dump(), mode=mode)


def tuning_catalogue(file: TuningFile) -> list[Knob]:
    """The knobs of a tuning's stack. Raises UsageError with file and line."""
    stack = stack_of(file.tuning)
    for at, mode in enumerate(file.tuning.modes):
        with located(file.where, ("modes", at)):
            check_stack(stack.model_copy(update={"mode": mode}))
    with located(file.where):
        return stack_catalogue(stack)


def steps_left_out(file: TuningFile, testbed: Testbed) -> dict[str, str]:
    """Steps that cannot be tried here, each with its reason: knobs that this server lacks or this host cannot set.

    Raises UsageError with file and line for what cannot be planned: a knob that nobody has, a level that its knob does
    not take, a step that changes nothing on top of the untuned levels.
    """
    tuning = file.tuning
    steps, _ = _parts(tuning, {})
    services = testbed.knobs(located_part(file, steps[0]))
    catalogue = Catalogue([*testbed.host.knobs(), *services])
    reasons = {step.name: why for step in tuning.steps if (why := _left_out(tuning, step, testbed.host, catalogue))}
    if len(reasons) == len(tuning.steps):
        left_out_text = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise UsageError(f"{file.where(('steps',))}: no step can be tried here ({left_out_text})")
    steps, last = _parts(tuning, reasons)
    for part in steps:
        testbed.plan(located_part(file, part), idle_settings=True)
    if last is not None:
        testbed.plan(located_part(file, last))
    return reasons


def _left_out(tuning: Tuning, step: Step, host: TrialHost, catalogue: Catalogue) -> str:
    if step.name in tuning.skip:
        return SKIPPED
    if not modes_of(tuning, step):
        return f"it is of the modes {', '.join(step.modes or [])}, none of which is tuned"
    for name in step.levels:
        if name not in catalogue:
            why = knob_of_others(name, tuning.stack.server, tuning.stack.database)
            if why:
                return why
        elif any(knob.name == name for knob in host.knobs()) and (reason := host.writable(name)):
            return f"{name} cannot be set here: {reason}"
    return ""


def _parts(tuning: Tuning, left_out: Mapping[str, str]) -> tuple[list[Part], Part | None]:
    """Every step on top of what is untuned, and the comparison at the end if every step is kept."""
    steps = [step for step in tuning.steps if step.name not in left_out]
    untuned: dict[str, dict[str, int]] = {mode: {} for mode in tuning.modes}
    tuned: dict[str, dict[str, int]] = {
        mode: {step.name: 1 for step in steps if mode in modes_of(tuning, step)} for mode in tuning.modes
    }
    return [step_part(tuning, step, untuned, left_out) for step in steps], compare_part(tuning, tuned, left_out)
