"""Order of the trials: random inside blocks, balanced by position or by predecessor, sentinels against drift.

Randomness comes from SHA-256 of the seed and a purpose, so a seed gives the same plan on every version of Python.

In split plots hard-to-change factors keep their levels for a whole plot of trials. Whole plots are ordered at random
inside a block, the hardest to change outermost, and trials at random inside a plot. Such factors are then compared
between plots, all others inside them (B. Jones and C. J. Nachtsheim, 2009, J. Quality Technology 41, 340-361).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from leadline.design.kind import DesignError
from leadline.design.seeds import derived, shuffled
from leadline.model.knob import ApplyCost, Level
from leadline.model.plan import Factor, Role, Treatment

DEAREST_FIRST = (ApplyCost.KERNEL, ApplyCost.REBOOT, ApplyCost.REMOUNT)


def is_live(factor: Factor) -> bool:
    """Whether a factor is changed in the running system: between slots, where there are some."""
    return factor.apply_cost is ApplyCost.LIVE


def dear_factors(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Factors whose change takes more than a restart, dearest first."""
    return tuple(factor for cost in DEAREST_FIRST for factor in factors if factor.apply_cost is cost)


def dear_levels(factors: Sequence[Factor], treatment: Treatment) -> tuple[Level, ...]:
    """The levels of the dear factors, dearest first: what the trials of a whole plot share."""
    levels = treatment.as_dict()
    return tuple(levels[factor.name] for factor in dear_factors(factors))


def plotted(factors: Sequence[Factor], treatments: Sequence[Treatment], seed: int, *purpose: object) -> list[Treatment]:
    """A random order in which equal levels of dear factors stand together, inside those of dearer ones."""
    dear = dear_factors(factors)
    tiers = [[factor.name for factor in dear if factor.apply_cost is cost] for cost in DEAREST_FIRST]

    def place(numbered: tuple[int, Treatment]) -> tuple[bytes, ...]:
        number, treatment = numbered
        keys, fixed = [], []
        levels = treatment.as_dict()
        for tier in tiers:
            fixed += [(name, levels[name]) for name in tier]
            keys.append(derived(seed, *purpose, "plot", fixed))
        return (*keys, derived(seed, *purpose, treatment.key, number))

    return [treatment for _, treatment in sorted(enumerate(treatments), key=place)]


def dear_changes(factors: Sequence[Factor], treatments: Sequence[Treatment]) -> dict[str, int]:
    """Apply cost -> how often a trial differs from the one before it in a factor of that cost; without zeros."""
    counts: dict[str, int] = {}
    for cost in DEAREST_FIRST:
        names = [factor.name for factor in factors if factor.apply_cost is cost]
        levels = [tuple(treatment[name] for name in names) for treatment in treatments]
        changes = sum(a != b for a, b in itertools.pairwise(levels))
        if names and changes:
            counts[cost.value] = changes
    return counts


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


CANDIDATES = 24  # random orders drawn for each block; the best balanced one is kept
HASHES = 6000  # bounds the work for large blocks, where balance comes by itself


@dataclass(frozen=True)
class Row:
    """A trial before it has a position and a seed."""

    block: int
    role: Role
    treatment: Treatment


@dataclass
class Balance:
    """What earlier blocks did: who followed whom, and how early each treatment came."""

    followed: Counter[tuple[str, str]] = field(default_factory=Counter)
    place: Counter[str] = field(default_factory=Counter)
    last: str | None = None

    def cost(self, order: Sequence[Treatment]) -> float:
        """Repeated predecessors count most; then how far a treatment's mean place is from the middle."""
        keys = [treatment.key for treatment in order]
        pairs = zip([self.last, *keys[:-1]], keys, strict=True)
        repeated = sum(self.followed[(before, after)] for before, after in pairs if before is not None)
        uneven = sum((self.place[key] + _place(index, len(keys))) ** 2 for index, key in enumerate(keys))
        return repeated + uneven / (1 + len(keys) ** 2)

    def add(self, order: Sequence[Treatment]) -> None:
        for index, treatment in enumerate(order):
            key = treatment.key
            if self.last is not None:
                self.followed[(self.last, key)] += 1
            self.place[key] += _place(index, len(order))
            self.last = key


def _place(index: int, length: int) -> int:
    return 2 * index - (length - 1)  # zero in the middle of the block


def blocked_order(treatments: Sequence[Treatment], baseline: Treatment, replicates: int, seed: int) -> list[Row]:
    """One complete block a replicate. Each block's order is the best balanced of a few random ones."""
    balance = Balance()
    rows: list[Row] = []
    draws = max(1, min(CANDIDATES, HASHES // len(treatments)))
    for block in range(replicates):
        candidates = [shuffled(treatments, seed, "order", block, draw) for draw in range(draws)]
        order = min(candidates, key=balance.cost)
        balance.add(order)
        rows += [
            Row(block, Role.BASELINE if treatment == baseline else Role.TREATMENT, treatment) for treatment in order
        ]
    return rows


def with_sentinels(rows: Sequence[Row], baseline: Treatment, every: int) -> list[Row]:
    """Sentinels so that no more than ``every`` trials pass without a baseline trial, and the first and the last trial
    of the plan are baseline trials. A sentinel belongs to the block of the trial before it.
    """
    placed: list[Row] = []
    since = every  # so that the plan opens with the baseline
    for row in rows:
        if row.role is Role.TREATMENT and since == every:
            placed.append(Row(placed[-1].block if placed else row.block, Role.SENTINEL, baseline))
            since = 0
        placed.append(row)
        since = since + 1 if row.role is Role.TREATMENT else 0
    if placed[-1].role is Role.TREATMENT:
        placed.append(Row(placed[-1].block, Role.SENTINEL, baseline))
    return placed
