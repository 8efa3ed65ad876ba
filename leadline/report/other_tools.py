"""Results of other tools under the analysis of a study: what was run is a factor, each kind of it a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leadline.analysis.robust import against_first, outliers
from leadline.analysis.study import analyse
from leadline.conclude.answer import Facts, answer
from leadline.conclude.study import within_margin
from leadline.conclude.wording import signed
from leadline.experiments.command_files import runs_of_file
from leadline.figures.tools import OfHyperfine, Results, ToolRun, results_of
from leadline.host.received import parquet_file
from leadline.host.textfile import read_text
from leadline.model.errors import FailureClass, UsageError, did_you_mean, quoted
from leadline.model.judgement import Judgement
from leadline.model.naming import plain_level
from leadline.model.plan import Factor, Plan, PlannedTrial, Role, Treatment
from leadline.model.received import ReceivedError
from leadline.model.result import Effect, Interval, Observation, ResponseAnalysis, StudyAnalysis
from leadline.model.units import rounded
from leadline.report.words import aligned, escaped, markdown_table
from leadline.trial.command import FACTOR

BEFORE, AFTER = "before", "after"
_LARGEST = 256 * 1024**2  # bytes of a file
_MOST_FILES = 1000
_MOST_LEVELS = 50
_FEWEST = 2  # runs of a level, for an interval
_UNDATED = 0.0  # all alike: their order is not known, so no drift is taken out
_HEAD = ("response", "level", "runs", "change", "95 % interval", "all comparisons", "verdict")


@dataclass(frozen=True)
class Options:
    """``by``: column of the levels; ``block``: of what runs are compared within; ``baseline``: the level that the
    others are compared with; ``paired``: the n-th run of a level is compared with the n-th of the others.
    """

    by: str | None = None
    responses: Sequence[str] = ()
    block: str | None = None
    baseline: str | None = None
    paired: bool = False


@dataclass(frozen=True)
class Analysed:
    """``tool`` that wrote the files; ``notes``: sentences that limit the answer; ``runs``: measured, by level."""

    analysis: StudyAnalysis
    baseline: str
    tool: str
    notes: Sequence[str]
    runs: Mapping[str, int]

    @property
    def answered(self) -> bool:
        return any(effect.interval is not None for one in self.analysis.responses for effect in one.effects)

    def lines(self) -> list[str]:
        """Table and notes."""
        rows = aligned([_HEAD, *self._rows()], range(len(_HEAD)))
        return [*rows, *(f"Note: {note}" for note in self.notes)]

    def markdown(self) -> str:
        table = markdown_table(_HEAD, [[escaped(cell) for cell in row] for row in self._rows()], "llrrrrl")
        return "\n".join([f"**{escaped(self.analysis.answer)}**", "", table, "", *map(escaped, self.notes), ""])

    def document(self) -> dict[str, Any]:
        """The JSON document ``leadline-analyse/1``."""
        return {
            "format": "leadline-analyse/1",
            "answer": self.analysis.answer,
            "baseline": self.baseline,
            "tool": self.tool,
            "runs": dict(self.runs),
            "failures": dict(self.analysis.failures),
            "responses": [
                {
                    "response": one.response,
                    "baseline_mean": one.baseline_mean,
                    "model": one.model,
                    "levels": [_level(effect) for effect in one.effects],
                }
                for one in self.analysis.responses
            ],
            "notes": list(self.notes),
        }

    def _rows(self) -> list[tuple[str, ...]]:
        return [self._row(one, effect) for one in self.analysis.responses for effect in one.effects]

    def _row(self, one: ResponseAnalysis, effect: Effect) -> tuple[str, ...]:
        percent = "" if effect.percent is None else f"{signed(effect.percent)} %"
        mean = "" if one.baseline_mean is None else f" ({rounded(one.baseline_mean, 4)})"
        runs = f"{self.runs[self.baseline]}+{self.runs[str(effect.level)]}"
        verdict = effect.verdict.value + (f": {effect.reason}" if effect.reason else "")
        intervals = map(_ends, (effect.interval, effect.simultaneous))
        return (f"{one.response}{mean}", str(effect.level), runs, percent, *intervals, verdict)


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f"[{signed(interval.low)}, {signed(interval.high)}]"


def _level(effect: Effect) -> dict[str, Any]:
    ends = [None if one is None else [one.low, one.high] for one in (effect.interval, effect.simultaneous)]
    return {
        "level": effect.level,
        "percent": effect.percent,
        "interval": ends[0],
        "simultaneous": ends[1],
        "verdict": effect.verdict.value,
        "reason": effect.reason,
    }


def analysed(before: Sequence[Path], after: Sequence[Path], options: Options) -> Analysed:
    """Runs of ``before`` against those of ``after``; without these, levels that the files name against each other.

    Raises UsageError, OSError.
    """
    files = [*before, *after]
    if len(files) > _MOST_FILES:
        raise UsageError(f"{len(files)} files; at most {_MOST_FILES} are read at once")
    twice = sorted({str(file) for file in files if files.count(file) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is given twice: a run counts once")
    read = [_results(file, options) for file in files]
    tools = list(dict.fromkeys(results.tool for results in read))
    if len(tools) > 1:
        raise UsageError(f"results of one tool are compared; these are of {', '.join(tools)}")
    levels: dict[str, list[ToolRun]] = {}
    for at, results in enumerate(read):
        if after and (several := len({run.level for run in results.runs})) > 1:
            raise UsageError(f"{files[at]} holds {several} levels, which are compared without `--`: give it alone")
        for run in results.runs:
            level = (BEFORE if at < len(before) else AFTER) if after else run.level
            levels.setdefault(level, []).append(run)
    factor = Results.factor if after else read[0].factor
    notes = dict.fromkeys(f"{note}." for results in read for note in results.notes)
    return _compared(levels, factor, tools[0], list(notes), options)


def _results(file: Path, options: Options) -> Results:
    if file.suffix.lower() == ".parquet":
        try:
            text = parquet_file(file, None).write_csv()
        except (FileNotFoundError, ReceivedError) as error:
            raise UsageError(f"{file}: {getattr(error, 'why', 'there is no such file')}") from error
    else:
        text = read_text(file, _LARGEST)
    try:
        return results_of(text, str(file), options.by, options.responses, options.block)
    except OfHyperfine:
        commands, runs, how = runs_of_file(file)
    known = how.order != "unknown"
    rows = [ToolRun(commands[run.command].text, run.figures, run.why, str(run.block) if known else "") for run in runs]
    notes = [] if known else [f"{file}: the order of its runs is not known; hyperfine finishes one command first"]
    return Results("hyperfine", rows, notes, FACTOR)


def _compared(
    levels: Mapping[str, list[ToolRun]], factor: str, tool: str, notes: list[str], options: Options
) -> Analysed:
    baseline = _baseline(levels, options)
    measured = {level: [run for run in runs if not run.failure] for level, runs in levels.items()}
    responses = _responses(measured, options.responses)
    plan, observations = _as_study(levels, factor, baseline, options.paired)
    analysis = analyse(plan, observations, [name for name in responses if _varies(name, measured)] or responses[:1])
    analysis = replace(analysis, responses=tuple(map(within_margin, analysis.responses)))
    if tool != "hyperfine" and len({one.block for one in observations}) == 1:
        notes.append("Whether the levels were run in turn is not known: a drift between them would be in the change.")
    notes += [note for one in analysis.responses for note in _outliers(one.response, observations, plan.factors[0])]
    notes += [f"{one.response}: {note}" for one in analysis.responses for note in one.notes]
    for level, runs in levels.items():
        if why := [run.failure for run in runs if run.failure]:
            notes.append(f"{len(why)} of {len(runs)} runs of {level} failed ({why[0]}).")
        if len(measured[level]) < _FEWEST:
            notes.append(f"{level} has fewer than {_FEWEST} runs: what of a difference is noise is not known.")
    notes += analysis.warnings
    done = sum(map(len, measured.values()))
    judgement = Judgement("run", len(observations), done, trials=len(observations), done=done)
    concluded = answer(analysis, Facts(plain_level, judgement, factors=plan.factors))
    analysis = replace(analysis, answer=concluded.text, headline=concluded.head, caveats=concluded.caveats)
    return Analysed(analysis, baseline, tool, notes, {level: len(runs) for level, runs in measured.items()})


def _baseline(levels: Mapping[str, list[ToolRun]], options: Options) -> str:
    """Raises UsageError where nothing can be compared."""
    first = next(iter(levels))
    if len(levels) < 2:
        raise UsageError(
            f"all runs are alike{f' ({quoted(first)})' if first else ''}: write leadline analyse before-* -- after-*, "
            "or name the column of a table that tells them apart: --by COLUMN"
        )
    if len(levels) > _MOST_LEVELS:
        raise UsageError(f"{len(levels)} levels; at most {_MOST_LEVELS} are compared")
    baseline = first if options.baseline is None else options.baseline
    if baseline not in levels:
        hint = did_you_mean(baseline, list(levels)) or f"there are {', '.join(levels)}"
        raise UsageError(f"--baseline {quoted(baseline)}: no such level; {hint}")
    numbers = {level: len(runs) for level, runs in levels.items()}
    if options.paired and len(set(numbers.values())) > 1:
        raise UsageError(f"--paired: {', '.join(f'{n} runs of {level}' for level, n in numbers.items())} make no pairs")
    return baseline


def _responses(measured: Mapping[str, Sequence[ToolRun]], asked_for: Sequence[str]) -> list[str]:
    """Those that runs of every level have. Raises UsageError."""
    names = list(dict.fromkeys(name for runs in measured.values() for run in runs for name in run.responses))
    succeeded = [runs for runs in measured.values() if runs]
    shared = [name for name in names if all(any(name in run.responses for run in runs) for runs in succeeded)]
    for name in asked_for:
        if name not in shared:
            hint = did_you_mean(name, shared) or f"there are {', '.join(shared) or 'none'}"
            raise UsageError(f"--response {quoted(name)}: not in the runs of every level; {hint}")
    if not shared:
        raise UsageError("no response is in the runs of every level" if names else "no run succeeded")
    return list(asked_for) or shared


def _varies(name: str, measured: Mapping[str, Sequence[ToolRun]]) -> bool:
    return len({run.responses[name] for runs in measured.values() for run in runs if name in run.responses}) > 1


def _as_study(
    levels: Mapping[str, list[ToolRun]], name: str, baseline: str, paired: bool
) -> tuple[Plan, list[Observation]]:
    factor = Factor(name, (baseline, *(level for level in levels if level != baseline)), baseline)
    blocks = list(dict.fromkeys(run.block for runs in levels.values() for run in runs))
    trials: list[PlannedTrial] = []
    observations = []
    for level, runs in levels.items():
        role = Role.BASELINE if level == baseline else Role.TREATMENT
        for at, run in enumerate(runs):
            treatment, position = Treatment.of({name: level}), len(trials)
            block = at if paired else blocks.index(run.block)
            trials.append(PlannedTrial(position, block, at, role, treatment, 0))
            failure = FailureClass.WORKLOAD if run.failure else None
            responses = {} if run.failure else run.responses
            observations.append(
                Observation(position, position, block, at, role, treatment, _UNDATED, responses, failure)
            )
    return Plan("one-at-a-time", 0, (factor,), tuple(trials)), observations


def _outliers(name: str, observations: Sequence[Observation], factor: Factor) -> list[str]:
    """Runs far from the others of their level, and what ranks say, which these hardly move."""
    rows = [one for one in observations if one.responses.get(name, 0.0) > 0]
    logs = np.log([one.responses[name] for one in rows])
    levels = np.array([factor.levels.index(one.treatment[factor.name]) for one in rows])
    far = {
        at: [rows[place] for place in np.flatnonzero(levels == at)[outliers(logs[levels == at])]]
        for at in range(len(factor.levels))
    }
    odd = [
        f"{len(some)} of {factor.levels[at]} ({rounded(some[0].responses[name], 4)})"
        for at, some in far.items()
        if some
    ]
    if not odd:
        return []
    by_ranks = [
        f"{factor.levels[at]} {signed(robust.percent)} % {_ends(robust.interval)}"
        for at, robust in against_first(logs, levels, np.array([one.block for one in rows])).items()
    ]
    return [f"{name}: far from the others: {', '.join(odd)}; by ranks, which these hardly move: {', '.join(by_ranks)}."]
