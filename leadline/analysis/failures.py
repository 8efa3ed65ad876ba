"""Failed trials are not numbers: they are counted by class, and a level that fails more often is itself a result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from leadline.analysis.table import StudyTable
from leadline.model import distributions
from leadline.model.errors import BLAMED
from leadline.model.result import FailureRate, Interval

ALPHA = 0.05


def failures_by_class(table: StudyTable) -> Mapping[str, int]:
    """Failure class -> trials, most frequent first; classes that did not happen are absent."""
    counts = Counter(trial.failure.value for trial in table.observations if trial.failure is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def failure_rates(table: StudyTable, level: float = 0.95) -> tuple[FailureRate, ...]:
    """Every level that failed by its own making, the surest first.

    Fisher's exact test against the factor's baseline level, one-sided, adjusted over the levels by Holm's method; the
    interval of the failure probability is Clopper and Pearson's (1934).
    """
    failed_levels: list[tuple[float, tuple[int, int], tuple[int, int], tuple[int, int]]] = []
    if all(trial.failure not in BLAMED for trial in table.observations):
        return ()
    from scipy import stats  # half a second

    for factor, chosen in table.comparisons():
        mine, theirs = _count(table, factor, chosen), _count(table, factor, table.cells[0][factor])
        if mine[0]:
            p_value = 1.0
            if sum(theirs):
                p_value = float(stats.fisher_exact(np.array([mine, theirs]), alternative="greater").pvalue)
            failed_levels.append((p_value, (factor, chosen), mine, theirs))
    rates = []
    largest = 0.0
    compared = len(table.comparisons())
    for rank, (p_value, main, mine, theirs) in enumerate(sorted(failed_levels)):
        largest = max(largest, min(1.0, p_value * (compared - rank)))
        of = table.factors[main[0]]
        classes = Counter(trial.failure.value for trial in table.of_levels(main) if trial.failure is not None)
        rates.append(
            FailureRate(
                factor=of.name,
                level=of.levels[main[1]],
                baseline=of.baseline,
                failed=mine[0],
                trials=sum(mine),
                share=mine[0] / sum(mine),
                interval=clopper_pearson(mine[0], sum(mine), level),
                baseline_failed=theirs[0],
                baseline_trials=sum(theirs),
                p_adjusted=largest if sum(theirs) else None,
                worse=bool(sum(theirs)) and largest < ALPHA,
                classes=dict(sorted(classes.items())),
            )
        )
    return tuple(rates)


def fails_alike(table: StudyTable, main: tuple[int, int]) -> str:
    """How many trials of its factor's baseline level fail as a level does, where that is most of them and no fewer than
    chance explains (Fisher's exact test, one-sided): then the level is not to blame. Empty where it is.
    """
    (failed, good), (base_failed, base_good) = _count(table, *main), _count(table, main[0], table.cells[0][main[0]])
    if not failed or base_failed <= base_good:
        return ""
    trials, wrong, mine = failed + good + base_failed + base_good, failed + base_failed, failed + good
    ways = sum(
        math.comb(wrong, count) * math.comb(trials - wrong, mine - count)
        for count in range(failed, min(wrong, mine) + 1)
    )
    if ways / math.comb(trials, mine) < ALPHA:
        return ""
    return f", and so did {base_failed} of {base_failed + base_good} of the baseline level: it is not to blame"


def clopper_pearson(failed: int, trials: int, level: float = 0.95) -> Interval:
    """Exact interval of a probability, as shares."""
    tail = (1 - level) / 2
    low = float(distributions.beta.ppf(tail, failed, trials - failed + 1)) if failed else 0.0
    high = float(distributions.beta.ppf(1 - tail, failed + 1, trials - failed)) if failed < trials else 1.0
    return Interval(low, high, level)


def failure_warnings(table: StudyTable, rates: Sequence[FailureRate]) -> list[str]:
    """One sentence for each level that fails more often than its factor's baseline level."""
    return [
        f"{rate.factor}={table.describe(rate.factor, rate.level)} fails more often than the baseline level: "
        f"{rate.failed} of {rate.trials} trials against {rate.baseline_failed} of {rate.baseline_trials} "
        f"(Fisher's exact test, adjusted p = {rate.p_adjusted:.2g})."
        for rate in rates
        if rate.worse and rate.p_adjusted is not None
    ]


def _count(table: StudyTable, factor: int, level: int) -> tuple[int, int]:
    """(failed, succeeded); trials that failed for another's fault count as neither."""
    trials = table.of_levels((factor, level))
    failed = sum(trial.failure in BLAMED for trial in trials)
    return failed, sum(trial.failure is None for trial in trials)
