"""Whether the order of measurements matters: the place in a block, and who was measured just before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads scipy.stats at its first use

from leadline.model import distributions
from leadline.model.result import Interval

FEWEST = 8  # degrees of freedom with which an effect of the order is looked for


@dataclass(frozen=True)
class OrderEffect:
    """Percent by which a measurement is larger than another: ``later`` in its block by one place, directly ``after
    another`` treatment instead of the same, or the ``last`` of all than the first.
    """

    name: str
    percent: float
    interval: Interval

    @property
    def found(self) -> bool:
        return not self.interval.contains(0.0)


def order_effects(
    values: Sequence[float], treatments: Sequence[int], blocks: Sequence[int], level: float = 0.95
) -> tuple[OrderEffect, ...]:
    """``values`` (n, positive) in the order in which they were measured, with treatment and block of each (n).

    Least squares on logarithms with a mean for each treatment and each block, one column after the other; both are
    held to ``level`` together (Bonferroni). Empty where the order does not let an effect be told from treatments and
    blocks, or too few measurements are left.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    kinds, block_labels = np.asarray(treatments), np.asarray(blocks)
    place = np.zeros(len(logs))
    for block in np.unique(block_labels):
        place[block_labels == block] = np.arange(np.sum(block_labels == block))
    changed = np.append(0.0, (kinds[1:] != kinds[:-1]).astype(np.float64))
    if len(changed):
        changed[0] = np.mean(changed[1:]) if len(changed) > 1 else 0.0
    base = np.column_stack(
        [kinds == label for label in np.unique(kinds)]
        + [block_labels == label for label in np.unique(block_labels)[1:]]
    )
    order_rows = []
    for name, column in (("later", place), ("after another", changed)):
        columns = np.column_stack([base, column]).astype(np.float64)
        rank = int(np.linalg.matrix_rank(columns))
        df = len(logs) - rank
        if df < FEWEST or rank == int(np.linalg.matrix_rank(base.astype(np.float64))):
            continue
        rest = column - base @ np.linalg.lstsq(base.astype(np.float64), column, rcond=None)[0]
        size = float(rest @ logs / (rest @ rest))
        error = logs - columns @ np.linalg.lstsq(columns, logs, rcond=None)[0]
        reach = float(distributions.t.ppf(1 - (1 - level) / 4, df) * np.sqrt(error @ error / df / (rest @ rest)))
        low, mid, high = (100.0 * float(np.expm1(bound)) for bound in (size - reach, size, size + reach))
        order_rows.append(OrderEffect(name, mid, Interval(low, high, level)))
    return tuple(order_rows)


def last_against_first(values: Sequence[float], treatments: Sequence[int], level: float = 0.99) -> OrderEffect | None:
    """``last``, by the slope of Theil and Sen through the logarithms of ``values`` (n, positive, in their order), each
    against the median of its treatment (n); None of too few.
    """
    logs, kinds = np.log(np.asarray(values, dtype=np.float64)), np.asarray(treatments)
    if len(logs) < FEWEST:
        return None
    for kind in np.unique(kinds):
        logs[kinds == kind] -= np.median(logs[kinds == kind])
    line = scipy.stats.theilslopes(logs, np.arange(len(logs)), level)
    slopes = line.low_slope, line.slope, line.high_slope
    low, mid, high = (100.0 * float(np.expm1(slope * (len(logs) - 1))) for slope in slopes)
    return OrderEffect("last", mid, Interval(low, high, level))
