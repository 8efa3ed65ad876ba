"""Equivalence: is a difference smaller than matters? Two one-sided tests (Schuirmann 1987)."""

from __future__ import annotations

import math

from leadline.analysis.scale import Scale
from leadline.model import distributions
from leadline.model.result import Interval

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
