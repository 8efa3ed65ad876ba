"""Racing many treatments: after every round those shown worse than the best are left out.

A treatment leaves when its one-sided simultaneous bound against some other one excludes that it is the best: multiple
comparisons with the best (Hsu, Annals of Statistics 12, 1984), with the error rate spent over the rounds. Successive
elimination itself: Even-Dar, Mannor and Mansour, J. Machine Learning Research 7 (2006).

The level of each round is fixed before the race, and calibrated on races of equal treatments
(``leadline.planning.equals``): among any number of equal ones, a given one is lost with probability 1 - level at most.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from leadline.analysis.linear import fit
from leadline.analysis.scale import Scale, response_kind
from leadline.analysis.strata import Stratum, centred
from leadline.analysis.unequal import UnequalFit, unequal
from leadline.design.seeds import shuffled
from leadline.model.plan import Treatment
from leadline.model.result import Observation
from leadline.planning.data import usable
from leadline.planning.equals import round_levels
from leadline.planning.sequential import Spending, pocock_spending
from leadline.planning.shape import Floats


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

    def propose(self, seed: int) -> tuple[Treatment, ...]:
        """The treatments of the next block, in random order; none when the race is over."""
        return () if self.finished else tuple(shuffled(self.running, seed, "race", self.rounds))


def race(
    treatments: Sequence[Treatment],
    observations: Sequence[Observation],
    response: str,
    rounds: int,
    blocks: int = 2,
    level: float = 0.95,
    margin: float = 0.0,
    spending: Spending = pocock_spending,
) -> Race:
    """Where a race of ``treatments`` stands, from the trials of all complete rounds of ``blocks`` blocks each.

    ``margin``: percent by which treatments may differ and count as equally good; the race ends when all that run are
    within it. Pure: earlier rounds are decided again from the same observations. Raises ValueError for fewer than two
    treatments.
    """
    if len(treatments) < 2 or len(set(treatments)) != len(treatments):
        raise ValueError("a race needs two or more different treatments")
    done = min(rounds, (1 + max((each.block for each in observations), default=-1)) // blocks)
    ends = tuple(blocks * number for number in range(1, rounds + 1))
    levels = fixed_levels(len(treatments), rounds, blocks, level, spending)
    field = Field.of(treatments, observations, response, ends, levels)
    left: dict[Treatment, tuple[int, str]] = {}
    table: list[Standing] = [Standing(each, 0, None, None, None) for each in treatments]
    over = False
    for number in range(1, done + 1):
        table, out = field.judge(number, left)
        left.update({each: (number, why) for each, why in out.items()})
        over = decided(table, left, margin)
        if over:
            done = number
            break
    return standing(treatments, table, left, done, rounds, over, margin)


def decided(table: Sequence[Standing], left: Mapping[Treatment, object], margin: float) -> bool:
    """Whether one treatment is left, or all that are left are within ``margin`` percent of the best."""
    running = [each for each in table if each.treatment not in left]
    close = margin > 0 and all(each.at_most is not None and each.at_most <= margin for each in running)
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
    running = [each for each in treatments if each not in left]
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


@lru_cache(maxsize=64)
def fixed_levels(treatments: int, rounds: int, blocks: int, level: float, spending: Spending) -> tuple[float, ...]:
    """Levels of rounds of so many blocks each, whoever has left."""
    targets = [spending(number / rounds, 1 - level) for number in range(1, rounds + 1)]
    return round_levels(treatments, lambda used, _size, _number: np.full_like(used, blocks), targets, False)


@dataclass(frozen=True)
class Field:
    """Trials of a race on the scale on which it is judged, more being better. ``ends``: blocks after which the rounds
    end, as far as they are known; ``levels``: of one t test, by round.
    """

    treatments: tuple[Treatment, ...]
    trials: Sequence[Observation]
    values: Floats
    scale: Scale
    higher_is_better: bool
    ends: tuple[int, ...]
    levels: tuple[float, ...]

    @classmethod
    def of(
        cls,
        treatments: Sequence[Treatment],
        observations: Sequence[Observation],
        response: str,
        ends: Sequence[int],
        levels: Sequence[float],
    ) -> Field:
        """From observations; those of other treatments, failed ones and those without a figure are left out."""
        kind = response_kind(response)
        trials = [each for each in usable(observations, response) if each.treatment in set(treatments)]
        figures = np.array([each.responses[response] for each in trials], dtype=np.float64)
        scale = Scale(
            kind.unit != "share" and bool(np.all(figures > 0)), float(figures.mean()) if len(figures) else 0.0
        )
        values = scale.into(figures) * (1.0 if kind.higher_is_better else -1.0)
        return cls(
            tuple(treatments),
            trials,
            values,
            scale,
            kind.higher_is_better,
            tuple(ends),
            tuple(levels),
        )

    def judge(
        self, number: int, left: Mapping[Treatment, tuple[int, str]]
    ) -> tuple[list[Standing], dict[Treatment, str]]:
        """Standings after a round, best first, and who is left out by it, with the reason."""
        counts = {
            each: sum(one.treatment == each and self._round(one) < number for one in self.trials)
            for each in self.treatments
        }
        # Who has no figure at all has left already; nothing can be said of the others beside it.
        known = [each for each in self.treatments if counts[each] or each not in left]
        running = [each for each in known if each not in left]
        alpha = self.levels[number - 1]
        blank = [Standing(each, counts[each], None, None, None) for each in self.treatments]
        fitted = self._fitted(known, number) if len(known) > 1 and alpha > 0 else None
        if fitted is None:
            return blank, {}
        means = dict(zip(known, map(float, fitted.beta), strict=True))
        pairs = list(itertools.combinations(known, 2))
        rows = np.array([[float(each == one) - float(each == other) for each in known] for one, other in pairs])
        errors, degrees = (
            fitted.errors(rows),
            fitted.degrees(rows),
        )  # ``together`` lost five times as noisy ones in 10 %
        reaches = {
            frozenset(pair): float(error * stats.t.isf(alpha, df))
            for pair, error, df in zip(pairs, errors, degrees, strict=True)
        }
        leader = max(running, key=lambda each: means[each])
        table, out = [], {}
        for each in known:
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
        return [*table, *(each for each in blank if each.treatment not in known)], out

    def _why(self, number: int, behind: float | None) -> str:
        size = "" if behind is None else f" ({behind:+.2g} % against the leader)"
        return f"worse than the best with the race's confidence after round {number} of {len(self.levels)}{size}"

    def _percent(self, gap: float) -> float | None:
        return self.scale.percent(gap if self.higher_is_better else -gap)

    def _round(self, trial: Observation) -> int:
        return bisect.bisect_right(self.ends, trial.block)

    def _fitted(self, known: Sequence[Treatment], number: int) -> UnequalFit | None:
        """Means of the treatments (k) inside blocks, from the rounds until ``number``, each with a noise of its own.
        None where not all of them can be compared.
        """
        chosen = [at for at, one in enumerate(self.trials) if self._round(one) < number and one.treatment in set(known)]
        chosen.sort(key=lambda at: self.trials[at].block)
        blocks = np.array([self.trials[at].block for at in chosen], dtype=np.int64)
        cells = np.array([known.index(self.trials[at].treatment) for at in chosen], dtype=np.int64)
        starts = np.flatnonzero(np.diff(blocks, prepend=-1)).astype(np.int64)
        columns = np.asarray(cells[:, None] == np.arange(len(known)), dtype=np.float64)
        inside, values = centred(columns, starts), centred(self.values[chosen][:, None], starts)[:, 0]
        plain = fit(inside, values, len(starts))
        if plain.df <= 0 or plain.sigma == 0 or len(plain.rows.T) < len(known) - 1:
            return None
        return unequal(plain, columns, self.values[chosen], Stratum("block", starts), {None: cells})
