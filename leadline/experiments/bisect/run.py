"""The question of a bisection, its probes one after the other, and what it would take.

Between two ends lie ordered levels of one factor, or the settings in which two hosts differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from leadline.checks.files.study import StudyFile, study_of
from leadline.checks.plan import Planned, setup_for
from leadline.conclude.wording import configuration_names
from leadline.experiments import probes
from leadline.experiments.confirm import kept_keys
from leadline.experiments.pilot import noise_for, overhead_for
from leadline.experiments.probes import NO_SENTINEL_INSIDE, SearchResult, SearchRun, search_name, seed_of, settings_of
from leadline.host.textfile import is_file, read_text
from leadline.layouts import layout_of
from leadline.model.bounds import RawLevel
from leadline.model.errors import FailureClass, UsageError, did_you_mean, shortened
from leadline.model.guest import KERNEL
from leadline.model.knob import ApplyCost
from leadline.model.record import StudyRecord, TrialState
from leadline.model.result import RESPONSES
from leadline.model.study import MOST_LEVELS, Study
from leadline.model.units import format_duration
from leadline.model.yamltext import Places, load_yaml, plain
from leadline.places.guest.kernels import between, is_name
from leadline.places.testbed import Testbed
from leadline.planning.bisection import (
    MOST,
    Bisection,
    Block,
    Changes,
    Expected,
    Found,
    expected,
    halves,
    next_block,
    over,
    prefixes,
)
from leadline.planning.forecast import sigma_of


@dataclass(frozen=True)
class Candidates:
    """Of a factor whose levels have an order of their own: ``between`` gives them from one to another; ``named`` tells
    whether a text looks like a level.
    """

    named: Callable[[str], bool]
    between: Callable[[str, str], Sequence[RawLevel]]


Listed = Mapping[str, Candidates]  # by factor


@dataclass(frozen=True)
class Span:
    """``steps``: the ordered levels of ``factors`` (one), from the end A to the end B; else of each of them its level
    at both ends. ``source``: where they were named, for errors.
    """

    factors: tuple[str, ...]
    steps: tuple[tuple[RawLevel, ...], ...]
    ordered: bool
    source: str

    @property
    def changes(self) -> int:
        return len(self.steps[0]) - 1 if self.ordered else len(self.factors)

    def treatments(self, seed: int) -> tuple[Changes, ...]:
        """What can be tried: every level, or sets of settings."""
        return prefixes(self.changes) if self.ordered else halves(self.changes, seed)

    def levels(self, held: Changes) -> dict[str, RawLevel]:
        """The levels of a treatment."""
        if self.ordered:
            return {self.factors[0]: self.steps[0][len(held)]}
        return {name: pair[at in held] for at, (name, pair) in enumerate(zip(self.factors, self.steps, strict=True))}

    def label(self, held: Changes) -> str:
        """A treatment in words: its level, or which settings are those of B."""
        if self.ordered:
            return f"{self.factors[0]}={self.steps[0][len(held)]}"
        if len(held) in (0, self.changes):
            return "B" if held else "A"
        return "A with " + ", ".join(self.factors[at] for at in sorted(held)) + " of B"

    def change(self, group: Sequence[int]) -> str:
        """Changes that are concluded on together, in words."""
        if self.ordered:
            first, last = self.steps[0][group[0]], self.steps[0][group[-1] + 1]
            return f"{self.factors[0]} from {first} to {last}"
        return " or ".join(f"{self.factors[at]} from {self.steps[at][0]} to {self.steps[at][1]}" for at in group)


def span_of(study: Study, factor: str | None, first: str | None, last: str | None, listed: Listed) -> Span:
    """From ``--from`` and ``--to``: two files of settings, two levels of a ``listed`` factor with what lies between
    them, or two of the study's levels. Raises UsageError.
    """
    if first is not None and last is not None:
        if factor is None and is_file(first) and is_file(last):
            return _settings(Path(first), Path(last))
        for name, candidates in listed.items():
            if factor in (None, name) and candidates.named(first) and candidates.named(last):
                return _span(name, candidates.between(first, last))
    return _levels(study, factor, first, last)


def _settings(first: Path, last: Path) -> Span:
    a, b = _read(first), _read(last)
    for side, other, mine, theirs in ((a, b, first, last), (b, a, last, first)):
        if lone := [name for name in side if name not in other]:
            raise UsageError(f"{theirs}: {lone[0]} is in {mine} only; write its level here, too, or leave it out there")
    names = tuple(name for name in a if (a[name], type(a[name])) != (b[name], type(b[name])))
    if not names:
        raise UsageError(f"--to {last}: every setting has the level that it has in {first}; nothing to bisect")
    if len(names) > MOST_LEVELS:
        raise UsageError(f"--to {last}: {len(names)} settings differ from {first}; {MOST_LEVELS} are the most")
    return Span(names, tuple((a[name], b[name]) for name in names), False, f"--from {first} --to {last}")


def _read(path: Path) -> dict[str, RawLevel]:
    tree = load_yaml(read_text(path), str(path))
    if not isinstance(tree, Mapping):
        raise UsageError(f"{path}:1: no settings: write them as `settings:` with knob: level below")
    places = Places(str(path), tree, {})
    document = plain(tree, places)
    settings = document.get("settings", document)
    if not isinstance(settings, Mapping) or not settings:
        raise UsageError(f"{path}:1: no settings: write them as `settings:` with knob: level below")
    for name, level in settings.items():
        if not isinstance(level, bool | int | float | str):
            raise UsageError(f"{places.where(('settings', name))}: {name}: a level is one number, word or switch")
    return {str(name): level for name, level in settings.items()}


def _levels(study: Study, factor: str | None, first: str | None, last: str | None) -> Span:
    name = _factor(study, factor)
    levels = list(study.factors[name])
    at = 0 if first is None else _index(name, levels, "--from", first)
    until = len(levels) - 1 if last is None else _index(name, levels, "--to", last)
    return _span(name, levels[at : until + 1] if at <= until else levels[until : at + 1][::-1])


def _span(name: str, levels: Sequence[RawLevel]) -> Span:
    if len(set(levels)) < 2:
        raise UsageError(f"--to {levels[-1]}: that is where it begins; name another level of {name}")
    if len(levels) > MOST_LEVELS:
        raise UsageError(f"--to {levels[-1]}: {len(levels)} levels of {name} lie between; {MOST_LEVELS} are the most")
    return Span((name,), (tuple(levels),), True, f"--factor {name}")


def _factor(study: Study, factor: str | None) -> str:
    names = list(study.factors)
    if factor is not None:
        if factor not in names:
            hint = did_you_mean(factor, names) or "add its levels: --levels a,b,c"
            raise UsageError(f"--factor {factor}: the study has no such factor; {hint}")
        return factor
    if len(names) != 1:
        names_text = ", ".join(names) or "none"
        raise UsageError(
            f"--factor is missing: the study's factors are {names_text}; name one, or two files of settings"
        )
    return names[0]


def _index(name: str, levels: Sequence[RawLevel], option: str, text: str) -> int:
    written = _written(levels)
    if text not in written:
        hint = did_you_mean(text, written) or f"its levels are {shortened(', '.join(written), 200)}"
        raise UsageError(f"{option} {text}: {name} has no such level; {hint}")
    return written.index(text)


def _written(levels: Sequence[RawLevel]) -> list[str]:
    return [str(level).lower() if isinstance(level, bool) else str(level) for level in levels]


_OF_TREATMENTS = (FailureClass.CONFIGURATION, FailureClass.WORKLOAD)


@dataclass(frozen=True)
class BisectQuestion(probes.SearchQuestion):
    """What is asked: the study whose stack and load are used, what lies between the ends, the response looked at."""

    span: Span
    response: str
    exact: bool = False

    @property
    def name(self) -> str:
        span = (self.span.factors, self.span.steps, self.span.ordered)
        return search_name(self.study, "bisect", *span, self.response, self.exact)

    @property
    def log(self) -> bool:
        """Whether figures enter as logarithms, so that effects are ratios."""
        return RESPONSES[self.response].unit != "share"


@dataclass(frozen=True)
class ProbeFile(StudyFile):
    """A probe's study; what is wrong with a level is told of where it was named."""

    span: Span

    def where(self, path: Sequence[str | int]) -> str:
        if len(path) > 1 and path[1] in self.span.factors:
            return self.span.source
        return super().where(path)


@dataclass(frozen=True)
class Given:
    """What a probe gave: its block, and treatments that failed of their own doing, with the reason.

    ``by_world``: of a block that is the mean over worlds, those of each.
    """

    block: Block | None
    failed: dict[Changes, str]
    by_world: tuple[dict[Changes, float], ...] = ()


def probe_file(
    question: BisectQuestion,
    block: Sequence[Changes],
    name: str,
    draw: int = 0,
    replicates: int = 1,
    unset: Collection[str] = (),
) -> ProbeFile:
    """The study that runs a block: its first treatment, an end, is the baseline. ``draw`` gives another order."""
    study, span = question.study, question.span
    treatments = list(dict.fromkeys(block))
    levels = [span.levels(treatment) for treatment in treatments]
    varied = [factor for factor in span.factors if any(level[factor] != levels[0][factor] for level in levels)]
    settings = {**settings_of(study, span.factors, unset), **{factor: levels[0][factor] for factor in span.factors}}
    seed = study.design.seed if question.exact else seed_of(study, name)
    configurations = {
        _word(at): {factor: treatment[factor] for factor in varied if treatment[factor] != levels[0][factor]}
        for at, treatment in enumerate(levels)
    }
    document: dict[str, Any] = {
        "study": name,
        "question": f"Which change between {span.label(treatments[0])} and the other end changes {question.response}?",
        **_kept(question),
        "factors": {factor: _distinct([level[factor] for level in levels]) for factor in varied},
        "settings": {factor: level for factor, level in settings.items() if factor not in varied},
        "design": {
            **_design(study, replicates),
            "configurations": configurations,
            "seed": seed + draw,
        },
        "responses": list(dict.fromkeys([question.response, *study.responses])),
    }
    parsed = study_of(document)
    return ProbeFile(parsed.study, parsed.text, replace(parsed.places, source=question.file.source), span)


def _kept(question: BisectQuestion) -> dict[str, Any]:
    """What all probes have in common; a kernel that is looked for is no longer the guest's."""
    keys = kept_keys(question.study)
    if KERNEL in question.span.factors and "guest" in keys:
        keys["guest"] = {key: value for key, value in keys["guest"].items() if key != KERNEL.partition(".")[2]}
    return keys


def _design(study: Study, replicates: int) -> dict[str, Any]:
    """In virtual time a probe is made in all worlds of the study."""
    layout = layout_of(study.design)
    if layout.exact:
        return layout.fresh(study.design, "configurations", layout.instances(study.design), ())
    sentinels = NO_SENTINEL_INSIDE if replicates == 1 else None
    return {"kind": "configurations", "replicates": replicates, "sentinels": sentinels}


def given(question: BisectQuestion, record: StudyRecord, block: Sequence[Changes]) -> list[Given]:
    """What the blocks of a finished probe gave. Raises UsageError for figures that have no logarithm."""
    treatments = {_word(at): treatment for at, treatment in enumerate(dict.fromkeys(block))}
    names = configuration_names(record.study, record.plan)
    blocks = []
    for number in sorted({trial.planned.block for trial in record.trials}):
        treatments_, values, failed = [], [], {}
        for trial in (trial for trial in record.trials if trial.planned.block == number):
            treatment = treatments[names[trial.planned.treatment]]
            value = trial.observation().responses.get(question.response)
            if trial.failure in _OF_TREATMENTS:
                failed[treatment] = trial.failure_message
            elif value is not None and math.isfinite(value):
                treatments_.append(treatment)
                values.append(_scaled(question, value))
        blocks.append(Given(Block(tuple(treatments_), tuple(values)) if len(treatments_) > 1 else None, failed))
    return [_over_worlds(blocks)] if layout_of(question.study.design).exact else blocks


def _over_worlds(worlds: Sequence[Given]) -> Given:
    """The means over the worlds in which all that can be run has a figure."""
    failed = {treatment: why for world in worlds for treatment, why in world.failed.items()}
    blocks = [dict(zip(world.block.treatments, world.block.values, strict=True)) for world in worlds if world.block]
    wanted = set[Changes]().union(*blocks) - failed.keys()
    whole = [block for block in blocks if wanted <= block.keys()]
    if not whole or len(wanted) < 2:
        return Given(None, failed)
    treatment = tuple(treatment for treatment in whole[0] if treatment in wanted)
    return Given(
        Block(treatment, tuple(fmean(block[treatment] for block in whole) for treatment in treatment)),
        failed,
        tuple(whole),
    )


def _scaled(question: BisectQuestion, value: float) -> float:
    if not question.log:
        return value
    if value <= 0:
        raise UsageError(
            f"--response {question.response}: a trial gave {value:g}, so changes have no ratio; name another"
        )
    return math.log(value)


def _word(at: int) -> str:
    return "end" if at == 0 else f"candidate {at}"


def _distinct(levels: Sequence[RawLevel]) -> list[RawLevel]:
    return list({(level, type(level)): level for level in levels}.values())


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
        hint = did_you_mean(name, file.study.responses) or f"it has {', '.join(file.study.responses)}"
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
        knobs = {knob.name: knob for knob in (*self.testbed.knobs(file), *self.testbed.host.knobs())}
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
