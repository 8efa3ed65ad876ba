"""The course of a race that a plan of the kind ``racing`` runs: rounds, who left after which, who runs on.

A race has as many trials as its plan, whoever leaves. A round is some blocks; at its end levels that are shown worse
than the best leave (``leadline.planning.race``), and the trials left are planned again for the others. The baseline is
a runner like all others and can leave, too, but stays in every block, because effects are told against it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np

from leadline.analysis.interim import Interim
from leadline.analysis.table import Ints
from leadline.analysis.unequal import FEWEST
from leadline.analysis.within import Information
from leadline.design.one_at_a_time import treatments as treatments_of
from leadline.design.racing import lay_out
from leadline.model.errors import FailureClass
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation
from leadline.planning.boundary import Boundary
from leadline.planning.equals import round_levels
from leadline.planning.paths import pocock_spending, simulate
from leadline.planning.race import Field, Race, Standing, decided, standing


@dataclass(frozen=True)
class Course:
    """``plan``: as it now stands. ``ends``: block after which each round ends, decided ones first. ``next_position``:
    the trial before which the next round can be decided, None when no decision is left. ``reason`` is empty until the
    race is over.
    """

    plan: Plan
    ends: tuple[int, ...]
    race: Race
    next_position: int | None
    over: bool

    @property
    def reason(self) -> str:
        return self.race.reason if self.over else ""


def course(
    plan: Plan,
    observations: Sequence[Observation],
    response: str,
    rounds: int,
    margin: float = 0.0,
    level: float = 0.95,
) -> Course:
    """Where the race of ``plan`` stands, from its finished trials; ``plan`` may be of any stage of the race.

    Pure: every round is decided again from the trials of its own and earlier blocks, so that a study that was cut off
    decides as one that was not. ``margin``: percent within which levels count as equally good.
    """
    field = treatments_of(plan.factors)
    total = len(plan.trials)
    levels = race_levels(len(field), total, rounds, level)
    run = [observation for observation in observations if observation.failure is not FailureClass.INTERRUPTED]
    trials = Field.of(plan, run, response, levels)
    finished = {each.position for each in run}
    gone: dict[Treatment, tuple[int, str]] = {}
    table = [Standing(treatment, 0, None, None, None) for treatment in field]
    members: list[list[Treatment]] = []
    ends: list[int] = []
    done, over, deciding = 0, False, True
    next_position: int | None = None
    for number in range(1, rounds + 1):
        used = sum(map(len, members))
        if used == total:
            break
        runners = [treatment for treatment in field if treatment not in gone or treatment == plan.baseline]
        members += _blocks(runners, total, used, number, rounds)
        ends.append(len(members))
        used = sum(map(len, members))
        if deciding and not finished >= set(range(used)):
            deciding, next_position = False, used if used < total else None
        if not deciding:
            continue
        gone.update(_without_figures(field, run, response, plan.baseline, len(members), gone, number))
        table, out = trials.judge(number, len(members), gone)
        gone.update({treatment: (number, why) for treatment, why in out.items()})
        done, over = number, decided(table, gone, margin)
        if over:
            runners = [treatment for treatment in field if treatment not in gone or treatment == plan.baseline]
            while (rest := total - sum(map(len, members))) > 0:
                members.append(runners[:rest])
            break
    last = done == len(ends) and not over
    race = standing(field, table, gone, rounds if last and done else done, rounds, over, margin)
    return Course(lay_out(plan, members), tuple(ends), race, next_position, over)


def _blocks(runners: Sequence[Treatment], total: int, used: int, number: int, rounds: int) -> list[list[Treatment]]:
    """Blocks of one round; the last round takes all trials that are left, in a short block what does not fill one."""
    size = len(runners)
    whole = int(whole_blocks(total, rounds, np.array(used), np.array(size), number))
    rest = total - used - whole * size
    return [list(runners)] * whole + ([list(runners[:rest])] if 0 < rest < size else [])


def whole_blocks(total: int, rounds: int, used: Ints, size: Ints, number: int) -> Ints:
    """Complete blocks of a round: until its share of all trials is reached, the first round as many as a level's own
    noise takes; all that are left in the last round and where less than two are.
    """
    rest = total - used
    wanted = np.floor((total * number / rounds - used) / size + 0.5).astype(np.int64)
    some = np.minimum(np.maximum(wanted, FEWEST if number == 1 else 1), rest // size)
    return np.asarray(np.where((number == rounds) | (rest < 2 * size), rest // size, some), dtype=np.int64)


def _planned(treatments: int, total: int, rounds: int) -> list[int]:
    """Complete blocks of every round if nobody leaves; 0 for a round for which no trial is left."""
    planned: list[int] = []
    for number in range(1, rounds + 1):
        used = np.array(treatments * sum(planned))
        planned.append(int(whole_blocks(total, rounds, used, np.array(treatments), number)))
    return planned


def _clock(planned: Sequence[int]) -> tuple[float, ...]:
    """Share of the race that is run after each round."""
    return tuple(share / sum(planned) for share in accumulate(planned))


@lru_cache(maxsize=64)
def race_levels(treatments: int, total: int, rounds: int, level: float = 0.95) -> tuple[float, ...]:
    """Levels of the rounds of a race of ``total`` trials, spent as Pocock does on the share run if nobody leaves."""
    targets = [pocock_spending(share, 1 - level) for share in _clock(_planned(treatments, total, rounds))]
    return round_levels(treatments, partial(whole_blocks, total, rounds), targets, True)


@lru_cache(maxsize=64)
def race_boundary(treatments: int, total: int, rounds: int) -> Boundary:
    """The boundary of all comparisons with the baseline over the rounds of a race in which nobody leaves. Pocock's
    spending, whose bounds hardly fall: an estimate that stays what it was when its level left must not be judged less
    strictly later.
    """
    planned = [blocks for blocks in _planned(treatments, total, rounds) if blocks]
    count = treatments - 1
    block = np.eye(count) - np.full((count, count), 1 / treatments)
    parts = [Information(blocks * block, blocks * count) for blocks in planned]
    return Boundary(simulate(parts), _clock(planned), pocock_spending)


def _without_figures(
    field: Sequence[Treatment],
    run: Sequence[Observation],
    response: str,
    baseline: Treatment,
    blocks: int,
    left: Collection[Treatment],
    number: int,
) -> dict[Treatment, tuple[int, str]]:
    """Levels none of whose trials gave a figure: they leave."""
    without: dict[Treatment, tuple[int, str]] = {}
    for treatment in field:
        trials = [trial for trial in run if trial.treatment == treatment and trial.block < blocks]
        if (
            treatment in left
            or treatment == baseline
            or any(trial.failure is None and trial.responses.get(response) is not None for trial in trials)
        ):
            continue
        without[treatment] = (number, f"none of its {len(trials)} trials gave a figure by round {number}")
    return without


def interim_of(found: Course, rounds: int, complete: bool) -> Interim | None:
    """How the trials of a race that ran are judged, so that intervals hold over all ``rounds``. ``complete``: no trial
    is left to run, so that all of the error rate that is not spent yet can be, unless the race ended early.
    """
    field, total = len(treatments_of(found.plan.factors)), len(found.plan.trials)
    boundary = race_boundary(field, total, rounds)
    last = len(boundary.fractions)
    number = last if complete and not found.over else max(1, min(found.race.rounds, last))
    return boundary.interim(number) if last > 1 else None
