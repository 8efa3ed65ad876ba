"""What a tuning says about its stack and its knobs, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping

from leadline.checks.files.tuning import TuningFile
from leadline.checks.stack import located
from leadline.experiments.tuning.part import located_part
from leadline.host.base import TrialHost
from leadline.model.errors import UsageError
from leadline.model.knob import Catalogue, Knob
from leadline.model.study import StackChoice
from leadline.model.tuning import Step, Tuning
from leadline.places.testbed import Testbed
from leadline.planning.sequence import Part
from leadline.planning.sequence.compare import compare_part
from leadline.planning.sequence.keep import step_part
from leadline.planning.sequence.parts import modes_of
from leadline.stack.registry import check_stack, knob_of_others, stack_catalogue

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
