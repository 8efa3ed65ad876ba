"""A lab: the directory in which studies, tunings and their trials are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.api.results import StudyResult, TuningResult
from leadline.store.bundle import copy_study, copy_tuning
from leadline.store.lab import Store, StudyCount
from leadline.store.lab import init_lab as _init
from leadline.store.removal import Held
from leadline.store.tunings import TuningRecords


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
