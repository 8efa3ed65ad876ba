"""Noisy bisection against bisection with fixed repeats: trials, and how often each is right, also in bad weather.

``python bench/statistics/bisection.py [PLAYS] [ROWS...]``: a row of the table in docs/evidence/bisection.md
for each case whose name holds one of ROWS. Effects in standard deviations of a trial.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from leadline.planning.bisection import Bisection, Changes, Found
from leadline.planning.probes import halves, play, prefixes

MARGIN = 0.5  # a difference of the ends below this makes no difference
MOST = 300
FIXED = 20_000  # plays of the bisection with fixed repeats


@dataclass(frozen=True)
class Case:
    """``steps``: share of the effect of each culprit, at places that are drawn. ``gradual``: all have a part."""

    name: str
    effect: float
    changes: int = 15
    steps: tuple[float, ...] = (1.0,)
    gradual: bool = False
    ordered: bool = True
    outliers: float = 0.0  # share of trials that lose 6
    drift: float = 0.0  # of a random walk, from trial to trial
    trend: float = 0.0  # a straight drift, from trial to trial
    unequal: float = 1.0  # noise where the first culprit is at work
    exact: bool = False


CASES = (
    *(
        Case(f"{levels} levels, effect {effect:g}", effect, levels - 1)
        for levels in (8, 16, 64)
        for effect in (1.5, 2, 3, 5)
    ),
    Case("16 levels, exact", 1.0, exact=True),
    Case("no effect", 0.0),
    Case("outliers: 5 % of trials lose 6", 3.0, outliers=0.05),
    Case("drift: random walk of 0.5 a trial", 3.0, drift=0.5),
    Case("drift: straight, 0.2 a trial", 3.0, trend=0.2),
    Case("noise twice as large on the far side", 3.0, unequal=2.0),
    Case("two steps, halves", 6.0, steps=(0.5, 0.5)),
    Case("two steps, two thirds and one", 6.0, steps=(2 / 3, 1 / 3)),
    Case("gradual over all levels", 6.0, gradual=True),
    Case("12 settings, one culprit", 3.0, 12, ordered=False),
    Case("12 settings, two culprits", 6.0, 12, (0.5, 0.5), ordered=False),
    Case("12 settings, two that oppose", 3.0, 12, (2.0, -1.0), ordered=False),
    Case("12 settings, three culprits", 9.0, 12, (1 / 3, 1 / 3, 1 / 3), ordered=False),
    Case("12 settings, no effect", 0.0, 12, ordered=False),
)


class Trials:
    """Figures of one play's trials, in their order."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._rng, self._count, self._walk = case, np.random.default_rng([7, seed]), 0, 0.0
        self.culprits = tuple(sorted(self._rng.choice(case.changes, len(case.steps), replace=False).tolist()))
        shares = case.steps if case.ordered else self._rng.permutation(case.steps).tolist()
        self._effects = dict(zip(self.culprits, shares, strict=True))

    def __call__(self, held: Changes) -> float:
        case = self._case
        share = (
            len(held) / case.changes
            if case.gradual
            else sum(self._effects[one] for one in self.culprits if one in held)
        )
        self._count += 1
        self._walk += case.drift * float(self._rng.normal())
        noise = 0.0 if case.exact else float(self._rng.normal()) * (case.unequal if self.culprits[0] in held else 1.0)
        lost = 6.0 if self._rng.random() < case.outliers else 0.0
        return case.effect * share + noise - lost + self._walk + case.trend * self._count


@dataclass(frozen=True)
class Row:
    case: Case
    right: float
    wrong: float
    trials: float
    probes: float
    found: Counter[str]


def noisy(case: Case, plays: int) -> Row:
    """Bisections as leadline runs them."""
    right, wrong, trials, probes, found = 0, 0, 0, 0, Counter[str]()
    for seed in range(plays):
        measure = Trials(case, seed)
        usable = prefixes(case.changes) if case.ordered else halves(case.changes, seed)
        state = play(Bisection(case.changes, (), usable, case.exact, MARGIN), measure, MOST)
        verdict = _right(case, state, measure.culprits)
        right += verdict is True
        wrong += verdict is False
        trials += state.trials
        probes += len(state.blocks)
        found[state.found.value] += 1
    return Row(case, right / plays, wrong / plays, trials / plays, probes / plays, found)


def _right(case: Case, state: Bisection, culprits: tuple[int, ...]) -> bool | None:
    """None where it says that it does not know."""
    if state.found is Found.OPEN:
        return None
    if case.effect == 0:
        return state.found is Found.NONE
    if case.gradual or len(culprits) > 2:
        return state.found is Found.MANY
    places = tuple((one,) for one in culprits)
    return state.found is (Found.ONE if len(culprits) == 1 else Found.TWO) and state.places == places


def fixed(case: Case, repeats: int, plays: int, blocked: bool = True) -> tuple[float, int]:
    """Share of wrong bisections of ordered levels, and trials. The ends ``repeats`` times, then at each step the middle
    as often, in blocks with A; whatever is nearer than half the difference of the ends to A is A's side. Without blocks
    A is not run again.
    """
    wrong, trials = 0, 0
    for seed in range(plays):
        measure = Trials(case, seed)
        every = prefixes(case.changes)
        ends = [measure(held) for _ in range(repeats) for held in (every[0], every[-1])]
        base, half = np.mean(ends[::2]), (np.mean(ends[1::2]) - np.mean(ends[::2])) / 2
        low, high, trials = 0, case.changes, 2 * repeats
        while high - low > 1:
            middle = (low + high) // 2
            if blocked:
                pairs = [(measure(every[0]), measure(every[middle])) for _ in range(repeats)]
                difference = float(np.mean([after - before for before, after in pairs]))
            else:
                difference = float(np.mean([measure(every[middle]) for _ in range(repeats)]) - base)
            trials += (1 + blocked) * repeats
            low, high = (low, middle) if (difference - half) * half > 0 else (middle, high)
        wrong += low != measure.culprits[0]
    return wrong / plays, trials


def needed(effect: float, changes: int, error: float, blocked: bool = True) -> tuple[int, float]:
    """Repeats that a bisection with fixed repeats needs in plain noise for this share of errors, and its trials."""
    rng, steps = np.random.default_rng(3), math.ceil(math.log2(changes))
    for repeats in range(1, 500):
        size = (FIXED, steps)
        scale = 1 / math.sqrt(repeats)
        start, end = (rng.normal(0, scale, (FIXED, 1)) for _ in range(2))
        half = (effect + end - start) / 2
        base = rng.normal(0, scale, size) if blocked else start
        # a wrong step is as likely whether the middle is on A's side or on B's
        side = rng.random(size) < 0.5
        difference = side * effect + rng.normal(0, scale, size) - base
        if float(np.mean(np.any((difference > half) != side, axis=1))) <= error:
            return repeats, repeats * (2 + steps * (1 + blocked))
    raise ValueError(f"an effect of {effect:g} needs 500 repeats or more")


def lines(plays: int, wanted: list[str]) -> Iterator[str]:
    """The table, row by row."""
    for case in CASES:
        if wanted and not any(word in case.name for word in wanted):
            continue
        row = noisy(case, plays)
        words = ", ".join(f"{word} {count / plays:.0%}" for word, count in row.found.most_common())
        cells = [case.name, f"{row.right:.1%}", f"{row.wrong:.1%}", f"{row.probes:.1f}", f"{row.trials:.0f}", words]
        plain = case.ordered and len(case.steps) == 1 and not case.gradual and case.effect > 0 and not case.exact
        if plain:
            repeats, trials = needed(case.effect, case.changes, max(row.wrong, 0.5 / plays))
            _, loose = needed(case.effect, case.changes, max(row.wrong, 0.5 / plays), blocked=False)
            error, _ = fixed(case, repeats, 5 * plays)
            cells += [f"{trials} ({repeats})", f"{row.trials / trials:.2f}", f"{error:.1%}", f"{loose}"]
        else:
            cells += ["", "", "", ""]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    plays = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    heads: tuple[str, ...] = (
        "case",
        "right",
        "wrong",
        "probes",
        "trials",
        "found",
        "fixed repeats: trials (repeats)",
        "ratio",
    )
    heads = (*heads, "fixed repeats: wrong", "without blocks: trials")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for line in lines(plays, sys.argv[2:]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
