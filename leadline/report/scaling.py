"""The scalability law of a study in lines and as JSON types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from leadline.capacity.scaling import Scaling
from leadline.model.result import Interval
from leadline.model.units import rounded


def lines(found: Scaling) -> Iterator[str]:
    """What is printed, but for the answer."""
    trials = sum(size.trials for size in found.sizes)
    yield f"fitted from {trials} trials at {len(found.sizes)} sizes of {found.factor}"
    yield f"one alone: {rounded(found.rate, 4)} transactions/s{_within(found.rate_interval)}"
    yield f"contention: {found.contention:.2%}{_within(found.contention_interval, percent=True)}"
    yield f"coherency: {found.coherency:.2%}{_within(found.coherency_interval, percent=True)}"
    yield ""
    for size in found.sizes:
        yield (
            f"  {size.n:g}  {rounded(size.throughput, 4)} transactions/s, by the law {rounded(size.fitted, 4)}, "
            f"{size.efficiency:.0%} of {size.n:g} alone"
        )
    for doubt in found.doubts:
        yield f"The law does not hold: {doubt}."


def answer(found: Scaling) -> str:
    """What is gained by more, and where it ends, in one sentence."""
    largest = found.sizes[-1]
    sentence = f"{largest.n:g} of {found.factor} do the work of {rounded(largest.throughput / found.rate, 3)} alone"
    if found.peak is not None:
        far = ", beyond what was measured" if found.peak > largest.n else ""
        most = found.at(found.peak)
        peak = f"{rounded(found.peak, 3)}{_within(found.peak_interval)}{far}"
        sentence += f"; most is done at {peak}: {rounded(most, 4)} transactions/s"
    elif found.ceiling is not None:
        sentence += (
            f"; no number does more than {rounded(found.ceiling, 4)} transactions/s; coherency cannot be told from none"
        )
    else:
        sentence += "; neither contention nor coherency can be told from none"
    return f"{sentence}{'' if found.holds else '; but the law does not hold'}."


def document(found: Scaling) -> dict[str, Any]:
    """As JSON types (docs/reference/json.md)."""
    return {
        "factor": found.factor,
        "rate": _bounded(found.rate, found.rate_interval),
        "contention": _bounded(found.contention, found.contention_interval),
        "coherency": _bounded(found.coherency, found.coherency_interval),
        "peak": _bounded(found.peak, found.peak_interval) if found.peak is not None else None,
        "ceiling": found.ceiling,
        "sizes": [vars(size) for size in found.sizes],
        "lack_of_fit": found.lack_of_fit,
        "holds": found.holds,
        "doubts": list(found.doubts),
        "answer": answer(found),
    }


def _within(interval: Interval | None, percent: bool = False) -> str:
    if interval is None:
        return ""
    low, high = (f"{bound:.2%}" if percent else rounded(bound, 4) for bound in (interval.low, interval.high))
    return f" [{low}, {high}]"


def _bounded(value: float, interval: Interval | None) -> dict[str, float | None]:
    high = interval.high if interval is not None and math.isfinite(interval.high) else None
    return {"value": value, "low": interval.low if interval is not None else None, "high": high}
