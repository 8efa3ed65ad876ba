"""Runs a study: plan or resume, every trial with its retries, and the host put back at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import leadline
from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, first_guess, load_seconds
from leadline.design.profiling import profiled
from leadline.host.base import TrialHost
from leadline.host.watchdog import Watchdog
from leadline.layouts import layout_of
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.plan import Plan, PlannedTrial, Role
from leadline.model.record import StudyRecord, TrialRecord, TrialState
from leadline.store.claims import PATIENCE, LostClaimError, in_use
from leadline.store.files import bring
from leadline.store.lab import Store
from leadline.trial.interruption import Interruption
from leadline.trial.lifecycle import TrialRunner
from leadline.trial.livelog import LiveLog
from leadline.trial.looks import Looking, check_looks
from leadline.trial.progress import Watcher, treatment_label
from leadline.trial.side_by_side import run_block
from leadline.trial.system import System

ATTEMPTS = 3  # of a trial that fails as infrastructure
GO_ON = "; run the same command again to go on"  # at the end of why a run ended
GIVE_UP = 3  # trials in a row that fail the same way end the run


@dataclass(frozen=True)
class RunResult:
    """How a run ended. ``complete``: no trial is left to run; ``stopped`` says why it ended before the plan's end."""

    study_id: int
    complete: bool
    stopped: str
    restored: Sequence[str]


@dataclass(frozen=True)
class Part:
    """Trials of a plan that are run for another. ``repeats``: how many of them may be measured again."""

    positions: frozenset[int]
    repeats: int = 0


@dataclass
class StudyRun:
    """One run of a study on one host.

    ``guard`` holds the host's lease and watchdog while trials run; ``elapsed`` gives seconds that never go back.
    ``budget`` takes the place of the study's; so many trials in a row that fail the same way end the run (``give_up``).
    ``opened`` is told the number under which the study is stored, before its first trial. ``part``: what of the plan is
    run here, for another that looks at the study between blocks and estimates its wash-out.
    """

    file: StudyFile
    planned: Planned
    store: Store
    host: TrialHost
    system: System
    watcher: Watcher
    guard: Callable[[float], AbstractContextManager[object]]
    elapsed: Callable[[], float] = time.monotonic
    budget: float | None = None
    give_up: int = GIVE_UP
    opened: Callable[[int], None] = lambda _study_id: None
    part: Part | None = None
    _study_id: int = field(default=0, init=False)

    def execute(self, fresh: bool = False, go_on: int | None = None) -> RunResult:
        """Run what is left of the study; ``go_on`` is the stored one to go on with, the newest unfinished if absent.

        Raises RestoreError if the host could not be put back, UsageError for looks that the plan has no room for or a
        dead-man time that cannot be kept, LeadlineError when the host is in use or cannot be watched.
        """
        if self.part is None:
            check_looks(self.file, self.planned.plan)
        with (
            self.guard(self.file.study.dead_man) as watchdog,
            Interruption() as interruption,
            ExitStack() as exit_stack,
        ):
            if isinstance(watchdog, Watchdog):  # a simulated host has none
                watchdog.tell(interruption.end)
            self.watcher = log = LiveLog(self.watcher, self.store.directory)
            runner = TrialRunner(
                self.store,
                self.host,
                self.system,
                self.file.study,
                self.planned.knobs,
                self.planned.settings,
                self.watcher,
                interruption,
            )
            self._study_id, stopped = 0, ""

            def lost(error: LostClaimError) -> None:
                interruption.end(TrialFailure(FailureClass.INTERRUPTED, str(error)))

            if self.store.real_time:
                exit_stack.enter_context(self.store.claims.alive(lost))
            try:
                with interruption.listening():
                    stopped = self._whole(runner, exit_stack, log, interruption, fresh, go_on)
            except TrialFailure as failure:
                if not self._study_id:
                    raise
                stopped = f"{failure.message}\n{failure.evidence}".strip()
            finally:
                try:
                    self.system.stop()
                finally:
                    restored = self.host.restore()
            runner.verify_undone()
            self.store.claims.release()
            self.store.claims.close_orphans(self._study_id)  # of a trial that was ended before it could be closed
            self._settle_wash_out(self._study_id)
            record = self.store.load(self._study_id)
        trials_left = [trial for trial in record.trials if trial.is_left]
        return RunResult(self._study_id, not trials_left, stopped, restored)

    def _whole(
        self,
        runner: TrialRunner,
        held: ExitStack,
        told: LiveLog,
        interruption: Interruption,
        fresh: bool,
        go_on: int | None,
    ) -> str:
        """Everything up to the last trial; why it ended before the plan's end, empty if it did not."""
        self._undo_leftovers()
        lab = self.store.directory
        held.enter_context(in_use(lab, f"services-{self.file.study.study}", shared=True, patience=PATIENCE))
        self._study_id = self._open(fresh, go_on)
        held.enter_context(in_use(lab, f"study-{self._study_id}", patience=PATIENCE))
        held.enter_context(told.begin(self._study_id, interruption))
        self.opened(self._study_id)
        return self._prepare_and_run(self._study_id, runner)

    def _settle_wash_out(self, study_id: int) -> None:
        if not layout_of(self.file.study.design).estimates_wash_out or self.part is not None:
            return
        from leadline.trial.slotmeasure import settle  # its libraries take seconds to load

        try:
            sentence = settle(self.store, study_id, self.system.recording)
        except LeadlineError as error:
            sentence = f"the wash-out could not be estimated: {error}"
        if sentence:
            self.watcher.message(sentence)

    def _undo_leftovers(self) -> None:
        for line in self.host.restore():
            self.watcher.message(f"put back from an earlier run: {line}")

    def _open(self, fresh: bool, go_on: int | None) -> int:
        study = self.file.study
        existing = go_on
        if existing is None and not fresh:
            existing = self.store.unfinished(study)
        if existing is not None:
            cut_off = self.store.claims.close_orphans(existing)
            record = self.store.load(existing)
            for position in cut_off:
                number = f"{position + 1}/{len(record.trials)}"
                self.watcher.message(f"trial {number} was cut off by the end of an earlier leadline; it will run again")
            if record.plan != self.planned.plan:
                self.watcher.message("the plan made today differs from the stored one (other factors can be set now)")
            else:
                bring(self.store, existing)
                return existing
        for sentence in (*self.planned.skipped, *self.planned.warnings):
            self.watcher.message(sentence)
        environment = {
            "leadline": leadline.__version__,
            **self.file.facts,
            **{f"version.{name}": version for name, version in self.system.versions().items()},
            **{f"host.{name}": value for name, value in self.host.facts().items()},
        }
        stored = self.store.add_study(study, self.file.text, self.planned.plan, environment, self.planned.skipped)
        if self.part is not None:
            elsewhere = [t.id for t in self.store.load(stored).trials if t.planned.position not in self.part.positions]
            self.store.skip(elsewhere, "not of this part")
        return stored

    def _prepare_and_run(self, study_id: int, runner: TrialRunner) -> str:
        self.system.prepare(self.watcher.message)
        record = self.store.load(study_id)
        done = sum(1 for trial in record.trials if not trial.is_left)
        budget = self.file.study.budget if self.budget is None else self.budget
        study = self.file.study
        clock = Clock(first_guess(study, record.plan), budget, self.elapsed, load_seconds(study))
        repeat = self.file.study.repeat
        runner.repeats_left = repeat.at_most - record.repeats if repeat else 0
        if self.part is not None:
            runner.repeats_left = min(runner.repeats_left, self.part.repeats)
        runner.profiled = profiled(record.plan) if study.profiling != "off" else frozenset()
        self.watcher.study(study_id, record.plan, done, clock.left(len(record.trials) - done))
        streak = Streak(self.give_up)
        looking = Looking.at(study, self.store, record, self.watcher.message, None if self.part is None else 1)
        for group in [[trial.position for trial in trials] for trials in record.plan.together]:
            trial = next((record.trials[at] for at in group if record.trials[at].is_left), None)
            if trial is None or looking.skipped.issuperset(group):
                continue
            ended = looking.before(trial)
            if ended:
                return ended
            trials = [
                position
                for at in group
                if (position := record.trials[at]).state != TrialState.SKIPPED and at not in looking.skipped
            ]
            if not trials:
                continue
            trial = trials[0]
            trials_left = sum(
                other.planned.position >= trial.planned.position and other.planned.position not in looking.skipped
                for other in record.trials
                if other.is_left
            )
            if clock.exhausted(len(trials)):
                return looking.out_of_budget(trials_left)
            failures = self._with_retries(runner, trials, record, clock, trials_left)
            clock.done(
                len(trials), settled=not layout_of(record.plan).exact or _ends_its_block(trial.planned, record.plan)
            )
            for trial in trials:
                self.watcher.trial_ended(self.store.load_trial(study_id, trial.planned.position))
            for trial, failure in zip(trials, failures, strict=True):
                if failure and failure.failure_class is FailureClass.INTERRUPTED:
                    return failure.message + GO_ON
                if ended := streak.after(trial.planned, failure):
                    return ended
        return ""

    def _with_retries(
        self, runner: TrialRunner, trials: Sequence[TrialRecord], record: StudyRecord, clock: Clock, left: int
    ) -> Sequence[TrialFailure | None]:
        """One trial, or all of a rotation's block; the failure of each, if any."""
        attempt = broken = 0
        while True:
            attempt, breaking = attempt + 1, len(runner.breaking)

            def announce(planned: PlannedTrial, attempt: int = attempt, left: int = left) -> None:
                label = treatment_label(planned, record.plan, self.planned.knobs)
                prepared = sum(trial.planned.position < planned.position for trial in trials)
                self.watcher.trial(planned, attempt, label, clock.left_after(left, prepared))

            if layout_of(record.plan).side_by_side:
                failures = run_block(runner, [(trial.id, trial.planned) for trial in trials], announce)
            else:
                announce(trials[0].planned)
                failures = [runner.run(trials[0].id, trials[0].planned)]
            classes = {failure.failure_class: failure.message for failure in reversed(failures) if failure}
            if FailureClass.INTERRUPTED in classes:
                return failures
            if FailureClass.DISTURBED in classes:
                more = f"{runner.repeats_left} more may be"
                self.watcher.message(f"measured again, {more}: {classes[FailureClass.DISTURBED]}")
                continue
            if len(runner.breaking) > breaking:
                self.watcher.message(f"again without it: {runner.breaking[-1].why}")
                continue
            broken += FailureClass.INFRASTRUCTURE in classes
            if FailureClass.INFRASTRUCTURE not in classes or broken == ATTEMPTS or clock.exhausted(0):
                return failures
            message = classes[FailureClass.INFRASTRUCTURE]
            self.watcher.message(f"attempt {attempt} failed as infrastructure, trying again: {message}")


class Streak:
    """What ends a run early: a baseline that cannot be started, so many trials in a row that fail the same way."""

    def __init__(self, give_up: int) -> None:
        self._give_up = give_up
        self._classes: list[FailureClass] = []

    def after(self, trial: PlannedTrial, failure: TrialFailure | None) -> str:
        """Why the run ends after this trial, empty if it does not."""
        self._classes = [*self._classes, failure.failure_class] if failure else []
        baseline = trial.role is not Role.TREATMENT
        if failure and failure.failure_class is FailureClass.CONFIGURATION and baseline:
            return f"the baseline itself does not run: {failure.message}"
        if len(self._classes) >= self._give_up and len(set(self._classes[-self._give_up :])) == 1:
            message = failure.message if failure else ""
            return f"{self._give_up} trials in a row failed as {self._classes[-1].value}: {message}"
        return ""


class Clock:
    """Time left, from the trials timed so far."""

    def __init__(
        self, first_guess: float, budget: float | None, elapsed: Callable[[], float], load: float = 0.0
    ) -> None:
        """``load``: seconds of it in a trial, which no trial can do without."""
        self._load = min(load, first_guess)
        self._last = elapsed()
        self._guess = first_guess
        self._budget = budget
        self._elapsed = elapsed
        self._begun = elapsed()
        self._trials = 0
        self._timed: float | None = None  # seconds of a trial

    def done(self, trials: int, settled: bool = True) -> None:
        """``settled``: all that these trials share with others, such as the boot of a world, has paid its share."""
        self._trials += trials
        self._last = self._elapsed()
        if settled:
            self._timed = (self._elapsed() - self._begun) / self._trials

    def per_trial(self) -> float:
        return self._guess if self._timed is None else self._timed

    def left(self, trials: int) -> float:
        return trials * self.per_trial()

    def left_after(self, trials: int, prepared: int) -> float:
        """The same, of so many trials of which the first are prepared already: what the rest of a trial beside its load
        takes is corrected by how long that took.
        """
        rest = max(0.0, self.per_trial() - self._load)
        if prepared:
            rest = max(rest, (self._elapsed() - self._last) / prepared)
        return trials * self._load + (trials - prepared) * rest

    def exhausted(self, trials: int) -> bool:
        """Whether so many more trials would pass the budget; the first always run. Of 0: whether it has passed."""
        if self._budget is None or (trials and not self._trials):
            return False
        return self._elapsed() - self._begun + self.left(trials) > self._budget


def _ends_its_block(trial: PlannedTrial, plan: Plan) -> bool:
    after = trial.position + 1
    return after == len(plan.trials) or plan.trials[after].block != trial.block
