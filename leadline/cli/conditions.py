"""``--fail`` and ``--undecided``: what they are, what is printed of them, and the exit code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from leadline.cli.output import say
from leadline.model.conditions import Change, Condition, Judged, exit_code, judge, parse
from leadline.model.judgement import NO_ANSWER_CODE

FailOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail",
        metavar="<condition>",
        help="Fail (exit code 1) where the simultaneous interval proves it: cpu>3%, p99>10%, throughput<-5%; "
        "may be repeated.",
    ),
]


class Undecided(StrEnum):
    """What becomes of a condition whose interval holds both."""

    PASS = "pass"
    FAIL = "fail"


UndecidedOption = Annotated[Undecided, typer.Option(help="Where the interval holds both: pass, or fail (exit code 4).")]


@dataclass(frozen=True)
class Failing:
    """The conditions of a command."""

    conditions: tuple[Condition, ...] = ()
    undecided_fails: bool = True

    @classmethod
    def of(cls, fail: Sequence[str] | None, undecided: Undecided, responses: Collection[str]) -> Failing:
        """Raises UsageError for a condition on another response."""
        return cls(parse(fail or (), responses), undecided is Undecided.FAIL)

    def judge(self, changes: Sequence[Change]) -> tuple[Judged, ...]:
        return judge(self.conditions, changes)

    def code(self, answered: bool, judged: Sequence[Judged]) -> int:
        """4 without an answer, 1 where a condition is broken, 4 where one is undecided, unless that passes."""
        return exit_code(judged, self.undecided_fails) if answered else NO_ANSWER_CODE


def say_conditions(judged: Sequence[Judged]) -> None:
    """A line for each."""
    say(*(row.line for row in judged))


def conditions_document(judged: Sequence[Judged]) -> dict[str, Any]:
    """As JSON types; empty without conditions."""
    return {"conditions": [row.document() for row in judged]} if judged else {}
