"""Order of the trials: random inside blocks, balanced for carry-over, sentinels against drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from leadline.design.seeds import shuffled
from leadline.model.plan import Role, Treatment

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
