"""Orders that are balanced by position or by predecessor: Latin squares, Williams squares, ABBA.

A square is a list of rows of treatment numbers; each row is a block. E. J. Williams (1949), Australian J. Scientific
Research A 2, 149-168.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from leadline.design.kinds import DesignError
from leadline.design.seeds import derived

Square = list[list[int]]


def latin(treatments: int, replicates: int, seed: int) -> Square:
    """``replicates`` rows: every treatment once in each row and, square by square, once at each position.

    The cyclic square with rows, columns and treatments permuted at random. Raises DesignError unless the rows fill
    squares.
    """
    _fill_squares("latin", treatments, replicates, treatments)
    rows: Square = []
    for square in range(replicates // treatments):
        source = _source(seed, "latin", square)
        by_row, by_column, names = (_permutation(treatments, source) for _ in range(3))
        rows += [[names[(row + column) % treatments] for column in by_column] for row in by_row]
    return rows


def williams_rows(treatments: int) -> int:
    """Rows after which every treatment has followed every other equally often: t for even t, 2 t for odd t."""
    return treatments if treatments % 2 == 0 else 2 * treatments


def williams(treatments: int, replicates: int, seed: int) -> Square:
    """``replicates`` rows: Latin squares in which every treatment directly follows every other equally often.

    Once in each square for an even number of treatments; for an odd one squares come in pairs, each ordered pair twice
    in a pair of squares. Raises DesignError unless the rows fill them.
    """
    whole = williams_rows(treatments)
    _fill_squares("williams", treatments, replicates, whole)
    zigzag = [0]
    for step in range(1, treatments // 2 + 1):
        zigzag += [step, treatments - step]
    zigzag = zigzag[:treatments]
    rows: Square = []
    for square in range(replicates // whole):
        source = _source(seed, "williams", square)
        names = _permutation(treatments, source)
        base = [[(place + shift) % treatments for place in zigzag] for shift in range(treatments)]
        if treatments % 2:
            base += [row[::-1] for row in base]
        rows += [[names[place] for place in base[row]] for row in _permutation(whole, source)]
    return rows


def abba(treatments: int, replicates: int, seed: int) -> Square:
    """Blocks of four, A B B A or B A A B by the seed: a straight drift inside a block cancels. Two treatments only."""
    if treatments != 2:
        raise DesignError(
            f"design: ABBA orders two treatments, here are {treatments}; use williams, or by-replicate",
            ("design", "blocks"),
        )
    if replicates % 2:
        raise DesignError(
            f"design: an ABBA block holds each treatment twice, so that replicates must be even; set it to "
            f"{replicates + 1}",
            ("design", "replicates"),
        )
    rows: Square = []
    for pair in range(replicates // 2):
        # ABBA and BAAB in turn, which of them first by chance: neither treatment opens more blocks by more than one
        first = int(_source(seed, "abba", pair // 2).random() < 0.5) ^ (pair % 2)
        rows.append([first, 1 - first, 1 - first, first])
    return rows


def _fill_squares(word: str, treatments: int, replicates: int, whole: int) -> None:
    if replicates % whole:
        raise DesignError(
            f"design: {word} blocks of {treatments} treatments are complete after {whole} rows, a row being a "
            f"replicate; set replicates to {whole * -(-replicates // whole)}, or blocks to by-replicate",
            ("design", "replicates"),
        )


def _source(seed: int, *purpose: object) -> random.Random:
    return random.Random(int.from_bytes(derived(seed, *purpose), "big"))


def _permutation(size: int, source: random.Random) -> Sequence[int]:
    return sorted(range(size), key=lambda _: source.random())
