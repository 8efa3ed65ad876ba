"""Regular two-level fractions: found in a coded matrix, with defining relation and aliases.

G. E. P. Box and J. S. Hunter (1961), Technometrics 3, 311-351 and 449-458.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.design.aberration import resolution, word_lengths
from leadline.design.galois import Ints

Effect = tuple[int, ...]  # factor indices, ascending: one for a main effect, two for an interaction
WORDS = 64  # words of a defining relation that are listed; beyond it the shortest


@dataclass(frozen=True)
class Alias:
    """An effect that moves the responses of a design exactly as another does, or (sign -1) exactly against it."""

    effect: Effect
    sign: int


@dataclass(frozen=True)
class RegularFraction:
    """A fraction of 2**q different runs. ``columns`` holds one number a factor: bits below q say which of the basic
    factors' columns it is the product of, bit q that the product is turned around.
    """

    q: int
    columns: tuple[int, ...]

    @property
    def word_lengths(self) -> tuple[int, ...]:
        """Words of length 1, 2, ... k in the defining relation."""
        return word_lengths(self.q, [column & ((1 << self.q) - 1) for column in self.columns])

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; None for a full factorial."""
        return resolution(self.word_lengths)

    def _key(self, effect: Effect) -> tuple[int, int]:
        mixed = 0
        for factor in effect:
            mixed ^= self.columns[factor]
        return mixed & ((1 << self.q) - 1), -1 if mixed >> self.q else 1

    def aliases(self, effects: Sequence[Effect], order: int = 2) -> dict[Effect, tuple[Alias, ...]]:
        """For each effect all others of at most ``order`` factors that cannot be told from it, shortest first."""
        groups: dict[int, list[Alias]] = defaultdict(list)
        factors = range(len(self.columns))
        for size in range(1, order + 1):
            for other in itertools.combinations(factors, size):
                key, sign = self._key(other)
                groups[key].append(Alias(other, sign))
        chains = {}
        for effect in effects:
            key, sign = self._key(effect)
            chains[effect] = tuple(
                Alias(alias.effect, alias.sign * sign) for alias in groups[key] if alias.effect != effect
            )
        return chains

    def words(self) -> tuple[Alias, ...]:
        """The defining relation without its identity, shortest words first: all of up to 64, else those up to four
        factors. Each word's product of columns is constant, with the given sign.
        """
        generators = [
            tuple(sorted([factor, *self._basics(column)]))
            for factor, column in enumerate(self.columns)
            if factor not in self._basic_factors().values()
        ]
        if 2 ** len(generators) <= WORDS:
            words = set()
            for chosen in _subsets(generators):
                word: set[int] = set()
                for generator in chosen:
                    word ^= set(generator)
                words.add(tuple(sorted(word)))
        else:
            words = {
                word
                for size in (1, 2, 3, 4)
                for word in itertools.combinations(range(len(self.columns)), size)
                if self._key(word)[0] == 0
            }
        return tuple(Alias(word, self._key(word)[1]) for word in sorted(words, key=lambda word: (len(word), word)))

    def _basic_factors(self) -> dict[int, int]:
        """Bit -> the factor whose column it is."""
        return {
            column.bit_length() - 1: factor
            for factor, column in enumerate(self.columns)
            if column >> self.q == 0 and column.bit_count() == 1 and column not in self.columns[:factor]
        }

    def _basics(self, column: int) -> list[int]:
        basic = self._basic_factors()
        return [basic[bit] for bit in range(self.q) if column >> bit & 1]


def _subsets(items: Sequence[Effect]) -> Iterator[tuple[Effect, ...]]:
    for size in range(1, len(items) + 1):
        yield from itertools.combinations(items, size)


def regular_fraction(coded: Ints) -> RegularFraction | None:
    """The fraction that a matrix (runs, factors) of +-1 is, None if it is none.

    A regular fraction has 2**q different rows, all equally often, of which some q columns form a full factorial and
    all others are products of these, up to a sign.
    """
    rows, counts = np.unique(coded, axis=0, return_counts=True)
    q = int(math.log2(len(rows))) if len(rows) else 0
    if len(rows) != 1 << q or len(set(counts.tolist())) > 1 or q == 0:
        return None
    every = (1 << len(rows)) - 1
    reduced: dict[int, tuple[int, int]] = {len(rows) - 1: (every, 1 << q)}  # leading bit -> (vector, combination)
    columns: list[int] = []
    count = 0
    for column in rows.T:
        vector = sum(1 << index for index, value in enumerate(column) if value < 0)
        combination = 0
        while vector and (vector.bit_length() - 1) in reduced:
            other, mixed = reduced[vector.bit_length() - 1]
            vector ^= other
            combination ^= mixed
        if vector:
            if count == q:
                return None
            reduced[vector.bit_length() - 1] = (vector, combination ^ (1 << count))
            columns.append(1 << count)
            count += 1
        else:
            columns.append(combination)
    return RegularFraction(q, tuple(columns)) if count == q else None
