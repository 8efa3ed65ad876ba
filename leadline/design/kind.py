"""What a kind of design is: its runs, their number, what they can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leadline.model.design import Design
from leadline.model.plan import Factor, Treatment


@dataclass(frozen=True)
class DesignKind:
    """``treatments`` lists the runs of one replicate, a run perhaps more than once; ``count`` tells how many without
    building them; ``notes`` says in sentences what the runs can tell. All raise DesignError when the design cannot be.

    ``cells``: effects are differences between treatments and the baseline; else they are contrasts over all runs.
    ``screening``: its runs alias interactions, so that the analysis takes in only those that they can tell apart.
    ``options``: the keys of a study's design that only some kinds take.
    """

    name: str
    build: Callable[[Sequence[Factor], Design], tuple[Treatment, ...]]
    size: Callable[[Sequence[Factor], Design], int]
    notes: Callable[[Sequence[Factor], Design], tuple[str, ...]] = lambda _factors, _design: ()
    cells: bool = False
    screening: bool = False
    options: frozenset[str] = frozenset()

    def treatments(self, factors: Sequence[Factor], design: Design | None = None) -> tuple[Treatment, ...]:
        return self.build(factors, design or Design())

    def count(self, factors: Sequence[Factor], design: Design | None = None) -> int:
        return self.size(factors, design or Design())
