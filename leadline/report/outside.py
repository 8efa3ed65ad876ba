"""Results of other tools under the analysis of a study: one of several kinds of runs against the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leadline.analysis.robust import outliers, shift
from leadline.analysis.study import analyse
from leadline.conclude.answer import Facts, answer
from leadline.conclude.study import within_margin
from leadline.conclude.wording import signed
from leadline.figures.outside import IN_ORDER, Results, Run, results_of
from leadline.host.received import parquet_file
from leadline.host.textfile import read_text
from leadline.model.errors import FailureClass, UsageError, nearest, quoted
from leadline.model.judgement import Judgement
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.received import ReceivedError
from leadline.model.result import Effect, Observation, ResponseAnalysis, StudyAnalysis
from leadline.model.units import rounded
from leadline.report.ci import escaped, markdown_table

BEFORE, AFTER = "before", "after"
_LARGEST = 256 * 1024**2  # bytes of a file
_MOST_FILES = 1000
_MOST_GROUPS = 50
_FEWEST = 2  # runs of a kind, for an interval
_FACTOR = "version"
_UNDATED = 0.0  # all alike: their order is not known, so no drift is taken out
_HEAD = ("response", "kind", "runs", "change", "95 % interval", "all comparisons", "verdict")


@dataclass(frozen=True)
class Options:
    """``by``: column of the kind of run; ``block``: of what runs are compared within; ``base``: the kind that the
    others are compared with; ``paired``: the n-th run of a kind is compared with the n-th of the others.
    """

    by: str | None = None
    responses: Sequence[str] = ()
    block: str | None = None
    base: str | None = None
    paired: bool = False


@dataclass(frozen=True)
class Analysed:
    """``tools`` that wrote the files; ``notes``: what limits the answer, a sentence each."""

    analysis: StudyAnalysis
    base: str
    tools: Sequence[str]
    notes: Sequence[str]
    runs: dict[str, int]  # measured, by kind

    @property
    def answered(self) -> bool:
        return any(effect.interval is not None for one in self.analysis.responses for effect in one.effects)

    def lines(self) -> list[str]:
        """Table and notes."""
        rows = self._rows()
        widths = [max(len(row[at]) for row in (_HEAD, *rows)) for at in range(len(_HEAD))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (_HEAD, *rows)
        ]
        return [*(line.rstrip() for line in table), *(f"Note: {note}." for note in self.notes)]

    def markdown(self) -> str:
        table = markdown_table(_HEAD, [[escaped(cell) for cell in row] for row in self._rows()], "llrrrrl")
        return "\n".join(
            [f"**{escaped(self.analysis.answer)}**", "", table, "", *(f"{note}." for note in self.notes), ""]
        )

    def document(self) -> dict[str, Any]:
        """The JSON document ``leadline-analyse/1``."""
        return {
            "format": "leadline-analyse/1",
            "answer": self.analysis.answer,
            "base": self.base,
            "tools": list(self.tools),
            "runs": self.runs,
            "failures": dict(self.analysis.failures),
            "responses": [
                {
                    "response": one.response,
                    "base_mean": one.baseline_mean,
                    "model": one.model,
                    "notes": list(one.notes),
                    "kinds": [_kind(effect) for effect in one.effects],
                }
                for one in self.analysis.responses
            ],
            "notes": [*self.notes, *self.analysis.warnings],
        }

    def _rows(self) -> list[tuple[str, ...]]:
        return [self._row(one, effect) for one in self.analysis.responses for effect in one.effects]

    def _row(self, one: ResponseAnalysis, effect: Effect) -> tuple[str, ...]:
        percent = "" if effect.percent is None else f"{signed(effect.percent)} %"
        intervals = [
            "" if interval is None else f"[{signed(interval.low)}, {signed(interval.high)}]"
            for interval in (effect.interval, effect.simultaneous)
        ]
        base = "" if one.baseline_mean is None else f" ({rounded(one.baseline_mean, 4)})"
        runs = f"{self.runs[self.base]}+{self.runs[str(effect.level)]}"
        verdict = effect.verdict.value + (f": {effect.reason}" if effect.reason else "")
        return (f"{one.response}{base}", str(effect.level), runs, percent, *intervals, verdict)


def _kind(effect: Effect) -> dict[str, Any]:
    def ends(interval: Any) -> list[float] | None:
        return None if interval is None else [interval.low, interval.high]

    return {
        "kind": effect.level,
        "percent": effect.percent,
        "interval": ends(effect.interval),
        "simultaneous": ends(effect.simultaneous),
        "verdict": effect.verdict.value,
        "reason": effect.reason,
    }


def analysed(before: Sequence[Path], after: Sequence[Path], options: Options) -> Analysed:
    """Runs of ``before`` against those of ``after``; without these, kinds that the files name against each other.

    Raises UsageError, OSError.
    """
    files = [*before, *after]
    if len(files) > _MOST_FILES:
        raise UsageError(f"{len(files)} files; at most {_MOST_FILES} are read at once")
    twice = sorted({str(file) for file in files if files.count(file) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is given twice: a run counts once")
    read = [(str(file), _results(file, options)) for file in files]
    tools = list(dict.fromkeys(results.tool for _, results in read))
    if len(tools) > 1:
        raise UsageError(f"results of one tool are compared; these are of {', '.join(tools)}")
    kinds: dict[str, list[Run]] = {}
    for at, (source, results) in enumerate(read):
        groups = {run.group for run in results.runs}
        if after and len(groups) > 1:
            raise UsageError(
                f"{source} holds {len(groups)} kinds of runs, which are compared without `--`: give it alone"
            )
        for run in results.runs:
            kind = (BEFORE if at < len(before) else AFTER) if after else run.group
            kinds.setdefault(kind, []).append(run)
    return _compared(kinds, tools, list(dict.fromkeys(note for _, found in read for note in found.notes)), options)


def _results(file: Path, options: Options) -> Results:
    if file.suffix.lower() == ".parquet":
        try:
            text = parquet_file(file, None).write_csv()
        except (FileNotFoundError, ReceivedError) as error:
            raise UsageError(f"{file}: {getattr(error, 'why', 'there is no such file')}") from error
    else:
        text = read_text(file, _LARGEST)
    return results_of(text, str(file), options.by, options.responses, options.block)


def _compared(kinds: dict[str, list[Run]], tools: Sequence[str], notes: list[str], options: Options) -> Analysed:
    if len(kinds) < 2:
        only = next(iter(kinds))
        raise UsageError(
            f"all runs are alike{f' ({quoted(only)})' if only else ''}: write leadline analyse before-* -- after-*, "
            "or name the column of a table that tells them apart: --by COLUMN"
        )
    if len(kinds) > _MOST_GROUPS:
        raise UsageError(f"{len(kinds)} kinds of runs; at most {_MOST_GROUPS} are compared")
    base = options.base if options.base is not None else next(iter(kinds))
    if base not in kinds:
        near = nearest(base, list(kinds))
        raise UsageError(
            f"--base {quoted(base)}: no such kind of runs; {f'did you mean {near}?' if near else list(kinds)}"
        )
    numbers = {kind: len(runs) for kind, runs in kinds.items()}
    if options.paired and len(set(numbers.values())) > 1:
        raise UsageError(f"--paired: {', '.join(f'{n} runs of {kind}' for kind, n in numbers.items())} make no pairs")
    measured = [run for runs in kinds.values() for run in runs if not run.failure]
    if not measured:
        raise UsageError("no run succeeded: nothing can be compared")
    common = [name for name in measured[0].responses if all(name in run.responses for run in measured)]
    responses = [name for name in options.responses or common if _varies(name, measured)] or common[:1]
    for name in options.responses:
        if name not in common:
            near = nearest(name, common)
            raise UsageError(f"--response {quoted(name)}: {f'did you mean {near}?' if near else common}")
    plan, observations = _as_study(kinds, base, options.paired)
    analysis = analyse(plan, observations, responses)
    alone = [within_margin(one) for one in analysis.responses]
    analysis = replace(analysis, responses=tuple(alone))
    counted = {kind: sum(not run.failure for run in runs) for kind, runs in kinds.items()}
    blocks = {run.block for run in measured}
    if not options.paired and len(blocks) == 1 and not any(IN_ORDER in note for note in notes):
        notes.append(
            f"whether the kinds were run in turn or {IN_ORDER} is not known: a drift between them is in the change"
        )
    notes += [note for name in responses for note in _outliers(name, kinds, base, options.paired)]
    notes += [f"{one.response}: {note.removesuffix('.')}" for one in alone for note in one.notes]
    failed = {kind: [run.failure for run in runs if run.failure] for kind, runs in kinds.items()}
    notes += [f"{len(why)} of {numbers[kind]} runs of {kind} failed ({why[0]})" for kind, why in failed.items() if why]
    few = [kind for kind, number in counted.items() if number < _FEWEST]
    if few:
        notes.append(f"fewer than {_FEWEST} runs of {', '.join(few)}: what of a difference is noise is not known")
    judgement = Judgement("run", len(observations), len(measured), trials=len(observations), done=len(measured))
    concluded = answer(analysis, Facts(plain_level, judgement, factors=plan.factors))
    analysis = replace(analysis, answer=concluded.text, headline=concluded.head, caveats=concluded.caveats)
    return Analysed(analysis, base, tools, notes, counted)


def _outliers(name: str, kinds: dict[str, list[Run]], base: str, paired: bool) -> list[str]:
    """Runs far from the others of their kind, and what ranks say, which these do not move."""
    rows = [
        (kind, run.responses[name], str(at) if paired else run.block)
        for kind, runs in kinds.items()
        for at, run in enumerate(runs)
        if not run.failure
    ]
    values = np.array([value for _, value, _ in rows])
    if (values <= 0).any():
        return []
    logs, names = np.log(values), list(dict.fromkeys(block for _, _, block in rows))
    strata = np.array([names.index(block) for _, _, block in rows])
    members = {kind: np.array([at for at, row in enumerate(rows) if row[0] == kind], dtype=np.int64) for kind in kinds}
    far = {kind: values[at[outliers(logs[at])]] for kind, at in members.items() if len(at)}
    notes = []
    for kind in kinds:
        if kind == base or not (len(far.get(kind, ())) or len(far.get(base, ()))):
            continue
        sides = np.full(len(rows), -1)
        sides[members[base]], sides[members[kind]] = 0, 1
        moved = shift(logs, sides, strata, (0.95,))
        if moved is None or moved.intervals[0] is None:
            continue
        low, middle, high = (100 * math.expm1(log) for log in sorted((*moved.intervals[0], moved.estimate)))
        odd = [
            f"{len(far[side])} of {side} ({rounded(float(far[side][0]), 4)})" for side in (base, kind) if len(far[side])
        ]
        notes.append(
            f"{name}: {' and '.join(odd)} lies far from the others; by ranks, which these do not move, {kind} is at "
            f"{signed(middle)} % [{signed(low)}, {signed(high)}]"
        )
    return notes


def _varies(name: str, runs: Sequence[Run]) -> bool:
    return len({run.responses[name] for run in runs if name in run.responses}) > 1


def _as_study(kinds: dict[str, list[Run]], base: str, paired: bool) -> tuple[Plan, list[Observation]]:
    factor = Factor(_FACTOR, (base, *(kind for kind in kinds if kind != base)), base)
    names = list(dict.fromkeys(run.block for runs in kinds.values() for run in runs))
    trials: list[PlannedTrial] = []
    observations = []
    for kind, runs in kinds.items():
        role = Role.BASELINE if kind == base else Role.TREATMENT
        for at, run in enumerate(runs):
            treatment, position = Treatment.of({_FACTOR: kind}), len(trials)
            block = at if paired else names.index(run.block)
            trials.append(PlannedTrial(position, block, at, role, treatment, 0))
            failure = FailureClass.WORKLOAD if run.failure else None
            responses = {} if run.failure else run.responses
            observations.append(
                Observation(position, position, block, at, role, treatment, _UNDATED, responses, failure)
            )
    return Plan("one-at-a-time", 0, (factor,), tuple(trials)), observations
