"""A lab: the directory in which studies, tunings and their trials are kept; what it has of one, with its conclusion."""

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
from leadline.store.bundle import copy_study, copy_tuning
from leadline.store.files import bring
from leadline.store.lab import Store, StudyCount
from leadline.store.lab import init_lab as _init
from leadline.store.removal import Held
from leadline.store.tunings import TuningRecord, TuningRecords

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


@dataclass(frozen=True)
class Lab:
    """What has been run, oldest first."""

    store: Store

    @property
    def directory(self) -> Path:
        return self.store.directory

    def studies(self) -> list[StudyResult]:
        return [StudyResult(record, self.store) for record in self.store.studies()]

    def counts(self) -> list[StudyCount]:
        """Of each study how many trials it has; quick, however many they are."""
        return self.store.counts()

    def tunings(self) -> list[TuningResult]:
        records = TuningRecords(self.store)
        return [TuningResult(records.load(number), self.store) for number in records.ids()]

    def study(self, reference: str) -> StudyResult:
        """By its name (the newest), its number or ``name@number``. Raises UsageError with the nearest choice."""
        return StudyResult(self.store.load(self.store.find(reference)), self.store)

    def find(self, reference: str) -> StudyResult | TuningResult:
        """A study or a tuning. Raises UsageError with the nearest choice."""
        records = TuningRecords(self.store)
        number = records.find(reference)
        return self.study(reference) if number is None else TuningResult(records.load(number), self.store)


def load_lab(directory: Path | str = "lab") -> Lab:
    """Raises UsageError where there is no lab, LeadlineError for one that cannot be read."""
    return Lab(Store(Path(directory), create=False))


def init_lab(directory: Path | str = "lab", database: str | None = None, artefacts: str | None = None) -> Lab:
    """Make a lab, or check the one that is there. ``database``: ``postgresql://USER@HOST:PORT/NAME``, where its rows
    are, in place of its directory; ``artefacts``: a directory or ``s3://BUCKET/PREFIX``, where the files of its trials
    are kept. Raises UsageError, LeadlineError for what cannot be used.
    """
    return Lab(_init(Path(directory), database, artefacts))


def copy(source: Lab, chosen: Sequence[Held], target: Path | str) -> list[tuple[str, bool]]:
    """Studies, and tunings with their studies, into another lab, made where it is absent: of each its name there, and
    whether anything was new. Raises LeadlineError for one that runs, and for one that went on in both labs.
    """
    there = Store(Path(target))
    return [_copied(source.store, study, there) for study in chosen]


def _copied(source: Store, held: Held, there: Store) -> tuple[str, bool]:
    copied = {study: copy_study(source, study, there) for study in held.studies}
    numbers = {study: number for study, (number, _) in copied.items()}
    if held.tuning is not None:
        number = copy_tuning(source, held.tuning, there, numbers)
    else:
        (number,) = numbers.values()
    return f"{held.name.rpartition('@')[0]}@{number}", any(new for _, new in copied.values())
