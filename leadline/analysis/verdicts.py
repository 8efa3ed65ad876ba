"""One verdict for a trial, from its throughput and its tail latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from leadline.analysis.steady import steady_state
from leadline.model.result import SteadyState

# the worse one is the trial's; a tail that is too noisy to judge does not spoil a throughput that is steady
_RANK = {"steady": 0, "too-short": 1, "still-warming": 2, "slowing-down": 3, "never-steady": 4}


def steady_verdict(throughput: Sequence[float], tail: Sequence[float], interval: float = 1.0) -> SteadyState:
    """Steady state of throughput and of a tail latency (such as p99 of each second), ``interval`` seconds apart.

    Both must be steady: the cut is the later of the two. Where one is not, its verdict is the trial's, the worse one
    if neither is. A percentile of one second is noisy: where it cannot be judged (too short), the throughput's verdict
    stands, and the sentence says so.
    """
    rate = steady_state(throughput, interval, higher_is_better=True)
    late = steady_state(tail, interval, higher_is_better=False)
    if late.verdict == "too-short":
        return replace(rate, sentence=f"Throughput: {rate.sentence} Tail latency: {late.sentence}")
    if rate.verdict == late.verdict == "steady":
        cut = max(rate.cut or 0.0, late.cut or 0.0)
        return SteadyState("steady", cut, f"Throughput: {rate.sentence} Tail latency: {late.sentence}")
    worse, what, other, name = (
        (rate, "Throughput", late, "Tail latency")
        if _RANK[rate.verdict] >= _RANK[late.verdict]
        else (late, "Tail latency", rate, "Throughput")
    )
    return SteadyState(worse.verdict, None, f"{what}: {worse.sentence} {name}: {other.sentence}")
