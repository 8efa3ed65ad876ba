"""The table of designs, by the name a study file gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.design import full_factorial, one_at_a_time
from leadline.model.plan import Factor, Treatment


@dataclass(frozen=True)
class DesignKind:
    """``treatments`` lists what every complete block holds, the baseline among it; ``count`` tells how many
    without building them.
    """

    name: str
    treatments: Callable[[Sequence[Factor]], tuple[Treatment, ...]]
    count: Callable[[Sequence[Factor]], int]


KINDS: Mapping[str, DesignKind] = {
    kind.name: kind
    for kind in (
        DesignKind("one-at-a-time", one_at_a_time.treatments, one_at_a_time.count),
        DesignKind("full-factorial", full_factorial.treatments, full_factorial.count),
    )
}
