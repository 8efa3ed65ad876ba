"""How often a gate errs, simulated with the noise of its own blocks; how strictly a session judges its proposals.

A gate's blocks hold both sides, so the noise is that of the differences of blocks, and the analysis of two levels in
complete blocks is the paired t test, judged after every block (``leadline.analysis.sequential``).

A session has online fallback (Tian and Ramdas, Statistical Methods in Medical Research 30, 2021, 976-993): a proposal
has a share of the error rate by its number, and that of the one before it where that one was shown to be better. The
first eight have 0.1175 each, the j-th after them 0.06 / (j (j + 1)). The rate of a proposal is settled before its first
trial and its trials are its own, so the bound holds however proposals are chosen, repeated or stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.sequential import FEWEST, bounds
from leadline.analysis.table import Floats
from leadline.model import distributions
from leadline.model.conditions import Condition
from leadline.model.plan import Plan
from leadline.model.result import Observation

RATE = 0.05  # share of sessions that may keep anything that is not better
POWER = 0.8
_MOST = 1_000  # blocks, as of any study
_EQUAL, _THEIRS = 8, 0.94  # so many first proposals have equal parts of this share


def rate_of(shown: Sequence[bool]) -> float:
    """One-sided error rate of the next proposal. ``shown``: of each before it, whether it was shown to be better."""
    carried = 0.0
    for number, better in enumerate([*shown, False], 1):
        rate = RATE * _share(number) + carried
        carried = rate if better else 0.0
    return rate


def _share(number: int) -> float:
    after = number - _EQUAL
    return _THEIRS / _EQUAL if after <= 0 else (1 - _THEIRS) / (after * (after + 1))


def blocks_at(rate: float, alone: int) -> int:
    """Blocks that find at ``rate`` what ``alone`` blocks find in one comparison alone, judged on both sides."""

    def needed(alpha: float) -> float:
        return float(distributions.norm.isf(alpha) + distributions.norm.ppf(POWER)) ** 2

    return min(_MOST, math.ceil(alone * needed(rate) / needed(RATE / 2)))


PULLS = 1000  # simulated pull requests
_EFFECTS = (5.0, 10.0, 20.0, 50.0, 100.0)  # percent of harm that is told of
_BEYOND = 1.5  # times the margin is the least of them


@dataclass(frozen=True)
class GateRates:
    """Shares of simulated pull requests. ``fail``: without a change, and broken; ``undecided``: without a change.
    ``found`` holds for each condition a harm in percent and how often it is called broken. ``noise``: standard
    deviation of the differences in percent, by condition. From so many ``blocks``, for a plan of ``of``.
    """

    fail: float
    undecided: float
    found: tuple[tuple[Condition, float, float], ...]
    noise: tuple[float, ...]
    blocks: int
    of: int


def differences(plan: Plan, observations: Sequence[Observation], conditions: Sequence[Condition]) -> Floats:
    """(blocks, conditions): logarithms of the head's figure over the base's, signed so that growth is harm, of the
    blocks that have both for every condition.
    """
    base, rows = plan.baseline, []
    for block in sorted({observation.block for observation in observations}):
        row = []
        for condition in conditions:
            sides: tuple[list[float], list[float]] = ([], [])
            for observation in observations:
                figure = observation.responses.get(condition.response, 0.0) if observation.failure is None else 0.0
                if observation.block == block and figure > 0:
                    sides[observation.treatment != base].append(math.log(figure))
            if all(sides):
                row.append(condition.sign * float(np.mean(sides[1]) - np.mean(sides[0])))
        if len(row) == len(conditions):
            rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(conditions))


def harm_to_find(condition: Condition) -> float:
    """The smallest harm in percent, of the usual ones, that is well beyond the margin."""
    margin = condition.margin or 0.0
    found = next((effect for effect in _EFFECTS if effect >= _BEYOND * margin), _BEYOND * margin)
    return min(found, (100 + margin) / 2) if condition.sign < 0 else found


def gate_rates(
    blocks: int, differences_: Floats, conditions: Sequence[Condition], pulls: int = PULLS, seed: int = 1
) -> GateRates | None:
    """Of a plan of so many ``blocks``; None where the differences (n, conditions) are too few to tell their noise."""
    if len(differences_) < FEWEST or not conditions:
        return None
    centred = differences_ - differences_.mean(axis=0)
    draws = np.random.default_rng(seed).standard_normal((pulls, blocks, len(centred)))
    noise = draws @ centred / math.sqrt(len(centred) - 1)  # as they vary together

    def states(shifts: Floats) -> tuple[Floats, Floats]:
        return ends_of(noise + shifts, conditions)

    broken, undecided = states(np.zeros(len(conditions)))
    found = []
    for at, condition in enumerate(conditions):
        effect = harm_to_find(condition)
        shifts = np.zeros(len(conditions))
        shifts[at] = log_harm(condition, effect)
        found.append((condition, effect, float(states(shifts)[0][:, at].mean())))
    fails = broken.any(axis=1)
    return GateRates(
        float(fails.mean()),
        float((undecided.any(axis=1) & ~fails).mean()),
        tuple(found),
        tuple(100 * math.expm1(float(size)) for size in centred.std(axis=0, ddof=1)),
        len(differences_),
        blocks,
    )


def log_harm(condition: Condition, percent: float) -> float:
    """A harm in percent, as the logarithm by which the figure grows or shrinks."""
    return math.log1p(percent / 100) if condition.sign > 0 else -math.log1p(-min(percent, 99.9) / 100)


def ends_of(figures: Floats, conditions: Sequence[Condition]) -> tuple[Floats, Floats]:
    """(pulls, conditions) broken and undecided, when each ends: as soon as one is broken or all are kept, or with the
    plan.
    """
    pulls, blocks, _ = figures.shape
    first = min(FEWEST, blocks)
    numbers = np.arange(1, blocks + 1)[:, None]
    middle = np.cumsum(figures, axis=1) / numbers
    squares = np.cumsum(figures**2, axis=1) - numbers * middle**2
    critical = np.array([_critical(number, blocks) for number in range(first, blocks + 1)])[:, None]
    numbers, middle, squares = numbers[first - 1 :], middle[:, first - 1 :], squares[:, first - 1 :]
    half = critical * np.sqrt(np.maximum(squares, 0.0) / np.maximum(numbers - 1, 1) / numbers)
    margins = np.array([log_harm(condition, condition.margin or 0.0) for condition in conditions])
    broken, kept = middle - half > margins, middle + half <= margins
    decided = broken.any(axis=2) | kept.all(axis=2)
    ends = np.where(decided.any(axis=1), decided.argmax(axis=1), blocks - first)
    each = np.arange(pulls)
    return broken[each, ends], ~(broken | kept)[each, ends]


def _critical(number: int, blocks: int) -> float:
    """Standard errors to each side of the estimate after ``number`` of the plan's blocks."""
    return float(distributions.t.isf(bounds(blocks).nominal(number / blocks, 0.05) / 2, number - 1))
