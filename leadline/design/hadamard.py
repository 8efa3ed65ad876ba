"""Hadamard and conference matrices."""

from __future__ import annotations

from functools import cache

import numpy as np

from leadline.design.galois import Ints, jacobsthal, prime_power

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
