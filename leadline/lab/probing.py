"""What searches by probes share: each probe is an ordinary study of the lab, whose name begins with its search's."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from ruamel.yaml import YAML
from sqlalchemy import select

from leadline.lab import schema as t
from leadline.lab.planning import Planned
from leadline.lab.run import GIVE_UP
from leadline.lab.store import Store
from leadline.lab.studyfile import StudyFile, parse_study
from leadline.lab.testbed import RunOptions, Testbed
from leadline.model.record import StudyRecord
from leadline.model.study import Study

NO_SENTINEL_INSIDE = 100  # a probe has fewer trials


def key_of(study: Study, *asked: object) -> str:
    """Six hex digits of what is asked; how long it may take is no part of that."""
    told = [study.model_dump(mode="json", exclude={"budget"}), *asked]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:6]


def probe_study(name: str, document: Mapping[str, Any]) -> StudyFile:
    """The study file of a probe; keys without a value are left out."""
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump({key: value for key, value in document.items() if value not in ({}, None)}, text)
    return parse_study(text.getvalue(), f"{name}.yaml")


def unset(study: Study, testbed: Testbed) -> frozenset[str]:
    """Factors of the study that this host cannot set: they stay as they are."""
    own = {knob.name for knob in testbed.host.knobs()}
    return frozenset(name for name in study.factors if name in own and testbed.host.writable(name))


class Prober:
    """Runs the probes of one search, those that were begun before included. ``done``: their records so far."""

    def __init__(self, testbed: Testbed, search: str, budget: float | None, fresh: bool) -> None:
        self._testbed, self._budget = testbed, budget
        self.name = f"{search}-{_attempts(testbed.store, search) + fresh or 1}"
        self._begun = _probes(testbed.store, self.name)
        kept = [testbed.store.load(study) for study in self._begun.values()]
        if kept:
            testbed.resume(kept[0].created, kept)
        self._started = testbed.now()
        self.done: list[StudyRecord] = []
        self.restored: list[str] = []

    def run(self, file: StudyFile, planned: Planned, announce: Callable[[], None]) -> str:
        """Run a probe, or what is left of it, and add its record; why it was not, else empty."""
        study_id = self._begun.get(file.study.study)
        record = None if study_id is None else self._testbed.store.load(study_id)
        if record is None or any(trial.is_left for trial in record.trials):
            left = None if self._budget is None else self._budget - (self._testbed.now() - self._started)
            if left is not None and left < self._least(planned):
                return "the budget is used up; run again to go on"
            announce()
            give_up = max(GIVE_UP, len(planned.plan.trials))  # every trial may fail without the host being to blame
            options = RunOptions(fresh=True, go_on=study_id, budget=left, give_up=give_up)
            run = self._testbed.run(file, planned, options)
            self.restored += [line for line in run.restored if line not in self.restored]
            if not run.complete:
                return run.stopped or "trials are left to run; run again to go on"
            record = self._testbed.store.load(run.study_id)
        self.done.append(record)
        return ""

    @property
    def seconds(self) -> float:
        """Of all trials of its probes."""
        trials = [trial for record in self.done for trial in record.trials]
        return sum((trial.ended or 0.0) - (trial.started or 0.0) for trial in trials if trial.ended)

    def _least(self, planned: Planned) -> float:
        """Seconds that a probe takes, by those before it; the first is always begun."""
        times = [record.seconds_per_trial for record in self.done if record.seconds_per_trial]
        return len(planned.plan.trials) * sum(times) / len(times) if times else 0.0


def _probes(store: Store, name: str) -> dict[str, int]:
    """Probes of one search: name -> number of the newest study, oldest first."""
    query = select(t.studies.c.name, t.studies.c.id).where(t.studies.c.name.startswith(f"{name}-"))
    with store.transaction() as connection:
        return {row.name: row.id for row in connection.execute(query.order_by(t.studies.c.id))}


def _attempts(store: Store, name: str) -> int:
    """How often the question whose probes have this name has been begun."""
    return max((int(each.split("-")[-2]) for each in _probes(store, name)), default=0)
