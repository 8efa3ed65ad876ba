"""D-optimal designs: any mixture of level counts in a given number of runs, by coordinate exchange.

R. K. Meyer and C. J. Nachtsheim (1995), Technometrics 37, 60-69. The number of runs, where none is given, is chosen as
W. F. Kuhfeld's %MktRuns does: levels and pairs of levels should come out even.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.design.coding import Floats, Ints, contrasts, model_matrix, model_terms, model_width
from leadline.design.kind import DesignError, DesignKind
from leadline.design.seeds import derived
from leadline.model.design import Design
from leadline.model.plan import Factor, Treatment

RESTARTS = 20
WORK = 2e8  # bounds restarts times the work of one pass: one or two seconds
OVERHEAD = 100_000  # multiplications that looking at a row costs beside those with the matrix
PASSES = 60
GAIN = 1e-7  # an exchange must raise the determinant by more: rounding must not decide between machines
LARGEST_MODEL = 1200  # parameters


def runs_of(factors: Sequence[Factor], design: Design) -> int:
    """Runs given, or the smallest sensible number. Raises DesignError when too few are given."""
    interactions = design.model == "interactions"
    width = model_width(factors, interactions)
    if width > LARGEST_MODEL:
        raise DesignError(
            f"design: d-optimal would have to estimate {width:,} figures, more than {LARGEST_MODEL:,}; "
            "use `model: main-effects`, or name fewer factors",
            ("design", "model"),
        )
    if design.runs is None:
        return sensible_runs(factors, width, interactions)
    if design.runs < width:
        what = "main effects and two-factor interactions" if interactions else "main effects"
        raise DesignError(
            f"design: {design.runs} runs cannot estimate the {width} figures of {what}; the smallest number is "
            f"{width}, {sensible_runs(factors, width, interactions)} is sensible"
            + ("; `model: main-effects` takes fewer" if interactions else ""),
            ("design", "runs"),
        )
    return design.runs


def sensible_runs(factors: Sequence[Factor], width: int, interactions: bool) -> int:
    """At least one run more than figures to estimate, up to half as many again: the number that comes out even most
    often, the smallest of these.
    """
    sizes = [len(factor.levels) for factor in factors]
    wanted = [*sizes, *(a * b for a, b in itertools.combinations(sizes, 2))]
    combinations = math.prod(sizes)
    choices = range(width + 1, width + max(3, width // 2) + 1)
    if interactions or combinations <= width:
        return max(width, min(combinations, width + max(1, width // 10)))
    return min(choices, key=lambda runs: (sum(runs % size != 0 for size in wanted), runs))


def count(factors: Sequence[Factor], design: Design) -> int:
    return runs_of(factors, design)


def treatments(factors: Sequence[Factor], design: Design) -> tuple[Treatment, ...]:
    """The runs, the baseline first."""
    indices = search(factors, runs_of(factors, design), design.model == "interactions", design.seed)
    names = [factor.name for factor in factors]
    return tuple(
        Treatment.of({name: factor.levels[index] for name, factor, index in zip(names, factors, row, strict=True)})
        for row in indices
    )


def notes(factors: Sequence[Factor], design: Design) -> tuple[str, ...]:
    what = "main effects and two-factor interactions" if design.model == "interactions" else "main effects"
    return (
        f"D-optimal in {runs_of(factors, design)} runs for the {model_width(factors, design.model == 'interactions')} "
        f"figures of {what}; the baseline is one of the runs.",
    )


def search(factors: Sequence[Factor], runs: int, interactions: bool, seed: int) -> Ints:
    """Level indices (runs, factors), the first row the baseline: the best of a few seeded starts."""
    width = model_width(factors, interactions)
    once = runs * (OVERHEAD + sum(len(factor.levels) for factor in factors) * width * width)
    starts = max(2, min(RESTARTS, int(WORK / once)))
    options = _options(factors, interactions)
    best: tuple[float, Ints] | None = None
    for start in range(starts):
        source = random.Random(int.from_bytes(derived(seed, "d-optimal", start), "big"))
        exchanged = _exchange(factors, options, _start(factors, runs, source), interactions)
        best = exchanged if best is None or exchanged[0] > best[0] + GAIN else best
    assert best is not None
    if best[0] == -math.inf:
        raise DesignError(
            f"design: no {runs} runs were found that can estimate {width} figures; give runs as "
            f"{runs + max(2, runs // 4)} or more",
            ("design", "runs"),
        )
    return best[1]


def _start(factors: Sequence[Factor], runs: int, source: random.Random) -> Ints:
    """Random rows with every level about equally often; the baseline first."""
    columns = []
    for factor in factors:
        count = len(factor.levels)
        levels = [index % count for index in range(runs - 1)]
        columns.append([factor.levels.index(factor.baseline), *sorted(levels, key=lambda _: source.random())])
    return np.array(columns, dtype=np.int64).T.copy()


@dataclass(frozen=True)
class _Options:
    """Every change of one level in a row of the model matrix, by factor and level.

    A factor has a part in the ``columns`` (factors, m), padded to the widest: main effects and interactions. In row x
    the level l of factor f gives them ``table[f, l] * x[partner[f]]``, the partner being the constant for main effects.
    ``there`` is 1 where a column is, 0 where it is padding; a level that a factor does not have changes nothing.
    """

    columns: Ints
    partner: Ints
    there: Floats
    table: Floats
    real: NDArray[np.bool_]

    def steps(self, row: Floats) -> Floats:
        """(factors, levels, m): what each option adds to the row in the factor's columns."""
        change = self.table * row[self.partner][:, None, :] - row[self.columns][:, None, :]
        return np.asarray(change * self.there[:, None, :] * self.real[:, :, None])


def _options(factors: Sequence[Factor], interactions: bool) -> _Options:
    terms = model_terms(factors, interactions)
    own = [term.columns for term in terms if len(term.factors) == 1]
    parts: list[list[tuple[int, int, int]]] = [[] for _ in factors]  # column, contrast of this factor, partner column
    for term in terms:
        if len(term.factors) == 1:
            parts[term.factors[0]] += [(column, index, 0) for index, column in enumerate(term.columns)]
            continue
        first, second = term.factors
        pairs = itertools.product(range(len(own[first])), range(len(own[second])))
        for column, (i, j) in zip(term.columns, pairs, strict=True):
            parts[first].append((column, i, own[second][j]))
            parts[second].append((column, j, own[first][i]))
    most, levels = max(map(len, parts)), max(len(factor.levels) for factor in factors)
    columns, partner = np.zeros((2, len(factors), most), dtype=np.int64)
    there, table = np.zeros((len(factors), most)), np.zeros((len(factors), levels, most))
    real = np.zeros((len(factors), levels), dtype=bool)
    for number, (factor, part) in enumerate(zip(factors, parts, strict=True)):
        size, count = len(part), len(factor.levels)
        chosen = [index for _, index, _ in part]
        columns[number, :size] = [column for column, _, _ in part]
        partner[number, :size] = [other for _, _, other in part]
        there[number, :size] = 1.0
        table[number, :count, :size] = contrasts(factor)[:, chosen]
        real[number, :count] = True
    return _Options(columns, partner, there, table, real)


def _exchange(factors: Sequence[Factor], options: _Options, indices: Ints, interactions: bool) -> tuple[float, Ints]:
    """Row by row the level is changed that raises |X'X| most, until no change does; (log |X'X|, level indices)."""
    model = model_matrix(factors, indices, interactions)
    width = model.shape[1]
    ridge = 1e-6 * np.eye(width)  # lets a start that cannot estimate everything be improved; left out at the end
    crossed = (options.columns[:, :, None], options.columns[:, None, :])
    for _ in range(PASSES):
        inverse = np.asarray(np.linalg.inv(model.T @ model + ridge), dtype=np.float64)
        changed = False
        for row in range(1, len(indices)):
            for _ in range(len(factors)):
                steps = options.steps(model[row])
                down = np.einsum("ij,j->i", inverse, model[row])
                old = float(down @ model[row])
                along = (steps * down[options.columns][:, None, :]).sum(axis=2)
                new = old + 2 * along + ((steps @ inverse[crossed]) * steps).sum(axis=2)
                ratio = (1 + new) * (1 - old) + (old + along) ** 2
                best = int(np.argmax(ratio > ratio.max() * (1 - GAIN)))
                if ratio.flat[best] <= 1 + GAIN:
                    break
                number, level = divmod(best, ratio.shape[1])
                indices[row, number] = level
                before = model[row].copy()
                np.add.at(model[row], options.columns[number], steps[number, level])
                inverse = _replaced(inverse, before, model[row])
                changed = True
        if not changed:
            break
    sign, logarithm = np.linalg.slogdet(model.T @ model)
    estimable = sign > 0 and np.linalg.matrix_rank(model) == width
    return (float(logarithm) if estimable else -math.inf), indices


def _replaced(inverse: Floats, old: Floats, new: Floats) -> Floats:
    """(X'X)^-1 after one row was replaced (Sherman and Morrison, twice)."""
    up = np.einsum("ij,j->i", inverse, new)
    inverse = inverse - np.outer(up, up) / (1 + new @ up)
    down = np.einsum("ij,j->i", inverse, old)
    return np.asarray(inverse + np.outer(down, down) / (1 - old @ down))


KIND = DesignKind("d-optimal", treatments, count, notes, screening=True, options=frozenset({"runs", "model"}))
