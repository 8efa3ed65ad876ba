"""The course of a race that a plan of the kind ``racing`` runs: rounds, who left after which, who runs on.

A race has as many trials as its plan, whoever leaves. A round is some blocks; at its end levels that are shown worse
than the best leave (``leadline.planning.race``), and the trials left are planned again for the others. The baseline is
a runner like all others and can leave, too, but stays in every block, because effects are told against it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from leadline.design.one_at_a_time import treatments as treatments_of
from leadline.design.racing import lay_out
from leadline.model.errors import FailureClass
from leadline.model.plan import Plan, Treatment
from leadline.model.result import Observation
from leadline.planning.race import Field, Race, Standing, decided, standing


@dataclass(frozen=True)
class Course:
    """``plan``: as it now stands. ``ends``: block after which each round ends, decided ones first; ``shares``: part of
    all trials that is run by then. ``next_position``: the trial before which the next round can be decided, None when
    no decision is left. ``reason`` is empty until the race is over.
    """

    plan: Plan
    ends: tuple[int, ...]
    shares: tuple[float, ...]
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
    run = [each for each in observations if each.failure is not FailureClass.INTERRUPTED]
    finished = {each.position for each in run}
    left: dict[Treatment, tuple[int, str]] = {}
    table = [Standing(each, 0, None, None, None) for each in field]
    members: list[list[Treatment]] = []
    ends: list[int] = []
    shares: list[float] = []
    done, over, deciding = 0, False, True
    next_position: int | None = None
    for number in range(1, rounds + 1):
        used = sum(map(len, members))
        if used == total:
            break
        runners = [each for each in field if each not in left or each == plan.baseline]
        members += _blocks(runners, total, used, number, rounds)
        ends.append(len(members))
        used = sum(map(len, members))
        shares.append(used / total)
        if deciding and not finished >= set(range(used)):
            deciding, next_position = False, used if used < total else None
        if not deciding:
            continue
        field_of = Field.of(
            field, run, response, ends, [*shares[:-1], 1.0] if used == total else shares, level, rounds=rounds
        )
        left.update(_without_figures(field, run, response, plan.baseline, len(members), left, number))
        table, out = field_of.judge(number, left)
        left.update({each: (number, why) for each, why in out.items()})
        done, over = number, decided(table, left, margin)
        if over:
            runners = [each for each in field if each not in left or each == plan.baseline]
            while (rest := total - sum(map(len, members))) > 0:
                members.append(runners[:rest])
            break
    last = done == len(ends) and not over
    race = standing(field, table, left, rounds if last and done else done, rounds, over, margin)
    return Course(lay_out(plan, members), tuple(ends), tuple(shares), race, next_position, over)


def _blocks(runners: Sequence[Treatment], total: int, used: int, number: int, rounds: int) -> list[list[Treatment]]:
    """Blocks of one round: until the round's share of all trials is reached, the first round at least two; the last
    round takes all trials that are left, in a short block what does not fill one.
    """
    rest, size = total - used, len(runners)
    if number == rounds or rest < 2 * size:
        whole, short = divmod(rest, size)
        return [list(runners)] * whole + ([list(runners[:short])] if short else [])
    wanted = math.floor((total * number / rounds - used) / size + 0.5)
    return [list(runners)] * min(max(wanted, 2 if number == 1 else 1), rest // size)


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
    found: dict[Treatment, tuple[int, str]] = {}
    for each in field:
        trials = [one for one in run if one.treatment == each and one.block < blocks]
        if (
            each in left
            or each == baseline
            or any(one.failure is None and one.responses.get(response) is not None for one in trials)
        ):
            continue
        found[each] = (number, f"none of its {len(trials)} trials gave a figure by round {number}")
    return found
