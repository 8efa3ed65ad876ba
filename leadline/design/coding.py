"""From levels to numbers and back: coded matrices, model matrices, names of effects; and Hadamard and conference
matrices, by the finite fields of Paley's constructions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from leadline.model.knob import Level
from leadline.model.plan import Factor, Treatment

Ints = NDArray[np.int64]


def prime_power(q: int) -> tuple[int, int] | None:
    """(p, m) with q = p**m and p prime, or None."""
    if q < 2:
        return None
    p = next(divisor for divisor in range(2, q + 1) if q % divisor == 0)
    m = 0
    while q % p == 0:
        q //= p
        m += 1
    return (p, m) if q == 1 else None


@cache
def jacobsthal(q: int) -> tuple[tuple[int, ...], ...]:
    """The Jacobsthal matrix (q, q) of GF(q), q an odd prime power: entry (a, b) is chi(a - b).

    chi is 0 for zero, 1 for squares and -1 for all others (R. E. A. C. Paley, 1933, J. Math. Phys. 12, 311-320). For a
    prime q the elements are 0 ... q-1 in order, so that the matrix is circulant.
    """
    power = prime_power(q)
    if power is None or power[0] == 2:
        raise ValueError(f"{q} is not a power of an odd prime")
    p, m = power
    elements = list(itertools.product(range(p), repeat=m))
    modulus = _irreducible(p, m)
    squares = {_product(element, element, modulus, p) for element in elements[1:]}

    def chi(a: tuple[int, ...], b: tuple[int, ...]) -> int:
        difference = tuple((x - y) % p for x, y in zip(a, b, strict=True))
        if not any(difference):
            return 0
        return 1 if difference in squares else -1

    return tuple(tuple(chi(a, b) for b in elements) for a in elements)


def _product(a: tuple[int, ...], b: tuple[int, ...], modulus: tuple[int, ...], p: int) -> tuple[int, ...]:
    """Product of two polynomials, highest power first, modulo a monic one given without its leading 1."""
    m = len(a)
    product = [0] * (2 * m - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    for index in range(m - 1):
        lead = product[index] % p
        for offset, coefficient in enumerate(modulus):
            product[index + 1 + offset] -= lead * coefficient
    return tuple(value % p for value in product[m - 1 :])


def _irreducible(p: int, m: int) -> tuple[int, ...]:
    """A monic polynomial of degree m without a factor over GF(p): its coefficients below the leading 1."""
    for tail in itertools.product(range(p), repeat=m):
        if m == 1 or not any(_divides(divisor, (1, *tail), p) for divisor in _monic(p, m // 2)):
            return tail
    raise AssertionError("there is an irreducible polynomial of every degree")


def _monic(p: int, degree: int) -> list[tuple[int, ...]]:
    return [(1, *tail) for d in range(1, degree + 1) for tail in itertools.product(range(p), repeat=d)]


def _divides(divisor: tuple[int, ...], polynomial: tuple[int, ...], p: int) -> bool:
    rest = list(polynomial)
    while len(rest) >= len(divisor):
        lead = rest[0]
        for index, coefficient in enumerate(divisor):
            rest[index] = (rest[index] - lead * coefficient) % p
        rest.pop(0)
    return not any(rest)


LARGEST = 128  # order up to which sizes are tried


@cache
def _conference(order: int) -> bytes | None:
    q = order - 1
    power = prime_power(q)
    if order >= 4 and order % 2 == 0 and power is not None and power[0] != 2:
        matrix = np.zeros((order, order), dtype=np.int64)
        matrix[0, 1:] = 1
        matrix[1:, 0] = 1 if q % 4 == 1 else -1
        matrix[1:, 1:] = np.array(jacobsthal(q)).T if q % 4 == 3 else np.array(jacobsthal(q))
        return matrix.tobytes()
    half = skew_conference(order // 2) if order % 4 == 0 and order >= 8 else None
    if half is None:
        return None
    # With S skew and S S' = (n - 1) I, S + I is a skew Hadamard matrix of order n; doubling keeps it skew.
    identity = np.eye(order // 2, dtype=np.int64)
    doubled = np.block([[half, half + identity], [half - identity, -half]])
    return np.asarray(doubled, dtype=np.int64).tobytes()


def conference(order: int) -> Ints | None:
    """A conference matrix C (order, order): zero diagonal, else +-1, C'C = (order - 1) I. None where none is built.

    Paley's construction for order - 1 an odd prime power, and the doubling of skew ones (order 16, 40 ...). For 22
    and 34 none exists (order - 1 is not a sum of two squares: V. Belevitch, 1950); 36 exists but is not built here.
    """
    raw = _conference(order)
    return None if raw is None else np.frombuffer(raw, dtype=np.int64).reshape(order, order).copy()


def skew_conference(order: int) -> Ints | None:
    """A conference matrix with C' = -C, or None; it can exist for multiples of four only."""
    if order % 4:
        return None
    matrix = conference(order)
    return matrix if matrix is not None and bool(np.all(matrix == -matrix.T)) else None


def hadamard(order: int) -> Ints | None:
    """A Hadamard matrix H (order, order) of +-1, H'H = order I, a first column of ones; None where none is built.

    Sizes 1 and 2, powers of two by Sylvester's doubling, Paley's first (order - 1) and second (order / 2 - 1)
    constructions, and doubling of what these give: every multiple of four below 92.
    """
    matrix = _hadamard(order)
    if matrix is None:
        return None
    return np.asarray(matrix * matrix[:, :1], dtype=np.int64)


def _hadamard(order: int) -> Ints | None:
    if order in (1, 2):
        return np.array([[1]] if order == 1 else [[1, 1], [1, -1]], dtype=np.int64)
    if order % 4:
        return None
    power_of_two = order & (order - 1) == 0
    if not power_of_two:
        skew = skew_conference(order)
        if skew is not None:
            return skew + np.eye(order, dtype=np.int64)
        symmetric = conference(order // 2)
        if symmetric is not None and bool(np.all(symmetric == symmetric.T)):
            identity = np.eye(order // 2, dtype=np.int64)
            upper = np.hstack([symmetric + identity, symmetric - identity])
            lower = np.hstack([symmetric - identity, -symmetric - identity])
            return np.asarray(np.vstack([upper, lower]), dtype=np.int64)
    half = _hadamard(order // 2)
    return None if half is None else np.asarray(np.block([[half, half], [half, -half]]), dtype=np.int64)


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
