"""Failed trials are not numbers: they are counted by class, and a level that fails more often is itself a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from scipy import stats

from leadline.analysis.table import StudyTable
from leadline.model.errors import FailureClass

ALPHA = 0.05
# what a treatment can be blamed for; a lost network or a slow driver says nothing about it
BLAMED = (FailureClass.CONFIGURATION, FailureClass.WORKLOAD)


def failures_by_class(table: StudyTable) -> Mapping[str, int]:
    """Failure class -> trials, most frequent first; classes that did not happen are absent."""
    counts = Counter(trial.failure.value for trial in table.observations if trial.failure is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def failure_warnings(table: StudyTable) -> list[str]:
    """One sentence for each level that fails more often than its factor's baseline level.

    Fisher's exact test, one-sided, adjusted over the levels by Holm's method.
    """
    tests = []
    for factor, level in table.comparisons():
        mine, theirs = _count(table, factor, level), _count(table, factor, table.cells[0][factor])
        if mine[0] and sum(theirs):
            p_value = float(stats.fisher_exact(np.array([mine, theirs]), alternative="greater").pvalue)
            tests.append((p_value, (factor, level), mine, theirs))
    sentences = []
    largest = 0.0
    compared = len(table.comparisons())
    for rank, (p_value, main, mine, theirs) in enumerate(sorted(tests)):
        largest = max(largest, min(1.0, p_value * (compared - rank)))
        if largest < ALPHA:
            sentences.append(
                f"{table.level_name(*main)} fails more often than the baseline level: {mine[0]} of {sum(mine)} trials "
                f"against {theirs[0]} of {sum(theirs)} (Fisher's exact test, adjusted p = {largest:.2g})."
            )
    return sentences


def _count(table: StudyTable, factor: int, level: int) -> tuple[int, int]:
    """(failed, succeeded); trials that failed for another's fault count as neither."""
    trials = table.of_levels((factor, level))
    failed = sum(trial.failure in BLAMED for trial in trials)
    return failed, sum(trial.failure is None for trial in trials)
