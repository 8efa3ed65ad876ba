"""Runs a bisection: probe after probe, each an ordinary study of the lab, until the changes are told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlalchemy import select

from leadline.lab import schema as t
from leadline.lab.bisect.probe import EXACT_HOSTS, Question, given, probe_file
from leadline.lab.bisect.span import Span
from leadline.lab.planning import Planned
from leadline.lab.run import GIVE_UP
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import RunOptions, Testbed
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import ApplyCost
from leadline.model.record import StudyRecord, TrialState
from leadline.planning.bisection import Bisection, Changes, Found
from leadline.planning.probes import MOST, next_block, over

_DRAWS = 30  # orders of a block, one of which has its end first or last


@dataclass(frozen=True)
class BisectResult:
    """Where a bisection stands. ``failed``: treatments that cannot be run; ``studies``: numbers of its probes.

    ``complete``: nothing is left to measure; ``stopped`` says why it ended before. ``worlds``: the difference of the
    ends in each world of a study of forks, on the scale of the figures.
    """

    question: Question
    state: Bisection
    name: str
    studies: tuple[int, ...]
    failed: Mapping[Changes, str]
    seconds: float  # of its trials
    complete: bool = False
    stopped: str = ""
    restored: tuple[str, ...] = ()
    worlds: tuple[float, ...] = ()


def question_of(file: StudyFile, span: Span, response: str | None, exact: bool) -> Question:
    """Raises UsageError for a response that the study does not have."""
    name = response or file.study.responses[0]
    if name not in file.study.responses:
        near = nearest(name, file.study.responses)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(file.study.responses)}"
        raise UsageError(f"--response {name}: {file.study.study} has no such response; {hint}")
    return Question(file, span, name, exact or file.study.stack.host in EXACT_HOSTS)


@dataclass
class BisectRun:
    """One run of a bisection on a testbed; ``most`` trials in all."""

    question: Question
    testbed: Testbed
    budget: float | None = None
    most: int = MOST
    _restored: list[str] = field(default_factory=list, init=False)
    _worlds: tuple[float, ...] = field(default=(), init=False)  # B against A in each, of the last probe with both

    @cached_property
    def _unset(self) -> frozenset[str]:
        """Factors of the study that this host cannot set: they stay as they are."""
        host = self.testbed.host
        own = {knob.name for knob in host.knobs()}
        return frozenset(name for name in self.question.study.factors if name in own and host.writable(name))

    def begin(self) -> Bisection:
        """Before anything is measured."""
        study, span = self.question.study, self.question.span
        margin = study.equivalence
        return Bisection(
            span.changes,
            (),
            span.treatments(study.design.seed),
            self.question.exact,
            math.log1p(margin) if self.question.log else 0.0,
        )

    def check(self) -> Planned:
        """The plan of the first probe, every level checked; nothing is changed. Raises UsageError."""
        state = self.begin()
        span = self.question.span
        if span.ordered:  # every level in one study
            self.testbed.plan(
                probe_file(self.question, state.usable, f"{self.question.name}-check", replicates=2, unset=self._unset),
                idle_settings=True,
            )
        return self._plan(next_block(state), f"{self.question.name}-1-1")[1]

    def execute(self, fresh: bool = False) -> BisectResult:
        """Run what is left. Raises as ``StudyRun.execute``, UsageError for an end that cannot be measured."""
        with self.testbed.host.held():
            return self._probes(fresh)

    def _probes(self, fresh: bool) -> BisectResult:
        """One after the other."""
        store = self.testbed.store
        number = attempts(store, self.question.name) + fresh or 1
        name = f"{self.question.name}-{number}"
        begun = probes(store, name)
        records = [store.load(study) for study in begun.values()]
        if records:
            self.testbed.resume(records[0].created, records)
        state, failed, done = self.begin(), dict[Changes, str](), dict[int, StudyRecord]()
        started = self.testbed.now()

        def ended(complete: bool, stopped: str = "") -> BisectResult:
            trials = [trial for record in done.values() for trial in record.trials]
            seconds = sum((each.ended or 0.0) - (each.started or 0.0) for each in trials if each.ended)
            ran = tuple(done)
            told = (complete, stopped, tuple(self._restored), self._worlds)
            return BisectResult(self.question, state, name, ran, failed, seconds, *told)

        for probe in range(1, self.most + 1):
            if over(state, self.most):
                break
            block = next_block(state)
            file, planned = self._plan(block, f"{name}-{probe}")
            study_id = begun.get(file.study.study)
            record = None if study_id is None else store.load(study_id)
            if record is None or any(trial.is_left for trial in record.trials):
                left = None if self.budget is None else self.budget - (self.testbed.now() - started)
                if left is not None and left < self._least(planned, done):
                    return ended(False, "the budget is used up; run again to go on")
                self._announce(state, block, probe)
                record, stopped = self._probe(file, planned, study_id, left)
                if stopped:
                    return ended(False, stopped)
            done[record.id] = record
            state = self._with(state, record, block, failed)
        return ended(True)

    def _least(self, planned: Planned, done: Mapping[int, StudyRecord]) -> float:
        """Seconds that a probe takes, by those before it; the first is always begun."""
        times = [record.seconds_per_trial for record in done.values() if record.seconds_per_trial]
        return len(planned.plan.trials) * sum(times) / len(times) if times else 0.0

    def _announce(self, state: Bisection, block: Sequence[Changes], probe: int) -> None:
        label = self.question.span.label
        candidates = "; ".join(label(held) for held in list(dict.fromkeys(block))[1:])
        self.testbed.watcher.message(f"probe {probe}: {candidates} against {label(block[0])}{_so_far(self, state)}")

    def _plan(self, block: Sequence[Changes], name: str) -> tuple[StudyFile, Planned]:
        """One block, or two where a level costs a reboot: a whole plot is then repeated."""
        file = probe_file(self.question, block, name, unset=self._unset)
        knobs = {knob.name: knob for knob in (*self.testbed.host.knobs(), *self.testbed.knobs(file))}
        dear = [knobs[factor].apply_cost for factor in file.study.factors if factor in knobs]
        if any(cost in (ApplyCost.REMOUNT, ApplyCost.REBOOT, ApplyCost.KERNEL) for cost in dear):
            file = probe_file(self.question, block, name, replicates=2, unset=self._unset)
            return file, self._usable(file)
        for draw in range(_DRAWS):
            file = probe_file(self.question, block, name, draw, unset=self._unset)
            planned = self._usable(file)
            if len(planned.plan.trials) <= len(block):
                break
        return file, planned

    def _usable(self, file: StudyFile) -> Planned:
        planned = self.testbed.plan(file, idle_settings=True)
        if planned.skipped:
            raise UsageError(f"{self.question.span.source}: {planned.skipped[0]}")
        return planned

    def _probe(
        self, file: StudyFile, planned: Planned, go_on: int | None, left: float | None
    ) -> tuple[StudyRecord, str]:
        give_up = max(GIVE_UP, len(planned.plan.trials))  # every candidate may fail without the host being to blame
        options = RunOptions(fresh=True, go_on=go_on, budget=left, give_up=give_up)
        run = self.testbed.run(file, planned, options)
        self._restored += [line for line in run.restored if line not in self._restored]
        stopped = "" if run.complete else run.stopped or "trials are left to run; run again to go on"
        return self.testbed.store.load(run.study_id), stopped

    def _with(
        self, state: Bisection, record: StudyRecord, block: Sequence[Changes], failed: dict[Changes, str]
    ) -> Bisection:
        """The state with what a probe gave."""
        ends = (frozenset[int](), frozenset(range(state.changes)))
        gave = given(self.question, record, block)
        for each in gave:
            failed |= each.failed
            both = [world[ends[1]] - world[ends[0]] for world in each.worlds if set(ends) <= world.keys()]
            self._worlds = tuple(both) or self._worlds
        for end in ends:
            if end in failed:
                raise UsageError(f"{self.question.span.label(end)}, one of the ends, cannot be run: {failed[end]}")
        if not any(each.block for each in gave):
            why = next((trial.failure_message for trial in record.trials if trial.state == TrialState.FAILED), "")
            raise UsageError(f"{record.study.study}: no two trials have a figure for {self.question.response}: {why}")
        blocks = tuple(each.block for each in gave if each.block)
        usable = tuple(held for held in state.usable if held not in failed)
        return replace(state, blocks=(*state.blocks, *blocks), usable=usable)


def _so_far(run: BisectRun, state: Bisection) -> str:
    if not state.blocks or state.found is Found.NONE:
        return ""
    share, group = max(zip(state.probabilities.tolist(), state.groups, strict=True))
    return f"; so far {share:.0%}: {run.question.span.change(group)}"


def probes(store: Store, name: str) -> dict[str, int]:
    """Probes of one bisection: name -> number of the newest study, oldest first."""
    query = select(t.studies.c.name, t.studies.c.id).where(t.studies.c.name.startswith(f"{name}-"))
    with store.transaction() as connection:
        return {row.name: row.id for row in connection.execute(query.order_by(t.studies.c.id))}


def attempts(store: Store, name: str) -> int:
    """How often the question whose probes have this name has been begun."""
    return max((int(each.split("-")[-2]) for each in probes(store, name)), default=0)
