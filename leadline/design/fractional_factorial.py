"""Regular fractions 2^(k-p) of the full factorial: few runs, a known alias structure, least aberration.

The best fractions have minimum aberration of their word-length patterns. A fraction of 2**q runs is a set of columns,
integers from 1 to 2**q - 1; column c has the sign (-1)**popcount(r & c) in run r, and the product of columns is their
exclusive or. Minimum aberration (A. Fries and W. G. Hunter, 1980, Technometrics 22, 601-608): the fewest words of
length 3, then of length 4, and so on. The search minimises the power moments of the runs' sums of signs, which order
fractions the same way (H. Xu, 2003, Statistica Sinica 13, 691-708), in whole numbers, so that every machine finds the
same.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from leadline.design.coding import Ints, two_level_treatments
from leadline.design.kind import DesignError, DesignKind, refuse_more_levels
from leadline.model.design import Design
from leadline.model.plan import Factor, Treatment

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


# Columns that make a full factorial of 2**q runs a fraction of more factors: the least aberration found by search.
# Written by ``bench/designs/table_of_fractions.py`` (docs/concepts/designs.md); ``aberration`` tells what columns mean.


# q, number of factors, then in hexadecimal the columns of the factors after the first q (whose own are 1, 2, 4 ...)
_TABLE = """
3 4 7
3 5 3 5
3 6 3 5 6
3 7 3 5 6 7
4 5 f
4 6 7 b
4 7 7 b d
4 8 7 b d e
4 9 3 5 9 e f
4 10 3 5 6 9 e f
4 11 3 5 6 9 a d e
4 12 3 5 6 9 a d e f
4 13 3 5 6 7 9 a b c d
4 14 3 5 6 7 9 a b c d e
4 15 3 5 6 7 9 a b c d e f
5 6 1f
5 7 7 1b
5 8 7 e 1d
5 9 7 b 13 1d
5 10 7 b 13 1d 1e
5 11 7 b d 13 16 1f
5 12 7 b d e 15 16 1f
5 13 7 b d e 13 15 16 19
5 14 7 b d e 13 15 16 19 1a
5 15 7 b d e 13 15 16 19 1a 1c
5 16 7 b d e 13 15 16 19 1a 1c 1f
5 17 3 5 9 e f 11 16 17 1a 1b 1c 1d
5 18 3 5 6 9 e f 11 16 17 1a 1b 1c 1d
5 19 3 5 6 a b d f 12 15 17 19 1b 1c 1e
5 20 3 5 6 9 a d e 13 14 17 18 1b 1c 1d 1f
5 21 3 5 6 9 a e f 11 15 16 17 18 1a 1b 1c 1d
5 22 3 5 6 9 a d e f 12 13 14 15 17 18 1b 1c 1f
5 23 3 5 6 9 a d e f 11 13 14 16 17 18 1a 1b 1c 1d
5 24 3 5 6 9 a d e f 11 12 15 16 17 19 1a 1b 1c 1d 1e
5 25 3 5 6 7 9 a b c e 12 14 15 16 17 18 19 1a 1b 1d 1f
5 26 3 5 6 7 9 a b c d e 11 12 13 16 17 18 19 1c 1d 1e 1f
5 27 3 5 6 7 9 a b c d e 11 12 13 14 15 16 1a 1b 1c 1d 1e 1f
5 28 3 5 6 7 9 a b c d e 11 12 13 14 15 17 18 1a 1b 1c 1d 1e 1f
5 29 3 5 6 7 9 a b c d e f 11 12 13 14 15 16 17 18 19 1a 1d 1e 1f
5 30 3 5 6 7 9 a b c d e f 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e
5 31 3 5 6 7 9 a b c d e f 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f
6 7 3f
6 8 f 3d
6 9 7 1b 35
6 10 7 1d 36 38
6 11 7 15 1e 2d 3b
6 12 7 e 1b 2b 36 3d
6 13 7 d 16 1a 2b 34 3f
6 14 7 b 16 19 29 2f 33 35
6 15 7 b 19 1f 23 2e 35 36 3b
6 16 7 d e 13 1c 23 2f 35 36 3a
6 17 7 b d e 15 1f 2a 2f 36 39 3c
6 18 7 b 13 1d 1e 23 2d 2e 36 39 3a 3c
6 19 7 b d e 16 19 1f 26 2f 33 35 3a 3c
6 20 7 d 13 15 16 1a 1f 25 2b 2e 32 37 39 3c
6 21 7 b d e 13 15 16 25 2a 2c 31 32 37 3d 3e
6 22 7 b d e 13 15 19 23 29 2c 2f 31 32 37 38 3d
6 23 7 b d e 13 15 16 1f 26 2a 2c 2f 31 34 38 3b 3e
6 24 7 b d e 13 15 16 19 1c 25 26 29 2a 2f 31 32 3b 3d
6 25 7 b d e 13 15 16 19 1a 26 29 2a 2f 31 32 34 37 3b 3e
6 26 7 b d e 13 15 19 1a 1c 1f 23 25 26 29 2a 2f 37 38 3b 3d
6 27 7 b d e 13 15 16 19 1a 1c 1f 25 26 2a 2c 2f 32 34 37 3b 3e
6 28 7 b d e 13 15 16 19 1a 1c 1f 23 26 29 2a 2c 2f 31 34 37 38 3d
6 29 7 b d e 13 15 16 19 1a 1c 1f 23 25 26 29 2a 2c 32 34 37 38 3b 3d
6 30 7 b d e 13 15 16 19 1a 1c 1f 23 25 26 29 2a 2c 2f 31 32 37 38 3d 3e
6 31 7 b d e 13 15 16 19 1a 1c 1f 23 25 26 29 2a 2c 2f 31 32 34 37 38 3b 3e
6 32 7 b d e 13 15 16 19 1a 1c 1f 23 25 26 29 2a 2c 2f 31 32 34 37 38 3b 3d 3e
6 33 3 5 9 e f 11 16 17 1a 1b 1c 1d 21 26 27 2a 2b 2c 2d 32 33 34 35 38 39 3e 3f
6 34 3 5 9 d e f 11 16 17 1a 1b 1c 1d 21 26 27 2a 2b 2c 2d 32 33 34 35 38 39 3e 3f
6 35 3 5 7 9 b d f 12 14 16 18 1a 1c 1e 22 24 26 28 2a 2c 2e 31 33 35 37 39 3b 3d 3f
6 36 3 5 6 9 b c e 12 15 17 18 1a 1d 1f 22 25 27 28 2a 2b 2d 2f 31 33 34 36 39 3b 3c 3e
6 37 3 5 6 9 a d e 11 12 15 16 19 1a 1d 1e 21 23 24 27 28 2b 2c 2f 30 33 34 37 38 3b 3c 3f
6 38 3 5 6 9 b c e 11 13 14 16 19 1b 1c 1e 22 25 26 27 28 2a 2d 2f 30 32 35 37 38 39 3a 3d 3f
6 39 3 5 6 9 b c e 12 13 15 17 18 19 1a 1d 1f 22 25 26 27 28 2a 2d 2f 31 32 33 34 36 39 3b 3c 3e
6 40 3 5 6 9 a d f 11 13 14 16 18 1a 1d 1f 21 22 25 27 29 2a 2b 2c 2e 30 32 35 36 37 38 39 3b 3c 3e
7 8 7f
7 9 1f 6d
7 10 f 33 6e
7 11 f 33 66 7d
7 12 d 36 5e 67 7d
7 13 7 1b 3e 56 75 78
7 14 7 2b 36 5b 66 75 78
7 15 7 1b 2a 37 4c 52 6f 79
7 16 7 1e 29 3c 4b 56 64 73 79
7 17 7 1b 2d 32 3c 56 5d 6e 77 79
7 18 1b 2f 39 3e 4f 5a 5d 69 6a 77 7c
7 19 7 e 1c 29 33 36 4a 51 6c 6f 75 7a
7 20 d 13 23 2c 36 39 46 58 5f 67 6d 71 7a
7 21 b e 16 1a 2d 32 3f 4c 53 5f 66 6b 75 78
7 22 7 b 15 1f 2a 31 32 3c 43 4e 5d 65 66 6b 78
7 23 7 e 16 1b 1d 2b 35 3c 43 49 57 5c 65 66 6f 7a
7 24 7 d 1b 25 2e 36 39 3f 49 4f 51 57 5d 63 6d 7a 7c
7 25 b d 13 1c 26 37 39 3e 46 57 59 5e 63 6c 6f 75 76 7a
7 26 7 b 15 19 1f 25 29 33 3d 3e 4d 57 5b 5e 62 6c 71 74 78
7 27 7 d 13 1a 1c 26 2f 32 37 39 45 4e 51 57 62 69 6c 74 7b 7d
7 28 7 1e 2e 33 35 38 43 49 4c 51 54 5a 5f 65 66 68 6b 72 77 7d 7e
7 29 f 17 1b 1e 25 29 2e 31 34 38 3d 4d 55 59 5c 5f 66 6a 6c 6f 73 7e
7 30 7 b 13 1d 1e 25 26 2a 31 32 3f 4d 51 52 54 5b 62 6c 6f 70 75 79 7a
7 31 7 b 1d 1e 23 25 26 29 2a 31 32 3f 4d 55 56 59 5c 5f 61 62 6c 6f 78 7e
7 32 7 b 13 15 16 23 26 2c 2f 31 32 37 38 3b 43 4d 4e 54 57 59 5a 67 69 70 7d
7 33 7 d e 16 19 1f 29 2f 32 34 38 3d 3e 46 49 4f 53 55 5a 63 65 6a 6c 76 79 7f
7 34 7 b d 13 15 16 19 1c 1f 25 29 32 37 3b 3e 49 52 57 5b 5e 63 66 6a 6f 71 74 78
7 35 7 b d e 15 1a 1f 23 29 2a 2c 2f 31 34 3e 4a 4f 53 56 59 5c 61 64 6b 6e 72 77 78
7 36 7 b 15 16 1c 1f 23 2e 34 37 39 3a 43 45 46 4c 4f 51 52 54 57 58 64 67 69 6a 73 7d 7e
7 37 7 b d e 16 19 1f 26 2f 33 35 3a 3c 46 4f 51 54 57 58 5b 5d 5e 63 65 6a 6c 70 76 79 7f
7 38 7 b d 13 19 1a 1c 1f 23 25 29 2c 2f 34 3d 43 45 49 4a 52 54 57 5b 61 62 68 6e 73 76 79 7c
7 39 f 13 15 19 1e 23 25 29 2e 31 32 34 38 3f 43 45 49 4e 51 52 54 58 61 62 64 68 6f 70 73 75 79 7e
7 40 7 b d e 13 15 16 1a 1c 29 2a 2c 2f 34 37 38 3b 45 4a 4f 54 58 5d 5e 61 67 68 6b 6d 6e 73 7a 7f
"""


def _parsed() -> dict[tuple[int, int], tuple[int, ...]]:
    rows = (line.split() for line in _TABLE.split("\n") if line)
    return {(int(row[0]), int(row[1])): tuple(int(column, 16) for column in row[2:]) for row in rows}


ADDED: Mapping[tuple[int, int], tuple[int, ...]] = _parsed()


LARGEST_Q = max(q for q, _ in ADDED)
ROMAN = ("", "", "", "III", "IV", "V", "VI", "VII", "VIII")


@dataclass(frozen=True)
class Choice:
    """A fraction: its columns for 2**q runs, and whether the mirror image is added."""

    q: int
    columns: tuple[int, ...]
    foldover: bool

    @property
    def runs(self) -> int:
        return (1 << self.q) * (2 if self.foldover else 1)

    @property
    def word_lengths(self) -> tuple[int, ...]:
        pattern = word_lengths(self.q, self.columns)
        return even_part(pattern) if self.foldover else pattern

    @property
    def resolution(self) -> int | None:
        return resolution(self.word_lengths)

    @property
    def repeats_itself(self) -> bool:
        """Whether the mirror image would be the same runs again: all words are even already."""
        return self.foldover and not any(word_lengths(self.q, self.columns)[::2])


def available(factors: int, foldover: bool = False) -> list[Choice]:
    """Fractions of so many two-level factors, fewest runs first; the full factorial is not among them."""
    choices = []
    for q in range(2, LARGEST_Q + 1):
        added = (3,) if (q, factors) == (2, 3) else ADDED.get((q, factors))
        if added is not None:
            choice = Choice(q, (*(1 << bit for bit in range(q)), *added), foldover)
            if not choice.repeats_itself:
                choices.append(choice)
    return choices


def choose(factors: Sequence[Factor], design: Design) -> Choice:
    """The fraction with the fewest runs that has the resolution (or, given ``runs``, that has these).

    Raises DesignError with what would do.
    """
    refuse_more_levels(factors, "fractional-factorial")
    k, wanted = len(factors), design.resolution
    if k < 3:
        raise DesignError(
            f"design: {k} factor{'s' if k > 1 else ''} cannot be fractioned; full-factorial takes {2**k} runs",
            ("design", "kind"),
        )
    choices = available(k, design.foldover)
    if not choices:
        if design.foldover and available(k):
            raise DesignError(
                f"design: a foldover of {k} factors would only repeat the same runs; set foldover to false, and "
                "replicates to more",
                ("design", "foldover"),
            )
        raise DesignError(
            f"design: {k} factors are more than a fractional-factorial design here can hold; plackett-burman can",
            ("design", "kind"),
        )
    best = [choice for choice in choices if (choice.resolution or k + 1) >= wanted]
    if design.runs is not None:
        sized = [choice for choice in choices if choice.runs == design.runs]
        if not sized:
            sizes = ", ".join(str(choice.runs) for choice in choices)
            raise DesignError(
                f"design: no fraction of {k} factors has {design.runs} runs; there are {sizes}", ("design", "runs")
            )
        if sized[0] not in best:
            raise DesignError(
                f"design: {design.runs} runs of {k} factors reach resolution {_roman(sized[0])} at most, not "
                f"{ROMAN[wanted]}; {_what_would_do(k, wanted, best, choices)}",
                ("design", "runs"),
            )
        return sized[0]
    if not best:
        raise DesignError(
            f"design: no fraction of {k} factors in up to {1 << LARGEST_Q} runs has resolution {ROMAN[wanted]}; "
            f"{_what_would_do(k, wanted, best, choices)}",
            ("design", "resolution"),
        )
    return best[0]


def _roman(choice: Choice) -> str:
    reached = choice.resolution
    return "full" if reached is None else ROMAN[reached] if reached < len(ROMAN) else str(reached)


def _what_would_do(k: int, wanted: int, best: list[Choice], choices: list[Choice]) -> str:
    if best:
        return f"resolution {ROMAN[wanted]} takes {best[0].runs} runs"
    highest = max(choices, key=lambda choice: (choice.resolution or k + 1, -choice.runs))
    text = f"{highest.runs} runs reach {_roman(highest)}"
    if 2**k <= 1 << LARGEST_Q:
        return f"{text}, and full-factorial takes {2**k}"
    return f"{text}, and d-optimal with `model: interactions` takes about {2 + k + k * (k - 1) // 2}"


def matrix(choice: Choice) -> Ints:
    """(runs, factors) of +-1; -1 is the baseline, and the first run is the baseline of every factor."""
    coded = -signs(choice.q)[:, list(choice.columns)]
    return np.vstack([coded, -coded]) if choice.foldover else coded


def count(factors: Sequence[Factor], design: Design) -> int:
    return choose(factors, design).runs


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The runs, the baseline first."""
    return two_level_treatments(factors, matrix(choose(factors, design)))


def notes(factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    choice = choose(factors, design)
    k, reached = len(factors), choice.resolution
    p = k - (choice.runs.bit_length() - 1)
    meaning = {
        3: "main effects are aliased with two-factor interactions",
        4: "main effects are free of two-factor interactions, which are aliased with each other",
    }.get(reached or 5, "main effects and two-factor interactions are free of each other")
    named = f"of resolution {_roman(choice)}" if reached else "with every combination once"
    folded = f" (a fraction of {1 << choice.q} runs folded over)" if choice.foldover else ""
    return (f"A 2^({k}-{p}) fraction {named} in {choice.runs} runs{folded}: {meaning}.",)


KIND = DesignKind(
    "fractional-factorial",
    treatments,
    count,
    notes,
    screening=True,
    options=frozenset({"resolution", "foldover", "runs"}),
)
