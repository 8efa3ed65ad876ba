"""Effects on all quantiles together: their intervals are those of server instances, not of requests."""

import math
import sys
from dataclasses import replace

import numpy as np

from leadline.analysis.sequential import Interim
from leadline.analysis.study import QUANTILES, quantile_effects
from leadline.design.make import make_plan
from leadline.model.design import Design
from leadline.model.plan import Factor, Plan
from leadline.model.result import Observation, Verdict

FACTORS = [Factor("a", (0, 1), 0), Factor("b", (0, 1), 0)]
STUDIES, REQUESTS = 60, 400


def observed(plan: Plan, seed: int, slower: float = 0.0, tail: float = 0.0) -> list[Observation]:
    """Quantiles of each trial's lognormal requests, in instances that differ by 10 %. a=1 makes all requests slower
    by ``slower`` (of logarithms), b=1 the slowest fortieth by ``tail``.
    """
    rng = np.random.default_rng(seed)
    found = []
    for trial in plan.trials:
        values = rng.normal(0.0, 0.3, REQUESTS) + rng.normal(0.0, 0.1) + slower * (trial.treatment["a"] == 1)
        values.sort()
        values[-REQUESTS // 40 :] += tail * (trial.treatment["b"] == 1)
        figures = {name: math.exp(float(np.quantile(values, share))) for name, share in QUANTILES.items()}
        found.append(
            Observation(
                *(trial.position + 1, trial.position, trial.block, trial.replicate, trial.role, trial.treatment),
                *(60.0 * trial.position, figures),
            )
        )
    return found


def missed(studies: int) -> float:
    """Share of studies with any interval that misses its truth, +10 % of a and none of b."""
    plan = make_plan(FACTORS, Design(replicates=6, sentinels=None))
    wrong = 0
    for seed in range(studies):
        effects = quantile_effects(plan, observed(plan, seed, math.log(1.1)))
        assert [effect.response for effect in effects[::2]] == list(QUANTILES)
        ranges = [(effect.simultaneous, 10.0 if effect.factor == "a" else 0.0) for effect in effects]
        wrong += any(interval is None or not interval.contains(truth) for interval, truth in ranges)
    return wrong / studies


def test_all_intervals_of_all_quantiles_hold_together() -> None:
    assert missed(STUDIES) <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / STUDIES)


def test_a_change_of_the_tail_alone_is_seen_in_the_tail_alone() -> None:
    plan = make_plan(FACTORS, Design(replicates=12, sentinels=None))
    effects = [each for each in quantile_effects(plan, observed(plan, 1, tail=1.0)) if each.factor == "b"]
    assert {each.response for each in effects if each.verdict is Verdict.WORSE} == {"p99", "p999"}


def test_quantiles_share_the_error_rate_of_an_interim_analysis() -> None:
    plan = make_plan(FACTORS, Design(replicates=8, sentinels=None))
    seen = observed(plan, 1)
    widths = []
    for strict in (None, Interim(0.99, lambda p_value: min(1.0, 5 * p_value)), Interim(1.0, lambda _: 1.0)):
        effect = quantile_effects(plan, seen, interim=lambda _, strict=strict: strict)[0]  # type: ignore[misc]
        widths.append(math.inf if effect.simultaneous is None else effect.simultaneous.high - effect.simultaneous.low)
    assert widths[0] < widths[1] < widths[2]


def test_slots_with_few_requests_have_no_far_quantile() -> None:
    plan = make_plan(FACTORS, Design(replicates=4, sentinels=None))
    short = [
        replace(each, responses={**each.responses, "throughput": 20.0}, slot=0, seconds=4.0)
        for each in observed(plan, 1)
    ]
    assert {each.response for each in quantile_effects(plan, short)} == {"p50", "p90", "p95"}
    assert quantile_effects(plan, []) == ()


if __name__ == "__main__":
    print(missed(int(sys.argv[1])))
