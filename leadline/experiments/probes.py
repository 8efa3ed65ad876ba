"""Searches by probes: small studies of the lab, each planned after what those before it gave."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import select

from leadline.checks.files.study import StudyFile
from leadline.checks.plan import Planned
from leadline.design.seeds import derived
from leadline.model.bounds import RawLevel
from leadline.model.record import StudyRecord
from leadline.model.study import Study
from leadline.places.testbed import RunOptions, Testbed
from leadline.store import schema as t
from leadline.store.files import bring
from leadline.store.lab import Store
from leadline.trial.run import GIVE_UP

NO_SENTINEL_INSIDE = 100  # a probe has fewer trials


@dataclass(frozen=True)
class SearchQuestion(ABC):
    """What is asked of the study whose stack and load are used."""

    file: StudyFile

    @property
    def study(self) -> Study:
        return self.file.study

    @property
    @abstractmethod
    def name(self) -> str:
        """What the names of its probes begin with (``search_name``)."""


def search_name(study: Study, kind: str, *asked: object) -> str:
    """The study, the kind of search, six hex digits of what is asked; how long it may take and what is as usual are no
    part of that.
    """
    parts = [study.model_dump(mode="json", exclude={"budget"}, exclude_defaults=True), *asked]
    return f"{study.study[:60]}-{kind}-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:6]}"


def settings_of(study: Study, varied: Collection[str], unset: Collection[str]) -> dict[str, RawLevel]:
    """Settings of a probe: factors of the study that it does not vary are held at their baseline, but for the
    ``unset``, which this host cannot set.
    """
    held_levels = {name: raws[0] for name, raws in study.factors.items() if name not in {*varied, *unset}}
    return {**study.settings, **{name: study.baseline.get(name, raw) for name, raw in held_levels.items()}}


def seed_of(study: Study, probe: str) -> int:
    """A seed for each probe."""
    return int.from_bytes(derived(study.design.seed, probe)[:4])


@dataclass(frozen=True)
class SearchResult:
    """Where a search stands. ``name``: what its probes' names begin with; ``stopped`` says why it ended before its end.
    ``restored``: what of the host was put back.
    """

    name: str
    records: tuple[StudyRecord, ...]  # of its probes
    stopped: str
    restored: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is left to measure."""
        return not self.stopped

    @property
    def seconds(self) -> float:
        """Of its trials."""
        trials = [trial for record in self.records for trial in record.trials]
        return sum((trial.ended or 0.0) - (trial.started or 0.0) for trial in trials if trial.ended)


@dataclass
class SearchRun:
    """One run of a search on a testbed. ``budget``: seconds after which no probe is started."""

    question: SearchQuestion
    testbed: Testbed
    budget: float | None = None
    name: str = field(default="", init=False)
    stopped: str = field(default="", init=False)
    records: list[StudyRecord] = field(default_factory=list, init=False)
    restored: list[str] = field(default_factory=list, init=False)
    _begun: dict[str, StudyRecord] = field(default_factory=dict, init=False)
    _started: float = field(default=0.0, init=False)

    @cached_property
    def unset(self) -> frozenset[str]:
        """Factors of the study that this host cannot set: they stay as they are."""
        host = self.testbed.host
        settable = {knob.name for knob in host.knobs()}
        return frozenset(name for name in self.question.study.factors if name in settable and host.writable(name))

    def open(self, fresh: bool) -> None:
        """Go on with the last run of this search, or start another (``fresh``)."""
        store, name = self.testbed.store, self.question.name
        runs = [int(probe.split("-")[-2]) for probe in _probes(store, name)]
        self.name = f"{name}-{max(runs, default=0) + fresh or 1}"
        probes = _probes(store, self.name)
        for study in probes.values():
            bring(store, study)
        self._begun = {probe: store.load(study) for probe, study in probes.items()}
        if begun := list(self._begun.values()):
            self.testbed.resume(begun[0].created, begun)
        self._started = self.testbed.now()

    def probe(self, file: StudyFile, planned: Planned, told: str) -> StudyRecord | None:
        """The record of a probe, run first where trials of it are left; None, with ``stopped``, where they stay so."""
        record = self._begun.get(file.study.study)
        if record is None or any(trial.is_left for trial in record.trials):
            seconds_left = None if self.budget is None else self.budget - (self.testbed.now() - self._started)
            if seconds_left is not None and seconds_left < self._least(planned):
                self.stopped = "the budget is used up; run again to go on"
                return None
            self.testbed.watcher.message(f"probe {len(self.records) + 1}: {told}")
            give_up = max(GIVE_UP, len(planned.plan.trials))  # all may fail without the host being to blame
            go_on = None if record is None else record.id
            run = self.testbed.run(
                file, planned, RunOptions(fresh=True, go_on=go_on, budget=seconds_left, give_up=give_up)
            )
            self.restored += [line for line in run.restored if line not in self.restored]
            if not run.complete:
                self.stopped = run.stopped or "trials are left to run; run again to go on"
                return None
            record = self.testbed.store.load(run.study_id)
        self.records.append(record)
        return record

    def ended(self) -> tuple[str, tuple[StudyRecord, ...], str, tuple[str, ...]]:
        """The fields of a ``SearchResult``."""
        return self.name, tuple(self.records), self.stopped, tuple(self.restored)

    def _least(self, planned: Planned) -> float:
        """Seconds that a probe takes, by those before it; the first is always begun."""
        times = [record.seconds_per_trial for record in self.records if record.seconds_per_trial]
        return len(planned.plan.trials) * sum(times) / len(times) if times else 0.0


def _probes(store: Store, name: str) -> dict[str, int]:
    """Probes whose names begin so -> number of the newest study, oldest first."""
    query = select(t.studies.c.name, t.studies.c.id).where(t.studies.c.name.startswith(f"{name}-", autoescape=True))
    with store.transaction() as connection:
        return {row.name: row.id for row in connection.execute(query.order_by(t.studies.c.id))}
