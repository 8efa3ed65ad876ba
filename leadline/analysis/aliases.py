"""What a screening design's runs cannot tell apart: main effects and two-factor interactions, as sentences."""

from __future__ import annotations

import itertools

import numpy as np

from leadline.analysis.columns import SCREENING
from leadline.analysis.table import Floats, Sample, StudyTable

_MOST = 6  # told in full
_SAME = 0.999
_NONE = 1e-6


def alias_notes(table: StudyTable, sample: Sample, used: frozenset[tuple[int, int]]) -> list[str]:
    """Sentences on aliases of the runs that gave figures, from their model matrix. ``used`` are the pairs of factors
    whose interactions are in the model.

    A factor's effects and a pair's interactions are subspaces of the runs' space; the largest canonical correlation
    tells whether two are the same (1), orthogonal (0) or mixed.
    """
    if table.kind not in SCREENING:
        return []
    runs = np.unique(sample.cells)
    codes = np.array([table.cells[int(run)] for run in runs])
    counts = np.array([np.sum(sample.cells == run) for run in runs], dtype=np.float64)
    mains = [_space(_effects(codes[:, f], len(factor.levels)), counts) for f, factor in enumerate(table.factors)]
    pairs = {
        (f, g): _space(_products(table, codes, f, g), counts)
        for f, g in itertools.combinations(range(len(table.factors)), 2)
    }
    notes = []
    full, partial = [], 0
    for f, factor in enumerate(table.factors):
        for pair, space in pairs.items():
            if f in pair:
                continue
            shared = _shared(mains[f], space)
            if shared > _SAME:
                full.append(f"{factor.name} = {_name(table, pair)}")
            elif shared > _NONE:
                partial += 1
    if full:
        notes.append(
            f"Aliased, so that an effect may be the interaction's: {_some(full)}. A design of higher resolution, or a "
            "foldover, would tell them apart."
        )
    if partial:
        notes.append(
            f"Main effects share in part what {partial} two-factor interactions would do: they hold as far as "
            "interactions are small."
        )
    left = [pair for pair in pairs if pair not in used]
    chains = [
        f"{_name(table, one)} = {_name(table, other)}"
        for one, other in itertools.combinations(left, 2)
        if _shared(pairs[one], pairs[other]) > _SAME
    ]
    if chains:
        notes.append(f"Interactions that cannot be told apart, and are left out: {_some(chains)}.")
    elif left and pairs:
        known = f"{len(used)} of {len(pairs)}" if used else "none"
        notes.append(f"Two-factor interactions that these runs can estimate: {known}.")
    return notes


def _effects(codes: Floats, levels: int) -> Floats:
    return np.asarray(codes[:, None] == np.arange(1, levels), dtype=np.float64)


def _products(table: StudyTable, codes: Floats, f: int, g: int) -> Floats:
    sizes = len(table.factors[f].levels), len(table.factors[g].levels)
    one, other = (_effects(codes[:, k], size) - 1 / size for k, size in zip((f, g), sizes, strict=True))
    return np.asarray((one[:, :, None] * other[:, None, :]).reshape(len(codes), -1), dtype=np.float64)


def _space(columns: Floats, counts: Floats) -> Floats:
    """Orthonormal basis (runs, rank) of the columns less their mean, runs weighted by how often they were made."""
    weights = np.sqrt(counts)[:, None]
    inside = (columns - (counts @ columns) / counts.sum()) * weights
    left, singular, _ = np.linalg.svd(inside, full_matrices=False)
    return np.asarray(left[:, singular > 1e-9], dtype=np.float64)


def _shared(one: Floats, other: Floats) -> float:
    if not one.shape[1] or not other.shape[1]:
        return 0.0
    return float(np.linalg.norm(one.T @ other, 2))


def _name(table: StudyTable, pair: tuple[int, int]) -> str:
    return " x ".join(table.factors[index].name for index in pair)


def _some(items: list[str]) -> str:
    rest = len(items) - _MOST
    return "; ".join(items[:_MOST]) + (f"; and {rest} more" if rest > 0 else "")
