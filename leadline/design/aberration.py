"""Which regular two-level fractions are the best: word-length patterns and the search for minimum aberration.

A fraction of 2**q runs is a set of columns, integers from 1 to 2**q - 1; column c has the sign (-1)**popcount(r & c) in
run r, and the product of columns is their exclusive or. Minimum aberration (A. Fries and W. G. Hunter, 1980,
Technometrics 22, 601-608): the fewest words of length 3, then of length 4, and so on. The search minimises the power
moments of the runs' sums of signs, which order fractions the same way (H. Xu, 2003, Statistica Sinica 13, 691-708), in
whole numbers, so that every machine finds the same.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from leadline.design.hadamard import Ints

MOMENTS = (3, 4, 5, 6, 7, 8)
PATIENCE = 25  # moves without an improvement after which a start is given up


@cache
def _signs(q: int) -> bytes:
    runs = np.arange(1 << q)
    parity = np.bitwise_count(runs[:, None] & runs[None, :]) % 2
    table: Ints = 1 - 2 * parity.astype(np.int64)
    return table.tobytes()


def signs(q: int) -> Ints:
    """(2**q, 2**q) of +-1: all columns over all runs, column 0 the constant."""
    return np.frombuffer(_signs(q), dtype=np.int64).reshape(1 << q, 1 << q)


def word_lengths(q: int, columns: Sequence[int]) -> tuple[int, ...]:
    """Number of words of length 1, 2, ... k in the defining relation of k columns (MacWilliams' identity)."""
    k = len(columns)
    negatives = (k - signs(q)[:, list(columns)].sum(axis=1)) // 2
    weights = Counter(negatives.tolist())
    return tuple(
        sum(
            runs * sum((-1) ** i * math.comb(w, i) * math.comb(k - w, length - i) for i in range(length + 1))
            for w, runs in weights.items()
        )
        >> q
        for length in range(1, k + 1)
    )


def resolution(pattern: Sequence[int]) -> int | None:
    """Length of the shortest word, None where there is none (a full factorial)."""
    return next((length for length, words in enumerate(pattern, start=1) if words), None)


def even_part(pattern: Sequence[int]) -> tuple[int, ...]:
    """Word lengths after a fraction's mirror image was added: words of odd length are gone."""
    return tuple(0 if length % 2 else words for length, words in enumerate(pattern, start=1))


def search(q: int, factors: int, starts: int, seed: int = 1) -> tuple[int, ...]:
    """Columns to add to 1, 2, 4 ... 2**(q-1), sorted: the least aberration found in ``starts`` tabu searches."""
    source = random.Random(seed * 1_000_003 + factors * 100 + q)
    every = [column for column in range(1, 1 << q) if column & (column - 1)]
    odd = [column for column in every if column.bit_count() % 2]
    best: tuple[tuple[int, ...], list[int]] | None = None
    for start in range(starts):
        # Every third start is among fractions whose words are all even, which win for many factors.
        pool = odd if start % 3 == 1 and len(odd) >= factors - q else every
        columns = _descend(q, _sample(source, pool, factors - q), every, source)
        best = columns if best is None or columns < best else best
    assert best is not None
    return tuple(best[1])


def _sample(source: random.Random, pool: list[int], size: int) -> list[int]:
    # random() alone is promised to stay the same in later versions of Python
    return sorted(pool, key=lambda _: source.random())[:size]


def _descend(q: int, start: list[int], pool: list[int], source: random.Random) -> tuple[tuple[int, ...], list[int]]:
    """Exchanges of one column at a time, the best one allowed even if it is a step back."""
    table, chosen = signs(q), list(start)
    sums = table[:, [*(1 << bit for bit in range(q)), *chosen]].sum(axis=1)
    best = (tuple(int((sums**power).sum()) for power in MOMENTS), sorted(chosen))
    barred: dict[int, int] = {}
    stalled = step = 0
    while stalled < PATIENCE:
        step += 1
        incoming = [column for column in pool if column not in chosen and barred.get(column, 0) <= step]
        if not incoming or not chosen:
            break
        trial = sums - table[:, chosen].T[:, None, :] + table[:, incoming].T[None, :, :]
        open_ = np.ones(trial.shape[:2], dtype=bool)
        for power in MOMENTS:
            moment = (trial**power).sum(axis=2)
            open_ &= moment == moment[open_].min()
        options = np.argwhere(open_)
        out, into = options[int(source.random() * len(options))]
        barred[chosen[out]] = step + 2 + int(source.random() * min(8, len(chosen) + 1))
        sums = trial[out, into]
        chosen[out] = incoming[into]
        now = (tuple(int((sums**power).sum()) for power in MOMENTS), sorted(chosen))
        stalled = 0 if now[0] < best[0] else stalled + 1
        best = min(best, now) if now[0] < best[0] else best
    return best
