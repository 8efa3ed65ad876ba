"""The table of designs, by the name a study file gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.design import (
    configurations,
    confirmation,
    d_optimal,
    definitive_screening,
    fractional_factorial,
    full_factorial,
    one_at_a_time,
    plackett_burman,
    racing,
)
from leadline.design.errors import DesignError
from leadline.model.plan import Factor, Treatment
from leadline.model.study import Design


@dataclass(frozen=True)
class DesignKind:
    """``treatments`` lists the runs of one replicate, a run perhaps more than once; ``count`` tells how many without
    building them; ``notes`` says in sentences what the runs can tell. All raise DesignError when the design cannot be.

    ``cells``: effects are differences between treatments and the baseline; else they are contrasts over all runs.
    ``options``: the keys of a study's design that only some kinds take.
    """

    name: str
    build: Callable[[Sequence[Factor], Design], tuple[Treatment, ...]]
    size: Callable[[Sequence[Factor], Design], int]
    notes: Callable[[Sequence[Factor], Design], tuple[str, ...]] = lambda _factors, _design: ()
    cells: bool = False
    options: frozenset[str] = frozenset()

    def treatments(self, factors: Sequence[Factor], design: Design | None = None) -> tuple[Treatment, ...]:
        return self.build(factors, design or Design())

    def count(self, factors: Sequence[Factor], design: Design | None = None) -> int:
        return self.size(factors, design or Design())


KINDS: Mapping[str, DesignKind] = {
    kind.name: kind
    for kind in (
        DesignKind(
            "one-at-a-time",
            lambda factors, _: one_at_a_time.treatments(factors),
            lambda factors, _: one_at_a_time.count(factors),
            cells=True,
        ),
        DesignKind(
            "full-factorial",
            lambda factors, _: full_factorial.treatments(factors),
            lambda factors, _: full_factorial.count(factors),
        ),
        DesignKind(
            "fractional-factorial",
            fractional_factorial.treatments,
            fractional_factorial.count,
            fractional_factorial.notes,
            options=frozenset({"resolution", "foldover", "runs"}),
        ),
        DesignKind(
            "plackett-burman",
            plackett_burman.treatments,
            plackett_burman.count,
            plackett_burman.notes,
            options=frozenset({"foldover", "runs"}),
        ),
        DesignKind(
            "definitive-screening",
            definitive_screening.treatments,
            definitive_screening.count,
            definitive_screening.notes,
        ),
        DesignKind("confirmation", confirmation.treatments, lambda _factors, _: 2, confirmation.notes, cells=True),
        DesignKind(
            "configurations",
            configurations.treatments,
            lambda _factors, design: len(design.configurations),
            configurations.notes,
            cells=True,
            options=frozenset({"configurations"}),
        ),
        DesignKind(
            "racing",
            racing.treatments,
            lambda factors, _: one_at_a_time.count(factors),
            racing.notes,
            cells=True,
        ),
        DesignKind(
            "d-optimal", d_optimal.treatments, d_optimal.count, d_optimal.notes, options=frozenset({"runs", "model"})
        ),
    )
}


def check_options(kind: DesignKind, design: Design) -> None:
    """Raises DesignError for a key that the kind would silently ignore."""
    given = {
        "resolution": "resolution" in design.model_fields_set,
        "foldover": design.foldover,
        "runs": design.runs is not None,
        "model": "model" in design.model_fields_set,
        "configurations": bool(design.configurations),
    }
    for option, is_given in given.items():
        if is_given and option not in kind.options:
            takers = " and ".join(other.name for other in KINDS.values() if option in other.options)
            raise DesignError(
                f"design: {kind.name} has no {option}; {takers} {'have' if ' and ' in takers else 'has'} it",
                ("design", option),
            )
    if design.block_size is not None and design.blocks != "incomplete":
        raise DesignError(
            f"design: block_size is of incomplete blocks, but blocks is {design.blocks}; set blocks to incomplete, or "
            "leave block_size out",
            ("design", "block_size"),
        )
