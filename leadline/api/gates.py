"""Gates: two sides of a change in one study, a verdict by declared conditions, and how often such a gate errs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leadline.api.results import StudyResult
from leadline.api.running import Run, checked, open_testbed
from leadline.api.studies import Study
from leadline.conclude.gate import Gate, gate_of
from leadline.experiments.gate import command_study
from leadline.model.conditions import exit_code
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.units import parse_duration
from leadline.places.testbed import Testbed
from leadline.trial.command import commands_of
from leadline.trial.progress import Watcher


@dataclass(frozen=True)
class GateRun:
    """A gate that has ended and the run of its study."""

    gate: Gate
    run: Run

    @property
    def result(self) -> StudyResult:
        assert isinstance(self.run.result, StudyResult)
        return self.run.result

    def exit_code(self, undecided_fails: bool) -> int:
        """1 for a regression, 4 where it is undecided, unless that passes; 4 where the run was cut short."""
        if not self.run.complete:
            return NO_ANSWER_CODE
        return exit_code(self.gate.judged, undecided_fails)

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        from leadline.report.gate import document

        return {**document(self.gate), "answer": self.result.answer, "run": self.run.document()}

    def markdown(self) -> str:
        """For a pull request."""
        from leadline.report.gate import gate_markdown

        return gate_markdown(self.gate, self.result.summary())

    def junit(self, undecided_fails: bool) -> str:
        """For a build's list of tests."""
        from leadline.report.gate import gate_junit

        return gate_junit(self.gate, undecided_fails)


@dataclass(frozen=True)
class GateOptions:
    """``fail``: conditions, those of the kind of sides if empty; ``budget`` as a duration."""

    fail: Sequence[str] = ()
    budget: str = "15m"
    seed: int = 1

    @property
    def seconds(self) -> float:
        """Of the budget. Raises UsageError."""
        try:
            return parse_duration(self.budget)
        except ValueError as error:
            raise UsageError(f"--budget {self.budget}: {error}") from None


def gate(base: str, head: str, options: GateOptions, lab: Path, watching: Watcher) -> GateRun:
    """Compare two commands. Raises UsageError for what cannot be compared."""
    since = time.monotonic()
    sides = [commands_of([text], {})[0] for text in (base, head)]
    keys = command_study(sides[0], sides[1], options.fail, options.seconds, options.seed)
    study = Study.of(keys)
    place = open_testbed(lab, watcher=watching, subject=study)
    return run_gate(study, base, head, place, lambda: time.monotonic() - since)


def run_gate(study: Study, base: str, head: str, place: Testbed, elapsed: Callable[[], float]) -> GateRun:
    """Run the study of a gate, anew, and conclude; its page is written."""
    run = checked(place, study)(True)
    result = run.result
    assert isinstance(result, StudyResult)
    result.report(run.page)
    return GateRun(gate_of(result.record, result.analysis, base, head, elapsed()), run)
