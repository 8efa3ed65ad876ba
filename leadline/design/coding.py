"""From levels to numbers and back: coded matrices, model matrices, names of effects."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.design.hadamard import Ints
from leadline.model.knob import Level
from leadline.model.plan import Factor, Treatment

Floats = NDArray[np.float64]


def two_level_treatments(factors: Sequence[Factor], coded: Ints) -> tuple[Treatment, ...]:
    """Treatments of a coded matrix (runs, factors): -1 is a factor's baseline level, 1 its other level."""
    pairs = [(factor.baseline, other_level(factor)) for factor in factors]
    names = [factor.name for factor in factors]
    return tuple(
        Treatment.of({name: pair[int(value > 0)] for name, pair, value in zip(names, pairs, row, strict=True)})
        for row in coded
    )


def other_level(factor: Factor) -> Level:
    """The level of a two-level factor that is not its baseline."""
    return next(level for level in factor.levels if level != factor.baseline)


def level_indices(factors: Sequence[Factor], treatments: Sequence[Treatment]) -> Ints:
    """(treatments, factors): index of each level among its factor's."""
    places = [{level: index for index, level in enumerate(factor.levels)} for factor in factors]
    return np.array(
        [
            [place[treatment[factor.name]] for factor, place in zip(factors, places, strict=True)]
            for treatment in treatments
        ],
        dtype=np.int64,
    ).reshape(len(treatments), len(factors))


def contrasts(factor: Factor) -> Floats:
    """Orthogonal contrasts (levels, levels - 1) with column sums 0 and column sums of squares ``levels``.

    Helmert contrasts from the baseline: for two levels -1 (baseline) and 1. Over a design that has every level equally
    often a column has mean 0 and mean square 1.
    """
    count = len(factor.levels)
    columns = np.zeros((count, count - 1))
    for column in range(count - 1):
        columns[: column + 1, column] = -1.0
        columns[column + 1, column] = column + 1.0
        columns[:, column] *= np.sqrt(count / ((column + 1) * (column + 2)))
    order = [factor.levels.index(factor.baseline)]
    order += [index for index in range(count) if index != order[0]]
    result = np.empty_like(columns)
    result[order] = columns
    return result


@dataclass(frozen=True)
class Term:
    """A main effect (one factor index) or an interaction (two), and its columns in a model matrix."""

    factors: tuple[int, ...]
    columns: tuple[int, ...]

    def name(self, factors: Sequence[Factor]) -> str:
        return " x ".join(factors[index].name for index in self.factors)


def model_terms(factors: Sequence[Factor], interactions: bool) -> tuple[Term, ...]:
    """Mains in plan order, then all pairs; column 0 of the model matrix is the mean."""
    widths = [len(factor.levels) - 1 for factor in factors]
    groups: list[tuple[int, ...]] = [(index,) for index in range(len(factors))]
    if interactions:
        groups += list(itertools.combinations(range(len(factors)), 2))
    terms, start = [], 1
    for group in groups:
        width = int(np.prod([widths[index] for index in group]))
        terms.append(Term(group, tuple(range(start, start + width))))
        start += width
    return tuple(terms)


def model_width(factors: Sequence[Factor], interactions: bool) -> int:
    """Parameters of the model, the mean among them."""
    widths = [len(factor.levels) - 1 for factor in factors]
    pairs = sum(a * b for a, b in itertools.combinations(widths, 2)) if interactions else 0
    return 1 + sum(widths) + pairs


def model_matrix(factors: Sequence[Factor], indices: Ints, interactions: bool) -> Floats:
    """(runs, width): ones, the contrasts of each factor, and with ``interactions`` their products by pairs."""
    mains = [contrasts(factor)[indices[:, number]] for number, factor in enumerate(factors)]
    blocks = [np.ones((len(indices), 1)), *mains]
    if interactions:
        for first, other in itertools.combinations(mains, 2):
            blocks.append((first[:, :, None] * other[:, None, :]).reshape(len(indices), -1))
    return np.hstack(blocks)
