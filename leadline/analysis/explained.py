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
    usual = {fork.world: fork for fork in forks if fork.treatment == baseline and fork.transactions}
    changes: dict[str, list[Change]] = {}
    for treatment in dict.fromkeys(fork.treatment for fork in forks if fork.treatment != baseline):
        pairs = [
            (usual[fork.world], fork)
            for fork in forks
            if fork.treatment == treatment and fork.world in usual and fork.transactions
        ]
        if pairs:
            changes[treatment] = _changes(pairs)
    return changes


def _changes(pairs: Sequence[tuple[Counted, Counted]]) -> list[Change]:
    names = sorted({name for pair in pairs for fork in pair for name in fork.counters})
    changes = [_change(name, pairs) for name in names]
    largest = sorted(changes, key=lambda one: -abs(one.change))
    cpu = [change for change in largest if change.counter.endswith(_CPU)]
    changed = sorted((change for change in largest if change.change), key=lambda one: not one.plain)
    calls = [change for change in changed if change.counter.startswith(_CALLS)]
    instructions = [change for change in changed if change.counter.startswith(_INSTRUCTIONS)]
    others = [
        change for change in changed if not change.counter.endswith(_CPU) and not change.counter.startswith(_EXECUTED)
    ]
    others.sort(key=lambda one: (not one.plain, -abs(one.change) / (one.baseline or abs(one.change))))
    return cpu + others[:_MOST] + calls[:_MOST_CALLS] + instructions[:_MOST_INSTRUCTIONS]


def _change(name: str, pairs: Sequence[tuple[Counted, Counted]]) -> Change:
    unit = 1e-3 if name.endswith(_CPU) else 1.0
    rates = np.array([[unit * fork.counters.get(name, 0.0) / fork.transactions for fork in pair] for pair in pairs])
    changes = rates[:, 1] - rates[:, 0]
    mean, interval = float(changes.mean()), None
    if len(changes) > 1:
        error = float(changes.std(ddof=1)) / len(changes) ** 0.5
        reach = _quantile(len(changes) - 1) * error
        interval = Interval(mean - reach, mean + reach)
    return Change(name, float(rates[:, 0].mean()), mean, interval, len(changes))


@cache
def _quantile(free: int) -> float:
    return float(distributions.t.ppf((1 + _LEVEL) / 2, free))
