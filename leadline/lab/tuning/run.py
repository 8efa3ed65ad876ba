"""Runs a tuning: each comparison is an ordinary study, run or gone on with, until nothing is left to measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from leadline.host.base import TrialHost
from leadline.lab.planning import OVERHEAD, Planned, plan_study
from leadline.lab.run import GIVE_UP, RunResult
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.tuning.file import TuningFile
from leadline.lab.tuning.part import located_part, measured, part_file
from leadline.lab.tuning.records import TuningRecord, TuningRecords
from leadline.model.knob import Knob
from leadline.model.tuning import Tuning
from leadline.planning.sequence import Measured, Part, Progress, Stage, advance


class Runner(Protocol):
    """Runs one study on the host at hand."""

    def plan(self, file: StudyFile) -> Planned: ...
    def run(
        self,
        file: StudyFile,
        planned: Planned,
        *,
        go_on: int | None,
        opened: Callable[[int], None],
        budget: float | None,
        give_up: int,
    ) -> RunResult: ...


@dataclass(frozen=True)
class TuningResult:
    """How a run ended. ``complete``: nothing is left to measure; ``stopped`` says why it ended before."""

    tuning_id: int
    complete: bool
    stopped: str
    restored: Sequence[str]


def progress_of(store: Store, record: TuningRecord) -> tuple[Progress, dict[str, int]]:
    """Where a stored tuning stands, and the number of the study of each of its parts that has begun."""
    results: dict[str, Measured] = {}
    studies: dict[str, int] = {}
    while True:
        found = advance(record.tuning, results, record.left_out, record.passed_over)
        part = found.next
        if part is None or part.key not in record.parts:
            return found, studies
        studies[part.key] = record.parts[part.key]
        results[part.key] = measure(store, record.tuning, part, record.parts[part.key])
        if not results[part.key].complete:
            return found, studies


def measure(store: Store, tuning: Tuning, part: Part, study_id: int) -> Measured:
    """What the study of a part gave so far."""
    record = store.load(study_id)
    left = any(trial.is_left for trial in record.trials)
    return measured(part_file(tuning, part), part, record.plan, record.observations(), not left)


@dataclass
class TuningRun:
    """One run of a tuning. ``elapsed`` gives seconds that never go back."""

    file: TuningFile
    left_out: Mapping[str, str]
    store: Store
    runner: Runner
    message: Callable[[str], None]
    elapsed: Callable[[], float] = time.monotonic
    restored: list[str] = field(default_factory=list, init=False)
    _trials: int = field(default=0, init=False)

    def execute(self, fresh: bool = False) -> TuningResult:
        """Run what is left. Raises RestoreError if the host could not be put back."""
        records = TuningRecords(self.store)
        tuning = self.file.tuning
        begun = self.elapsed()
        tuning_id = None if fresh else records.unfinished(tuning)
        if tuning_id is None:
            tuning_id = records.add(tuning, self.file.text, self.left_out)
            for name, why in self.left_out.items():
                self.message(f"step {name} is left out: {why}")
        else:
            self.message(f"going on with {tuning.tuning}@{tuning_id}")
            records.pass_over(tuning_id, ())
        while True:
            record = records.load(tuning_id)
            found, _ = progress_of(self.store, record)
            part = found.next
            if part is None:
                if not record.passed_over:
                    records.finish(tuning_id)
                return TuningResult(tuning_id, not record.passed_over, _passed(record), self.restored)
            left = None if tuning.budget is None else tuning.budget - (self.elapsed() - begun)
            if left is not None and self._too_dear(part, found, record.parts, left, self.elapsed() - begun):
                rest = [step.name for step in tuning.steps if step.name not in record.left_out]
                at = rest.index(part.step)
                records.pass_over(tuning_id, rest[at:])
                self.message(f"the budget is left to the comparison; not tried: {', '.join(rest[at:])}")
                continue
            ended = self._run(records, record, part, left)
            if ended:
                return TuningResult(tuning_id, False, ended, self.restored)

    def _run(self, records: TuningRecords, record: TuningRecord, part: Part, left: float | None) -> str:
        """Runs a part; why the tuning ends here, empty to go on."""
        file = located_part(self.file, part)
        if left is not None and left <= 0:
            return "the budget is used up; run again to go on"
        self.message(f"{file.study.study}: {file.study.question}")
        go_on = record.parts.get(part.key)

        def opened(study_id: int) -> None:
            if go_on is None:
                records.link(record.id, part.key, study_id)

        done = self.runner.run(
            file,
            self.runner.plan(file),
            go_on=go_on,
            opened=opened,
            budget=left,
            # all trials of a step's candidates may fail, one after the other, without the host being to blame
            give_up=max(GIVE_UP, len(part.configurations)),
        )
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
        load = tuning.workload.ramp_up + tuning.workload.steady + tuning.workload.ramp_down
        trial = spent / self._trials if self._trials else load + OVERHEAD
        # should every mode keep it: untuned, what is kept already (not if confirmed: only all of it), and this step
        rungs = sum(2 if tuning.blocks.confirm else len(kept) + 2 for kept in found.kept.values())
        confirm = len(tuning.modes) * 2 * tuning.blocks.confirm
        wanted = part.trials + confirm + rungs * tuning.blocks.compare
        return wanted * trial > left


def _passed(record: TuningRecord) -> str:
    if not record.passed_over:
        return ""
    return f"no time was left for {', '.join(record.passed_over)}; run again to try them"


class HostRunner:
    """Plans studies for a host; what runs them is its subclass's."""

    def __init__(self, host: TrialHost, service_knobs: Sequence[Knob], disposable: bool) -> None:
        self._host = host
        self._service_knobs = list(service_knobs)
        self._disposable = disposable

    def plan(self, file: StudyFile) -> Planned:
        return plan_study(file, self._host, self._service_knobs, self._disposable, idle_settings=True)
