"""The smallest effect that a design would find."""

from __future__ import annotations

import math

import scipy  # loads scipy.optimize at its first use

from leadline.model import distributions

POWER = 0.8


def detectable(critical: float, error: float, df: float, power: float = POWER) -> float:
    """Smallest contrast found with probability ``power`` when |t| > ``critical`` counts as found.

    From the noncentral t distribution; where that cannot be evaluated, (critical + t(power, df)) standard errors,
    which is a little larger.
    """
    plain = critical + float(distributions.t.ppf(power, df))
    if df > 10_000:
        return plain * error

    def shortfall(shift: float) -> float:
        return float(distributions.nct.sf(critical, df, shift)) - power

    ends = shortfall(0.0), shortfall(2 * plain)
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < 0 < ends[1]):
        return plain * error
    shift = float(scipy.optimize.brentq(shortfall, 0.0, 2 * plain, xtol=1e-6))
    return shift * error if math.isfinite(shift) else plain * error
