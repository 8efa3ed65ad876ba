"""Finite fields and their quadratic characters: what Paley's constructions are made of."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from numpy.typing import NDArray

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
