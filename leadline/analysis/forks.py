"""Forks of one guest: worlds are the blocks of a randomised complete block design, and inside one there is no noise.

Two treatments may give the same figure to the last digit: a level that does so in every world is identical to its
baseline. Its figures are then the baseline's once more, not figures of their own, and are left out of the model, where
they would make the noise look smaller than it is.

``explained`` tells where the difference of two forks comes from: counters of processes and kernel under each treatment,
by transaction. Forks of a world share their past, so a counter's difference within a world is the treatment's doing;
the interval is over worlds (Student's t of the differences).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from leadline.analysis.columns import Main, Model, WorldsFit
from leadline.analysis.comparisons import NO_NOISE
from leadline.analysis.linear import Fit
from leadline.analysis.table import Cell, Sample, StudyTable
from leadline.model import distributions
from leadline.model.knob import Level
from leadline.model.result import Effect, Interval, Scope, Verdict

ONE_WORLD = "one world gives a difference, not an effect; two or more worlds (design.worlds) would give intervals"
Named = tuple[str, Level]
CONSTANT = "every world that tells of it says the same, so there is no noise to hold it against"
NO_ORDER = "Forks have no order in time, so there is no drift."


def identical_levels(table: StudyTable, sample: Sample) -> frozenset[Main]:
    """Levels that gave the figure of their factor's baseline level in every world and with all other levels."""
    figures: dict[tuple[int, Cell], float] = {
        (int(block), table.cells[int(cell)]): float(value)
        for block, cell, value in zip(sample.blocks, sample.cells, sample.values, strict=True)
    }
    return frozenset(main for main in table.comparisons() if _same(table, figures, main))


def _without_noise(effect: Effect) -> Effect:
    """The difference alone."""
    nothing = dict.fromkeys(("interval", "simultaneous", "p_value", "p_adjusted", "equivalence_p", "df"))
    return replace(effect, verdict=Verdict.UNDETERMINED, **nothing)  # type: ignore[arg-type]


def _same(table: StudyTable, figures: Mapping[tuple[int, Cell], float], main: Main) -> bool:
    factor, level = main
    usual = table.cells[0][factor]
    pairs = [
        (value, figures.get((world, (*cell[:factor], usual, *cell[factor + 1 :]))))
        for (world, cell), value in figures.items()
        if cell[factor] == level
    ]
    return bool(pairs) and all(value == other for value, other in pairs)


def without(table: StudyTable, levels: frozenset[Main]) -> StudyTable:
    """The table as if its factors had none of these levels."""
    if not levels:
        return table
    levels_kept = [
        [at for at in range(len(factor.levels)) if (f, at) not in levels] for f, factor in enumerate(table.factors)
    ]
    factors = [
        replace(factor, levels=tuple(factor.levels[at] for at in levels_kept[f]))
        for f, factor in enumerate(table.factors)
    ]
    numbers = {
        number: tuple(levels_kept[f].index(at) for f, at in enumerate(cell))
        for number, cell in enumerate(table.cells)
        if all(at in levels_kept[f] for f, at in enumerate(cell))
    }
    places = {number: place for place, number in enumerate(numbers)}
    rows = [
        (observation, places[cell])
        for observation, cell in zip(table.observations, table.cell_of, strict=True)
        if cell in places
    ]
    return replace(
        table,
        factors=tuple(factors),
        cells=tuple(numbers.values()),
        observations=tuple(observation for observation, _ in rows),
        cell_of=tuple(place for _, place in rows),
    )


def of_one_world(fit: Fit) -> Fit:
    """The fit without a noise: what is left of one world is no noise between worlds."""
    return Fit(fit.beta, fit.half, fit.rows, 0, 0.0)


def constant_levels(model: Model, fit: Fit) -> frozenset[Main]:
    """Levels with the same difference in every world."""
    if not isinstance(fit, WorldsFit):
        return frozenset()
    rows = np.array([model.effect(main) for main in model.mains])
    constant = np.array(fit.estimable(rows)) & fit.constant(rows)
    return frozenset(main for main, is_constant in zip(model.mains, constant, strict=True) if is_constant)


def named(table: StudyTable, levels: frozenset[Main]) -> frozenset[Named]:
    """Levels by the names of their factors."""
    return frozenset((table.factors[factor].name, table.factors[factor].levels[level]) for factor, level in levels)


def told(
    sample: Sample,
    effects: list[Effect],
    same: frozenset[Named],
    constant: frozenset[Named],
    higher_is_better: bool,
) -> list[Effect]:
    """The effects, ranked again, with what is identical, what is ``constant`` and what only one world says."""
    worlds = len(np.unique(sample.blocks))
    where = f"in all {worlds} worlds" if worlds > 1 else "in this world"
    effects_told = []
    for effect in effects:
        if (effect.factor, effect.level) in constant:
            effect = replace(_without_noise(effect), reason=CONSTANT)
        if (effect.factor, effect.level) in same:
            reason = f"the same figure to the last digit {where}"
            effect = replace(effect, verdict=Verdict.IDENTICAL, percent=0.0, reason=reason)
        if worlds == 1:
            effect = replace(effect, scope=Scope.THIS_WORLD, reason=effect.reason.replace(NO_NOISE, "one world alone"))
        effects_told.append(effect)
    sign = -1.0 if higher_is_better else 1.0
    return sorted(effects_told, key=lambda one: (one.percent is None, sign * (one.percent or 0.0)))


_CPU = ".cpu_ns"
_LEVEL = 0.95
_MOST = 12  # counters of a treatment beside the CPU of each part
_CALLS, _INSTRUCTIONS = "syscalls.", "instructions."
_MOST_CALLS, _MOST_INSTRUCTIONS = 8, 15
_EXECUTED = (_CALLS, _INSTRUCTIONS)


@dataclass(frozen=True)
class Counted:
    """What the load of one fork added to counters, by name."""

    treatment: str
    world: int
    transactions: int
    counters: Mapping[str, float]


@dataclass(frozen=True)
class Change:
    """A counter under a treatment against the baseline, both by transaction; CPU in microseconds. ``worlds``: in which
    both were counted. ``interval`` None for one world.
    """

    counter: str
    baseline: float
    change: float
    interval: Interval | None
    worlds: int

    @property
    def plain(self) -> bool:
        """Whether the change shows in every world alike."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


def explained(forks: Sequence[Counted], baseline: str) -> dict[str, list[Change]]:
    """By treatment: CPU of every part, largest change first, then the counters that changed most against their
    baseline, then system calls by kind and instructions by symbol, largest change first; of all these plain ones
    first. Treatments without a world in common with the baseline are left out.
    """
    usual = {fork.world: fork for fork in forks if fork.treatment == baseline and fork.transactions}
    changes: dict[str, list[Change]] = {}
    for treatment in dict.fromkeys(fork.treatment for fork in forks if fork.treatment != baseline):
        pairs = [
            (usual[fork.world], fork)
            for fork in forks
            if fork.treatment == treatment and fork.world in usual and fork.transactions
        ]
        if pairs:
            changes[treatment] = _changes(pairs)
    return changes


def _changes(pairs: Sequence[tuple[Counted, Counted]]) -> list[Change]:
    names = sorted({name for pair in pairs for fork in pair for name in fork.counters})
    changes = [_change(name, pairs) for name in names]
    largest = sorted(changes, key=lambda one: -abs(one.change))
    cpu = [change for change in largest if change.counter.endswith(_CPU)]
    changed = sorted((change for change in largest if change.change), key=lambda one: not one.plain)
    calls = [change for change in changed if change.counter.startswith(_CALLS)]
    instructions = [change for change in changed if change.counter.startswith(_INSTRUCTIONS)]
    others = [
        change for change in changed if not change.counter.endswith(_CPU) and not change.counter.startswith(_EXECUTED)
    ]
    others.sort(key=lambda one: (not one.plain, -abs(one.change) / (one.baseline or abs(one.change))))
    return cpu + others[:_MOST] + calls[:_MOST_CALLS] + instructions[:_MOST_INSTRUCTIONS]


def _change(name: str, pairs: Sequence[tuple[Counted, Counted]]) -> Change:
    unit = 1e-3 if name.endswith(_CPU) else 1.0
    rates = np.array([[unit * fork.counters.get(name, 0.0) / fork.transactions for fork in pair] for pair in pairs])
    changes = rates[:, 1] - rates[:, 0]
    mean, interval = float(changes.mean()), None
    if len(changes) > 1:
        error = float(changes.std(ddof=1)) / len(changes) ** 0.5
        reach = _quantile(len(changes) - 1) * error
        interval = Interval(mean - reach, mean + reach)
    return Change(name, float(rates[:, 0].mean()), mean, interval, len(changes))


@cache
def _quantile(free: int) -> float:
    return float(distributions.t.ppf((1 + _LEVEL) / 2, free))
