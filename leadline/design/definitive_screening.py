"""Definitive screening designs: three levels of every factor in 2 m + 1 runs.

B. Jones and C. J. Nachtsheim (2011), J. Quality Technology 43, 1-15; from conference matrices: L. Xiao, D. K. J. Lin
and F. Bai (2012), J. Quality Technology 44, 2-8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.design.coding import LARGEST, Ints, conference
from leadline.design.kind import DesignError, DesignKind
from leadline.model.design import Design
from leadline.model.knob import Level
from leadline.model.plan import Factor, Treatment

SMALLEST = 4


def order_for(factors: int) -> int | None:
    """The smallest order of a conference matrix with a column for every factor; None beyond the largest built.

    Columns that no factor takes are fake factors: left out, they give degrees of freedom for the noise.
    """
    first = max(SMALLEST, factors + factors % 2)
    return next((order for order in range(first, LARGEST + 1, 2) if conference(order) is not None), None)


def matrix(factors: int) -> Ints:
    """(2 m + 1, factors) of -1, 0, 1: each row of a conference matrix, then its mirror image; last the centre run.

    Main effects are orthogonal to each other, to all two-factor interactions and to all squares.
    """
    order = order_for(factors)
    square = None if order is None else conference(order)
    if square is None:
        raise DesignError(
            f"design: {factors} factors are more than a definitive screening design here can hold; leave some out",
            ("design", "kind"),
        )
    used = square[:, :factors]
    pairs = np.stack([used, -used], axis=1).reshape(-1, factors)
    return np.vstack([pairs, np.zeros((1, factors), dtype=np.int64)])


def ordered_levels(factor: Factor) -> tuple[Level, Level, Level]:
    """Low, middle, high: numbers by size, words in the order the study file names them."""
    low, middle, high = factor.levels
    if all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in factor.levels):
        low, middle, high = sorted(factor.levels, key=lambda level: float(level))
    return low, middle, high


def check(factors: Sequence[Factor]) -> None:
    """Raises DesignError for a factor that does not have three levels."""
    few = [factor.name for factor in factors if len(factor.levels) == 2]
    many = [factor.name for factor in factors if len(factor.levels) > 3]
    if few:
        all_two = "; plackett-burman screens two-level factors" if len(few) == len(factors) else ""
        raise DesignError(
            f"design: definitive-screening takes three levels of every factor, low, middle and high; {_few(few)} "
            f"{'has' if len(few) == 1 else 'have'} two: add a middle level, or use d-optimal, which mixes level counts"
            f"{all_two}",
            ("factors", few[0]),
        )
    if many:
        raise DesignError(
            f"design: definitive-screening takes three levels of every factor; {_few(many)} "
            f"{'has' if len(many) == 1 else 'have'} more: name three, or use d-optimal",
            ("factors", many[0]),
        )


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def count(factors: Sequence[Factor], _design: Design) -> int:
    check(factors)
    return len(matrix(len(factors)))


def treatments(factors: Sequence[Factor], _design: Design) -> tuple[Treatment, ...]:
    """Pairs of mirror images and the centre run."""
    check(factors)
    levels = [ordered_levels(factor) for factor in factors]
    names = [factor.name for factor in factors]
    return tuple(
        Treatment.of({name: three[value + 1] for name, three, value in zip(names, levels, row, strict=True)})
        for row in matrix(len(factors))
    )


def notes(factors: Sequence[Factor], _design: Design) -> tuple[str, ...]:
    order = order_for(len(factors))
    assert order is not None
    fakes = order - len(factors)
    lines = [
        f"Definitive screening from a conference matrix of order {order}: the difference of a factor's outer levels is "
        "free of two-factor interactions and of curvature, which are mixed with each other in part; a difference from "
        "the middle level holds curvature, too"
        + (f"; {fakes} fake factor{'s' if fakes > 1 else ''} for the noise." if fakes else ".")
    ]
    words = [f.name for f in factors if any(isinstance(level, (str, bool)) for level in f.levels)]
    if words:
        lines.append(f"Levels of {_few(words)} are words: taken as low, middle, high in the order they are named.")
    return tuple(lines)


KIND = DesignKind("definitive-screening", treatments, count, notes, screening=True)
