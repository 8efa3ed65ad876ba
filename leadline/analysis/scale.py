"""Scales: ratios for positive responses, differences for shares that may be zero; and equivalence on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leadline.analysis.table import Floats, Sample
from leadline.model import distributions
from leadline.model.result import RESPONSES, Interval, ResponseKind

_LARGEST = 1e9  # percent; anything beyond says only that the noise is too large


def response_kind(response: str) -> ResponseKind:
    """The response's unit and direction; one that is not in the table is a plain quantity where less is better."""
    return RESPONSES.get(response, ResponseKind(response, "", False, response))


@dataclass(frozen=True)
class Scale:
    """How figures enter the model and how contrasts leave it as percent of the baseline.

    On the log scale a contrast b is 100 (exp(b) - 1) percent. On the linear scale it is 100 b / ``base`` percent, where
    ``base`` is the mean of the baseline trials; no percent exists where that is not positive.
    """

    log: bool
    base: float

    def into(self, values: Floats) -> Floats:
        return np.asarray(np.log(values) if self.log else values, dtype=np.float64)

    def percent(self, contrast: float) -> float | None:
        """Percent of the baseline, None where it does not exist or is too large to mean anything."""
        if self.log:
            change = 100.0 * math.expm1(contrast) if contrast < 30 else math.inf
        elif self.base > 0:
            change = 100.0 * contrast / self.base
        else:
            return None
        return change if abs(change) <= _LARGEST else None

    def noise(self, sigma: float) -> float | None:
        """A standard deviation in percent of the baseline, of a lognormal figure on the log scale."""
        if self.log:
            return 100.0 * math.sqrt(math.expm1(sigma**2)) if sigma < 5 else None
        return self.percent(sigma)

    def interval(self, contrast: float, reach: float, level: float) -> Interval | None:
        return self.between(contrast - reach, contrast + reach, level)

    def between(self, lowest: float, highest: float, level: float = 0.95) -> Interval | None:
        low, high = self.percent(lowest), self.percent(highest)
        return None if low is None or high is None else Interval(low, high, level)


def scale_of(kind: ResponseKind, sample: Sample) -> Scale:
    """Log for positive quantities; linear for shares and wherever a figure is not positive."""
    baseline = sample.values[sample.is_baseline]
    baseline = baseline if len(baseline) else sample.values
    log = kind.unit != "share" and bool(np.all(sample.values > 0))
    return Scale(log, float(baseline.mean()) if len(baseline) else 0.0)


def baseline_mean(scale: Scale, sample: Sample, level: float) -> tuple[float | None, Interval | None]:
    """Mean of the baseline trials with its interval, in the response's unit (geometric on the log scale).

    With two blocks or more it is the mean of the blocks' means, and the interval rests on how these differ: trials of
    one block share what that block had in common.
    """
    chosen = sample.is_baseline
    if not chosen.any():
        return None, None
    baselines = sample.only(chosen)
    values, blocks = scale.into(baselines.values), baselines.blocks
    if baselines.slotted:
        values, blocks, _ = baselines.of_trials(values)
    groups = np.array([values[blocks == block].mean() for block in np.unique(blocks)])
    units = groups if len(groups) > 1 else values
    back: Callable[[float], float] = math.exp if scale.log else float
    centre = float(units.mean())
    if len(units) < 2:
        return back(centre), None
    reach = float(distributions.t.ppf((1 + level) / 2, len(units) - 1) * units.std(ddof=1) / math.sqrt(len(units)))
    if scale.log and centre + reach > 600:
        return back(centre), None
    low = back(centre - reach)
    return back(centre), Interval(low if scale.log else max(0.0, low), back(centre + reach), level)


MARGIN = 2.0  # percent


def margins(scale: Scale, margin: float) -> tuple[float, float] | None:
    """Contrasts that are -margin and +margin percent of the baseline; None where there is no percentage."""
    if scale.log:
        return math.log1p(-margin / 100), math.log1p(margin / 100)
    return (-margin / 100 * scale.base, margin / 100 * scale.base) if scale.base > 0 else None


def equivalence_p(scale: Scale, value: float, error: float, df: float, margin: float) -> float | None:
    """The larger p value of the two one-sided t tests that the contrast lies inside the margin."""
    ends = margins(scale, margin)
    if ends is None or error <= 0:
        return None
    return float(
        max(distributions.t.sf((value - ends[0]) / error, df), distributions.t.cdf((value - ends[1]) / error, df))
    )


def inside(interval: Interval | None, margin: float | None) -> bool:
    """Whether an interval in percent lies inside the margin."""
    return interval is not None and margin is not None and -margin < interval.low and interval.high < margin
