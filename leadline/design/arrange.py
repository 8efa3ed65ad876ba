"""Runs put into blocks and in order: complete, incomplete, Latin, Williams or ABBA blocks, whole plots, sentinels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from leadline.design import incomplete, squares
from leadline.design.coding import level_indices, model_matrix
from leadline.design.errors import DesignError
from leadline.design.order import CANDIDATES, HASHES, Balance, blocked_order, with_sentinels
from leadline.design.plots import dear_factors, dear_levels, plotted
from leadline.design.seeds import shuffled
from leadline.model.design import Design
from leadline.model.plan import Factor, Role, Treatment


@dataclass(frozen=True)
class Entry:
    """A trial before it has a position and a seed."""

    block: int
    replicate: int
    role: Role
    treatment: Treatment
    plot: int | None = None


@dataclass(frozen=True)
class Arrangement:
    entries: tuple[Entry, ...]
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
        return Arrangement(tuple(Entry(row.block, row.block, row.role, row.treatment) for row in rows))
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
        numbers = incomplete.around_baseline(len(others), design.replicates, size, design.seed)
        least, most = incomplete.meetings(numbers, len(others))
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
        for runs in incomplete.split(effects, mains, size, design.seed, replicate):
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
    def __call__(self, treatments: int, replicates: int, seed: int) -> squares.Square: ...


_SQUARES: dict[str, tuple[_Squares, str]] = {
    "latin": (squares.latin, "Latin squares: every treatment comes equally often at every place of a block."),
    "williams": (squares.williams, "Williams squares: every treatment directly follows every other equally often."),
    "abba": (squares.abba, "ABBA blocks: a straight drift inside a block cancels."),
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


def _entries(blocks: Sequence[Sequence[Treatment]], baseline: Treatment, complete: bool) -> list[Entry]:
    """Complete blocks are replicates; else a treatment's own trials are counted."""
    counts: Counter[str] = Counter()
    entries = []
    for number, block in enumerate(blocks):
        for treatment in block:
            role = Role.BASELINE if treatment == baseline else Role.TREATMENT
            entries.append(Entry(number, number if complete else counts[treatment.key], role, treatment))
            counts[treatment.key] += 1
    return entries


def _with_plots(factors: Sequence[Factor], entries: Sequence[Entry]) -> list[Entry]:
    """Whole plots numbered: a new one with every block and every change of a dear factor."""
    numbered: list[Entry] = []
    before: object = None
    plot = -1
    for entry in entries:
        held = (entry.block, dear_levels(factors, entry.treatment))
        plot += held != before
        before = held
        numbered.append(replace(entry, plot=plot))
    return numbered


def _sentinel(near: Entry, baseline: Treatment) -> Entry:
    return replace(near, role=Role.SENTINEL, treatment=baseline)


def _sentinels_anywhere(entries: Sequence[Entry], baseline: Treatment, every: int) -> list[Entry]:
    """No more than ``every`` trials without the baseline, which comes first and last. A sentinel belongs to the
    block of the trial before it.
    """
    placed: list[Entry] = []
    since = every
    for entry in entries:
        if entry.role is Role.TREATMENT and since >= every:
            placed.append(_sentinel(placed[-1] if placed else entry, baseline))
            since = 0
        placed.append(entry)
        since = since + 1 if entry.role is Role.TREATMENT else 0
    return _closed(placed, baseline)


def _closed(placed: list[Entry], baseline: Treatment) -> list[Entry]:
    if placed[-1].role is Role.TREATMENT:
        placed.append(_sentinel(placed[-1], baseline))
    return placed


def _sentinels_between_blocks(entries: Sequence[Entry], baseline: Treatment, every: int) -> list[Entry]:
    """Squares are not broken: a sentinel opens a block where the wait for the next baseline trial would be too long."""
    placed: list[Entry] = []
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
    factors: Sequence[Factor], entries: Sequence[Entry], baseline: Treatment, every: int
) -> list[Entry]:
    """At both ends, and inside the plots with the baseline's dear levels so that they see one every so many trials."""
    home = dear_levels(factors, baseline)
    placed: list[Entry] = []
    since = every
    for entry in entries:
        at_home = dear_levels(factors, entry.treatment) == home
        if entry.role is Role.TREATMENT and (not placed or (at_home and since >= every)):
            placed.append(_sentinel(entry, baseline))
            since = 0
        placed.append(entry)
        since = since + 1 if entry.role is Role.TREATMENT else 0
    return _with_plots(factors, _closed(placed, baseline))
