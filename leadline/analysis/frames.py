"""Which frames carry a difference: effects of methods and of call paths, from the samples of profiles.

A method's effect is that of its own samples, on whatever path it ran: the effects of all methods sum to the total's. A
path's effect is that of everything below it. Methods and paths are one family. Of the error rate a tenth goes to the
total, four tenths to the layers that it consists of, and half to all else alike; what is claimed leaves its part to
those it calls (the inheritance of Bretz, Maurer, Brannath and Posch, 2009). So a layer or a frame may be named where
the total is too noisy. The comparisons of a study share the error rate alike (Bonferroni). Named frames are wrong in at
most ``ALPHA`` of studies, whatever their dependence.

An effect is the least-squares contrast in blocks, beside what else differs between recordings. Its variance is that of
replicates, with blocks as clusters (``leadline.analysis.instances``). They are few, so each frame's is drawn towards
what counting gives plus a spread in common (Smyth, 2004), but for a frame whose own is larger than that explains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from leadline.analysis.instances import Clusters
from leadline.analysis.table import Floats, Ints
from leadline.model import distributions
from leadline.model.frames import LEVEL, FrameEffect, FrameEffects, is_jdk, is_measured
from leadline.model.result import Interval

SMALLEST = 0.001  # share of all samples of a path or a method that is judged
ENOUGH = 5.0  # samples of a row in a recording, on average, from which its variance tells that of others
MOST = 250  # paths that are judged, and as many methods: the largest
_CARRIES = 0.8  # share of a path's effect in those it calls, from which on these are the ones to tell
_BORROWED = 3.0  # degrees of freedom that other frames lend, for each of the frame's own: they may vary together
_OUTLIER = 0.01
_OF_LAYERS, _OF_OTHERS = 0.4, 0.5  # of the error rate; the total has the rest
_FEWEST = 2  # degrees of freedom that are left beside what else differs, else that is not adjusted for
Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class Recording:
    """The samples of a recording, a trial, or a treatment's slots in one server instance.

    ``stacks``: samples by stack, the outermost method first, with semicolons between. ``per``: what they are divided
    by, as transactions. ``treated``: whether it is of the second kind. ``block``: what it is compared within.
    ``others``: what else may differ between recordings, as numbers, as many in each. What was measured rather than
    sampled is a stack that begins with such a frame (``is_measured``), in the samples' unit.
    """

    stacks: Mapping[str, float]
    treated: bool
    per: float = 1.0
    block: int | None = None
    others: tuple[float, ...] = ()


def frame_effects(recordings: Sequence[Recording], sampled: bool = True, comparisons: int = 1) -> FrameEffects:
    """Effects of the second kind of recordings against the first. Blocks without both kinds are left out. Not
    ``sampled``: stacks hold times, so every frame stands by its own variance, and may be below zero. ``comparisons``
    are made in the study, this one included.

    Raises ValueError where a kind has no recording, or none has a sample.
    """
    kinds: dict[int | None, set[bool]] = {}
    for recording in recordings:
        kinds.setdefault(recording.block, set()).add(recording.treated)
    complete = {block for block in kinds if len(kinds[block]) == 2}
    numbers = {block: at for at, block in enumerate(_blocks(recordings))}
    compared = sorted(
        (recording for recording in recordings if recording.block in complete),
        key=lambda recording: numbers[recording.block],
    )
    if not compared:
        raise ValueError("no recording of one kind can be compared with one of the other")
    tree = _Tree.of(compared)
    if not tree.counts[0].sum():
        raise ValueError("no recording has a sample")
    contrast = _Contrast(compared)
    paths, (methods, own) = tree.largest(), tree.methods()
    rows = np.vstack([tree.counts[paths], own])
    family, place = np.unique(rows, axis=0, return_inverse=True)
    place = place.reshape(len(rows))
    measured = np.full(len(family), not sampled)
    by_name = {name for name, flag in zip(tree.names, tree.measured, strict=True) if flag}
    measured[place[[*(tree.measured[node] for node in paths), *(name in by_name for name in methods)]]] = True
    change, error, degrees = contrast.judge(family, measured)
    p_values = None
    if error is not None:
        plain = 2 * distributions.t.sf(np.abs(change) / np.maximum(error, 1e-300), degrees)
        adjusted = _inherited(np.where(change == 0, 1.0, plain), _below(tree, paths, place), int(place[0]))
        p_values = np.minimum(1.0, comparisons * adjusted)
    means = contrast.baseline(family)

    def effect(row: int, path: tuple[str, ...]) -> FrameEffect:
        at = int(place[row])
        interval = None
        if error is not None:
            reach = float(distributions.t.ppf((1 + LEVEL) / 2, degrees[at]) * error[at])
            interval = Interval(float(change[at]) - reach, float(change[at]) + reach, LEVEL)
        p_value = None if p_values is None else float(p_values[at])
        return FrameEffect(path, float(means[at]), float(change[at]), interval, p_value)

    effects = {node: effect(row, tree.path(node)) for row, node in enumerate(paths)}
    of_methods = [replace(effect(len(paths) + row, (name,)), own=True) for row, name in enumerate(methods)]
    total = effects.pop(0)
    rest = total.change - sum(method.change for method in of_methods)
    return FrameEffects(
        total,
        tuple(sorted(of_methods, key=_largest)),
        tuple(sorted(effects.values(), key=_largest)),
        tuple(sorted(_carriers(tree, effects, total), key=_largest)),
        0.0 if abs(rest) < 1e-9 * float(np.abs(means).max()) else rest,
        len(family),
        (sum(not recording.treated for recording in compared), sum(recording.treated for recording in compared)),
        len(complete - {None}),
    )


def _largest(effect: FrameEffect) -> tuple[float, tuple[str, ...]]:
    return -abs(effect.change), effect.path


def _blocks(recordings: Sequence[Recording]) -> list[int | None]:
    return list(dict.fromkeys(recording.block for recording in recordings))


@dataclass(frozen=True)
class _Tree:
    """Call paths as nodes, callers before the called; 0 is the root. ``counts`` (nodes, recordings): samples of each
    node and all below it; ``own`` without those below.
    """

    names: Sequence[str]
    parents: Sequence[int]
    own: Floats
    counts: Floats

    @classmethod
    def of(cls, recordings: Sequence[Recording]) -> _Tree:
        names, parents, number = [""], [0], dict[tuple[int, str], int]()
        cells: list[tuple[int, int, float]] = []
        for column, recording in enumerate(recordings):
            for stack, samples in recording.stacks.items():
                node = 0
                for name in stack.split(";"):
                    at = number.get((node, name))
                    if at is None:
                        at = number[node, name] = len(names)
                        names.append(name)
                        parents.append(node)
                    node = at
                cells.append((node, column, samples))
        own = np.zeros((len(names), len(recordings)))
        for node, column, samples in cells:
            own[node, column] += samples
        counts = own.copy()
        for node in range(len(names) - 1, 0, -1):
            counts[parents[node]] += counts[node]
        return cls(names, parents, own, counts)

    @cached_property
    def measured(self) -> list[bool]:
        """Of each node: whether it was measured, or lies below what was; the root is."""
        flags = [True]
        for name, parent in zip(self.names[1:], self.parents[1:], strict=True):
            flags.append(is_measured(name) or (parent > 0 and flags[parent]))
        return flags

    @cached_property
    def least(self) -> float:
        """Samples of all recordings together of what is judged."""
        return SMALLEST * float(self.counts[0].sum())

    def largest(self) -> list[int]:
        """The paths that are judged, callers first; the root is one."""
        sums = np.abs(self.counts).sum(axis=1)
        order = np.argsort(-sums, kind="stable")[: MOST + 1]  # a caller comes before what it calls
        return sorted(int(node) for node in order if sums[node] >= self.least)

    def methods(self) -> tuple[list[str], Floats]:
        """The methods that are judged, and their own samples (methods, recordings)."""
        rows: dict[str, Floats] = {}
        for node in np.flatnonzero(self.own.any(axis=1)).tolist():
            name = self.names[node]
            rows[name] = rows[name] + self.own[node] if name in rows else self.own[node]
        sums = {name: float(np.abs(row).sum()) for name, row in rows.items()}
        names = sorted(rows, key=lambda name: (-sums[name], name))[:MOST]
        names = [name for name in names if sums[name] >= self.least]
        return names, np.array([rows[name] for name in names]).reshape(len(names), self.own.shape[1])

    def path(self, node: int) -> tuple[str, ...]:
        names = []
        while node:
            names.append(self.names[node])
            node = self.parents[node]
        return tuple(reversed(names))


class _Contrast:
    """The second kind less the first, as weights of recordings in blocks: of means, or of least squares beside others.

    ``recordings``: those of a block one after the other.
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._per = np.array([recording.per for recording in recordings], dtype=np.float64)
        self._treated = np.array([recording.treated for recording in recordings])
        numbers = {block: at for at, block in enumerate(_blocks(recordings))}
        self._block = np.array([numbers[recording.block] for recording in recordings])
        self._blocks = len(numbers)
        design = np.column_stack([self._treated, np.eye(self._blocks)[self._block]]).astype(np.float64)
        others = np.array([recording.others for recording in recordings], dtype=np.float64)
        beside = np.hstack([design, others])
        rank, without = (int(np.linalg.matrix_rank(columns)) for columns in (beside, beside[:, 1:]))
        self._adjusted = self._blocks + 1 < rank <= len(recordings) - _FEWEST and rank > without
        if self._adjusted:
            design = beside
        left, values, right = np.linalg.svd(design, full_matrices=False)
        kept = values > 1e-9 * values[0]
        self._basis, half = left[:, kept], right[kept].T / values[kept]
        self._weights = half[0] @ self._basis.T
        self._free = float(len(recordings) - kept.sum())
        starts = np.flatnonzero(np.r_[True, self._block[1:] != self._block[:-1]])
        self._clusters = Clusters(self._basis, half, starts.astype(np.int64))

    def baseline(self, counts: Floats) -> Floats:
        """Mean per transaction of the first kind, blocks alike."""
        first = np.where(self._treated, 0.0, 1.0)
        cells = np.bincount(self._block, first, self._blocks)
        return np.asarray(counts / self._per @ (first / cells[self._block] / self._blocks))

    def judge(self, counts: Floats, measured: Flags) -> tuple[Floats, Floats | None, Floats]:
        """Of rows (k, recordings): change, its standard error (None where the noise is unknown), degrees of freedom.
        Rows that are ``measured`` (k), the total among them, stand by their own variance.
        """
        rates = counts / self._per
        change = rates @ self._weights
        variance, free = self._variance(rates)
        if variance is None:
            return change, None, np.zeros(len(change))
        mean = counts.sum(axis=1) / self._per.sum()
        by_counting = mean * float(np.sum(self._weights**2 / self._per))
        in_common = mean**2 * float(np.sum(self._weights**2))
        often = counts.sum(axis=1) >= ENOUGH * len(np.unique(2 * self._block + self._treated))
        excess = ((variance - by_counting) / in_common)[often]
        spread = max(0.0, float(np.median(excess))) if len(excess) else 0.0
        expected = by_counting + spread * in_common
        own, own_free = self._surest(rates, variance, free)
        if measured.all():
            return change, np.sqrt(own), own_free
        ratio, degrees = _moderated(variance / expected, free, often & ~measured)
        ratio[measured], degrees[measured] = (own / expected)[measured], own_free[measured]
        return change, np.sqrt(ratio * expected), degrees

    def _surest(self, rates: Floats, variance: Floats, free: float) -> tuple[Floats, Floats]:
        """Variances and degrees of freedom (k) of rows that stand by their own: between blocks, or that of independent
        recordings where its interval is wider. Within one block both kinds may vary differently.
        """
        if self._blocks == 1:
            return variance, np.full(len(rates), free) if self._adjusted else self._welch(rates, free)
        plain = self._plain(rates)
        reach = [float(distributions.t.ppf((1 + LEVEL) / 2, degrees)) for degrees in (free, self._free)]
        wider = plain * reach[1] ** 2 > variance * reach[0] ** 2
        return np.where(wider, plain, variance), np.where(wider, self._free, free)

    def _welch(self, rates: Floats, free: float) -> Floats:
        """Degrees of freedom of each row where both kinds may vary differently."""
        sizes = [int((self._treated == kind).sum()) for kind in (False, True)]
        if min(sizes) < 2:
            return np.full(len(rates), free)
        parts = [np.var(rates[:, self._treated == kind], axis=1, ddof=1) / sizes[kind] for kind in (False, True)]
        spread = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
        return np.asarray(np.maximum((parts[0] + parts[1]) ** 2 / np.maximum(spread, 1e-300), min(sizes) - 1.0))

    def _residuals(self, rates: Floats) -> Floats:
        return np.asarray(rates - rates @ self._basis @ self._basis.T, dtype=np.float64)

    def _plain(self, rates: Floats) -> Floats:
        """Variances of the change where all recordings are independent."""
        squares = np.sum(self._residuals(rates) ** 2, axis=1) / self._free
        return np.asarray(squares * float(np.sum(self._weights**2)))

    def _variance(self, rates: Floats) -> tuple[Floats | None, float]:
        """Of the change by replicates, and its degrees of freedom: between blocks, else of each kind."""
        if self._blocks > 1:
            first = np.eye(1, self._clusters.half.shape[0])
            weights = self._clusters.weights(first)
            sums = np.add.reduceat(weights * self._residuals(rates), self._clusters.starts, axis=1)
            return np.sum(sums**2, axis=1), float(self._clusters.expected(weights)[1][0])
        if self._adjusted:
            return self._plain(rates), self._free
        kinds = [rates[:, self._treated == kind] for kind in (False, True)]
        sizes = [kind.shape[1] for kind in kinds]
        if max(sizes) < 2:
            return None, 0.0
        alone = [np.var(kind, axis=1, ddof=1) if kind.shape[1] > 1 else None for kind in kinds]
        known = [alone[at] if alone[at] is not None else alone[1 - at] for at in (0, 1)]
        if min(sizes) < 2:
            free = max(sizes) - 1.0
        else:
            free = sum(1 / size for size in sizes) ** 2 / sum(1 / size**2 / (size - 1) for size in sizes)
        return sum((variance / size for variance, size in zip(known, sizes, strict=True) if variance is not None)), free


def _moderated(ratio: Floats, free: float, telling: Flags) -> tuple[Floats, Floats]:
    """Variances relative to what is expected, drawn towards the usual one of those that are ``telling``, and their
    degrees of freedom.

    The usual one is that of counting at least. A frame that is much noisier than the others keeps its own.
    """
    own = np.full(len(ratio), free)
    positive = ratio[telling & (ratio > 0)]
    if len(positive) < 5:
        return np.maximum(ratio, 1.0), own
    logs = np.log(np.maximum(positive, 1e-5 * np.median(positive))) - special.digamma(free / 2) + math.log(free / 2)
    spread = float(np.var(logs, ddof=1) - special.polygamma(1, free / 2))
    prior = _inverse_trigamma(spread) * 2 if spread > 0 else math.inf
    shift = 0.0 if math.isinf(prior) else float(special.digamma(prior / 2)) - math.log(prior / 2)
    usual = max(1.0, math.exp(float(np.mean(logs)) + shift))
    prior = min(prior, _BORROWED * free)
    drawn = (prior * usual + free * ratio) / (prior + free)
    noisy = distributions.f.sf(ratio / usual, free, prior) < _OUTLIER
    return np.where(noisy, ratio, drawn), np.where(noisy, own, own + prior)


def _inverse_trigamma(value: float) -> float:
    """By Newton's method, on 1 / trigamma, which is nearly a line (Smyth, 2004, appendix)."""
    at = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, at))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, at))
        at += step
        if -step / at < 1e-8:
            break
    return at


def _below(tree: _Tree, paths: Sequence[int], place: Ints) -> dict[int, list[int]]:
    """By row of the family: the rows of what it calls."""
    row = {node: int(place[at]) for at, node in enumerate(paths)}
    below: dict[int, set[int]] = {}
    for node in paths:
        caller = row[tree.parents[node]]
        if row[node] != caller:
            below.setdefault(caller, set()).add(row[node])
    return {caller: sorted(called) for caller, called in below.items()}


def _inherited(p_values: Floats, below: Mapping[int, Sequence[int]], root: int) -> Floats:
    """Adjusted p values: each hypothesis has a weight, and a rejected one gives its own to those below it."""
    size, layers = len(p_values), list(below.get(root, ()))
    others = size - 1 - len(layers)
    weights = np.full(size, _OF_OTHERS / max(1, others))
    weights[layers] = _OF_LAYERS / max(1, len(layers))
    weights[root] = 0.0
    weights[root] = 1.0 - weights.sum()
    adjusted, largest, waiting = np.ones(size), 0.0, np.ones(size, dtype=bool)
    for _ in range(size):
        ratios = np.where(waiting, p_values / weights, np.inf)
        chosen = int(np.argmin(ratios))
        largest = max(largest, float(ratios[chosen]))
        if largest > 1:
            break
        adjusted[chosen], waiting[chosen] = largest, False
        heirs = [(chosen, float(weights[chosen]))]
        while heirs:
            row, weight = heirs.pop()
            for called in below.get(row, ()):
                if waiting[called]:
                    weights[called] += weight / len(below[row])
                else:
                    heirs.append((called, weight / len(below[row])))
    return adjusted


def _carriers(tree: _Tree, effects: Mapping[int, FrameEffect], total: FrameEffect) -> list[FrameEffect]:
    """The deepest paths that carry a change: from a path on to those it calls while what they leave of it
    is small or within its interval.

    Code of the JDK is told by its caller where that is not of the JDK.
    """
    certain = total.interval is not None
    chosen = {node for node, effect in effects.items() if effect.named or not certain}
    nearest = {0: 0}  # path -> the nearest of its callers, or itself, that is chosen
    below: dict[int, list[int]] = {}
    for node in sorted(effects):
        caller = nearest[tree.parents[node]]
        nearest[node] = node if node in chosen else caller
        if node in chosen:
            below.setdefault(caller, []).append(node)
    carriers, waiting = [], list(below.get(0, ()))
    if not certain:
        waiting = [node for node in waiting if abs(effects[node].change) >= 0.05 * abs(total.change)]
    while waiting:
        node = waiting.pop()
        change, called = effects[node].change, below.get(node, [])
        if not certain:
            called = [child for child in called if abs(effects[child].change) >= 0.1 * abs(change)]
        if not is_jdk(tree.names[node]):
            called = [child for child in called if not is_jdk(tree.names[child])]
        rest = abs(change - sum(effects[child].change for child in called))
        interval = effects[node].interval
        unsure = 0.0 if interval is None else (interval.high - interval.low) / 2
        if called and rest <= max(unsure, (1 - _CARRIES) * abs(change)):
            waiting += called
        else:
            carriers.append(effects[node])
    return carriers
