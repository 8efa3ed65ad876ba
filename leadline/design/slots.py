"""Which treatments the slots and the trials of a switchback plan have: runs of one kind of design over two factor sets.

Slots hold the runs of the design's kind over the live factors, trials the runs of the same kind over the others. Both
hold the baseline, and each run once: blocks of slots and replicates of trials repeat them.

Orders of slots are balanced for carry-over: who follows whom is as even as possible, and so is who comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from leadline.design.kind import DesignError
from leadline.design.kinds import KINDS, check_options
from leadline.design.seeds import derived
from leadline.model.design import Design
from leadline.model.errors import UsageError
from leadline.model.plan import Factor, Treatment

LARGEST = 100_000  # slots of a plan


def baseline_of(factors: Sequence[Factor]) -> Treatment:
    """Every factor at its baseline level."""
    return Treatment.of({factor.name: factor.baseline for factor in factors})


def slot_treatments(live: Sequence[Factor], design: Design) -> tuple[tuple[Treatment, ...], list[str]]:
    """The baseline first, then the distinct runs of ``design.kind`` over the live factors; and sentences on what they
    can tell, none for kinds that speak for themselves. Raises DesignError where the kind cannot serve these factors.
    """
    kind = KINDS[design.kind]
    check_options(kind, design)
    _check_size(kind.count(live, design), "slots in a block")
    runs = kind.treatments(live, design)
    notes = list(kind.notes(live, design))
    if notes:
        different = len(set(runs))
        if different < len(runs):
            notes.append(f"{different} of these runs are different; a block of slots holds each of them once.")
        if baseline_of(live) not in runs:
            notes.append("The baseline is none of these runs; every block of slots holds it besides.")
        notes.append(
            "An effect is the contrast of a level with its factor's baseline level over all slots, the other factors "
            "at all their levels."
        )
    return _distinct(live, runs), notes


def trial_treatments(others: Sequence[Factor], design: Design) -> tuple[tuple[Treatment, ...], list[str]]:
    """The baseline first, then the distinct runs over the factors that change between trials; and a sentence where the
    kind cannot serve them, so that they change one at a time.

    ``design.runs`` counts the runs in slots; trials take the number that their factors need.
    """
    if not others:
        return (Treatment(()),), []
    kind, unsized = KINDS[design.kind], design.model_copy(update={"runs": None})
    try:
        _check_size(kind.count(others, unsized), "different trials")
        return _distinct(others, kind.treatments(others, unsized)), []
    except DesignError as error:
        reason = str(error).removeprefix("design: ").partition("; ")[0].partition(": ")[0]
        note = f"Trials change one factor at a time, not as {design.kind}: {reason}."
        return KINDS["one-at-a-time"].treatments(others), [note]


def _check_size(treatments: int, what: str) -> None:
    """Before they are made."""
    if treatments > LARGEST:
        raise UsageError(
            f"this plan has {treatments:,} {what}, more than {LARGEST:,}; name fewer levels, or use one-at-a-time"
        )


def _distinct(factors: Sequence[Factor], runs: Sequence[Treatment]) -> tuple[Treatment, ...]:
    return tuple(dict.fromkeys([baseline_of(factors), *runs]))


Orders = list[list[int]]  # a row a trial: indices of treatments, block after block

CANDIDATES = 24  # orders drawn for a block; the one that evens the counts most is kept
_SAME = 1_000_000  # cost of a treatment that would follow itself, where there are more than two
_SLACK = {2: 4, 3: 2}  # with few treatments the evenest order would be a fixed cycle: chance decides among near equals


@dataclass
class CarryOver:
    """Ordered pairs of neighbours and first treatments of trials, counted over a plan.

    ``pairs[a][b]``: how often treatment b came right after a. Shape: ``count`` x ``count``, and ``count``.
    """

    count: int
    pairs: list[list[int]] = field(init=False)
    first: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pairs = [[0] * self.count for _ in range(self.count)]
        self.first = [0] * self.count

    def step(self, before: int | None, after: int) -> int:
        """Cost of ``after`` in this place: how often it has been there already."""
        if before is None:
            return self.first[after]
        return self.pairs[before][after] + (_SAME if before == after and self.count > 2 else 0)

    def cost(self, before: int | None, order: Sequence[int]) -> int:
        return sum(self.step(previous, other) for previous, other in zip([before, *order[:-1]], order, strict=True))

    def add(self, before: int | None, order: Sequence[int]) -> None:
        for previous, other in zip([before, *order[:-1]], order, strict=True):
            if previous is None:
                self.first[other] += 1
            else:
                self.pairs[previous][other] += 1


def random_blocks(treatments: int, blocks: int, trials: int, seed: int) -> Orders:
    """Blocks in random order. Each is the best balanced of some random and some greedily drawn orders."""
    carry = CarryOver(treatments)
    orders: Orders = []
    for trial in range(trials):
        order: list[int] = []
        for block in range(blocks):
            before = order[-1] if order else None
            candidates = [
                _draw(carry, before, _keys(treatments, seed, "slots", trial, block, draw), greedy=draw % 4 > 0)
                for draw in range(CANDIDATES)
            ]
            costs = [carry.cost(before, candidate) for candidate in candidates]
            limit = min(costs) + (_SLACK.get(treatments, 0) if before is not None else 0)
            best = next(order for order, cost in zip(candidates, costs, strict=True) if cost <= limit)
            carry.add(before, best)
            order += best
        orders.append(order)
    return orders


def williams(treatments: int, blocks: int, trials: int, seed: int) -> Orders:
    """Blocks are rows of Williams squares: within them every ordered pair comes once a square (two squares make one
    for odd numbers of treatments). A square's rows and labels are in random order; the row that fits best comes next.
    """
    carry = CarryOver(treatments)
    rows = _rows(treatments, seed)
    remaining: list[list[int]] = []
    orders: Orders = []
    for _ in range(trials):
        order: list[int] = []
        for _ in range(blocks):
            before = order[-1] if order else None
            remaining = remaining or next(rows)
            best = min(remaining, key=lambda row: carry.step(before, row[0]))
            remaining.remove(best)
            carry.add(before, best)
            order += best
        orders.append(order)
    return orders


def abba(treatments: int, blocks: int, trials: int, seed: int) -> Orders:
    """ABBA and BAAB in turns, which of the two comes first drawn for every pair of them; a straight drift cancels.
    Two treatments and an even number of blocks.
    """
    if treatments != 2 or blocks % 2:
        raise ValueError("ABBA takes two treatments and an even number of blocks")
    runs: list[list[int]] = []
    for pair in range((blocks // 2 * trials + 1) // 2):
        swapped = derived(seed, "abba", pair)[0] & 1
        first, other = [swapped, 1 - swapped, 1 - swapped, swapped], [1 - swapped, swapped, swapped, 1 - swapped]
        runs += [first, other]
    # Trials are dealt in turns, so that an odd number of runs a trial does not let one treatment open every trial.
    dealt: Orders = [[] for _ in range(trials)]
    for at, run in enumerate(runs[: blocks // 2 * trials]):
        dealt[at % trials] += run
    return dealt


def williams_square(treatments: int) -> Orders:
    """Rows of Williams' square: n rows for even n, 2n for odd. Every treatment comes once in each row and equally often
    in each place; each ordered pair of neighbours comes once (even n) or twice (odd n).
    """
    first = [0]
    for step in range(1, treatments):
        first.append((step + 1) // 2 if step % 2 else treatments - step // 2)
    rows = [[(value + shift) % treatments for value in first] for shift in range(treatments)]
    return rows if treatments % 2 == 0 else rows + [row[::-1] for row in rows]


def _rows(treatments: int, seed: int) -> Iterator[Orders]:
    """Squares one after the other, labels and rows in random order."""
    square = 0
    while True:
        labels = _shuffled(treatments, seed, "labels", square)
        rows = [[labels[value] for value in row] for row in williams_square(treatments)]
        yield [rows[at] for at in _shuffled(len(rows), seed, "rows", square)]
        square += 1


def _draw(carry: CarryOver, before: int | None, keys: Sequence[bytes], greedy: bool) -> list[int]:
    """A random order; with ``greedy`` the rarest successor comes next and chance decides among equals."""
    remaining = sorted(range(len(keys)), key=lambda index: keys[index])
    if not greedy:
        return remaining
    order: list[int] = []
    last = before
    while remaining:
        following = min(remaining, key=lambda index: carry.step(last, index))
        remaining.remove(following)
        order.append(following)
        last = following
    return order


def _keys(count: int, seed: int, *purpose: object) -> list[bytes]:
    return [derived(seed, *purpose, index) for index in range(count)]


def _shuffled(count: int, seed: int, *purpose: object) -> list[int]:
    keys = _keys(count, seed, *purpose)
    return sorted(range(count), key=lambda index: keys[index])
