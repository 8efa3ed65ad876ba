"""Incomplete blocks: fewer trials in a block than there are treatments, what is lost spread evenly.

Around a baseline every block holds the baseline, and the other treatments meet each other as equally often as can be
(R. E. Bechhofer and A. C. Tamhane, 1981, Technometrics 23, 45-57). Crossed designs are split so that main effects, then
two-factor interactions, are as little mixed with blocks as can be (R. D. Cook and C. J. Nachtsheim, 1989,
Technometrics 31, 339-346).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from leadline.design.coding import Floats
from leadline.design.galois import Ints
from leadline.design.seeds import derived

STARTS = 60
WORK = 60_000  # bounds starts times trials
PASS_WORK = 2e9  # bounds passes of exchanges in large crossed designs
INTERACTIONS = 0.01  # weight of mixing an interaction with blocks against mixing a main effect


def around_baseline(others: int, replicates: int, size: int, seed: int) -> list[list[int]]:
    """Blocks of treatment numbers 0 ... others-1, each ``replicates`` times in all and at most once in a block.

    ``size`` counts the baseline, which is in every block and not listed; sizes differ by at most one. Pairs meet in
    equally many blocks where the search finds such a design (balanced), else in nearly equally many.
    """
    trials = others * replicates
    count = max(-(-trials // (size - 1)), replicates)
    sizes = [trials // count + (block < trials % count) for block in range(count)]
    best: tuple[int, list[list[int]]] | None = None
    for start in range(max(2, min(STARTS, WORK // trials))):
        source = random.Random(int.from_bytes(derived(seed, "incomplete", start), "big"))
        evened = _evened(_dealt(others, replicates, sizes, source), others, source)
        best = evened if best is None or evened[0] < best[0] else best
        least, most = meetings(best[1], others)
        if most - least <= (0 if _balanced(others, replicates, sizes) else 1):
            break
    assert best is not None
    return best[1]


def _balanced(others: int, replicates: int, sizes: Sequence[int]) -> bool:
    """Whether numbers allow every pair to meet equally often."""
    return others > 1 and len(set(sizes)) == 1 and replicates * (sizes[0] - 1) % (others - 1) == 0


def meetings(blocks: Sequence[Sequence[int]], others: int) -> tuple[int, int]:
    """The least and the largest number of blocks in which a pair meets."""
    if others < 2:
        return 0, 0
    upper = _concurrence(blocks, others)[np.triu_indices(others, 1)]
    return int(upper.min()), int(upper.max())


def _concurrence(blocks: Sequence[Sequence[int]], others: int) -> Ints:
    incidence = np.zeros((others, len(blocks)), dtype=np.int64)
    for number, block in enumerate(blocks):
        incidence[list(block), number] = 1
    return incidence @ incidence.T


def _dealt(others: int, replicates: int, sizes: Sequence[int], source: random.Random) -> list[list[int]]:
    """Blocks filled with the treatments that have most trials left, ties by chance: never one twice in a block."""
    remaining = [replicates] * others
    blocks = []
    for size in sizes:
        order = sorted(range(others), key=lambda number: (-remaining[number], source.random()))
        block = order[:size]
        for number in block:
            remaining[number] -= 1
        blocks.append(block)
    return blocks


def _evened(blocks: list[list[int]], others: int, source: random.Random) -> tuple[int, list[list[int]]]:
    """Exchanges between blocks while they lower the sum of squares of the meetings; (that sum, blocks)."""
    together = _concurrence(blocks, others).tolist()
    sets = [set(block) for block in blocks]
    places = [(block, slot) for block, members in enumerate(blocks) for slot in range(len(members))]
    improved = True
    while improved:
        improved = False
        for a, slot in sorted(places, key=lambda _: source.random()):
            for c, other_slot in places:
                first, two = blocks[a][slot], blocks[c][other_slot]
                if first in sets[c] or two in sets[a]:
                    continue
                with_one, with_two = together[first], together[two]
                here = sets[a] - sets[c] - {first}
                there = sets[c] - sets[a] - {two}
                gain = sum(with_one[x] - with_two[x] for x in here) + sum(with_two[x] - with_one[x] for x in there)
                if gain <= len(here) + len(there):
                    continue
                for moved, old, new in ((first, here, there), (two, there, here)):
                    for x in old:
                        together[moved][x] -= 1
                        together[x][moved] -= 1
                    for x in new:
                        together[moved][x] += 1
                        together[x][moved] += 1
                blocks[a][slot], blocks[c][other_slot] = two, first
                sets[a], sets[c] = set(blocks[a]), set(blocks[c])
                improved = True
    return sum(times * times for index, row in enumerate(together) for times in row[:index]), blocks


def split(columns: Floats, mains: int, size: int, seed: int, replicate: int) -> list[list[int]]:
    """The runs of a crossed design as blocks of run numbers, sizes differing by at most one.

    ``columns`` (runs, p) are the effects, the first ``mains`` of them main effects. Exchanges between blocks lower the
    squared block sums of the effects, so that in an orthogonal design they are free of blocks where that can be.
    """
    runs = len(columns)
    count = -(-runs // size)
    weights = np.full(columns.shape[1], np.sqrt(INTERACTIONS))
    weights[:mains] = 1.0
    centred = (columns - columns.mean(axis=0)) * weights
    passes = max(1, int(PASS_WORK / (runs * runs * columns.shape[1])))
    best: tuple[float, Ints] | None = None
    for start in range(max(1, min(STARTS, WORK // (runs * runs), passes))):
        source = random.Random(int.from_bytes(derived(seed, "split", replicate, start), "big"))
        order = sorted(range(runs), key=lambda _: source.random())
        member = np.empty(runs, dtype=np.int64)
        member[order] = np.arange(runs) % count
        separated = _separated(centred, member, count, passes)
        best = separated if best is None or separated[0] < best[0] - 1e-6 else best
        if best[0] < 1e-6:
            break
    assert best is not None
    return [np.flatnonzero(best[1] == block).tolist() for block in range(count)]


def _separated(columns: Floats, member: Ints, count: int, passes: int) -> tuple[float, Ints]:
    sums = np.array([columns[member == block].sum(axis=0) for block in range(count)])
    for _ in range(passes):
        improved = False
        for run in range(len(columns)):
            here = member[run]
            steps = columns - columns[run]  # what a block gains when the other run takes this one's place
            change = 2 * steps @ sums[here] - 2 * np.einsum("ij,ij->i", steps, sums[member])
            change += 2 * np.einsum("ij,ij->i", steps, steps)
            change[member == here] = 0.0
            other = int(np.argmax(change <= change.min() + 1e-9))
            if change[other] < -1e-6:
                sums[here] += steps[other]
                sums[member[other]] -= steps[other]
                member[run], member[other] = member[other], here
                improved = True
        if not improved:
            break
    return float((sums**2).sum()), member
