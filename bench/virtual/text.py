"""Tables and statistics of these comparisons; nothing here touches the world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from scipy import stats


@dataclass(frozen=True)
class Change:
    """A mean change in percent with its interval of 95 %; one pair has none."""

    percent: float
    low: float | None
    high: float | None

    @property
    def found(self) -> bool:
        """Whether the sign is told: zero lies outside the interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.percent:+.3f} %"
        return f"{self.percent:+.3f} % [{self.low:+.3f}, {self.high:+.3f}]"


def change(baseline: Sequence[float], treated: Sequence[float]) -> Change:
    """Paired t interval on the logarithm of the ratio. Raises ValueError for sequences of other lengths or none."""
    if not baseline or len(baseline) != len(treated):
        raise ValueError(f"{len(baseline)} values of the baseline and {len(treated)} treated ones are no pairs")
    logs = [math.log(new / old) for old, new in zip(baseline, treated, strict=True)]
    middle = mean(logs)
    if len(logs) == 1:
        return Change(_percent(middle), None, None)
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Change(_percent(middle), _percent(middle - half), _percent(middle + half))


def _percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; all columns but the first to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
