"""A kind of design: how its runs are made, and what they can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Treatment


class DesignError(UsageError):
    """``path`` leads to the key of a study file that the sentence is about, such as ``("design", "resolution")``."""

    def __init__(self, sentence: str, path: tuple[str, ...] = ("design",)) -> None:
        super().__init__(sentence)
        self.path = path


def refuse_more_levels(factors: Sequence[Factor], kind: str) -> None:
    """Raises DesignError when a factor has more than two levels, with the design that would do."""
    larger = [factor for factor in factors if len(factor.levels) > 2]
    if not larger:
        return
    named = ", ".join(f"{factor.name} ({len(factor.levels)})" for factor in larger[:5])
    more = f" and {len(larger) - 5} more" if len(larger) > 5 else ""
    if all(len(factor.levels) == 3 for factor in factors):
        other = "definitive-screening takes three levels of every factor"
    else:
        other = "d-optimal takes any mixture of level counts"
    raise DesignError(
        f"design: {kind} takes two levels of every factor, but more are given for {named}{more}; {other}, "
        "or name two levels",
        ("design", "kind"),
    )


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
