"""What a bisection says: the change that makes the difference, as sentences and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leadline.conclude.bisection import percent, sentence
from leadline.experiments.bisect.run import BisectQuestion, BisectResult, BisectRun
from leadline.places.testbed import Testbed
from leadline.planning.bisection import MOST


@dataclass(frozen=True)
class Bisected:
    """A bisection as it stands."""

    result: BisectResult

    @property
    def answered(self) -> bool:
        return self.result.complete

    @cached_property
    def answer(self) -> str:
        """The conclusion in one sentence."""
        question = self.result.question
        return sentence(self.result.state, question.response, question.log, question.span.ordered, question.span.change)

    @property
    def rows(self) -> list[tuple[str, int, float | None]]:
        """Every treatment that was run: its name, trials, and percent against the end A."""
        state, question = self.result.state, self.result.question
        means = state.means()
        counts = {mean: sum(block.treatments.count(mean) for block in state.blocks) for mean in means}
        order = sorted(means, key=lambda held: (len(held), sorted(held)))
        return [
            (question.span.label(treatment), counts[treatment], self._percent(means[treatment])) for treatment in order
        ]

    @property
    def end_differences(self) -> list[float]:
        """The difference of the ends in each world of a study of forks, as in ``rows``."""
        return [self._percent(value) for value in self.result.end_differences]

    def _percent(self, value: float) -> float:
        return 100 * (math.expm1(value) if self.result.question.log else value)

    def lines(self) -> list[str]:
        """Treatments and probabilities, in lines, without the answer."""
        state, question = self.result.state, self.result.question
        rows = self.rows
        wide = max((len(name) for name, _, _ in rows), default=0)
        unit = "%" if question.log else "points"
        lines = [f"{question.response} against {question.span.label(frozenset())}"] if rows else []
        lines += [f"  {name.ljust(wide)}  {trials:3d} trials  {value:+8.2f} {unit}" for name, trials, value in rows]
        if self.end_differences:
            differences = ", ".join(f"{value:+.2f} {unit}" for value in self.end_differences)
            caveat = " (one world tells a difference, not how it varies)" if len(self.end_differences) == 1 else ""
            lines.append(f"the ends differ in each world by {differences}{caveat}")
        lines += [
            f"  cannot be run: {question.span.label(treatment)}: {why}" for treatment, why in self.result.failed.items()
        ]
        likely = [
            f"  {share:6.1%}  {question.span.change(group)}"
            for share, group in zip(state.probabilities.tolist(), state.groups, strict=True)
            if state.blocks and share >= 0.01
        ]
        others = [("no change", state.none), ("two changes", state.two), ("many", state.many)] if state.blocks else []
        likely += [f"  {share:6.1%}  {name}" for name, share in others if share >= 0.01]
        return [*lines, *(["probability that a change is at work"] if likely else []), *likely]

    def document(self) -> dict[str, Any]:
        """As JSON types: ``leadline-bisect/1`` (docs/guides/bisect.md)."""
        result, state, question = self.result, self.result.state, self.result.question
        effect = percent(state.effect, question.log) if state.blocks else None
        ends = percent(state.difference, question.log) if state.blocks else None
        return {
            "format": "leadline-bisect/1",
            "bisection": result.name,
            "study": question.study.study,
            "response": question.response,
            "found": state.found.value if state.blocks else "open",
            "places": [question.span.change(group) for group in state.places] if state.blocks else [],
            "changes": [
                {"change": question.span.change(group), "probability": share}
                for share, group in zip(
                    state.probabilities.tolist() if state.blocks else [], state.groups, strict=False
                )
            ],
            "none": state.none if state.blocks else None,
            "two": state.two if state.blocks else None,
            "many": state.many if state.blocks else None,
            "effect": _interval(effect),
            "ends": _interval(ends),
            "treatments": [
                {"treatment": name, "trials": trials, "difference": value} for name, trials, value in self.rows
            ],
            "worlds": self.end_differences,
            "failed": {question.span.label(treatment): why for treatment, why in result.failed.items()},
            "probes": len(state.blocks),
            "trials": state.trials,
            "seconds": result.seconds,
            "studies": [record.id for record in result.records],
            "complete": result.complete,
            "stopped": result.stopped,
            "restored": list(result.restored),
            "answer": self.answer,
        }


def bisect(
    asked: BisectQuestion, place: Testbed, *, budget: float | None = None, most: int = MOST, fresh: bool = False
) -> Bisected:
    """Run what is left of a bisection, or all of it anew (``fresh``). Raises as a study's run does."""
    run = BisectRun(asked, place, budget, most)
    run.check()
    return Bisected(run.execute(fresh))


def _interval(found: Sequence[float] | None) -> dict[str, float] | None:
    return None if found is None else dict(zip(("percent", "low", "high"), found, strict=True))
