"""The study of a gate: what has a change against what has not, side by side, as long as a budget lasts."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from typing import Any

from leadline.host.timing import Stopwatch
from leadline.model.conditions import parse
from leadline.model.errors import UsageError, quoted
from leadline.model.result import PROCESS_RESPONSES, RESPONSES
from leadline.model.units import format_duration
from leadline.planning.watched import FEWEST
from leadline.trial.command import Command

NAME, FACTOR, BASE, HEAD = "gate", "build", "base", "head"
OF_COMMANDS = ("wall>10%", "cpu>3%")  # conditions where none are given
LOAD_RESPONSES = tuple(name for name in RESPONSES if name not in PROCESS_RESPONSES)
_MOST_BLOCKS = 100
_LONG_ENOUGH = 1.0  # seconds of a trial of a program: a shorter one runs several times
_MOST_RUNS = 10
_BESIDE = 0.4  # seconds of a trial beside its runs
_TIMEOUT = 600.0


def command_study(base: Command, head: Command, fail: Sequence[str], budget: float, seed: int) -> dict[str, Any]:
    """The keys of a study of two programs; the first is run twice, for what a run takes. Raises UsageError where it
    fails, and for a budget (seconds) that is too short.
    """
    with Stopwatch() as watch:
        for _ in range(2):
            timed = watch.time(base.argv, _TIMEOUT, frozenset({0}))
            if timed.why:
                raise UsageError(f"BASE {quoted(base.text)} fails: {timed.why}")
    seconds = max(timed.figures["wall"], 1e-3)
    runs = min(_MOST_RUNS, max(1, round(_LONG_ENOUGH / seconds)))
    fail = fail or OF_COMMANDS
    return {
        "question": f"Does {head.text} do harm instead of {base.text}?"[:400],
        "command": {
            "run": f"{{{FACTOR}}}",
            "levels": {FACTOR: {BASE: shlex.join(base.argv), HEAD: shlex.join(head.argv)}},
            "runs": runs,
            "warmup": 0,
            "seconds": seconds,
            "timeout": max(_TIMEOUT, 10 * seconds),
        },
        **_common(FACTOR, fail, ("wall", "cpu"), PROCESS_RESPONSES, budget),
        "design": {**_watched(blocks_within(budget, 2 * (runs * seconds + _BESIDE)), seed), "sentinels": None},
    }


def blocks_within(budget: float, seconds: float) -> int:
    """How many blocks of so many seconds a budget holds. Raises UsageError where they are too few."""
    blocks = min(_MOST_BLOCKS, math.floor(budget / seconds))
    if blocks < FEWEST + 1:
        least = format_duration(math.ceil((FEWEST + 1) * seconds))
        raise UsageError(
            f"--budget {format_duration(budget)}: a block of both takes about {format_duration(round(seconds, 1))}, "
            f"and a verdict needs {FEWEST + 1} of them; write --budget {least} or more"
        )
    return blocks


def _watched(blocks: int, seed: int) -> dict[str, Any]:
    return {"replicates": blocks, "looks": "watched", "seed": seed}


def _common(
    factor: str, fail: Sequence[str], usual: Sequence[str], known: Sequence[str], budget: float
) -> dict[str, Any]:
    """Keys of every gate. Raises UsageError for a condition on what is not measured."""
    conditions = parse(fail, known)
    return {
        "study": NAME,
        "factors": {factor: [BASE, HEAD]},
        "responses": list(dict.fromkeys([*(condition.response for condition in conditions), *usual])),
        "fail": [condition.text for condition in conditions],
        "budget": format_duration(budget),
    }
