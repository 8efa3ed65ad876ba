"""Runs of a lab against each other, any two or one study's over time; and conditions under which a command fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from leadline.api.results import Lab, StudyResult
from leadline.conclude.between import Between, History, Run, between, history
from leadline.model.conditions import (
    SOAK_RESPONSES,
    Change,
)
from leadline.model.errors import UsageError
from leadline.model.result import Interval

if TYPE_CHECKING:
    from leadline.conclude.between import Between
    from leadline.conclude.soak import SoakAnswer
    from leadline.load.against import LoadComparison


def compare_runs(first: StudyResult, second: StudyResult) -> Between:
    """What moved from the first to the second, with intervals, and which facts differ. Raises UsageError."""
    if (first.store.directory, first.record.id) == (second.store.directory, second.record.id):
        raise UsageError(f"{first.run} would be compared with itself; name two runs, such as {_others(first)}")
    for run in (first, second):
        if not run.answered:
            raise UsageError(f"{run.run} is not finished, or every trial failed: there is nothing to compare")
    return between(_run(first), _run(second))


def history_of(
    labs: Sequence[Lab],
    study: str,
    response: str | None = None,
    level: str = "",
    known: Sequence[StudyResult] | None = None,
) -> History:
    """One figure over all finished runs of a study in these labs: the baseline's mean of ``response`` (the study's
    first if None), or the effect of ``level``, ``factor=level``. ``known``: the labs' studies, oldest first, where
    they have been read before. Raises UsageError.
    """
    factor, equals, value = level.partition("=")
    if level and not (factor and equals and value):
        raise UsageError(f"--level {level!r}: write factor=level, as the study file does")
    held = [run for lab in labs for run in lab.studies()] if known is None else known
    runs_of_study = [run for run in held if run.record.study.study == study]
    runs = [_run(run) for run in runs_of_study if run.answered]
    if not runs:
        names = sorted({run.record.study.study for run in held})
        raise UsageError(
            f"no finished run of {study!r} in {', '.join(str(lab.directory) for lab in labs)}; "
            f"studies there: {', '.join(names) or 'none yet'}"
        )
    times = {(run.record.study.time, run.record.simulated) for run in runs}
    if len(times) > 1:
        raise UsageError(f"runs of {study} are in different times (real, virtual or simulated): they make no history")
    return history(runs, response or runs[-1].record.study.responses[0], factor, value)


def comparison_table(found: Between) -> list[str]:
    """In lines: a table for each response, and what differs."""
    from leadline.report.text import between_lines

    return between_lines(found)


def history_table(found: History) -> list[str]:
    """In lines: a row for each run, and what differed from the run before."""
    from leadline.report.text import history_lines

    return history_lines(found)


def comparison_document(found: Between) -> dict[str, Any]:
    """As JSON types (docs/reference/json.md)."""
    return {"format": "leadline-compare/1", **asdict(found)}


def history_document(found: History) -> dict[str, Any]:
    """As JSON types (docs/reference/json.md)."""
    return {"format": "leadline-history/1", **asdict(found)}


def _run(result: StudyResult) -> Run:
    return Run(result.record, result.analysis)


def _others(result: StudyResult) -> str:
    name = result.record.study.study
    others = [
        f"{name}@{study.id}"
        for study in result.store.studies()
        if study.study.study == name and study.id != result.record.id
    ]
    return f"{others[-1]} and {result.run}" if others else "another after `leadline run --new`"


LOAD_CHANGES = ("throughput", "mean", "p50", "p90", "p95", "p99", "p999")


def changes_of_load(comparison: LoadComparison) -> list[Change]:
    """Of every measure; without intervals where the comparison is refused. Errors change in points, not in percent."""
    return [
        Change(
            row.measure,
            "",
            row.change,
            None if row.low is None or row.high is None or comparison.refused else Interval(row.low, row.high),
            comparison.refused or row.reason,
        )
        for row in comparison.changes
        if row.measure in LOAD_CHANGES
    ]


def changes_of_runs(between: Between) -> list[Change]:
    """Of every figure in the second of two runs."""
    return [
        Change(
            row.response,
            row.what,
            row.ratio.percent if row.ratio else None,
            row.ratio.simultaneous if row.ratio else None,
            row.reason,
        )
        for row in between.moved
    ]


def changes_of_soak(answer: SoakAnswer) -> list[Change]:
    """Of series over the whole run, by their trends."""
    changes = []
    for drift in answer.judged.drifts:
        name = drift.series.name.partition(" (start")[0]
        response = "memory" if name.startswith(("memory of", "heap of")) else name
        if response not in SOAK_RESPONSES:
            continue
        if drift.verdict == "undetermined":
            changes.append(Change(response, drift.series.name, None, None, drift.reason))
            continue
        scale = drift.percent / drift.per_day if drift.per_day else 0.0
        low, high = sorted((scale * drift.low, scale * drift.high))
        known = scale != 0 or drift.low == drift.high
        changes.append(Change(response, drift.series.name, drift.percent, Interval(low, high) if known else None))
    return changes
