"""Runs a bisection: probe after probe, each an ordinary study of the lab, until the changes are told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from leadline.lab.bisect.probe import EXACT_HOSTS, Question, given, probe_file
from leadline.lab.bisect.span import Span
from leadline.lab.planning import Planned
from leadline.lab.probing import Prober, unset
from leadline.lab.studyfile import StudyFile
from leadline.lab.testbed import Testbed
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
    _worlds: tuple[float, ...] = field(default=(), init=False)  # B against A in each, of the last probe with both

    @cached_property
    def _unset(self) -> frozenset[str]:
        return unset(self.question.study, self.testbed)

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
        prober = Prober(self.testbed, self.question.name, self.budget, fresh)
        state, failed, stopped = self.begin(), dict[Changes, str](), ""
        for probe in range(1, self.most + 1):
            if over(state, self.most):
                break
            block = next_block(state)
            file, planned = self._plan(block, f"{prober.name}-{probe}")
            if stopped := prober.run(file, planned, partial(self._announce, state, block, probe)):
                break
            state = self._with(state, prober.done[-1], block, failed)
        ran = tuple(record.id for record in prober.done)
        told = (not stopped, stopped, tuple(prober.restored), self._worlds)
        return BisectResult(self.question, state, prober.name, ran, failed, prober.seconds, *told)

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
