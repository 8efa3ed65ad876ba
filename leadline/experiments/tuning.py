"""Runs a tuning: its file, each comparison as an ordinary study, the record that joins them.

A comparison is a study file, checked beforehand for what it says of its stack and knobs. It is run or gone on with,
until nothing is left to measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from leadline.checks.files.study import StudyFile, TuningFile, study_of
from leadline.checks.plan import NO_ROTATION, Planned, cost
from leadline.checks.stack import located
from leadline.checks.subject import OVERHEAD
from leadline.conclude.wording import planned_level, same_level
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.host.base import TrialHost
from leadline.model.bounds import RawLevel
from leadline.model.errors import UsageError
from leadline.model.knob import Catalogue, Knob
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation
from leadline.model.study import StackChoice
from leadline.model.tuning import MODE, Step, Tuning
from leadline.model.units import format_duration, rounded
from leadline.places.testbed import RunOptions, Testbed
from leadline.planning.forecast import setup_of, sigma_of
from leadline.planning.noise import Noise
from leadline.planning.sequence import Measured, Part, Progress, Stage, advance, decision_levels
from leadline.planning.sequence.compare import compare_part, runs_of
from leadline.planning.sequence.keep import describe, modes_of, smallest_step, step_part
from leadline.stack.registry import check_stack, knob_of_others, stack_catalogue
from leadline.store.claims import PATIENCE, in_use
from leadline.store.lab import Store
from leadline.store.tunings import TuningRecord, TuningRecords
from leadline.trial.run import GIVE_UP

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


@dataclass(frozen=True)
class Line:
    """One comparison. ``least`` and ``most`` trials: it depends on what is kept before it; ``seconds``: of one."""

    what: str
    detail: str
    least: int
    most: int
    seconds: float


@dataclass(frozen=True)
class Outline:
    """``smallest``: change in percent that a step finds in four of five cases, None where it is not known.
    ``side_by_side``: what the instances of a rotation need, or why there is none.
    """

    tuning: str
    lines_of: tuple[Line, ...]
    left_out: Mapping[str, str]
    level: float
    smallest: float | None
    noise: str
    warnings: tuple[str, ...] = ()  # what trials of some step risk
    side_by_side: tuple[str, ...] = ()

    @property
    def trials(self) -> tuple[int, int]:
        return sum(line.least for line in self.lines_of), sum(line.most for line in self.lines_of)

    @property
    def seconds(self) -> tuple[float, float]:
        """Of the fewest and of the most trials."""
        lines = self.lines_of
        return sum(line.least * line.seconds for line in lines), sum(line.most * line.seconds for line in lines)

    @property
    def per_trial(self) -> float:
        return self.seconds[1] / max(1, self.trials[1])

    def lines(self) -> list[str]:
        """Plain lines of text."""
        wide = max(len(line.what) for line in self.lines_of)
        lines = [
            f"{line.what.ljust(wide)}  {_between(line.least, line.most):>9} trials  {line.detail}"
            for line in self.lines_of
        ]
        lines += [f"step {name} is left out: {why}" for name, why in self.left_out.items()]
        lines += [*self.side_by_side, *self.warnings]
        low, high = (format_duration(seconds) for seconds in self.seconds)
        lines.append(
            f"{_between(*self.trials)} trials of {format_duration(self.per_trial)}: {low} if nothing is kept, {high} "
            "at most"
        )
        lines.append(
            f"a step is kept by its {100 * self.level:.1f} % interval, for all modes and candidates at once: at most 5 "
            "of 100 tunings keep anything where nothing helps"
        )
        if self.smallest is not None:
            lines.append(f"a step finds changes of {rounded(self.smallest, 2)} % (80 % power); noise {self.noise}")
        return lines

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "tuning": self.tuning,
            "parts": [asdict(line) for line in self.lines_of],
            "left_out": dict(self.left_out),
            "trials": {"least": self.trials[0], "most": self.trials[1]},
            "seconds": {"least": self.seconds[0], "most": self.seconds[1]},
            "seconds_per_trial": self.per_trial,
            "step_level": self.level,
            "smallest": self.smallest,
            "noise": self.noise,
            "warnings": list(self.warnings),
            "side_by_side": list(self.side_by_side),
        }


def outline(tuning: Tuning, left_out: Mapping[str, str], testbed: Testbed) -> Outline:
    """Nothing is changed. The lab may hold earlier studies of the same stack and load, whose noise is then expected."""
    steps = [step for step in tuning.steps if step.name not in left_out and modes_of(tuning, step)]
    nothing: Mapping[str, Mapping[str, int]] = {mode: {} for mode in tuning.modes}
    everything: dict[str, Mapping[str, int]] = {
        mode: {step.name: 1 for step in steps if mode in modes_of(tuning, step)} for mode in tuning.modes
    }
    parts = [step_part(tuning, step, nothing, left_out) for step in steps]
    count = len(tuning.steps) - len(left_out)
    file = part_file(tuning, parts[0])
    noise = noise_for(file.study, testbed.directory)
    forecast = _Seen(tuning, testbed, overhead_for(file.study, noise))
    lines: list[Line] = []
    for step, part in zip(steps, parts, strict=True):
        modes = modes_of(tuning, step)
        choices = " | ".join(describe(step, at) for at in range(1, step.candidates + 1))
        detail = f"{describe(step, 0)} -> {choices} ({', '.join(modes)})"
        trials, seconds = forecast.of(part)
        lines.append(Line(step.name, detail, trials, trials + 2 * len(modes) * tuning.blocks.confirm, seconds))
    ends = [compare_part(tuning, choice, left_out) for choice in (nothing, everything)]
    (least, _), (most, seconds) = (forecast.of(part) if part else (0, 0.0) for part in ends)
    lines.append(Line("compare", "untuned against tuned, all modes", least, most, seconds))
    if tuning.factorial is not None:
        runs = {mode: runs_of(list(choice), tuning.factorial) for mode, choice in everything.items()}
        trials = sum(runs.values()) * tuning.factorial.replicates
        runs_text = ", ".join(f"{mode} {number}" for mode, number in runs.items())
        fewest = 0 if tuning.factorial.of == "kept" else trials
        lines.append(Line("factorial", f"combinations of steps: {runs_text}", fewest, trials, seconds))
    level, _ = decision_levels(tuning, count)
    return Outline(
        tuning.tuning,
        tuple(lines),
        left_out,
        level,
        _smallest(tuning, parts[0], noise, forecast, level),
        noise.source,
        tuple(forecast.warnings),
        tuple(forecast.told),
    )


@dataclass
class _Seen:
    """The plans of parts, and what they say; ``overhead``: seconds of a trial beside its load."""

    tuning: Tuning
    testbed: Testbed
    overhead: float
    warnings: dict[str, None] = field(default_factory=dict)
    _rooms: dict[str, int] = field(default_factory=dict)

    def plan(self, part: Part) -> tuple[StudyFile, Planned]:
        file = part_file(self.tuning, part)
        return file, self.testbed.plan(file, idle_settings=True)

    def of(self, part: Part) -> tuple[int, float]:
        """Trials, and seconds of one."""
        file, planned = self.plan(part)
        self.warnings |= dict.fromkeys(planned.warnings)
        trials = planned.plan.trials
        if planned.room:
            self._rooms[planned.room] = len(trials)
        return len(trials), cost(file.study, planned.plan, self.overhead) / len(trials)

    @property
    def told(self) -> list[str]:
        """Of the part with most instances; why others are not side by side."""
        alone = [room for room in self._rooms if room.startswith(NO_ROTATION)]
        return alone or sorted(self._rooms, key=lambda room: self._rooms[room])[-1:]


def _smallest(tuning: Tuning, first: Part, noise: Noise, seen: _Seen, level: float) -> float | None:
    """The change that the first step finds."""
    file, planned = seen.plan(first)
    setup = setup_of(planned.design, file.study.workload, seen.overhead)
    sigma = sigma_of(planned.plan, noise, setup)
    return None if sigma is None else smallest_step(tuning, first, sigma, level)


def _between(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


_MOST_PARTS = 10_000  # comparisons of a tuning


@dataclass(frozen=True)
class TuningResult:
    """How a run ended. ``complete``: nothing is left to measure; ``stopped`` says why it ended before."""

    tuning_id: int
    complete: bool
    stopped: str
    restored: Sequence[str]


def progress_of(store: Store, record: TuningRecord) -> tuple[Progress, dict[str, int], dict[str, Measured]]:
    """Where a stored tuning stands; of each of its parts that has begun, the study's number and what it gave."""
    results: dict[str, Measured] = {}
    studies: dict[str, int] = {}
    for _ in range(len(record.parts) + 1):  # each is measured once
        progress = advance(record.tuning, results, record.left_out, record.passed_over)
        part = progress.next
        if part is None or part.key not in record.parts:
            break
        studies[part.key] = record.parts[part.key]
        results[part.key] = measure(store, record.tuning, part, record.parts[part.key])
        if not results[part.key].complete:
            break
    return progress, studies, results


def measure(store: Store, tuning: Tuning, part: Part, study_id: int) -> Measured:
    """What the study of a part gave so far."""
    record = store.load(study_id)
    is_left = any(trial.is_left for trial in record.trials)
    return measured(part_file(tuning, part), part, record.plan, record.observations(), not is_left)


@dataclass
class TuningRun:
    """One run of a tuning on a testbed of its stack's knobs; ``left_out``: steps that cannot be tried there."""

    file: TuningFile
    left_out: Mapping[str, str]
    testbed: Testbed
    restored: list[str] = field(default_factory=list, init=False)
    _trials: int = field(default=0, init=False)

    def execute(self, fresh: bool = False) -> TuningResult:
        """Run what is left. Raises RestoreError if the host could not be put back."""
        store, message = self.testbed.store, self.testbed.watcher.message
        records = TuningRecords(store)
        tuning = self.file.tuning
        tuning_id = None if fresh else records.unfinished(tuning)
        if tuning_id is None:
            tuning_id = records.add(tuning, self.file.text, self.left_out)
            for name, why in self.left_out.items():
                message(f"step {name} is left out: {why}")
        else:
            message(f"going on with {tuning.tuning}@{tuning_id}")
            records.pass_over(tuning_id, ())
            record = records.load(tuning_id)
            self.testbed.resume(record.created, [store.load(study) for study in record.parts.values()])
        with in_use(store.directory, f"tuning-{tuning_id}", patience=PATIENCE), self.testbed.host.held():
            return self._parts(records, tuning_id)

    def _parts(self, records: TuningRecords, tuning_id: int) -> TuningResult:
        """Comparisons one after the other."""
        store, message, elapsed = self.testbed.store, self.testbed.watcher.message, self.testbed.now
        tuning, begun = self.file.tuning, elapsed()
        for _ in range(_MOST_PARTS):
            record = records.load(tuning_id)
            progress, _, _ = progress_of(store, record)
            part = progress.next
            if part is None:
                if not record.passed_over:
                    records.finish(tuning_id)
                return TuningResult(tuning_id, not record.passed_over, _passed(record), self.restored)
            seconds_left = None if tuning.budget is None else tuning.budget - (elapsed() - begun)
            if seconds_left is not None and self._too_dear(
                part, progress, record.parts, seconds_left, elapsed() - begun
            ):
                rest = [step.name for step in tuning.steps if step.name not in record.left_out]
                at = rest.index(part.step)
                records.pass_over(tuning_id, rest[at:])
                message(f"the budget is left to the comparison; not tried: {', '.join(rest[at:])}")
                continue
            ended = self._run(records, record, part, seconds_left)
            if ended:
                return TuningResult(tuning_id, False, ended, self.restored)
        return TuningResult(tuning_id, False, f"more than {_MOST_PARTS:,} comparisons", self.restored)

    def _run(self, records: TuningRecords, record: TuningRecord, part: Part, left: float | None) -> str:
        """Runs a part; why the tuning ends here, empty to go on."""
        file = located_part(self.file, part)
        if left is not None and left <= 0:
            return "the budget is used up; run again to go on"
        self.testbed.watcher.message(f"{file.study.study}: {file.study.question}")
        go_on = record.parts.get(part.key)

        def opened(study_id: int) -> None:
            if go_on is None:
                records.link(record.id, part.key, study_id)

        # All trials of a step's candidates may fail, one after the other, without the host being to blame.
        give_up = max(GIVE_UP, len(part.configurations))
        options = RunOptions(fresh=True, go_on=go_on, budget=left, give_up=give_up, opened=opened)
        done = self.testbed.run(file, self.testbed.plan(file, idle_settings=True), options)
        self._trials += part.trials
        self.restored += done.restored
        if done.complete:
            return ""
        return done.stopped or "trials are left to run; run again to go on"

    def _too_dear(self, part: Part, found: Progress, begun: Mapping[str, int], left: float, spent: float) -> bool:
        """Whether a step that has not begun, and is not the first, would take the time that the comparison needs."""
        if part.stage is not Stage.STEP or part.key in begun or not found.done:
            return False
        tuning = self.file.tuning
        load = tuning.workload.before_steady + tuning.workload.steady + tuning.workload.ramp_down
        trial = spent / self._trials if self._trials else load + OVERHEAD
        # should every mode keep it: untuned, what is kept already (where rungs are compared), and this step
        rungs = sum(len(choice) + 2 if tuning.blocks.every_rung else 2 for choice in found.kept.values())
        confirm = len(tuning.modes) * 2 * tuning.blocks.confirm
        wanted = part.trials + confirm + rungs * tuning.blocks.compare
        return wanted * trial > left


def _passed(record: TuningRecord) -> str:
    if not record.passed_over:
        return ""
    return f"no time was left for {', '.join(record.passed_over)}; run again to try them"
