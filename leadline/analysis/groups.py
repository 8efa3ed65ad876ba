"""Groups of treatments that are not distinguishable."""

from __future__ import annotations

import numpy as np

from leadline.analysis.comparisons import Family
from leadline.analysis.linear import Fit
from leadline.analysis.table import Floats

LARGEST = 100  # treatments; beyond, pairs are too many to be of use to a reader


def maximal_groups(different: list[tuple[int, int]], count: int) -> list[frozenset[int]]:
    """All largest sets of 0..count-1 without a pair that differs.

    Insert and absorb: Piepho, An algorithm for a letter-based representation of all-pairwise comparisons (2004).
    """
    groups = [frozenset(range(count))]
    for first, other in different:
        split = [group for group in groups if first in group and other in group]
        maximal = [group for group in groups if group not in split]
        for group in split:
            for part in (group - {first}, group - {other}):
                if not any(part <= group for group in maximal):
                    maximal = [group for group in maximal if not group <= part] + [part]
        groups = maximal
    return groups


def told_apart(fit: Fit, treatments: Floats, level: float) -> list[tuple[int, int]]:
    """Pairs of rows of ``treatments`` (t, p; contrasts against the baseline) that differ.

    Tukey-Kramer with the design's own correlation: simultaneous over all pairs at ``level``.
    """
    pairs = [(i, j) for i in range(len(treatments)) for j in range(i + 1, len(treatments))]
    family = Family.of(fit, [treatments[i] - treatments[j] for i, j in pairs], level)
    return [
        pair
        for pair, place in zip(pairs, family.place, strict=True)
        if place is not None and family.ratio(place) > family.critical[place]
    ]


def ordered_groups(fit: Fit, treatments: Floats, names: list[str], level: float, best_high: bool) -> list[list[str]]:
    """Groups as names, the best treatment first in each, and the group with the best mean first."""
    values = fit.estimates(treatments) * (-1.0 if best_high else 1.0)
    place = {int(index): rank for rank, index in enumerate(np.lexsort((np.arange(len(values)), values)))}
    groups = maximal_groups(told_apart(fit, treatments, level), len(names))
    ranked = sorted(sorted(place[index] for index in group) for group in groups)
    order = sorted(place, key=lambda index: place[index])
    return [[names[order[rank]] for rank in group] for group in ranked]
