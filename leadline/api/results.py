"""What the lab keeps of a study or a tuning, with its conclusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.checks.subject import subject_of
from leadline.host.local import LocalHost
from leadline.host.paths import cache_dir
from leadline.model.errors import UsageError
from leadline.model.judgement import NO_ANSWER_CODE
from leadline.model.knob import Knob
from leadline.model.record import StudyRecord
from leadline.model.result import StudyAnalysis
from leadline.stack.registry import SERVER_KNOB
from leadline.store.files import bring
from leadline.store.lab import Store
from leadline.store.tunings import TuningRecord

if TYPE_CHECKING:
    from leadline.report.advising import Advice
    from leadline.report.capacities import CapacityResult
    from leadline.report.summary import Summary
    from leadline.report.text import StudyTable
    from leadline.report.tuning.view import TuningView


def analyse(record: StudyRecord) -> StudyAnalysis:
    """The conclusion of the trials that have been run so far."""
    from leadline.experiments.results import analysis_of  # its libraries take long to import

    return analysis_of(record)


def kept_parts() -> Path | None:
    """Where parts of reports are kept; None where there is no place for it."""
    try:
        return cache_dir()
    except UsageError:
        return None


@dataclass(frozen=True)
class StudyResult:
    """A study of a lab. ``record``: its plan and trials; ``analysis``: what they say."""

    record: StudyRecord
    store: Store

    @cached_property
    def analysis(self) -> StudyAnalysis:
        return self._analyse(self.record)

    def _analyse(self, record: StudyRecord) -> StudyAnalysis:
        """Of a study of this lab, whose files are fetched where this machine has none."""
        bring(self.store, record.id)
        return analyse(record)

    @property
    def answer(self) -> str:
        """The conclusion in one sentence over all responses."""
        return self.analysis.answer

    @property
    def run(self) -> str:
        """``name@number``."""
        return f"{self.record.study.study}@{self.record.id}"

    @property
    def host(self) -> str:
        """The kind of host it ran on, or ``ssh:NAME``."""
        stack = self.record.study.stack
        return stack.place

    @property
    def answered(self) -> bool:
        """Whether nothing is left to run and something can be said."""
        return self.analysis.judgement.answered

    @property
    def exit_code(self) -> int:
        """Of a command that ran or shows it: 0, or 4 where there is no answer."""
        return self.analysis.judgement.exit_code

    @cached_property
    def knobs(self) -> Mapping[str, Knob]:
        """Of the study's stack and of this host, by name; none where the stack is not known here."""
        study = self.record.study
        try:
            host = LocalHost()
            host.declare(study.host_knobs)
            knobs = (*host.knobs(), SERVER_KNOB, *subject_of(study).knobs())
            return {knob.name: knob for knob in knobs}
        except UsageError:
            return {}

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        from leadline.report.document import document

        return document(self.record, self.analysis)

    def table(self, verbose: bool = False) -> StudyTable:
        """The answer, effects with their intervals, what limits it, for ``Console.print`` of the library rich."""
        from leadline.report.text import table

        return table(self.record, self.analysis, verbose)

    def report(self, out: Path) -> Path:
        """Write the report, one HTML file."""
        from leadline.report.page import build

        return build(self.record, self.analysis, out, self.knobs, kept_parts())

    def summary(self) -> Summary:
        """Answer, comparisons, checks and failures."""
        from leadline.report.summary import summary

        return summary(self.record, self.analysis)

    def report_text(self, format_: str) -> str:
        """The summary for a pull request or CI: ``md``, ``junit`` or ``json``. Raises UsageError for a format."""
        from leadline.report.ci import text

        return text(self.summary(), format_)

    def export(self, out: Path, formats: Iterable[str]) -> list[Path]:
        """Write trials and effects as CSV or JSON and the figures as PNG or SVG. Raises UsageError for a format."""
        from leadline.report.export import export

        return export(self.record, self.analysis, out, formats)

    def capacity(
        self,
        at: Mapping[str, str] | None = None,
        cpus: float | None = None,
        loads: Sequence[float] = (),
        pools: Sequence[int] = (),
    ) -> CapacityResult:
        """The queueing model of a study that varies its load (docs/guides/capacity.md). Raises UsageError."""
        from leadline.report.capacities import capacity_of

        bring(self.store, self.record.id)
        return capacity_of(self.record, at, cpus, loads, pools)

    def advice(self) -> Advice:
        """What the trials suggest to try next, and what other studies of the lab said of it."""
        from leadline.report.advising import advice

        return advice(self.record, self.knobs, self.store.studies(), self._analyse)


@dataclass(frozen=True)
class TuningResult:
    """A tuning of a lab."""

    record: TuningRecord
    store: Store

    @cached_property
    def view(self) -> TuningView:
        from leadline.report.tuning.view import gather

        for study in self.record.parts.values():
            bring(self.store, study)
        return gather(self.store, self.record)

    @property
    def answer(self) -> str:
        """The conclusion in one sentence."""
        return self.view.answer

    @property
    def run(self) -> str:
        """``name@number``."""
        return f"{self.record.tuning.tuning}@{self.record.id}"

    def document(self) -> dict[str, Any]:
        """As JSON types (docs/reference/json.md)."""
        from leadline.report.tuning.export import document

        return document(self.view)

    @property
    def exit_code(self) -> int:
        """Of a command that ran or shows it: 0, or 4 where there is no answer."""
        return NO_ANSWER_CODE if self.record.finished is None else 0

    def table(self, _verbose: bool = False) -> list[str]:
        """The answer, steps, what is kept and the comparison at the end, in lines."""
        from leadline.report.tuning.export import lines

        return lines(self.view)

    def report_text(self, format_: str) -> str:
        """A tuning has no such summary: raises UsageError."""
        raise UsageError(f"--format {format_}: {self.run} is a tuning, whose report is html only; see leadline export")

    def report(self, out: Path) -> Path:
        """Write the report, one HTML file."""
        from leadline.report.tuning.page import build

        return build(self.view, out, kept_parts())

    def export(self, out: Path, formats: Iterable[str]) -> list[Path]:
        """Write the steps as CSV or JSON and the figures as PNG or SVG. Raises UsageError for a format."""
        from leadline.report.tuning.export import export

        return export(self.view, out, formats)


def load_page(directory: Path, out: Path) -> Path:
    """Write the report of the load in ``directory``: one HTML file. Raises UsageError where there is none, OSError."""
    from leadline.report.load_page import build_load

    return build_load(directory, out, kept_parts())
