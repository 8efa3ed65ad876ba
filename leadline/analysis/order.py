"""Whether the order of measurements matters: the place in a block, and who was measured just before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.model import distributions
from leadline.model.result import Interval

FEWEST = 8  # degrees of freedom with which an effect of the order is looked for


@dataclass(frozen=True)
class OrderEffect:
    """Percent by which a measurement is larger than another: ``later`` in its block by one place, or directly
    ``after another`` treatment instead of the same.
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
    kinds, held = np.asarray(treatments), np.asarray(blocks)
    place = np.zeros(len(logs))
    for block in np.unique(held):
        place[held == block] = np.arange(np.sum(held == block))
    changed = np.append(0.0, (kinds[1:] != kinds[:-1]).astype(np.float64))
    if len(changed):
        changed[0] = np.mean(changed[1:]) if len(changed) > 1 else 0.0
    base = np.column_stack([kinds == one for one in np.unique(kinds)] + [held == one for one in np.unique(held)[1:]])
    found = []
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
        low, mid, high = (100.0 * float(np.expm1(one)) for one in (size - reach, size, size + reach))
        found.append(OrderEffect(name, mid, Interval(low, high, level)))
    return tuple(found)
