"""Where to repeat: seconds, trials (server starts) or blocks?

Kalibera and Jones, Rigorous Benchmarking in Reasonable Time (2013): from the variances T_i^2 at each level of
repetition the counts r_i that reach a given precision at the least cost. Level 1 is the innermost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.model.units import format_duration


def optimal_counts(variances: Sequence[float], costs: Sequence[float]) -> tuple[int | None, ...]:
    """r_i = ceil(sqrt(c_(i+1)/c_i T_i^2/T_(i+1)^2)) for every level but the outermost, innermost first.

    ``costs``: c_1 of one innermost repetition, c_i of starting one of level i without what lies inside. None: the level
    above adds no variance, so repeat inside it as long as the plan lasts.
    """
    if len(variances) != len(costs) or any(cost <= 0 for cost in costs[:-1]) or costs[-1] < 0:
        raise ValueError("one variance and one cost a level; costs must be positive")
    counts: list[int | None] = []
    for level in range(len(variances) - 1):
        inner, outer = variances[level], variances[level + 1]
        if outer <= 0:
            counts.append(None if inner > 0 else 1)
        else:
            best = math.sqrt(costs[level + 1] / costs[level] * max(inner, 0.0) / outer)
            counts.append(max(1, math.ceil(best - 1e-9)))
    return tuple(counts)


@dataclass(frozen=True)
class Advice:
    """Where a study should repeat. ``seconds``: best length of the steady state, None where only more seconds help.

    ``share``: of the variance of a trial's figure that comes from its seconds. ``longer``: time that ten times longer
    trials would take for the same precision, ``best``: that of the best length, both over the time that trials of
    today's length take.
    """

    seconds: int | None
    share: float
    longer: float
    best: float
    sentence: str


def advise(second: float, trial: float, steady: float, overhead: float, shortest: float = 1.0) -> Advice:
    """Longer trials, or more of them?

    ``second``: variance of the mean of one second, long-run (variance times autocorrelation time); ``trial``: variance
    between trials beyond their seconds; ``steady`` seconds of a trial today, ``overhead`` seconds it takes beside;
    ``shortest``: no steady state shorter than this is advised.
    """
    second, trial = max(second, 0.0), max(trial, 0.0)
    total = trial + second / steady
    share = second / steady / total if total > 0 else 0.0
    (count,) = optimal_counts((second, trial), (1.0, overhead))
    ideal = None if count is None else max(count, math.ceil(shortest))

    def relative(length: float) -> float:
        if total <= 0:
            return 1.0
        return (overhead + length) * (trial + second / length) / ((overhead + steady) * total)

    longer = relative(10 * steady)
    best = relative(ideal) if ideal is not None else 1 - share * overhead / (overhead + steady)
    return Advice(ideal, share, longer, best, _sentence(ideal, share, longer, best, steady))


def _sentence(ideal: int | None, share: float, longer: float, best: float, steady: float) -> str:
    now = format_duration(steady)
    cause = f"{100 * share:.0f} % of the noise of a trial's figure comes from its seconds, the rest from the start"
    if ideal is None:
        return (
            f"No noise from start to start can be seen beyond that of the seconds: longer trials are worth as much as "
            f"more of them (now {now})."
        )
    if best > 0.9:
        return f"The steady state of {now} is about right: {cause}."
    length = format_duration(ideal)
    if ideal < steady:
        return (
            f"Longer trials would not help: {cause}. Repeat server starts: with a steady state of {length} instead of "
            f"{now} and more trials the same precision takes {100 * best:.0f} % of the time"
            f"{f' (ten times longer trials: {longer:.1f} times the time)' if longer > 1 else ''}."
        )
    return (
        f"Longer trials help: {cause}. With a steady state of {length} instead of {now} the same precision takes "
        f"{100 * best:.0f} % of the time."
    )
