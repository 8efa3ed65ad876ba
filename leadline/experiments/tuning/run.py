"""Runs a tuning: each comparison is an ordinary study, run or gone on with, until nothing is left to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leadline.checks.files.study import TuningFile
from leadline.checks.subject import OVERHEAD
from leadline.experiments.tuning.part import located_part, measured, part_file
from leadline.model.tuning import Tuning
from leadline.places.testbed import RunOptions, Testbed
from leadline.planning.sequence import Measured, Part, Progress, Stage, advance
from leadline.store.claims import PATIENCE, in_use
from leadline.store.lab import Store
from leadline.store.tunings import TuningRecord, TuningRecords
from leadline.trial.run import GIVE_UP

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
