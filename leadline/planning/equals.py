"""How strictly each round of a race must judge: levels calibrated on simulated races of equal treatments.

Who leaves depends on the data, and so does who gets the freed trials; bounds that take the trials of a race as if they
had been fixed lose a given one of equal treatments in about 6 % of races instead of 5 %. So the race itself is played,
some ten thousand times, with treatments that do not differ, and each round gets the level at which a given one is lost
as often as its share of the error rate allows. The levels are those of a single one-sided t test, which carries them
over to the degrees of freedom at hand (significance level approach: Jennison and Turnbull, Group Sequential Methods,
2000, section 4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from leadline.analysis.table import Floats, Ints

SEED = 7_253
DRAWS, _FEWEST = 32_768, 4_096
_WORK = 2e7  # normal numbers drawn

Blocks = Callable[[Ints, Ints, int], Ints]  # (trials used (n), treatments in a block (n), round from 1) -> blocks (n)


def round_levels(treatments: int, blocks: Blocks, targets: Sequence[float], keeps_first: bool) -> tuple[float, ...]:
    """Levels of the rounds, 0 where a round can decide nothing. None is above the largest before it: what is left of
    the error rate is not spent on the few races that get as far as a late round.

    ``targets``: the error that may have been spent after each round. ``keeps_first``: the first treatment stays in the
    blocks when it has left.
    """
    field = _Field(_draws(treatments, len(targets)), treatments, keeps_first)
    levels: list[float] = []
    for number, target in enumerate(targets, 1):
        p_values = field.play(blocks, number)
        most = max(levels, default=0.0) or targets[-1]
        levels.append(min(most, field.level(p_values, target)))
        field.leave(p_values, levels[-1])
    return tuple(levels)


def shares_lost(blocks: Blocks, levels: Sequence[float], keeps_first: bool, gains: Floats) -> Floats:
    """How often each treatment (n) leaves races with these levels, where treatments differ by ``gains`` (n), in
    standard deviations of a trial.
    """
    field = _Field(_draws(len(gains), len(levels)), len(gains), keeps_first, SEED + 1)
    for number, level in enumerate(levels, 1):
        field.leave(field.play(blocks, number, gains), level)
    return np.asarray(field.lost.mean(axis=0), dtype=np.float64)


def _draws(treatments: int, rounds: int) -> int:
    return int(np.clip(_WORK / (treatments * rounds), _FEWEST, DRAWS))


class _Field:
    """Many races at once. Treatments that share all blocks so far differ by their plain means, and a round adds to the
    residual sum of squares what it has inside and what its means differ from those before.
    """

    def __init__(self, draws: int, treatments: int, keeps_first: bool, seed: int = SEED) -> None:
        self.rng = np.random.default_rng(seed)
        self.keeps_first = keeps_first
        self.lost: NDArray[np.bool_] = np.zeros((draws, treatments), dtype=bool)
        self.means: Floats = np.zeros((draws, treatments))
        self.done: Ints = np.zeros(draws, dtype=np.int64)  # blocks
        self.used: Ints = np.zeros(draws, dtype=np.int64)  # trials
        self.squares: Floats = np.zeros(draws)
        self.df: Ints = np.zeros(draws, dtype=np.int64)

    def play(self, blocks: Blocks, number: int, gains: Floats | float = 0.0) -> Floats:
        """One round; p values (draws, treatments) that a treatment is the best, 1 where nothing is decided."""
        members = ~self.lost
        over = members.sum(axis=1) < 2
        if self.keeps_first:
            members[:, 0] = True
        size = members.sum(axis=1)
        fresh = np.where(over, 0, blocks(self.used, size, number))
        plays = fresh > 0
        noise = self.rng.standard_normal(self.means.shape) / np.sqrt(np.maximum(fresh, 1))[:, None]
        figures = noise + gains
        inside = np.maximum(fresh - 1, 0) * (size - 1)
        chi = self.rng.gamma(np.maximum(inside, 1) / 2, 2.0)
        apart = np.where(members, self.means - figures, 0.0)
        apart = np.where(members, apart - (apart.sum(axis=1) / size)[:, None], 0.0)
        weight = np.where(plays, self.done * fresh / np.maximum(self.done + fresh, 1), 0.0)
        self.squares += np.where(inside > 0, chi, 0.0) + weight * np.sum(apart**2, axis=1)
        self.df += np.where(plays, inside + np.where(self.done > 0, size - 1, 0), 0)
        share = np.where(plays, fresh / np.maximum(self.done + fresh, 1), 0.0)[:, None]
        self.means = np.where(members, (1 - share) * self.means + share * figures, self.means)
        self.done += fresh
        self.used += fresh * size
        return self._p_values(plays & (self.df > 0))

    def _p_values(self, decides: NDArray[np.bool_]) -> Floats:
        running = ~self.lost
        best = np.max(np.where(running, self.means, -np.inf), axis=1, keepdims=True)
        df = np.maximum(self.df, 1)
        error = np.sqrt(self.squares / df * 2 / np.maximum(self.done, 1))
        behind = np.where(running, best - self.means, 0.0) / np.where(error > 0, error, np.inf)[:, None]
        p = np.where(behind > 0, special.stdtr(df[:, None], -behind), 1.0)
        return np.asarray(np.where(decides[:, None], p, 1.0), dtype=np.float64)

    def level(self, p_values: Floats, target: float) -> float:
        """The largest level at which no more than ``target`` of the treatments have been lost after this round."""
        room = int(target * self.lost.size) - int(self.lost.sum())
        if room < 1:
            return 0.0
        chosen = np.partition(p_values.ravel(), room - 1)[room - 1]
        return float(chosen)

    def leave(self, p_values: Floats, level: float) -> None:
        self.lost |= p_values < level
