"""Plackett-Burman designs: many two-level factors in few runs, main effects only.

R. L. Plackett and J. P. Burman (1946), Biometrika 33, 305-325.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.design.coding import LARGEST, Ints, hadamard, jacobsthal, prime_power, two_level_treatments
from leadline.design.kind import DesignError, DesignKind, refuse_more_levels
from leadline.model.design import Design
from leadline.model.plan import Factor, Treatment

SMALLEST = 8
TWINS = {35: (5, 7)}  # sizes minus one that are products of twin primes, where that gives weaker aliases than Paley


def matrix(runs: int) -> Ints | None:
    """(runs, runs - 1) of +-1, columns orthogonal and balanced, the last row all -1; None where none is built.

    For 12, 20, 24 and every size whose predecessor is a prime of the form 4 m - 1, rows are the cyclic shifts of the
    published first row. A power of two gives a regular fraction of resolution 3.
    """
    if runs < 4 or runs % 4:
        return None
    q = runs - 1
    if prime_power(q) == (q, 1) or q in TWINS:
        # squares and zero are +: the first row as published, each next row shifted by one
        first = _twin_row(*TWINS[q]) if q in TWINS else _residues(q)
        cyclic = np.array([np.roll(first, shift) for shift in range(q)], dtype=np.int64)
        return np.vstack([cyclic, -np.ones((1, q), dtype=np.int64)])
    square = hadamard(runs)
    if square is None:
        return None
    body = square[:, 1:]
    normal = -body * body[-1]  # every column turned so that the last row is all -1
    return np.asarray(normal, dtype=np.int64)


def _residues(q: int) -> Ints:
    row = np.array([other[0] for other in jacobsthal(q)], dtype=np.int64)
    row[0] = 1
    return row


def _twin_row(p: int, r: int) -> Ints:
    """A row of p r values from the difference set of twin primes (R. G. Stanton and D. A. Sprott, 1958)."""
    chi_p, chi_r = (np.array([row[0] for row in jacobsthal(prime)]) for prime in (p, r))
    numbers = np.arange(p * r)
    inside = (chi_p[numbers % p] * chi_r[numbers % r] == 1) | (numbers % r == 0)
    return np.where(inside, -1, 1).astype(np.int64)


def sizes(factors: int) -> list[int]:
    """Sizes that hold so many factors, smallest first."""
    first = max(SMALLEST, 4 * -(-(factors + 1) // 4))
    return [runs for runs in range(first, LARGEST + 1, 4) if matrix(runs) is not None]


def runs_of(factors: Sequence[Factor], design: Design) -> int:
    """Rows without foldover. Raises DesignError where no size fits."""
    refuse_more_levels(factors, "plackett-burman")
    fitting = sizes(len(factors))
    if not fitting:
        raise DesignError(
            f"design: {len(factors)} factors need a Plackett-Burman design of more than {LARGEST} runs; "
            "leave some factors out",
            ("design", "kind"),
        )
    if design.runs is None:
        return fitting[0]
    if design.runs not in fitting:
        close = min(fitting, key=lambda size: (abs(size - (design.runs or 0)), size))
        raise DesignError(
            f"design: no Plackett-Burman design of {design.runs} runs holds {len(factors)} factors; "
            f"the nearest that does has {close}",
            ("design", "runs"),
        )
    return design.runs


def count(factors: Sequence[Factor], design: Design) -> int:
    return runs_of(factors, design) * (2 if design.foldover else 1)


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The runs, the baseline (all -1) last before the mirror image; with ``foldover`` every run's mirror image, too."""
    full = matrix(runs_of(factors, design))
    assert full is not None
    coded = full[:, : len(factors)]
    if design.foldover:
        coded = np.vstack([coded, -coded])
    return two_level_treatments(factors, coded)


def notes(factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    runs = runs_of(factors, design)
    regular = runs & (runs - 1) == 0
    if design.foldover:
        aliases = "folded over: no main effect is mixed with a two-factor interaction"
    elif regular:
        aliases = "a main effect is not distinguishable from the two-factor interactions it is aliased with"
    else:
        aliases = "every main effect holds shares of the other factors' two-factor interactions"
    spare = runs - 1 - len(factors)
    return (
        f"Plackett-Burman of {runs} runs for {len(factors)} factor{'s' if len(factors) > 1 else ''}"
        + (f", {spare} column{'s' if spare > 1 else ''} free" if spare else "")
        + f"; {aliases}.",
    )


KIND = DesignKind("plackett-burman", treatments, count, notes, screening=True, options=frozenset({"foldover", "runs"}))
