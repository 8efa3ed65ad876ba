"""How the effects of a running study narrow: after every complete block, with intervals that hold at all moments
together (``leadline.analysis.sequential``), so that who watches and stops when it is clear is not misled.

They hold whatever rule the study itself follows. A study of fixed size concludes with narrower ones, of one analysis.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

from leadline.model.errors import UsageError
from leadline.model.naming import level_text
from leadline.model.record import StudyRecord
from leadline.planning.looks import Look, due, look, schedule

_MOST = 24  # moments of a long study, evenly spread


@dataclass(frozen=True)
class Moment:
    """After ``blocks`` blocks: change in percent and its interval, None as long as nothing can be told."""

    blocks: int
    percent: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Narrowing:
    """One comparison of one response. ``verdict``: of the last moment."""

    factor: str
    level: str
    verdict: str
    moments: tuple[Moment, ...]


@dataclass(frozen=True)
class Watching:
    """``reason`` says why there is nothing to see yet, or at all. ``blocks``: complete ones and all of them."""

    response: str
    comparisons: tuple[Narrowing, ...]
    blocks: tuple[int, int]
    reason: str = ""


def narrowing(record: StudyRecord, response: str, known: MutableMapping[int, Look] | None = None) -> Watching:
    """Every comparison of a response over the complete blocks. ``known`` keeps looks by their blocks."""
    plan = record.plan
    every = 1 + max(trial.block for trial in plan.trials)
    blocks_left = [trial.planned.block for trial in record.trials if trial.is_left]
    complete = min(blocks_left, default=every)
    nothing = Watching(response, (), (complete, every))
    try:
        blocks = schedule(plan, "watched")
    except UsageError:
        return Watching(response, (), (complete, every), "this design can be judged at its end only")
    number = due(plan, blocks_left, blocks)
    if not number:
        return Watching(response, (), nothing.blocks, f"intervals begin after {blocks[0]} of {every} blocks")
    looks = known if known is not None else {}
    observations, margin = record.observations(), 100 * record.study.equivalence
    for number_ in _spread(number):
        if blocks[number_ - 1] not in looks:
            looks[blocks[number_ - 1]] = look(plan, observations, response, blocks, number_, margin=margin, watch=True)
    chosen = [looks[blocks[each - 1]] for each in _spread(number)]
    rows = []
    for at, settling in enumerate(chosen[-1].settlings):
        moments = []
        for look_ in chosen:
            then = look_.settlings[at]
            bounds = (None, None) if then.interval is None else (then.interval.low, then.interval.high)
            moments.append(Moment(look_.blocks, then.percent, *bounds))
        level = level_text(record.study, settling.comparison.factor, settling.comparison.level)
        rows.append(Narrowing(settling.comparison.factor, level, settling.verdict.value, tuple(moments)))
    return Watching(response, tuple(rows), (complete, every))


def _spread(number: int) -> list[int]:
    """Looks 1 to ``number``, or as many as can be shown, the last always; those of more looks are among them."""
    step = 1
    while number > _MOST * step:
        step *= 2
    return sorted({*range(step, number + 1, step), number})
