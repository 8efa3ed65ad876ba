"""Conditions under which a command fails, held against what was compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leadline.model.conditions import (
    SOAK_RESPONSES,
    Change,
)
from leadline.model.result import Interval

if TYPE_CHECKING:
    from leadline.conclude.between import Between
    from leadline.conclude.soak import SoakAnswer
    from leadline.load.against import LoadComparison

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
