"""Which change between two ends makes the difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned, setup_for
from leadline.conclude.bisection import percent, sentence
from leadline.experiments.bisect.probe import BisectQuestion, given, probe_file
from leadline.experiments.bisect.span import Candidates, Span, span_of
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.experiments.probes import SearchResult, SearchRun
from leadline.layouts import layout_of
from leadline.model.errors import UsageError, nearest
from leadline.model.guest import KERNEL
from leadline.model.knob import ApplyCost
from leadline.model.record import StudyRecord, TrialState
from leadline.model.units import format_duration
from leadline.places.guest.between import between, is_name
from leadline.places.testbed import Testbed
from leadline.planning.bisection import Bisection, Changes, Found
from leadline.planning.forecast import sigma_of
from leadline.planning.probes import MOST, Expected, expected, next_block, over

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


EFFECTS = (5.0, 10.0)  # percent that a dry run tells of where none is named


def question(
    file: StudyFile,
    *,
    factor: str | None = None,
    first: str | None = None,
    last: str | None = None,
    response: str | None = None,
    exact: bool = False,
    all_levels: bool = False,
) -> BisectQuestion:
    """Between the levels ``first`` and ``last`` of a factor, or between two files of settings. Between two kernels of
    Debian lie those that can be had, unless the study names ``all_levels`` in their order. Raises UsageError.
    """
    described = file.study
    listed = {KERNEL: Candidates(is_name, _kernels)} if described.stack.in_guest and not all_levels else {}
    return question_of(file, span_of(described, factor, first, last, listed), response, exact)


def _kernels(first: str, last: str) -> Sequence[str]:
    return between(first, last, lambda _text: None)


@dataclass(frozen=True)
class BisectOutline:
    """What a bisection would be: its candidates, and trials, probes and time by effect (percent)."""

    question: BisectQuestion
    noise: str
    seconds_per_trial: float
    expected: tuple[Expected, ...]
    budget: float | None

    @property
    def changes(self) -> list[str]:
        span = self.question.span
        return [span.change((change,)) for change in range(span.changes)]

    def lines(self) -> list[str]:
        """Plain lines of text."""
        span, changes = self.question.span, self.changes
        kind = "ordered levels" if span.ordered else "settings that differ"
        lines = [f"{span.changes + span.ordered} {kind}, {len(changes)} changes one of which may make the difference:"]
        lines += [f"  {change}" for change in changes]
        for expectation in self.expected:
            time = expectation.trials * self.seconds_per_trial
            late = "" if expectation.ends > 0.99 else f"; {expectation.ends:.0%} end within {MOST} trials"
            over = "; longer than the budget" if self.budget is not None and time > self.budget else ""
            lines.append(
                f"an effect of {expectation.effect:g} % on {self.question.response}: about {expectation.probes:.0f} "
                "probes, "
                f"{expectation.trials:.0f} trials, {format_duration(time)}{late}{over}"
            )
        return [*lines, "exact probes: one for each candidate" if self.question.exact else f"noise {self.noise}"]

    def document(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "study": self.question.study.study,
            "response": self.question.response,
            "ordered": self.question.span.ordered,
            "exact": self.question.exact,
            "changes": self.changes,
            "noise": self.noise,
            "seconds_per_trial": self.seconds_per_trial,
            "expected": [
                asdict(expectation) | {"seconds": expectation.trials * self.seconds_per_trial}
                for expectation in self.expected
            ],
        }


def outline(
    asked: BisectQuestion, place: Testbed, effect: float | None = None, budget: float | None = None
) -> BisectOutline:
    """Nothing is changed. ``effect`` in percent; noise is that of studies of the same stack in the lab."""
    run = BisectRun(asked, place)
    planned, study = run.check(), asked.study
    noise = noise_for(study, place.directory, response=asked.response)
    overhead = overhead_for(study, noise)
    setup = setup_for(planned.design, study.workload, overhead)
    sigma = sigma_of(planned.plan, noise, setup) or 0.05
    state = run.begin()
    expectations = tuple(
        expected(state.changes, state.usable, math.log1p(each / 100), sigma, exact=asked.exact)
        for each in ((effect,) if effect is not None else EFFECTS)
    )
    expectations = tuple(
        Expected(round(100 * math.expm1(each.effect), 6), each.probes, each.trials, each.ends) for each in expectations
    )
    if layout_of(planned.design).exact:  # every probe is as large as the first
        each_probe = len(planned.plan.trials)
        expectations = tuple(
            replace(expectation, trials=expectation.probes * each_probe) for expectation in expectations
        )
        return BisectOutline(asked, noise.source, setup.seconds(planned.plan) / each_probe, expectations, budget)
    load = study.workload.before_steady + study.workload.steady + study.workload.ramp_down
    return BisectOutline(asked, noise.source, load + overhead, expectations, budget)


@dataclass(frozen=True)
class Bisected:
    """A bisection as it stands."""

    result: BisectResult

    @property
    def answered(self) -> bool:
        return self.result.complete

    @cached_property
    def answer(self) -> str:
        """The conclusion in one sentence."""
        question = self.result.question
        return sentence(self.result.state, question.response, question.log, question.span.ordered, question.span.change)

    @property
    def rows(self) -> list[tuple[str, int, float | None]]:
        """Every treatment that was run: its name, trials, and percent against the end A."""
        state, question = self.result.state, self.result.question
        means = state.means()
        counts = {mean: sum(block.treatments.count(mean) for block in state.blocks) for mean in means}
        order = sorted(means, key=lambda held: (len(held), sorted(held)))
        return [
            (question.span.label(treatment), counts[treatment], self._percent(means[treatment])) for treatment in order
        ]

    @property
    def end_differences(self) -> list[float]:
        """The difference of the ends in each world of a study of forks, as in ``rows``."""
        return [self._percent(value) for value in self.result.end_differences]

    def _percent(self, value: float) -> float:
        return 100 * (math.expm1(value) if self.result.question.log else value)

    def lines(self) -> list[str]:
        """Treatments and probabilities, in lines, without the answer."""
        state, question = self.result.state, self.result.question
        rows = self.rows
        wide = max((len(name) for name, _, _ in rows), default=0)
        unit = "%" if question.log else "points"
        lines = [f"{question.response} against {question.span.label(frozenset())}"] if rows else []
        lines += [f"  {name.ljust(wide)}  {trials:3d} trials  {value:+8.2f} {unit}" for name, trials, value in rows]
        if self.end_differences:
            differences = ", ".join(f"{value:+.2f} {unit}" for value in self.end_differences)
            caveat = " (one world tells a difference, not how it varies)" if len(self.end_differences) == 1 else ""
            lines.append(f"the ends differ in each world by {differences}{caveat}")
        lines += [
            f"  cannot be run: {question.span.label(treatment)}: {why}" for treatment, why in self.result.failed.items()
        ]
        likely = [
            f"  {share:6.1%}  {question.span.change(group)}"
            for share, group in zip(state.probabilities.tolist(), state.groups, strict=True)
            if state.blocks and share >= 0.01
        ]
        others = [("no change", state.none), ("two changes", state.two), ("many", state.many)] if state.blocks else []
        likely += [f"  {share:6.1%}  {name}" for name, share in others if share >= 0.01]
        return [*lines, *(["probability that a change is at work"] if likely else []), *likely]

    def document(self) -> dict[str, Any]:
        """As JSON types: ``leadline-bisect/1`` (docs/guides/bisect.md)."""
        result, state, question = self.result, self.result.state, self.result.question
        effect = percent(state.effect, question.log) if state.blocks else None
        ends = percent(state.difference, question.log) if state.blocks else None
        return {
            "format": "leadline-bisect/1",
            "bisection": result.name,
            "study": question.study.study,
            "response": question.response,
            "found": state.found.value if state.blocks else "open",
            "places": [question.span.change(group) for group in state.places] if state.blocks else [],
            "changes": [
                {"change": question.span.change(group), "probability": share}
                for share, group in zip(
                    state.probabilities.tolist() if state.blocks else [], state.groups, strict=False
                )
            ],
            "none": state.none if state.blocks else None,
            "two": state.two if state.blocks else None,
            "many": state.many if state.blocks else None,
            "effect": _interval(effect),
            "ends": _interval(ends),
            "treatments": [
                {"treatment": name, "trials": trials, "difference": value} for name, trials, value in self.rows
            ],
            "worlds": self.end_differences,
            "failed": {question.span.label(treatment): why for treatment, why in result.failed.items()},
            "probes": len(state.blocks),
            "trials": state.trials,
            "seconds": result.seconds,
            "studies": [record.id for record in result.records],
            "complete": result.complete,
            "stopped": result.stopped,
            "restored": list(result.restored),
            "answer": self.answer,
        }


def bisect(
    asked: BisectQuestion, place: Testbed, *, budget: float | None = None, most: int = MOST, fresh: bool = False
) -> Bisected:
    """Run what is left of a bisection, or all of it anew (``fresh``). Raises as a study's run does."""
    run = BisectRun(asked, place, budget, most)
    run.check()
    return Bisected(run.execute(fresh))


def _interval(found: Sequence[float] | None) -> dict[str, float] | None:
    return None if found is None else dict(zip(("percent", "low", "high"), found, strict=True))
