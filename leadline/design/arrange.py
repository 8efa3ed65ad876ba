"""Runs put into blocks and in order: complete, incomplete, Latin, Williams or ABBA blocks, whole plots, sentinels.

Incomplete blocks spread what is lost evenly. Around a baseline every block holds the baseline, and the other treatments
meet each other as equally often as can be (R. E. Bechhofer and A. C. Tamhane, 1981, Technometrics 23, 45-57). Crossed
designs are split so that main effects, then two-factor interactions, are as little mixed with blocks as can be
(R. D. Cook and C. J. Nachtsheim, 1989, Technometrics 31, 339-346).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from leadline.design.coding import Floats, Ints, level_indices, model_matrix
from leadline.design.kind import DesignError
from leadline.design.order import (
    CANDIDATES,
    HASHES,
    Balance,
    Square,
    abba,
    blocked_order,
    dear_factors,
    dear_levels,
    latin,
    plotted,
    williams,
    with_sentinels,
)
from leadline.design.seeds import derived, shuffled
from leadline.model.design import Design
from leadline.model.plan import Factor, Role, Treatment

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


@dataclass(frozen=True)
class ArrangedTrial:
    """A trial before it has a position and a seed."""

    block: int
    replicate: int
    role: Role
    treatment: Treatment
    plot: int | None = None


@dataclass(frozen=True)
class Arrangement:
    entries: tuple[ArrangedTrial, ...]
    notes: tuple[str, ...] = ()


def arrange(factors: Sequence[Factor], treatments: Sequence[Treatment], cells: bool, design: Design) -> Arrangement:
    """All trials in order, sentinels among them. ``cells``: treatments are compared with the baseline one by one.

    Raises DesignError when the blocks do not fit the treatments.
    """
    baseline = Treatment.of({factor.name: factor.baseline for factor in factors})
    dear = dear_factors(factors)
    if design.blocks == "by-replicate" and not dear:
        rows = blocked_order(treatments, baseline, design.replicates, design.seed)
        if design.sentinels is not None:
            rows = with_sentinels(rows, baseline, design.sentinels)
        return Arrangement(tuple(ArrangedTrial(row.block, row.block, row.role, row.treatment) for row in rows))
    notes: list[str] = []
    if design.blocks == "by-replicate":
        blocks = _plotted_blocks(factors, [list(treatments)] * design.replicates, design.seed)
    elif design.blocks == "incomplete":
        members, sentence = _incomplete(factors, treatments, baseline, cells, design)
        notes.append(sentence)
        blocks = (
            _plotted_blocks(factors, members, design.seed)
            if dear
            else [shuffled(block, design.seed, "order", number) for number, block in enumerate(members)]
        )
    else:
        blocks = _square(factors, treatments, design)
        notes.append(_SQUARES[design.blocks][1])
    entries = _entries(blocks, baseline, complete=design.blocks not in ("incomplete", "abba"))
    if dear:
        entries = _with_plots(factors, entries)
        if design.sentinels is not None:
            entries = _sentinels_in_plots(factors, entries, baseline, design.sentinels)
            notes.append(
                "Sentinels stand at both ends and in the whole plots that have the baseline's levels of "
                f"{_names(dear)}; elsewhere each would cost two costly changes."
            )
    elif design.sentinels is not None and design.blocks == "incomplete":
        entries = _sentinels_anywhere(entries, baseline, design.sentinels)
    elif design.sentinels is not None:
        entries = _sentinels_between_blocks(entries, baseline, design.sentinels)
    return Arrangement(tuple(entries), tuple(notes))


def _names(factors: Sequence[Factor]) -> str:
    return ", ".join(factor.name for factor in factors)


def _plotted_blocks(
    factors: Sequence[Factor], members: Sequence[Sequence[Treatment]], seed: int
) -> list[list[Treatment]]:
    """Each block in whole plots; of some random orders the one with the fewest repeated predecessors."""
    balance = Balance()
    blocks = []
    for number, block in enumerate(members):
        draws = max(1, min(CANDIDATES, HASHES // len(block)))
        candidates = [plotted(factors, block, seed, "order", number, draw) for draw in range(draws)]
        blocks.append(min(candidates, key=balance.cost))
        balance.add(blocks[-1])
    return blocks


def _incomplete(
    factors: Sequence[Factor], treatments: Sequence[Treatment], baseline: Treatment, cells: bool, design: Design
) -> tuple[list[list[Treatment]], str]:
    size, path = design.block_size, ("design", "block_size")
    total = len(treatments)
    if size is None:
        raise DesignError(
            f"design: incomplete blocks need a block_size, smaller than the {total} runs of a replicate; "
            f"{max(2, round(total**0.5) + 1)} is usual here",
            ("design", "blocks"),
        )
    if size >= total:
        raise DesignError(
            f"design: block_size {size} holds all {total} runs of a replicate; use blocks: by-replicate, or a smaller "
            "block_size",
            path,
        )
    if cells:
        others = [treatment for treatment in treatments if treatment != baseline]
        numbers = around_baseline(len(others), design.replicates, size, design.seed)
        least, most = meetings(numbers, len(others))
        blocks = [[baseline, *(others[number] for number in block)] for block in numbers]
        meet = f"in {least}" if least == most else f"in {least} to {most}"
        return blocks, (
            f"{len(blocks)} incomplete blocks of up to {size} trials, the baseline in each; two other treatments "
            f"meet {meet} of them."
        )
    effects = model_matrix(factors, level_indices(factors, treatments), interactions=len(factors) <= 24)[:, 1:]
    mains = sum(len(factor.levels) - 1 for factor in factors)
    blocks = []
    for replicate in range(design.replicates):
        for runs in split(effects, mains, size, design.seed, replicate):
            blocks.append([treatments[run] for run in runs])
    worst = _mixed_with_blocks(factors, blocks)
    if worst is None:
        raise DesignError(
            f"design: blocks of {size} runs leave some main effect that is not distinguishable from the blocks; "
            f"set block_size to {min(total, 2 * size)}, or blocks to by-replicate",
            path,
        )
    mixing = "free of blocks" if worst < 0.5 else f"mixed with blocks by up to {worst:.0f} % of their information"
    return blocks, f"{len(blocks)} incomplete blocks of up to {size} runs; main effects are {mixing}."


def _mixed_with_blocks(factors: Sequence[Factor], blocks: Sequence[Sequence[Treatment]]) -> float | None:
    """The largest share of a main effect's information that blocks take, in percent; None if an effect is lost."""
    runs = [treatment for block in blocks for treatment in block]
    mains = model_matrix(factors, level_indices(factors, runs), interactions=False)[:, 1:]
    centred = mains - mains.mean(axis=0)
    inside, start = np.empty_like(mains), 0
    for block in blocks:
        rows = slice(start, start + len(block))
        inside[rows] = mains[rows] - mains[rows].mean(axis=0)
        start += len(block)
    if np.linalg.matrix_rank(inside) < mains.shape[1]:
        return None
    return float(100 * (1 - (inside**2).sum(axis=0) / (centred**2).sum(axis=0)).max())


class _Squares(Protocol):
    def __call__(self, treatments: int, replicates: int, seed: int) -> Square: ...


_SQUARES: dict[str, tuple[_Squares, str]] = {
    "latin": (latin, "Latin squares: every treatment comes equally often at every place of a block."),
    "williams": (williams, "Williams squares: every treatment directly follows every other equally often."),
    "abba": (abba, "ABBA blocks: a straight drift inside a block cancels."),
}


def _square(factors: Sequence[Factor], treatments: Sequence[Treatment], design: Design) -> list[list[Treatment]]:
    dear = dear_factors(factors)
    if dear:
        raise DesignError(
            f"design: {design.blocks} blocks order trials freely, and {_names(dear)} would change almost every time; "
            "use blocks: by-replicate, which keeps hard-to-change factors in whole plots",
            ("design", "blocks"),
        )
    if len(set(treatments)) < len(treatments):
        raise DesignError(
            f"design: {design.blocks} blocks order different treatments, but {design.kind} of {len(factors)} "
            f"factor{'s' if len(factors) > 1 else ''} repeats some; use blocks: by-replicate, or full-factorial",
            ("design", "blocks"),
        )
    rows = _SQUARES[design.blocks][0](treatments=len(treatments), replicates=design.replicates, seed=design.seed)
    return [[treatments[number] for number in row] for row in rows]


def _entries(blocks: Sequence[Sequence[Treatment]], baseline: Treatment, complete: bool) -> list[ArrangedTrial]:
    """Complete blocks are replicates; else a treatment's own trials are counted."""
    counts: Counter[str] = Counter()
    entries = []
    for number, block in enumerate(blocks):
        for treatment in block:
            role = Role.BASELINE if treatment == baseline else Role.TREATMENT
            entries.append(ArrangedTrial(number, number if complete else counts[treatment.key], role, treatment))
            counts[treatment.key] += 1
    return entries


def _with_plots(factors: Sequence[Factor], entries: Sequence[ArrangedTrial]) -> list[ArrangedTrial]:
    """Whole plots numbered: a new one with every block and every change of a dear factor."""
    numbered: list[ArrangedTrial] = []
    before: object = None
    plot = -1
    for entry in entries:
        held = (entry.block, dear_levels(factors, entry.treatment))
        plot += held != before
        before = held
        numbered.append(replace(entry, plot=plot))
    return numbered


def _sentinel(near: ArrangedTrial, baseline: Treatment) -> ArrangedTrial:
    return replace(near, role=Role.SENTINEL, treatment=baseline)


def _sentinels_anywhere(entries: Sequence[ArrangedTrial], baseline: Treatment, every: int) -> list[ArrangedTrial]:
    """No more than ``every`` trials without the baseline, which comes first and last. A sentinel belongs to the
    block of the trial before it.
    """
    placed: list[ArrangedTrial] = []
    since = every
    for entry in entries:
        if entry.role is Role.TREATMENT and since >= every:
            placed.append(_sentinel(placed[-1] if placed else entry, baseline))
            since = 0
        placed.append(entry)
        since = since + 1 if entry.role is Role.TREATMENT else 0
    return _closed(placed, baseline)


def _closed(placed: list[ArrangedTrial], baseline: Treatment) -> list[ArrangedTrial]:
    if placed[-1].role is Role.TREATMENT:
        placed.append(_sentinel(placed[-1], baseline))
    return placed


def _sentinels_between_blocks(entries: Sequence[ArrangedTrial], baseline: Treatment, every: int) -> list[ArrangedTrial]:
    """Squares are not broken: a sentinel opens a block where the wait for the next baseline trial would be too long."""
    placed: list[ArrangedTrial] = []
    since = every
    for index, entry in enumerate(entries):
        opens = index == 0 or entries[index - 1].block != entry.block
        if opens and entry.role is Role.TREATMENT:
            ahead = next(
                (step for step, later in enumerate(entries[index:]) if later.role is not Role.TREATMENT),
                len(entries) - index,
            )
            if not placed or since + ahead > every:
                placed.append(_sentinel(entry, baseline))
                since = 0
        placed.append(entry)
        since = since + 1 if entry.role is Role.TREATMENT else 0
    return _closed(placed, baseline)


def _sentinels_in_plots(
    factors: Sequence[Factor], entries: Sequence[ArrangedTrial], baseline: Treatment, every: int
) -> list[ArrangedTrial]:
    """At both ends, and inside the plots with the baseline's dear levels so that they see one every so many trials."""
    home = dear_levels(factors, baseline)
    placed: list[ArrangedTrial] = []
    since = every
    for entry in entries:
        at_home = dear_levels(factors, entry.treatment) == home
        if entry.role is Role.TREATMENT and (not placed or (at_home and since >= every)):
            placed.append(_sentinel(entry, baseline))
            since = 0
        placed.append(entry)
        since = since + 1 if entry.role is Role.TREATMENT else 0
    return _with_plots(factors, _closed(placed, baseline))
