"""Where a tuning stands, from what has been measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.model.tuning import Step, Tuning
from leadline.planning.sequence.compare import Comparison, Factorial, compare_part, compared, crossed, factorial_part
from leadline.planning.sequence.keep import (
    Decision,
    Measured,
    Part,
    Stage,
    chosen_in,
    confirm_part,
    confirmed_in,
    decision_levels,
    describe,
    modes_of,
    step_part,
)

Results = Mapping[str, Measured]  # key of a part -> what it gave
UNTRIED = "not tried yet"


@dataclass(frozen=True)
class Progress:
    """``done``: the parts that are complete, in order; ``next``: the one to measure now, None at the end.

    ``decisions``: one for each step and mode in which it is to be tried. ``kept``: mode -> step -> which level.
    """

    decisions: tuple[Decision, ...]
    kept: Mapping[str, Mapping[str, int]]
    comparison: Comparison | None
    factorials: tuple[Factorial, ...]
    done: tuple[Part, ...]
    next: Part | None

    def of(self, mode: str) -> list[Decision]:
        return [decision for decision in self.decisions if decision.mode == mode]


def advance(
    tuning: Tuning, results: Results, left_out: Mapping[str, str] | None = None, untried: Collection[str] = ()
) -> Progress:
    """What the results say, and what is to be measured next.

    ``left_out``: steps that cannot be tried here, each with its reason. ``untried``: steps passed over for want of
    time; those that have been measured count all the same.
    """
    out = left_out or {}
    kept_by_mode: dict[str, dict[str, int]] = {mode: {} for mode in tuning.modes}
    decisions: list[Decision] = []
    done: list[Part] = []
    following: Part | None = None
    for step in tuning.steps:
        if step.name in out:
            decisions += [_not_tried(step, mode, out[step.name]) for mode in modes_of(tuning, step)]
            continue
        if following is not None or not modes_of(tuning, step):
            decisions += [_not_tried(step, mode, UNTRIED) for mode in modes_of(tuning, step)]
            continue
        found, following = _step(tuning, step, results, kept_by_mode, out, done)
        if following is not None and step.name in untried:
            following = None
            found = [
                _not_tried(step, decision.mode, "not tried: the budget is left to the comparison") for decision in found
            ]
        decisions += found
        for decision in found:
            if decision.kept:
                kept_by_mode[decision.mode][decision.step] = decision.candidate
    if following is not None:
        return Progress(tuple(decisions), kept_by_mode, None, (), tuple(done), following)
    return _ending(tuning, results, out, kept_by_mode, decisions, done)


def _step(
    tuning: Tuning,
    step: Step,
    results: Results,
    kept: Mapping[str, Mapping[str, int]],
    out: Mapping[str, str],
    done: list[Part],
) -> tuple[list[Decision], Part | None]:
    """The step's decisions and the part that it waits for."""
    first, _ = decision_levels(tuning, len(tuning.steps) - len(out))
    part = step_part(tuning, step, kept, out)
    if not _complete(results, part):
        return [_not_tried(step, mode, UNTRIED) for mode in modes_of(tuning, step)], part
    before = sharing(tuning, done, results) if tuning.shares_slots(step) else []
    done.append(part)
    decisions = chosen_in(tuning, step, results[part.key], first, before)
    chosen = [decision for decision in decisions if not decision.settled]
    if not chosen:
        return decisions, None
    fresh = confirm_part(tuning, step, chosen, kept, out)
    if not _complete(results, fresh):
        return [replace(decision, kept=False) for decision in decisions], fresh
    done.append(fresh)
    by_mode = {decision.mode: decision for decision in confirmed_in(tuning, step, chosen, results[fresh.key])}
    return [by_mode.get(decision.mode, decision) for decision in decisions], None


def sharing(tuning: Tuning, done: Sequence[Part], results: Results) -> list[Measured]:
    """What the steps among ``done`` gave that share one noise."""
    steps = {step.name for step in tuning.steps if tuning.shares_slots(step)}
    return [results[part.key] for part in done if part.stage is Stage.STEP and part.step in steps]


def _ending(
    tuning: Tuning,
    results: Results,
    out: Mapping[str, str],
    kept: Mapping[str, Mapping[str, int]],
    decisions: list[Decision],
    done: list[Part],
) -> Progress:
    part = compare_part(tuning, kept, out)
    comparison = None
    if part is not None:
        if not _complete(results, part):
            return Progress(tuple(decisions), kept, None, (), tuple(done), part)
        done.append(part)
        comparison = compared(tuning, kept, results[part.key])
    factorials: list[Factorial] = []
    for mode in tuning.modes if tuning.factorial else ():
        assert tuning.factorial is not None
        crossing = factorial_part(tuning, mode, decisions, tuning.factorial, out)
        if crossing is None:
            continue
        if not _complete(results, crossing):
            return Progress(tuple(decisions), kept, comparison, tuple(factorials), tuple(done), crossing)
        done.append(crossing)
        factorials.append(crossed(tuning, mode, decisions, tuning.factorial, results[crossing.key]))
    return Progress(tuple(decisions), kept, comparison, tuple(factorials), tuple(done), None)


def _complete(results: Results, part: Part) -> bool:
    measured = results.get(part.key)
    return measured is not None and measured.complete


def _not_tried(step: Step, mode: str, reason: str) -> Decision:
    return Decision(mode, step.name, False, 0, describe(step, 1), reason=reason, settled=False)
