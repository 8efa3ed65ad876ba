"""Runs a bisection: probe after probe, each an ordinary study of the lab, until the changes are told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned
from leadline.experiments.bisect.probe import BisectQuestion, given, probe_file
from leadline.experiments.bisect.span import Span
from leadline.experiments.probes import SearchResult, SearchRun
from leadline.model.errors import UsageError, nearest
from leadline.model.knob import ApplyCost
from leadline.model.record import StudyRecord, TrialState
from leadline.planning.bisection import Bisection, Changes, Found
from leadline.planning.probes import MOST, next_block, over

_DRAWS = 30  # orders of a block, one of which has its end first or last


@dataclass(frozen=True)
class BisectResult(SearchResult):
    """``failed``: treatments that cannot be run. ``end_differences``: that of the ends in each world of a study of
    forks, on the scale of the figures.
    """

    question: BisectQuestion
    state: Bisection
    failed: Mapping[Changes, str]
    end_differences: tuple[float, ...]


def question_of(file: StudyFile, span: Span, response: str | None, exact: bool) -> BisectQuestion:
    """Raises UsageError for a response that the study does not have."""
    name = response or file.study.responses[0]
    if name not in file.study.responses:
        near = nearest(name, file.study.responses)
        hint = f"did you mean {near}?" if near else f"it has {', '.join(file.study.responses)}"
        raise UsageError(f"--response {name}: {file.study.study} has no such response; {hint}")
    return BisectQuestion(file, span, name, exact or file.study.stack.virtual)


@dataclass
class BisectRun(SearchRun):
    """One run of a bisection; ``most`` trials in all."""

    question: BisectQuestion
    most: int = MOST
    _differences: tuple[float, ...] = field(default=(), init=False)  # B against A in each, of the last probe with both

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
                probe_file(self.question, state.usable, f"{self.question.name}-check", replicates=2, unset=self.unset),
                idle_settings=True,
            )
        return self._plan(next_block(state), f"{self.question.name}-1-1")[1]

    def execute(self, fresh: bool = False) -> BisectResult:
        """Run what is left. Raises as ``StudyRun.execute``, UsageError for an end that cannot be measured."""
        with self.testbed.host.held():
            return self._probes(fresh)

    def _probes(self, fresh: bool) -> BisectResult:
        self.open(fresh)
        state, failed = self.begin(), dict[Changes, str]()
        while len(self.records) < self.most and not over(state, self.most):
            block = next_block(state)
            file, planned = self._plan(block, f"{self.name}-{len(self.records) + 1}")
            record = self.probe(file, planned, self._words(state, block))
            if record is None:
                break
            state = self._with(state, record, block, failed)
        return BisectResult(*self.ended(), self.question, state, failed, self._differences)

    def _words(self, state: Bisection, block: Sequence[Changes]) -> str:
        label = self.question.span.label
        candidates = "; ".join(label(treatment) for treatment in list(dict.fromkeys(block))[1:])
        return f"{candidates} against {label(block[0])}{_so_far(self, state)}"

    def _plan(self, block: Sequence[Changes], name: str) -> tuple[StudyFile, Planned]:
        """One block, or two where a level costs a reboot: a whole plot is then repeated."""
        file = probe_file(self.question, block, name, unset=self.unset)
        knobs = {knob.name: knob for knob in (*self.testbed.host.knobs(), *self.testbed.knobs(file))}
        dear = [knobs[factor].apply_cost for factor in file.study.factors if factor in knobs]
        if any(cost in (ApplyCost.REMOUNT, ApplyCost.REBOOT, ApplyCost.KERNEL) for cost in dear):
            file = probe_file(self.question, block, name, replicates=2, unset=self.unset)
            return file, self._usable(file)
        for draw in range(_DRAWS):
            file = probe_file(self.question, block, name, draw, unset=self.unset)
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
        for block_ in gave:
            failed |= block_.failed
            both = [world[ends[1]] - world[ends[0]] for world in block_.by_world if set(ends) <= world.keys()]
            self._differences = tuple(both) or self._differences
        for end in ends:
            if end in failed:
                raise UsageError(f"{self.question.span.label(end)}, one of the ends, cannot be run: {failed[end]}")
        if not any(block.block for block in gave):
            why = next((trial.failure_message for trial in record.trials if trial.state == TrialState.FAILED), "")
            raise UsageError(f"{record.study.study}: no two trials have a figure for {self.question.response}: {why}")
        blocks = tuple(block.block for block in gave if block.block)
        usable = tuple(treatment for treatment in state.usable if treatment not in failed)
        return replace(state, blocks=(*state.blocks, *blocks), usable=usable)


def _so_far(run: BisectRun, state: Bisection) -> str:
    if not state.blocks or state.found is Found.NONE:
        return ""
    share, group = max(zip(state.probabilities.tolist(), state.groups, strict=True))
    return f"; so far {share:.0%}: {run.question.span.change(group)}"
