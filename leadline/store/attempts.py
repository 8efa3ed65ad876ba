"""What an attempt of a trial leaves in the lab: rows, and its directory; a step is committed before it is acted on."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from leadline.host.private import make_private, redact_file, tighten
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure
from leadline.model.knob import Level
from leadline.model.record import AuditRecord, Phases, Reading, TrialState
from leadline.model.result import SteadyState
from leadline.store import schema as t
from leadline.store.claims import Claim, Claims, InUseError, LostClaimError
from leadline.store.database import Database, add_rows, new_number
from leadline.store.files import by_digest, hashed, home
from leadline.store.rows import WHOLE, SlotMeasured, SlotSet, machine_rows, response_rows


def unsound(responses: Mapping[str, float], least: float = -math.inf) -> str:
    """Which response is no finite number, or below ``least``; empty for none."""
    wrong = (f"{name} is {value}" for name, value in responses.items() if not math.isfinite(value) or value < least)
    return next(wrong, "")


class AttemptStore(Database):
    """A lab as its trials write it, each under the claim of its block. ``owner``: who runs trials, this machine by
    default.
    """

    def __init__(
        self, directory: Path, create: bool = True, now: Callable[[], float] = time.time, owner: str | None = None
    ) -> None:
        super().__init__(directory, create, now)
        self.claims = Claims(self.transaction, now, owner or platform.node())
        self._tokens: dict[int, str] = {}  # of trials that were begun here
        self._steps: dict[int, int] = {}  # trials of steps that were begun here

    def refuse_elsewhere(self, studies: Collection[int]) -> None:
        """Raises InUseError for one of which another machine runs a block now."""
        for study, owner in self.claims.elsewhere().items():
            if study in studies:
                raise InUseError(f"study {study} of the lab {self.directory} is run by {owner} now")

    @contextmanager
    def _write(self, trial_id: int) -> Iterator[Connection]:
        """For what an attempt leaves. Raises LostClaimError where its block was given to another meanwhile."""
        with self.transaction() as connection:
            if (token := self._tokens.get(trial_id)) is not None:
                self.claims.fence(connection, token)
            elif (
                connection.execute(select(t.trials.c.state).where(t.trials.c.id == trial_id)).scalar()
                == TrialState.RUNNING
            ):
                raise LostClaimError(f"trial {trial_id} of the lab {self.directory} is run by another")
            yield connection

    def begin_attempt(self, trial_id: int, block: int | Claim) -> tuple[int, Path]:
        """Mark a trial running; returns the attempt's number and its new, empty directory. ``block``: a claim of it, or
        its number: it is held from now on. Raises ClaimedError where another has it.
        """
        now = self.now()
        claim = block if isinstance(block, Claim) else self.claims.hold(self._study_of(trial_id), block)
        token = self._tokens[trial_id] = claim.token
        with self._write(trial_id) as connection:
            last = connection.execute(select(t.trials.c.attempt).where(t.trials.c.id == trial_id)).scalar_one()
            attempt = last + 1
            relative = home(trial_id, attempt)
            _close(self.directory / home(trial_id, last))  # a killed leadline left it as it was
            empty = {
                "ended": None,
                "failure": None,
                "failure_message": "",
                "evidence": "",
                "steady": None,
                "phases": None,
            }
            begun = {"state": TrialState.RUNNING, "attempt": attempt, "started": now, "directory": str(relative)}
            connection.execute(update(t.trials).where(t.trials.c.id == trial_id).values(**empty, **begun))
            connection.execute(insert(t.attempts).values(trial_id=trial_id, attempt=attempt, started=now, token=token))
        directory = self.directory / relative
        for folder in (directory.parent.parent, directory.parent, directory):
            make_private(folder)
        for part in t.PARTS:
            (directory / part).mkdir(mode=0o700, exist_ok=True)
        return attempt, directory

    def _study_of(self, trial_id: int) -> int:
        with self.transaction() as connection:
            query = connection.execute(select(t.trials.c.study_id).where(t.trials.c.id == trial_id))
            return int(query.scalar_one())

    def begin_step(self, trial_id: int, attempt: int, name: str, detail: str = "") -> int:
        """Commit a step before it is acted on; returns its id for ``end_step``."""
        with self._write(trial_id) as connection:
            begun = {"attempt": attempt, "name": name, "started": self.now(), "detail": detail}
            step = new_number(connection, insert(t.steps).values(trial_id=trial_id, **begun))
        self._steps[step] = trial_id
        return step

    def end_step(self, step_id: int, detail: str | None = None) -> None:
        """``detail``: what came of it, in place of what was said when it began."""
        values = {"ended": self.now()} | ({} if detail is None else {"detail": detail})
        with self._write(self._steps.pop(step_id, 0)) as connection:
            self._set(connection, t.steps, [t.steps.c.id == step_id], values)

    def add_readings(self, trial_id: int, attempt: int, found: Sequence[Reading]) -> None:
        self._insert(t.readings, trial_id, attempt, [asdict(reading) for reading in found])

    def add_audits(self, trial_id: int, attempt: int, found: Sequence[AuditRecord]) -> None:
        self._insert(t.audits, trial_id, attempt, [asdict(audit) for audit in found])

    def add_responses(self, trial_id: int, attempt: int, values: Mapping[str, float]) -> None:
        """Raises TrialFailure(infrastructure) for one that is no finite number or negative: nothing is stored."""
        if lost := unsound(values, 0.0):
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"what was measured cannot be: {lost}")
        self._insert(t.responses, trial_id, attempt, response_rows(values))

    def add_machine_use(self, trial_id: int, attempt: int, use: MachineUse | None) -> None:
        """What else the machine did under the load of a trial."""
        self._insert(t.machine_use, trial_id, attempt, machine_rows(WHOLE, use))

    def add_artefacts(self, trial_id: int, attempt: int, directory: Path) -> None:
        """Hash every file below the attempt's directory, and send those that the place of the lab's files lacks. Raises
        TrialFailure(infrastructure) where that cannot be used.
        """
        _close(directory)
        rows = hashed(directory)
        files = by_digest(directory, rows)
        self.send(files)
        if rows:
            with self._write(trial_id) as connection:
                self.alone(connection)
                values = [{"trial_id": trial_id, "attempt": attempt, **row} for row in rows]
                add_rows(connection, t.artefacts, values)
                self.send(files)  # what was swept meanwhile: who reads a row finds its content

    def send(self, files: Mapping[str, Path]) -> None:
        """Files by their digests to the place of the lab's files, where it has one. Raises as ``add_artefacts``."""
        if self.artefacts is None:
            return
        try:
            self.artefacts.belong_to(self.identity)
            self.artefacts.put(files)
        except LeadlineError as error:
            message = f"the files of a trial cannot be kept: {error}"
            raise TrialFailure(FailureClass.INFRASTRUCTURE, message) from error

    def _insert(self, table: Any, trial_id: int, attempt: int, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            with self._write(trial_id) as connection:
                add_rows(connection, table, [{"trial_id": trial_id, "attempt": attempt, **row} for row in rows])

    def begin_slot(self, trial_id: int, attempt: int, slot: int, due_ns: int, wanted: Mapping[str, Level]) -> None:
        """Commit what a slot will set before it is set."""
        self._insert(t.slots, trial_id, attempt, [{"slot": slot, "due_ns": due_ns, "wanted": json.dumps(dict(wanted))}])

    def end_slot(self, trial_id: int, attempt: int, slot: int, done: SlotSet) -> None:
        """What was set, read back and went wrong."""
        failure = done.failure
        self._update_slot(
            trial_id,
            attempt,
            slot,
            set_from_ns=done.set_from_ns,
            set_at_ns=done.set_at_ns,
            found=json.dumps(dict(done.found)),
            matches=done.matches,
            failure=failure.failure_class.value if failure else None,
            failure_message=failure.message if failure else "",
        )

    def fail_slot(self, trial_id: int, attempt: int, slot: int, failure: TrialFailure) -> None:
        """Something was found later that voids a slot: its responses, if any, do not count."""
        self._update_slot(trial_id, attempt, slot, failure=failure.failure_class.value, failure_message=failure.message)

    def _update_slot(self, trial_id: int, attempt: int, slot: int, **values: Any) -> None:
        with self._write(trial_id) as connection:
            of_slot = (t.slots.c.trial_id == trial_id, t.slots.c.attempt == attempt, t.slots.c.slot == slot)
            self._set(connection, t.slots, of_slot, values)

    def _set(
        self, connection: Connection, table: Table, where: Sequence[ColumnElement[bool]], values: Mapping[str, Any]
    ) -> None:
        """Change one row. Raises LeadlineError where it is not there."""
        changed = connection.execute(update(table).where(*where).values(**values)).rowcount
        if changed != 1:
            raise LeadlineError(f"the lab {self.directory} is damaged: {changed} rows of {table.name}, where one was")

    def set_slots_measured(self, trial_id: int, attempt: int, measured: Sequence[SlotMeasured]) -> None:
        """Windows and responses of a trial's slots, in one transaction; replaces what was stored before. A slot with a
        response that is no finite number or negative is left out.
        """
        measured = [
            replace(slot, responses={}, left_out=slot.left_out or f"what was measured cannot be: {lost}")
            if (lost := unsound(slot.responses, 0.0))
            else slot
            for slot in measured
        ]
        key = {"trial_id": trial_id, "attempt": attempt}
        rows = [{**key, "slot": slot.slot, **row} for slot in measured for row in response_rows(slot.responses)]
        with self._write(trial_id) as connection:
            for table in (t.slot_responses, t.machine_use):
                whose = (table.c.trial_id == trial_id) & (table.c.attempt == attempt) & (table.c.slot != WHOLE)
                connection.execute(delete(table).where(whose))
            for slot in measured:
                of_slot = (t.slots.c.trial_id == trial_id, t.slots.c.attempt == attempt, t.slots.c.slot == slot.slot)
                window = {"measured_from_ns": round(slot.begin * 1e9), "measured_until_ns": round(slot.end * 1e9)}
                connection.execute(update(t.slots).where(*of_slot).values(**window, left_out=slot.left_out))
            add_rows(connection, t.slot_responses, rows)
            used = [{**key, **row} for slot in measured for row in machine_rows(slot.slot, slot.machine)]
            add_rows(connection, t.machine_use, used)

    def set_steady(self, trial_id: int, steady: SteadyState, phases: Phases) -> None:
        with self._write(trial_id) as connection:
            values = {"steady": json.dumps(asdict(steady)), "phases": json.dumps(asdict(phases))}
            self._set(connection, t.trials, [t.trials.c.id == trial_id], values)

    def finish(self, trial_id: int, attempt: int, failure: TrialFailure | None = None) -> None:
        """Close an attempt as done, or failed with its class."""
        now = self.now()
        ending = {
            "ended": now,
            "failure": failure.failure_class.value if failure else None,
            "failure_message": failure.message if failure else "",
            "evidence": failure.evidence if failure else "",
        }
        with self._write(trial_id) as connection:
            of_attempt = (t.attempts.c.trial_id == trial_id, t.attempts.c.attempt == attempt)
            self._set(connection, t.attempts, of_attempt, ending)
            state = TrialState.FAILED if failure else TrialState.DONE
            of_trial = (t.trials.c.id == trial_id, t.trials.c.attempt == attempt)
            self._set(connection, t.trials, of_trial, {"state": state, **ending})


def _close(directory: Path) -> None:
    """Make what an attempt left its owner's alone, without the secrets that are known."""
    for path in directory.rglob("*"):
        tighten(path)
        if path.is_file() and not path.is_symlink():
            redact_file(path)
