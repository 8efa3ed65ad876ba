"""Where the difference of two forks comes from: counters of processes and kernel under each treatment, by transaction.

Forks of a world share their past, so a counter's difference within a world is the treatment's doing; the interval is
over worlds (Student's t of the differences).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from leadline.model import distributions
from leadline.model.result import Interval

_CPU = ".cpu_ns"
_LEVEL = 0.95
_MOST = 12  # counters of a treatment beside the CPU of each part
_CALLS, _INSTRUCTIONS = "syscalls.", "instructions."
_MOST_CALLS, _MOST_INSTRUCTIONS = 8, 15
_EXECUTED = (_CALLS, _INSTRUCTIONS)


@dataclass(frozen=True)
class Counted:
    """What the load of one fork added to counters, by name."""

    treatment: str
    world: int
    transactions: int
    counters: Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """A counter under a treatment against the baseline, both by transaction; CPU in microseconds. ``worlds``: in which
    both were counted. ``interval`` None for one world.
    """

    counter: str
    baseline: float
    change: float
    interval: Interval | None
    worlds: int

    @property
    def plain(self) -> bool:
        """Whether the change shows in every world alike."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


def explained(forks: Sequence[Counted], baseline: str) -> dict[str, list[Change]]:
    """By treatment: CPU of every part, largest change first, then the counters that changed most against their
    baseline, then system calls by kind and instructions by symbol, largest change first; of all these plain ones
    first. Treatments without a world in common with the baseline are left out.
    """
    usual = {one.world: one for one in forks if one.treatment == baseline and one.transactions}
    found: dict[str, list[Change]] = {}
    for treatment in dict.fromkeys(one.treatment for one in forks if one.treatment != baseline):
        pairs = [
            (usual[one.world], one)
            for one in forks
            if one.treatment == treatment and one.world in usual and one.transactions
        ]
        if pairs:
            found[treatment] = _changes(pairs)
    return found


def _changes(pairs: Sequence[tuple[Counted, Counted]]) -> list[Change]:
    names = sorted({name for pair in pairs for one in pair for name in one.counters})
    changes = [_change(name, pairs) for name in names]
    largest = sorted(changes, key=lambda one: -abs(one.change))
    cpu = [one for one in largest if one.counter.endswith(_CPU)]
    changed = sorted((one for one in largest if one.change), key=lambda one: not one.plain)
    calls = [one for one in changed if one.counter.startswith(_CALLS)]
    instructions = [one for one in changed if one.counter.startswith(_INSTRUCTIONS)]
    others = [one for one in changed if not one.counter.endswith(_CPU) and not one.counter.startswith(_EXECUTED)]
    others.sort(key=lambda one: (not one.plain, -abs(one.change) / (one.baseline or abs(one.change))))
    return cpu + others[:_MOST] + calls[:_MOST_CALLS] + instructions[:_MOST_INSTRUCTIONS]


def _change(name: str, pairs: Sequence[tuple[Counted, Counted]]) -> Change:
    unit = 1e-3 if name.endswith(_CPU) else 1.0
    each = np.array([[unit * one.counters.get(name, 0.0) / one.transactions for one in pair] for pair in pairs])
    changes = each[:, 1] - each[:, 0]
    mean, interval = float(changes.mean()), None
    if len(changes) > 1:
        error = float(changes.std(ddof=1)) / len(changes) ** 0.5
        reach = _quantile(len(changes) - 1) * error
        interval = Interval(mean - reach, mean + reach)
    return Change(name, float(each[:, 0].mean()), mean, interval, len(changes))


@cache
def _quantile(free: int) -> float:
    return float(distributions.t.ppf((1 + _LEVEL) / 2, free))
