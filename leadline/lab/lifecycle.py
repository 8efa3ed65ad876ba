"""The life of one trial: every step is committed to the store before it is acted on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host.base import TrialHost
from leadline.lab.interruption import Interruption
from leadline.lab.progress import Watcher
from leadline.lab.slots import SlotChanges
from leadline.lab.store import Store
from leadline.lab.system import LoadOutcome, System
from leadline.model.errors import FailureClass, LeadlineError, NotInPlay, RestoreError, TrialFailure, UsageError
from leadline.model.knob import Knob, Level
from leadline.model.owners import Owners
from leadline.model.plan import PlannedTrial
from leadline.model.record import AuditRecord, Reading
from leadline.model.study import Study

MINIMUM_FREE = 256 * 1024 * 1024  # bytes a trial may need: a database copy, logs, series

# In the order of a trial's life; the fault tests end leadline at each of them.
STEPS = (
    "apply",
    "reset",
    "start-database",
    "start-server",
    "read-back",
    "start-observers",
    "load",
    "stop-observers",
    "health",
    "audit",
    "read-again",
    "stop",
    "collect",
    "measure",
)


@dataclass
class TrialRunner:
    """Runs planned trials of one study on one host and system."""

    store: Store
    host: TrialHost
    system: System
    study: Study
    knobs: Mapping[str, Knob]
    settings: Mapping[str, Level]
    watcher: Watcher
    interruption: Interruption
    originals: dict[str, Level] = field(default_factory=dict, init=False)  # of this run, before its first change
    owners: Owners = field(init=False)
    _trial: int = field(default=0, init=False)
    _attempt: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.owners = Owners(self.host, *self.system.owners())

    def run(self, trial_id: int, planned: PlannedTrial) -> TrialFailure | None:
        """One attempt. Whatever happens, services are stopped and the row is closed; returns the failure if any.

        Errors of the store itself (a full disk) propagate once services are stopped.
        """
        self._trial = trial_id
        self._attempt, directory = self.store.begin_attempt(trial_id)
        failure: TrialFailure | None = None
        try:
            self.interruption.check()
            self._live(planned, directory)
        except TrialFailure as error:
            failure = error
        except UsageError as error:  # levels that contradict each other
            failure = TrialFailure(FailureClass.CONFIGURATION, str(error))
        except LeadlineError as error:
            failure = TrialFailure(FailureClass.INFRASTRUCTURE, str(error))
        except OSError as error:
            failure = TrialFailure(FailureClass.INFRASTRUCTURE, f"the host failed: {error}")
        finally:
            with self.interruption.shield():
                self.system.stop()
        with self.interruption.shield():
            if failure is not None:
                # What was recorded until the failure is kept with the trial.
                for warning in self.system.collect(directory):
                    self.watcher.message(warning)
            self.store.add_artefacts(trial_id, self._attempt, directory)
            self.store.finish(trial_id, self._attempt, failure)
        return failure

    @contextmanager
    def _step(self, name: str, detail: str = "") -> Iterator[None]:
        self.interruption.check()  # also one that something swallowed
        step = self.store.begin_step(self._trial, self._attempt, name, detail)
        self.watcher.step(name)
        yield
        self.store.end_step(step)

    def _live(self, planned: PlannedTrial, directory: Path) -> None:
        levels = {**self.settings, **planned.treatment.as_dict()}
        known = {name: level for name, level in levels.items() if name in self.knobs}  # pseudo-factors set nothing
        on_host = self.owners.levels(known, self.host)
        in_services = {name: level for name, level in known.items() if name not in on_host}
        self._check_space(directory)
        suspended = _suspended_seconds()
        with self._step("apply", ", ".join(f"{name}={level}" for name, level in on_host.items())):
            self._apply(on_host)
        with self._step("reset"):
            self.system.reset(directory)
        with self._step("start-database"):
            self.system.start_database(in_services, directory)
        with self._step("start-server"):
            startup = self.system.start_server(in_services, directory)
        with self._step("read-back"):
            self._read(known, "before")
        with self._step("start-observers"):
            self.system.start_observers(directory)
        with self._step("load"):
            changes = self._changes(planned)
            if changes is None:
                outcome = self.system.load(directory, planned.seed, self.watcher.load)
            else:
                outcome = self.system.load_in_slots(
                    directory, planned.seed, self.watcher.load, planned.slots, changes.on_slot
                )
                changes.finish()
                known |= changes.found
        if (away := _suspended_seconds() - suspended) > 1:
            text = f"the machine was suspended for {away:.0f} s in the middle of this trial"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, text)
        with self._step("stop-observers"):
            self._warn(self.system.stop_observers())
        with self._step("health"):
            self.system.health()
        with self._step("audit"):
            self._audit(directory, outcome)
        with self._step("read-again"):
            self._read(known, "after")
        with self._step("stop"):
            self._warn(self.system.stop())
        with self._step("collect"):
            self._warn(self.system.collect(directory))
        with self._step("measure"):
            self._measure(directory, startup, outcome, changes)

    def _changes(self, planned: PlannedTrial) -> SlotChanges | None:
        if not planned.slots:
            return None
        return SlotChanges(self.store, self.owners, self.watcher, self.knobs, self._trial, self._attempt, planned.slots)

    def _check_space(self, directory: Path) -> None:
        free = shutil.disk_usage(directory).free
        if free < MINIMUM_FREE:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE,
                f"{free // 2**20} MiB free at {directory}: a trial may need {MINIMUM_FREE // 2**20} MiB",
            )

    def _apply(self, levels: Mapping[str, Level]) -> None:
        originals = []
        for name in levels:
            if name not in self.originals:
                self.originals[name] = self.host.read_back(name)
                found = self._format(name, self.originals[name])
                originals.append(Reading(name, "original", None, found, True))
        self.store.add_readings(self._trial, self._attempt, originals)
        self.owners.apply(levels)

    def verify_undone(self) -> None:
        """After the host was restored: look once more at every knob that was changed and all that was made or switched
        off for a time, beside the last trial.
        """
        readings = []
        for name, original in self.originals.items():
            found = self.host.read_back(name)
            wanted = self._format(name, original)
            readings.append(Reading(name, "undone", wanted, self._format(name, found), found == original))
        for name, (was, found_now) in self.host.temporary().items():
            readings.append(Reading(name, "undone", was, found_now, was == found_now))
        wrong = [f"{r.knob} is {r.found}, it was {r.wanted}" for r in readings if not r.matches]
        try:
            if readings:
                self.store.add_readings(self._trial, self._attempt, readings)
        finally:
            if wrong:  # matters more than a lab that cannot be written
                raise RestoreError(f"the host was not put back: {'; '.join(wrong)}")

    def _format(self, name: str, level: Level) -> str:
        return self.knobs[name].format(level)

    def _read(self, known: Mapping[str, Level], phase: str) -> None:
        """Read every knob in play; one that is not at its level voids the trial."""
        readings = []
        for name, wanted in known.items():
            try:
                found = self.owners.read_back(name)
            except NotInPlay as why:
                readings.append(Reading(name, phase, self._format(name, wanted), f"({why})", True))
                continue
            except LookupError as error:
                raise TrialFailure(FailureClass.CONFIGURATION, f"{name} cannot be read back: {error}") from error
            readings.append(
                Reading(name, phase, self._format(name, wanted), self._format(name, found), found == wanted)
            )
        self.store.add_readings(self._trial, self._attempt, readings)
        wrong = [f"{r.knob} is {r.found}, not {r.wanted}" for r in readings if not r.matches]
        if wrong:
            moment = "before the load" if phase == "before" else "after the load"
            raise TrialFailure(FailureClass.CONFIGURATION, f"{moment} {'; '.join(wrong)}")

    def _audit(self, directory: Path, outcome: LoadOutcome) -> None:
        results: list[AuditRecord] = [*outcome.checks, *self.system.audit(directory, outcome.counts)]
        self.store.add_audits(self._trial, self._attempt, results)
        failed = [audit for audit in results if not audit.passed]
        if failed:
            raise TrialFailure(
                FailureClass.WORKLOAD,
                f"audit failed: {', '.join(audit.name for audit in failed)}",
                "\n".join(f"{audit.name}: {audit.detail}" for audit in failed),
            )

    def _measure(self, directory: Path, startup: float, outcome: LoadOutcome, changes: SlotChanges | None) -> None:
        measured = self.system.measure(directory, startup)
        steady, phases = measured.steady, measured.phases
        if changes is not None:
            from leadline.lab.slotmeasure import measure_slots  # its libraries take seconds to load

            steady, phases = measure_slots(changes, self.system, self.study, directory, phases)
        self.store.set_steady(self._trial, steady, phases)
        self.store.add_responses(self._trial, self._attempt, measured.responses)
        errors = measured.responses.get("errors", 0.0)
        if errors > self.study.limits.errors and changes is None:  # a slot has its own limit
            raise TrialFailure(
                FailureClass.WORKLOAD,
                f"{errors:.2%} of the transactions failed; the limit is {self.study.limits.errors:.2%}",
                str({name: dict(count) for name, count in outcome.counts.items()}),
            )
        if outcome.driver_was_limit:
            raise TrialFailure(
                FailureClass.BOTTLENECK, "the driver was the limit: its figures are not the server's", outcome.evidence
            )

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            self.watcher.message(warning)


def _suspended_seconds() -> float:
    """How long this machine has been suspended since it was booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
