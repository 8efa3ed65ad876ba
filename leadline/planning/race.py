"""Racing many treatments: after every round those shown worse than the best are left out.

A treatment leaves when its one-sided simultaneous bound against some other one excludes that it is the best: multiple
comparisons with the best (Hsu, Annals of Statistics 12, 1984), with the error rate spent over the rounds. Successive
elimination itself: Even-Dar, Mannor and Mansour, J. Machine Learning Research 7 (2006).

The level of each round is fixed before the race, and calibrated on races of equal treatments
(``leadline.planning.equals``): among any number of equal ones, a given one is lost with probability 1 - level at most.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import fitted_with_strata
from leadline.analysis.scale import Scale, response_kind, scale_of
from leadline.analysis.table import Sample, StudyTable, cell_of, sample_of
from leadline.design.one_at_a_time import treatments as treatments_of
from leadline.model import distributions
from leadline.model.naming import plain_level
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation


@dataclass(frozen=True)
class Standing:
    """One treatment. ``behind``: percent of change from the leader (0 for the leader itself), ``at_most``: the most it
    can be behind at the round's confidence; both None where nothing is known. ``left``: the round after which it was
    left out.
    """

    treatment: Treatment
    trials: int
    behind: float | None
    at_most: float | None
    left: int | None
    reason: str = ""


@dataclass(frozen=True)
class Race:
    """The state after ``rounds`` rounds: standings, the best first, treatments still running, whether it is over."""

    rounds: int
    of: int
    standings: tuple[Standing, ...]
    running: tuple[Treatment, ...]
    finished: bool
    reason: str


def decided(table: Sequence[Standing], left: Mapping[Treatment, object], margin: float) -> bool:
    """Whether one treatment is left, or all that are left are within ``margin`` percent of the best."""
    running = [standing for standing in table if standing.treatment not in left]
    close = margin > 0 and all(standing.at_most is not None and standing.at_most <= margin for standing in running)
    return len(running) == 1 or close


def standing(
    treatments: Sequence[Treatment],
    table: Sequence[Standing],
    left: Mapping[Treatment, tuple[int, str]],
    done: int,
    rounds: int,
    over: bool,
    margin: float,
) -> Race:
    """The state of a race as values; ``left``: the round after which a treatment left, and why."""
    standings = tuple(
        Standing(each.treatment, each.trials, each.behind, each.at_most, *left.get(each.treatment, (None, "")))
        for each in table
    )
    running = [treatment for treatment in treatments if treatment not in left]
    finished = over or done == rounds
    return Race(done, rounds, standings, tuple(running), finished, _reason(len(running), over, done, rounds, margin))


def _reason(running: int, over: bool, done: int, rounds: int, margin: float) -> str:
    if running == 1:
        return f"one treatment is left after round {done} of {rounds}"
    if over:
        return f"the {running} treatments left after round {done} of {rounds} are within {margin:g} % of each other"
    if done == rounds:
        return f"{running} treatments are not distinguishable from the best by {rounds} rounds"
    return f"{running} treatments run on after round {done} of {rounds}"


@dataclass(frozen=True)
class Field:
    """Trials of a race as the analysis has them. ``cells`` (treatment -> index into the table's): who runs;
    ``levels``: of one t test, by round.
    """

    cells: Mapping[Treatment, int]
    table: StudyTable
    sample: Sample
    scale: Scale
    higher_is_better: bool
    levels: tuple[float, ...]

    @classmethod
    def of(cls, plan: Plan, observations: Sequence[Observation], response: str, levels: tuple[float, ...]) -> Field:
        """From observations; those of other treatments, failed ones and those without a figure are left out."""
        # levels are calibrated for fixed blocks, so that blocks of those that run on are not taken as random
        table = replace(StudyTable.of(plan, observations, plain_level), complete=True)
        kind, (sample, _) = response_kind(response), sample_of(table, response)
        places = {treatment: cell_of(plan.factors, treatment) for treatment in treatments_of(plan.factors)}
        cells = {treatment: table.cells.index(cell) for treatment, cell in places.items() if cell is not None}
        return cls(cells, table, sample, scale_of(kind, sample), kind.higher_is_better, levels)

    def judge(
        self, number: int, end: int, left: Mapping[Treatment, tuple[int, str]]
    ) -> tuple[list[Standing], dict[Treatment, str]]:
        """Standings after a round, best first, and who is left out by it, with the reason. ``end``: the round's blocks
        and those of earlier ones.
        """
        sample = self.sample.only(self.sample.blocks < end)
        counts = {treatment: int(np.sum(sample.cells == cell)) for treatment, cell in self.cells.items()}
        # Who has no figure at all has left already; nothing can be said of the others beside it.
        judged = [cell for cell in self.cells if counts[cell] or cell not in left]
        running = [treatment for treatment in judged if treatment not in left]
        alpha = self.levels[number - 1]
        blank = [Standing(cell, counts[cell], None, None, None) for cell in self.cells]
        if len(judged) < 2 or alpha <= 0:
            return blank, {}
        model, fitted, _ = fitted_with_strata(self.table, sample, self.scale.into(sample.values), False)
        contrasts = np.array([model.treatment(self.table.cells[self.cells[treatment]]) for treatment in judged])
        pairs = list(itertools.combinations(range(len(judged)), 2))
        rows = np.array([contrasts[first] - contrasts[other] for first, other in pairs])
        if fitted.df <= 0 or fitted.sigma == 0 or not all(fitted.estimable(rows)):
            return blank, {}
        more = 1.0 if self.higher_is_better else -1.0
        means = dict(zip(judged, more * fitted.estimates(contrasts), strict=True))
        # ``together`` lost five times as noisy ones in 10 %
        reach_of = fitted.errors(rows) * distributions.t.isf(alpha, fitted.degrees(rows))
        reaches = {
            frozenset((judged[pair], judged[other])): float(reach)
            for (pair, other), reach in zip(pairs, reach_of, strict=True)
        }
        leader = max(running, key=lambda each: means[each])
        table, out = [], {}
        for each in judged:
            gap = means[each] - means[leader]
            behind = self._percent(gap)
            reach = max(
                (means[rival] - means[each] + reaches[frozenset((rival, each))] for rival in running if rival != each),
                default=0.0,
            )
            at_most = self._percent(-max(reach, 0.0))
            table.append(Standing(each, counts[each], behind, None if at_most is None else abs(at_most), None))
            if each in running and each != leader and -gap > reaches[frozenset((leader, each))]:
                out[each] = self._why(number, behind)
        table.sort(key=lambda each: -means[each.treatment])
        return [*table, *(standing for standing in blank if standing.treatment not in judged)], out

    def _why(self, number: int, behind: float | None) -> str:
        size = "" if behind is None else f" ({behind:+.2g} % against the leader)"
        return f"worse than the best with the race's confidence after round {number} of {len(self.levels)}{size}"

    def _percent(self, gap: float) -> float | None:
        return self.scale.percent(gap if self.higher_is_better else -gap)
