"""What a screening design's runs cannot tell apart: main effects and two-factor interactions, as sentences."""

from __future__ import annotations

import itertools

import numpy as np

from leadline.analysis.table import Floats, Sample, StudyTable
from leadline.model.plan import Role

_MOST = 6  # told in full
_SAME = 0.999
_NONE = 1e-6


def alias_notes(table: StudyTable, sample: Sample, used: frozenset[tuple[int, int]]) -> list[str]:
    """Sentences on aliases of the runs that gave figures, sentinels aside, from their model matrix. ``used`` are the
    pairs of factors whose interactions are in the model.

    A factor's effects and a pair's interactions are subspaces of the runs' space; their canonical correlations tell
    whether two are the same (all 1), orthogonal (all 0) or mixed.
    """
    if not table.screening:
        return []
    placed = zip(table.observations, table.cell_of, strict=True)
    cells = {cell for observation, cell in placed if observation.role is not Role.SENTINEL}
    codes = np.array([table.cells[run] for run in sorted(cells & {int(cell) for cell in sample.cells})])
    if len(codes) < 2:
        return []
    mains = [_space(_effects(codes[:, f], len(factor.levels))) for f, factor in enumerate(table.factors)]
    pairs = {
        (f, g): _space(_products(table, codes, f, g)) for f, g in itertools.combinations(range(len(table.factors)), 2)
    }
    notes = []
    full: list[str] = []
    mixed: set[tuple[int, int]] = set()
    for f, factor in enumerate(table.factors):
        for pair, space in pairs.items():
            if f in pair:
                continue
            if _same(mains[f], space):
                full.append(f"{factor.name} = {_name(table, pair)}")
            elif _shared(mains[f], space)[0] > _NONE:
                mixed.add(pair)
    if full:
        notes.append(
            f"Aliased, so that an effect may be the interaction's: {_some(full)}. A design of higher resolution, or a "
            "foldover, would tell them apart."
        )
    if mixed:
        notes.append(
            f"Main effects have a part in them of {len(mixed)} of {len(pairs)} two-factor interactions: they hold as "
            "far as these are small."
        )
    unused = [pair for pair in pairs if pair not in used]
    chains = [
        f"{_name(table, chain)} = {_name(table, other)}"
        for chain, other in itertools.combinations(unused, 2)
        if _same(pairs[chain], pairs[other])
    ]
    if chains:
        notes.append(f"Interactions that are not distinguishable, and are left out: {_some(chains)}.")
    elif pairs:
        share = f"{len(used)} of {len(pairs)}" if used else "none"
        notes.append(f"Two-factor interactions that these runs can estimate: {share}.")
    return notes


def _effects(codes: Floats, levels: int) -> Floats:
    return np.asarray(codes[:, None] == np.arange(1, levels), dtype=np.float64)


def _products(table: StudyTable, codes: Floats, f: int, g: int) -> Floats:
    sizes = len(table.factors[f].levels), len(table.factors[g].levels)
    first, other = (_effects(codes[:, k], size) - 1 / size for k, size in zip((f, g), sizes, strict=True))
    return np.asarray((first[:, :, None] * other[:, None, :]).reshape(len(codes), -1), dtype=np.float64)


def _space(columns: Floats) -> Floats:
    """Orthonormal basis (runs, rank) of the columns less their mean."""
    basis, singular, _ = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    return np.asarray(basis[:, singular > 1e-9], dtype=np.float64)


def _shared(one: Floats, other: Floats) -> Floats:
    """Canonical correlations, the largest first; a zero where one of the two is empty."""
    if not one.shape[1] or not other.shape[1]:
        return np.zeros(1)
    return np.asarray(np.linalg.svd(one.T @ other, compute_uv=False), dtype=np.float64)


def _same(one: Floats, other: Floats) -> bool:
    return one.shape == other.shape and bool(_shared(one, other)[-1] > _SAME)


def _name(table: StudyTable, pair: tuple[int, int]) -> str:
    return " x ".join(table.factors[index].name for index in pair)


def _some(items: list[str]) -> str:
    rest = len(items) - _MOST
    return "; ".join(items[:_MOST]) + (f"; and {rest} more" if rest > 0 else "")
