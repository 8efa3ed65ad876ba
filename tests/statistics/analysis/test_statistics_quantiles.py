"""Quantile treatment effects, p50 to p99.9: intervals hold where server instances differ in level, effect and tail.

``python tests/statistics/analysis/test_statistics_quantiles.py STUDIES`` prints the table of docs/concepts/statistics.md.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy import stats

from leadline.analysis import analyse
from leadline.design import make_plan
from leadline.design.switchback import switchback_plan
from leadline.model.knob import ApplyCost
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation
from leadline.model.study import Design, Switchback, Workload

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
GAIN, TAIL, CHANGED = 0.05, 0.5, 0.6  # logarithm of the median's ratio; spread of logarithms at either level
FACTOR = Factor("vm.k", (0, 1), 0, apply_cost=ApplyCost.LIVE)
LOAD = Workload(users=20, ramp_up=5, steady=96)
PLANS = {
    "trials": make_plan([FACTOR], Design(replicates=6, sentinels=None)),
    "slots": switchback_plan([FACTOR], Design(replicates=4, sentinels=None, switchback=Switchback(slot=8)), LOAD),
}
REQUESTS = {"trials": 20_000, "slots": 4_000}  # behind each figure
STUDIES = 60


def observed(plan: Plan, requests: int, rng: np.random.Generator) -> list[Observation]:
    """Lognormal response times. An instance (a trial) has a level (5 %), an effect (3 %) and a tail (5 %) of its own;
    figures are the quantiles of so many requests.
    """
    found = []
    for trial in plan.trials:
        level, own, tail = rng.normal(0.0, [0.05, 0.03, 0.05])
        for treatment, slot in [(slot.treatment, slot.index) for slot in trial.slots] or [(trial.treatment, None)]:
            on = treatment["vm.k"] == 1
            ranks = np.array([math.ceil(share * requests) for share in QUANTILES.values()])
            places = stats.norm.ppf(rng.beta(ranks, requests + 1 - ranks))
            spread = (CHANGED if on else TAIL) * math.exp(tail)
            values = np.exp(level + rng.normal(0.0, 0.02) + (GAIN + own) * on + spread * places)
            found.append(
                Observation(
                    *(trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, treatment),
                    *(200.0 * trial.position + 8.0 * (slot or 0), dict(zip(QUANTILES, values.tolist(), strict=True))),
                    slot=slot,
                    seconds=None if slot is None else 7.0,
                )
            )
    return found


def rates(layout: str, studies: int, seed: int = 1) -> dict[str, tuple[float, float]]:
    """Response -> coverage of the plain 95 % interval, and its median half width (of logarithms)."""
    rng = np.random.default_rng(seed)
    held: dict[str, list[bool]] = {name: [] for name in QUANTILES}
    halves: dict[str, list[float]] = {name: [] for name in QUANTILES}
    mean_tail = math.exp(0.05**2 / 2)
    for _ in range(studies):
        seen = observed(PLANS[layout], REQUESTS[layout], rng)
        for one in analyse(PLANS[layout], seen, list(QUANTILES), verdicts_only=True).responses:
            interval = one.effects[0].interval
            assert interval is not None
            truth = GAIN + (CHANGED - TAIL) * mean_tail * float(stats.norm.ppf(QUANTILES[one.response]))
            low, high = math.log1p(interval.low / 100), math.log1p(interval.high / 100)
            held[one.response].append(low <= truth <= high)
            halves[one.response].append((high - low) / 2)
    return {name: (float(np.mean(held[name])), float(np.median(halves[name]))) for name in QUANTILES}


@pytest.mark.parametrize("layout", PLANS)
def test_intervals_of_quantile_effects_hold_where_instances_differ(layout: str) -> None:
    """At 300 figures a layout; the effect at p99.9 is six times that at p50."""
    found = rates(layout, STUDIES)
    assert np.mean([coverage for coverage, _ in found.values()]) > 0.95 - 0.05
    assert min(coverage for coverage, _ in found.values()) > 0.95 - 3 * math.sqrt(0.05 * 0.95 / STUDIES)


if __name__ == "__main__":
    for name in PLANS:
        told = rates(name, int(sys.argv[1]))
        print("|", " | ".join([name, *(f"{coverage:.3f}" for coverage, _ in told.values())]), "|", flush=True)
