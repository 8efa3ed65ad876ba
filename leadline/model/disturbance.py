"""Which trials other programs disturbed: one rule for the conclusion, the report and the advice."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

BOUND = 0.10  # of all CPUs: what other programs may use before a trial counts as disturbed
DIFFERENCE = 0.05  # of all CPUs, above the median trial: enough to pass for an effect of a setting


def disturbed(shares: Mapping[int, float]) -> tuple[int, ...]:
    """Trials, in their order, in which other programs used more than the bound, or much more than in the others.

    ``shares``: CPU of other programs in the steady state, 0..1 of all CPUs, by trial.
    """
    if not shares:
        return ()
    usual = statistics.median(shares.values())
    return tuple(trial for trial, share in sorted(shares.items()) if share > BOUND or share - usual > DIFFERENCE)
