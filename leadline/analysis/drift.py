"""Drift and order: does the baseline change over the study, does a measurement's place matter?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # loads scipy.stats at its first use

from leadline.analysis.linear import Fit, centred, fit
from leadline.analysis.selection import holm
from leadline.analysis.table import Floats, Ints, Sample, Scale
from leadline.model import distributions
from leadline.model.result import Drift, DriftVerdict, Interval

ALPHA = 0.05


def no_drift(reason: str) -> Drift:
    return Drift(None, None, None, None, False, reason)


def drift(scale: Scale, sample: Sample, level: float) -> Drift:
    """Slope of the baseline and sentinel trials over time, which :func:`judged` judges. Its sentence has the figures
    alone.
    """
    chosen = sample.only(sample.is_baseline)
    values, blocks, hours = scale.into(chosen.values), chosen.blocks, chosen.hours
    if chosen.slotted:  # slots of one trial follow each other too closely to be counted apart
        values, blocks, hours = chosen.of_trials(values)
    count = len(values)
    if count < 3:
        return no_drift(f"Drift cannot be seen from {count} baseline trial{'' if count == 1 else 's'}: at least 3.")
    if hours is None:
        return no_drift("Drift cannot be seen: the trials have no start times.")
    if np.ptp(hours) <= 0:
        return no_drift("Drift cannot be seen: the baseline trials started at the same time.")
    span = float(np.ptp(hours))
    straight = np.column_stack([(hours - hours.mean()) / span, np.ones(count)])
    line, within = _line(straight, values, blocks)
    if line.sigma == 0:
        return no_drift("Drift cannot be judged: the baseline trials gave the same figure or an exact line.")
    slope = np.eye(1, len(line.beta))
    total = float(line.estimates(slope)[0])
    error = float(line.errors(slope)[0])
    reach = float(distributions.t.ppf((1 + level) / 2, line.df)) * error
    p_value = float(2 * distributions.t.sf(abs(total) / error, line.df))
    change, interval = scale.percent(total), scale.interval(total, reach, level)
    if change is None or interval is None:
        words = "too steep to be given in percent" if scale.log else "a change from a baseline of zero"
        return Drift(None, span, None, p_value, False, f"over {count} baseline trials: {words}")
    figures = f"{_signed(change)} % in {_span(span)} [{_signed(interval.low)}, {_signed(interval.high)}]"
    inside = ", seen inside blocks" if within else ""
    return Drift(change, span, interval, p_value, False, f"over {count} baseline trials: {figures}{inside}")


def judged(drifts: Sequence[Drift]) -> list[Drift]:
    """The drifts of a study's responses, tested together at 5 %."""
    adjusted = holm([drift.p_value for drift in drifts])
    tests = sum(p_value is not None for p_value in adjusted)
    return [_judged(drift, p_value, tests) for drift, p_value in zip(drifts, adjusted, strict=True)]


def _judged(slope: Drift, p_adjusted: float | None, tests: int) -> Drift:
    if p_adjusted is None:
        return slope
    drift = replace(slope, p_adjusted=p_adjusted, detected=p_adjusted < ALPHA)
    heads = {
        DriftVerdict.DETECTED: "A test at 5 % detects a drift",
        DriftVerdict.INCONCLUSIVE: "Too few or too noisy trials to detect a drift",
    }
    head = heads.get(drift.verdict, "No drift detected")
    over = f", adjusted for {tests} responses" if tests > 1 else ""
    return replace(drift, sentence=f"{head} {slope.sentence} (p = {p_adjusted:.2g}{over}).")


def _line(straight: Floats, values: Floats, blocks: Ints) -> tuple[Fit, bool]:
    """The straight line (slope first), and whether it is the slope inside blocks.

    Blocks that differ would look like a drift where each has several baseline trials. So the slope inside blocks is
    taken as soon as it leaves four degrees of freedom; with fewer, the line runs through all trials.
    """
    order = np.argsort(blocks, kind="stable")
    starts = np.flatnonzero(np.diff(blocks[order], prepend=-1))
    both = centred(np.column_stack([straight[:, 0], values])[order], starts)
    inside = fit(both[:, :1], both[:, 1], len(starts), float(np.linalg.norm(values - values.mean())))
    if len(starts) > 1 and inside.df >= 4 and all(inside.estimable(np.eye(1, len(inside.beta)))):
        return inside, True
    return fit(straight, values), False


def _signed(percent: float) -> str:
    return f"{float(f'{percent:.2g}'):+g}".replace("-", "\u2212")


def _span(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1.5 else f"{math.ceil(hours * 60)} min"


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
