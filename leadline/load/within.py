"""What the limits of a scenario say of a window of its load: how far each is used, and what ended within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hdrh.histogram import HdrHistogram

from leadline.load.bounds import QUANTILES
from leadline.load.result import LimitResult
from leadline.load.series import histograms_by_transaction

WORST, WITHIN = "limit_use", "within_limits"  # responses
_MS = 1e6  # nanoseconds


@dataclass(frozen=True)
class TypeWithin:
    """One type of transaction. ``within``: transactions a second that ended inside the shortest of its limits, of
    ``throughput`` in all; ``uses``: percentile by limit, where enough ended to tell the percentile.
    """

    transaction: str
    throughput: float
    within: float
    uses: dict[str, float]


def within_limits(directory: Path, from_s: float, until_s: float, limits: Sequence[LimitResult]) -> list[TypeWithin]:
    """Every type that ended in the whole seconds inside [from_s, until_s); empty where no percentile is limited."""
    stated: dict[str, list[LimitResult]] = {}
    for limit in limits:
        if limit.measure in QUANTILES:
            stated.setdefault(limit.transaction, []).append(limit)
    if not stated:
        return []
    seconds, histograms = histograms_by_transaction(directory, from_s, until_s)
    return [_type(name, histograms[name], stated.get(name, []), seconds) for name in sorted(histograms)]


def responses_of(types: Sequence[TypeWithin]) -> dict[str, float]:
    """The worst use of a limit, and transactions a second within the limits; nothing where there are no limits."""
    if not types:
        return {}
    uses = [use for each in types for use in each.uses.values()]
    return {WITHIN: sum(each.within for each in types), **({WORST: max(uses)} if uses else {})}


def _type(name: str, histogram: HdrHistogram, limits: Sequence[LimitResult], seconds: int) -> TypeWithin:
    count = histogram.get_total_count()
    uses = {
        limit.measure: histogram.get_value_at_percentile(100 * QUANTILES[limit.measure]) / _MS / limit.bound
        for limit in limits
        if count * (1 - QUANTILES[limit.measure]) >= 1 - 1e-9
    }
    shortest = min((limit.bound for limit in limits), default=None)
    inside = count if shortest is None else _no_longer(histogram, shortest * _MS)
    return TypeWithin(name, count / seconds, inside / seconds, uses)


def _no_longer(histogram: HdrHistogram, nanoseconds: float) -> int:
    values = histogram.get_recorded_iterator()
    return int(sum(item.count_at_value_iterated_to for item in values if item.value_iterated_to <= nanoseconds))
