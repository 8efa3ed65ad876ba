"""Where a tuning stands, from what has been measured; and its end: untuned against tuned from fresh trials, and the
steps of a mode as factors of one design.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.contrasts import Change, contrasts
from leadline.analysis.study import analyse
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan, Treatment
from leadline.model.result import Observation, ResponseAnalysis
from leadline.model.tuning import FactorialDesign, Step, Tuning
from leadline.planning.sequence import keep

UNTUNED, TUNED = "untuned", "tuned"


@dataclass(frozen=True)
class Rung:
    """A configuration on the way from untuned to tuned. ``steps``: kept ones that are in force, in order.

    ``relative``: against the reference mode untuned, None for that itself; ``change``: against the rung before.
    """

    mode: str
    name: str
    steps: tuple[str, ...]
    relative: Change | None
    change: Change | None


@dataclass(frozen=True)
class Comparison:
    """``rungs`` by mode in order, the last one tuned; ``gains``: mode -> tuned against untuned."""

    reference: str
    rungs: tuple[Rung, ...]
    gains: Mapping[str, Change]
    every: bool  # whether every rung was measured, or untuned and tuned only

    def of(self, mode: str) -> list[Rung]:
        return [rung for rung in self.rungs if rung.mode == mode]


def _rungs(tuning: Tuning, mode: str, kept: keep.Kept) -> list[tuple[str, tuple[str, ...]]]:
    """Name and steps of each configuration of a mode."""
    order = [step.name for step in tuning.steps if kept.get(step.name)]
    if not order:
        return [(f"{mode} {UNTUNED}", ())]
    between = range(1, len(order)) if tuning.blocks.every_rung else ()
    middle = [(f"{mode} +{order[at - 1]}", tuple(order[:at])) for at in between]
    return [(f"{mode} {UNTUNED}", ()), *middle, (f"{mode} {TUNED}", tuple(order))]


def compare_part(tuning: Tuning, kept: Mapping[str, keep.Kept], left_out: Mapping[str, str]) -> keep.Part | None:
    """None where there is one configuration only, so nothing to compare."""
    configurations: dict[str, keep.Levels] = {}
    for mode in tuning.modes:
        for name, steps in _rungs(tuning, mode, kept[mode]):
            chosen = {step: kept[mode][step] for step in steps}
            configurations[name] = keep.levels_of(tuning, mode, chosen, left_out)
    if len(configurations) < 2:
        return None
    return keep.part_of(tuning, keep.Stage.COMPARE, configurations, tuning.blocks.compare)


def compared(tuning: Tuning, kept: Mapping[str, keep.Kept], measured: keep.Measured) -> Comparison:
    """All differences that the report shows, as one family of simultaneous intervals at 95 %."""
    at = measured.treatments
    reference = f"{tuning.modes[0]} {UNTUNED}"
    ladders = {mode: _rungs(tuning, mode, kept[mode]) for mode in tuning.modes}
    pairs: dict[tuple[str, str], tuple[Treatment, Treatment]] = {}

    def ask(name: str, other: str) -> None:
        if name != other:
            pairs[name, other] = (at[name], at[other])

    for ladder in ladders.values():
        for before, (name, _) in zip([None, *ladder], ladder, strict=False):
            ask(name, reference)
            if before is not None:
                ask(name, before[0])
        ask(ladder[-1][0], ladder[0][0])
    changes = contrasts(measured.plan, measured.observations, tuning.responses[0], list(pairs.values()))
    by_pair: dict[tuple[str, str], Change] = dict(zip(pairs, changes, strict=True))
    rungs = [
        Rung(mode, name, steps, by_pair.get((name, reference)), by_pair.get((name, before[0])) if before else None)
        for mode, ladder in ladders.items()
        for before, (name, steps) in zip([None, *ladder], ladder, strict=False)
    ]
    gains: dict[str, Change] = {
        mode: by_pair[ladder[-1][0], ladder[0][0]] for mode, ladder in ladders.items() if len(ladder) > 1
    }
    return Comparison(tuning.modes[0], tuple(rungs), gains, tuning.blocks.every_rung)


def product(changes: Sequence[Change]) -> float | None:
    """Percent of changes one after the other, as if each were what it was measured to be; None without all figures."""
    total = 1.0
    for change in changes:
        if change.percent is None:
            return None
        total *= 1 + change.percent / 100
    return 100 * (total - 1)


OFF, ON = "untuned", "tuned"


@dataclass(frozen=True)
class Factorial:
    """One mode: the effects of its steps over all combinations of the others, and how they work together."""

    mode: str
    plan: Plan  # with a factor for each step
    analysis: ResponseAnalysis


def _steps(mode: str, decisions: Sequence[keep.Decision], design: FactorialDesign) -> dict[str, int]:
    """Step -> the level it has when it is on."""
    mine = [decision for decision in decisions if decision.mode == mode and decision.settled and decision.tried]
    if design.of == "kept":
        return {decision.step: decision.candidate for decision in mine if decision.kept}
    return {decision.step: decision.candidate or decision.best for decision in mine}


def _runs(chosen: Mapping[str, int], design: FactorialDesign) -> list[Treatment]:
    """The runs of one replicate, the untuned one first."""
    factors = [Factor(name, (OFF, ON), OFF) for name in chosen]
    fraction = design.kind == "fractional-factorial" and design.resolution <= len(factors)
    kind = design.kind if fraction or (design.kind == "plackett-burman" and len(factors) > 2) else "full-factorial"
    options: dict[str, object] = {"kind": kind, "replicates": 2, "sentinels": None}
    if fraction:
        options["resolution"] = design.resolution
    if kind != "full-factorial" and design.foldover:
        options["foldover"] = True
    plan = make_plan(factors, Design.model_validate(options))
    runs = dict.fromkeys(trial.treatment for trial in plan.trials)
    baseline = plan.baseline
    return [baseline, *(run for run in runs if run != baseline)]


def runs_of(steps: Sequence[str], design: FactorialDesign) -> int:
    """How many combinations of so many steps the design has; 0 for fewer than two steps."""
    return len(_runs(dict.fromkeys(steps, 1), design)) if len(steps) > 1 else 0


def factorial_part(
    tuning: Tuning,
    mode: str,
    decisions: Sequence[keep.Decision],
    design: FactorialDesign,
    left_out: Mapping[str, str],
) -> keep.Part | None:
    """None where the mode has fewer than two steps to combine."""
    chosen = _steps(mode, decisions, design)
    if len(chosen) < 2:
        return None
    configurations = {}
    for run in _runs(chosen, design):
        on = {name: chosen[name] for name, level in run.levels if level == ON}
        name = "+".join(step.name for step in tuning.steps if step.name in on)
        configurations[f"{mode} {name or OFF}"] = keep.levels_of(tuning, mode, on, left_out)
    return keep.part_of(tuning, keep.Stage.FACTORIAL, configurations, design.replicates, mode=mode)


def crossed(
    tuning: Tuning, mode: str, decisions: Sequence[keep.Decision], design: FactorialDesign, measured: keep.Measured
) -> Factorial:
    """The design's analysis, a factor for each step."""
    chosen = _steps(mode, decisions, design)
    runs = _runs(chosen, design)
    order = [step.name for step in tuning.steps]

    def name_of(run: Treatment) -> str:
        on = [name for name, level in run.levels if level == ON]
        return f"{mode} {'+'.join(sorted(on, key=order.index)) or OFF}"

    as_steps = {measured.treatments[name_of(run)]: run for run in runs}
    factors = tuple(Factor(name, (OFF, ON), OFF) for name in sorted(chosen, key=order.index))
    kind = "full-factorial" if len(runs) == 2 ** len(chosen) else design.kind
    trials = tuple(replace(trial, treatment=as_steps[trial.treatment]) for trial in measured.plan.trials)
    plan = replace(measured.plan, kind=kind, factors=factors, trials=trials)
    observations: list[Observation] = [
        replace(observation, treatment=as_steps[observation.treatment])
        for observation in measured.observations
        if observation.treatment in as_steps
    ]
    margin = 100 * tuning.equivalence
    analysis = analyse(plan, observations, [tuning.responses[0]], equivalence_margin=margin)
    return Factorial(mode, plan, analysis.responses[0])


Results = Mapping[str, keep.Measured]  # key of a part -> what it gave
UNTRIED = "not tried yet"


@dataclass(frozen=True)
class Progress:
    """``done``: the parts that are complete, in order; ``next``: the one to measure now, None at the end.

    ``decisions``: one for each step and mode in which it is to be tried. ``kept``: mode -> step -> which level.
    """

    decisions: tuple[keep.Decision, ...]
    kept: Mapping[str, Mapping[str, int]]
    comparison: Comparison | None
    factorials: tuple[Factorial, ...]
    done: tuple[keep.Part, ...]
    next: keep.Part | None

    def of(self, mode: str) -> list[keep.Decision]:
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
    decisions: list[keep.Decision] = []
    done: list[keep.Part] = []
    following: keep.Part | None = None
    for step in tuning.steps:
        if step.name in out:
            decisions += [_not_tried(step, mode, out[step.name]) for mode in keep.modes_of(tuning, step)]
            continue
        if following is not None or not keep.modes_of(tuning, step):
            decisions += [_not_tried(step, mode, UNTRIED) for mode in keep.modes_of(tuning, step)]
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
    done: list[keep.Part],
) -> tuple[list[keep.Decision], keep.Part | None]:
    """The step's decisions and the part that it waits for."""
    first, _ = keep.decision_levels(tuning, len(tuning.steps) - len(out))
    part = keep.step_part(tuning, step, kept, out)
    if not _complete(results, part):
        return [_not_tried(step, mode, UNTRIED) for mode in keep.modes_of(tuning, step)], part
    before = sharing(tuning, done, results) if tuning.shares_slots(step) else []
    done.append(part)
    decisions = keep.chosen_in(tuning, step, results[part.key], first, before)
    chosen = [decision for decision in decisions if not decision.settled]
    if not chosen:
        return decisions, None
    fresh = keep.confirm_part(tuning, step, chosen, kept, out)
    if not _complete(results, fresh):
        return [replace(decision, kept=False) for decision in decisions], fresh
    done.append(fresh)
    by_mode = {decision.mode: decision for decision in keep.confirmed_in(tuning, step, chosen, results[fresh.key])}
    return [by_mode.get(decision.mode, decision) for decision in decisions], None


def sharing(tuning: Tuning, done: Sequence[keep.Part], results: Results) -> list[keep.Measured]:
    """What the steps among ``done`` gave that share one noise."""
    steps = {step.name for step in tuning.steps if tuning.shares_slots(step)}
    return [results[part.key] for part in done if part.stage is keep.Stage.STEP and part.step in steps]


def _ending(
    tuning: Tuning,
    results: Results,
    out: Mapping[str, str],
    kept: Mapping[str, Mapping[str, int]],
    decisions: list[keep.Decision],
    done: list[keep.Part],
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


def _complete(results: Results, part: keep.Part) -> bool:
    measured = results.get(part.key)
    return measured is not None and measured.complete


def _not_tried(step: Step, mode: str, reason: str) -> keep.Decision:
    return keep.Decision(mode, step.name, False, 0, keep.describe(step, 1), reason=reason, settled=False)
