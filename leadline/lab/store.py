"""The lab's store: studies, trials and everything they left, in SQLite (WAL) beside the trials' directories.

A trial is a row from the moment it is planned, and a step is committed before it is acted on, so that a crash
at any point leaves what was known until then.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    RowMapping,
    Table,
    create_engine,
    delete,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, NoResultFound, OperationalError

import leadline
from leadline.design import plan_from_json, plan_to_json
from leadline.host.lock import exclusive
from leadline.lab import schema as t
from leadline.lab.claims import Claim, Claims, LostClaimError
from leadline.lab.migrations import bring_up_to_date
from leadline.lab.slotrows import WHOLE, SlotMeasured, SlotSet, machine_of, machine_rows, slot_records
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, shortened
from leadline.model.knob import Level
from leadline.model.plan import Plan
from leadline.model.record import AuditRecord, Phases, Reading, Step, StudyRecord, TrialRecord, TrialState
from leadline.model.result import SteadyState
from leadline.model.study import Study

_Rows = dict[str, dict[int, list[RowMapping]]]  # table -> trial -> rows


def unsound(responses: Mapping[str, float]) -> str:
    """Which response is no finite number; empty for none. Asked before they are written and after they are read."""
    return next((f"{name} is {value}" for name, value in responses.items() if not math.isfinite(value)), "")


def _contradiction(record: TrialRecord) -> str:
    """What a trial's row says against itself; empty for nothing."""
    if (record.state is TrialState.FAILED) != (record.failure is not None):
        return f"it is {record.state.value}, its failure {record.failure.value if record.failure else 'none'}"
    if record.state in (TrialState.RUNNING, TrialState.DONE) and (record.attempt < 1 or record.started is None):
        return f"it is {record.state.value} and was never begun"
    return ""


def study_key(study: Study) -> str:
    """SHA-256 of the effective study's canonical JSON: two runs with the same key are one study."""
    return hashlib.sha256(json.dumps(study.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def _of_attempts(connection: Connection, wanted: ColumnElement[bool]) -> _Rows:
    """Rows of the last attempts of the wanted trials, by table and trial: one query a table, however many trials."""
    found: _Rows = {}
    for table in (t.responses, t.audits, t.readings, t.steps, t.slots, t.slot_responses, t.machine_use):
        last = (table.c.trial_id == t.trials.c.id) & (table.c.attempt == t.trials.c.attempt)
        query = select(table).join(t.trials, last).where(wanted).order_by(*table.primary_key.columns)
        by_trial = found[table.name] = {}
        for row in connection.execute(query).mappings():
            by_trial.setdefault(row["trial_id"], []).append(row)
    disturbed = (
        select(t.attempts)
        .join(t.trials, t.attempts.c.trial_id == t.trials.c.id)
        .where(wanted, t.attempts.c.failure == FailureClass.DISTURBED.value)
    )
    found[t.attempts.name] = {}
    for row in connection.execute(disturbed).mappings():
        found[t.attempts.name].setdefault(row["trial_id"], []).append(row)
    return found


def _with_pragmas(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=10000")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine


PARTS = ("driver", "raw", "series", "logs")  # of an attempt's directory


class Store:
    """One lab directory. Raises TrialFailure(infrastructure) when the disk refuses a write.

    ``now`` gives the unix seconds it writes down; ``owner`` is who runs trials, this machine by default.
    ``real_time``: whether that is the machine's time, in which leases run out.
    """

    def __init__(
        self, directory: Path, create: bool = True, now: Callable[[], float] = time.time, owner: str | None = None
    ) -> None:
        self.directory = directory.resolve()
        self._now = now
        self.real_time = now is time.time
        self.claims = Claims(self._begin, now, owner or platform.node())
        self._tokens: dict[int, str] = {}  # of trials that were begun here
        self._steps: dict[int, int] = {}  # trials of steps that were begun here
        path = self.directory / "lab.sqlite"
        if not create and not path.exists():
            raise UsageError(f"{self.directory} is no lab (no lab.sqlite in it); name one with --lab or run a study")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._engine = _with_pragmas(create_engine(URL.create("sqlite", database=str(path))))
            # One at a time: SQLite refuses a change of its journal's mode, and a table that another has just made.
            with exclusive(self.directory / ".opening.lock", lambda: None):
                bring_up_to_date(self._engine, now)
        except (OSError, ValueError, DatabaseError, LeadlineError) as error:
            reason = error.orig if isinstance(error, DatabaseError) else error
            raise LeadlineError(f"the lab {self.directory} cannot be opened: {reason}") from error

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except OperationalError as error:
            raise TrialFailure(
                FailureClass.INFRASTRUCTURE, f"the lab {self.directory} cannot be written: {error.orig}"
            ) from error
        except DatabaseError as error:
            raise LeadlineError(f"the lab {self.directory} is damaged: {error.orig}") from error

    @contextmanager
    def _write(self, trial_id: int | None) -> Iterator[Connection]:
        """For what an attempt leaves. Raises LostClaimError where its block was given to another meanwhile."""
        with self._begin() as connection:
            token = None if trial_id is None else self._tokens.get(trial_id)
            if token is not None:
                self.claims.fence(connection, token)
            elif trial_id is not None and self._is_running(connection, trial_id):
                raise LostClaimError(f"trial {trial_id} of the lab {self.directory} is run by another")
            yield connection

    def _is_running(self, connection: Connection, trial_id: int) -> bool:
        state = connection.execute(select(t.trials.c.state).where(t.trials.c.id == trial_id)).scalar()
        return state == TrialState.RUNNING

    def transaction(self) -> AbstractContextManager[Connection]:
        """For tables that are kept by others (``leadline.lab.tuning.records``)."""
        return self._begin()

    def now(self) -> float:
        """Unix seconds as the store writes them down."""
        return self._now()

    # studies

    def add_study(
        self, study: Study, document: str, plan: Plan, environment: Mapping[str, str], skipped: Sequence[str]
    ) -> int:
        """Store a study and every planned trial; returns its id. Raises ValueError for what would read otherwise."""
        written = plan_to_json(plan)
        if plan_from_json(written) != plan or Study.model_validate_json(study.model_dump_json()) != study:
            raise ValueError(f"study {study.study} would not be read as it is written")
        with self._begin() as connection:
            result = connection.execute(
                insert(t.studies).values(
                    name=study.study,
                    key=study_key(study),
                    study=study.model_dump_json(),
                    document=document,
                    plan=written,
                    environment=json.dumps(dict(environment)),
                    skipped=json.dumps(list(skipped)),
                    created=self._now(),
                    version=leadline.__version__,
                )
            )
            key = result.inserted_primary_key
            assert key is not None
            study_id = int(key[0])
            connection.execute(
                insert(t.trials),
                [
                    {"study_id": study_id, "position": trial.position, "state": TrialState.PLANNED, "attempt": 0}
                    for trial in plan.trials
                ],
            )
        return study_id

    def replan(self, study_id: int, plan: Plan) -> None:
        """Another plan of as many trials, equal in those that have begun. Raises ValueError for any other."""
        with self._begin() as connection:
            stored = connection.execute(select(t.studies.c.plan).where(t.studies.c.id == study_id)).scalar_one()
            rows = connection.execute(
                select(t.trials.c.position, t.trials.c.state).where(t.trials.c.study_id == study_id)
            ).all()
            before = plan_from_json(stored)
            begun = [row.position for row in rows if row.state not in (TrialState.PLANNED, TrialState.SKIPPED)]
            if len(plan.trials) != len(rows) or any(plan.trials[at] != before.trials[at] for at in begun):
                raise ValueError("a new plan must keep the trials that have begun, and their number")
            connection.execute(update(t.studies).where(t.studies.c.id == study_id).values(plan=plan_to_json(plan)))

    def unfinished(self, study: Study) -> int | None:
        """The newest study with the same key that has trials left to run, interrupted ones included."""
        with self._begin() as connection:
            left = (
                select(t.trials.c.id)
                .where(t.trials.c.study_id == t.studies.c.id)
                .where(
                    t.trials.c.state.in_((TrialState.PLANNED, TrialState.RUNNING))
                    | t.trials.c.failure.in_((FailureClass.INTERRUPTED.value, FailureClass.DISTURBED.value))
                )
                .exists()
            )
            row = connection.execute(
                select(t.studies.c.id)
                .where(t.studies.c.key == study_key(study))
                .where(left)
                .order_by(t.studies.c.id.desc())
            ).first()
        return int(row[0]) if row else None

    def find(self, reference: str) -> int:
        """A study's id from ``12``, ``pools`` (the newest of that name) or ``pools@12``. Raises UsageError."""
        with self._begin() as connection:
            rows = connection.execute(select(t.studies.c.id, t.studies.c.name).order_by(t.studies.c.id)).all()
        numbered = [row.id for row in rows if reference in (str(row.id), f"{row.name}@{row.id}")]
        if found := numbered or [row.id for row in rows if row.name == reference]:
            return int(found[-1])
        known = ", ".join(f"{row.name}@{row.id}" for row in rows) or "none yet"
        raise UsageError(f"no study {reference!r} in {self.directory}; studies there: {known}")

    def studies(self) -> list[StudyRecord]:
        """All studies, oldest first."""
        with self._begin() as connection:
            ids = connection.execute(select(t.studies.c.id).order_by(t.studies.c.id)).scalars().all()
        return [self.load(study_id) for study_id in ids]

    def ids(self) -> list[int]:
        """Numbers of all studies, newest first."""
        with self._begin() as connection:
            return list(connection.execute(select(t.studies.c.id).order_by(t.studies.c.id.desc())).scalars())

    def load(self, study_id: int) -> StudyRecord:
        """A study as values, with all its trials (the last attempt of each)."""
        with self._reading(study_id):
            return self._load(study_id)

    def _load(self, study_id: int) -> StudyRecord:
        with self._begin() as connection:
            row = connection.execute(select(t.studies).where(t.studies.c.id == study_id)).mappings().one()
            plan = plan_from_json(row["plan"])
            trials = (
                connection.execute(
                    select(t.trials).where(t.trials.c.study_id == study_id).order_by(t.trials.c.position)
                )
                .mappings()
                .all()
            )
            rows = _of_attempts(connection, t.trials.c.study_id == study_id)
            records = tuple(self._trial(trial, plan, rows) for trial in trials)
            if [trial["position"] for trial in trials] != [planned.position for planned in plan.trials]:
                raise ValueError(f"it has {len(trials)} trials, its plan {len(plan.trials)}")
        return StudyRecord(
            id=study_id,
            study=Study.model_validate_json(row["study"]),
            document=row["document"],
            plan=plan,
            created=row["created"],
            environment=json.loads(row["environment"]),
            trials=records,
            skipped=tuple(json.loads(row["skipped"])),
        )

    @contextmanager
    def _reading(self, study_id: int) -> Iterator[None]:
        """Rows that hold something else than was written, or what this version refuses, as a LeadlineError."""
        what = f"study {study_id} of the lab {self.directory}"
        try:
            yield
        except ValidationError as error:
            first = error.errors()[0]
            name, said = ".".join(map(str, first["loc"])), shortened(first["msg"].removeprefix("Value error, "), 200)
            raise LeadlineError(f"{what} is not one that this leadline reads: {name}: {said}") from error
        except NoResultFound:
            raise LeadlineError(f"{what} is not there, or not whole") from None
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, UsageError) as error:
            said = shortened(" ".join(str(error).split()), 200)
            raise LeadlineError(f"{what} is damaged: {said}") from error

    def load_trial(self, study_id: int, position: int) -> TrialRecord:
        """One trial of a study, its last attempt."""
        with self._reading(study_id), self._begin() as connection:
            plan = connection.execute(select(t.studies.c.plan).where(t.studies.c.id == study_id)).scalar_one()
            row = connection.execute(
                select(t.trials).where(t.trials.c.study_id == study_id, t.trials.c.position == position)
            )
            found = row.mappings().one()
            rows = _of_attempts(connection, t.trials.c.id == found["id"])
            return self._trial(found, plan_from_json(plan), rows)

    def _trial(self, row: RowMapping, plan: Plan, rows: _Rows) -> TrialRecord:
        def of_attempt(table: Table) -> Sequence[RowMapping]:
            return rows[table.name].get(row["id"], ())

        machine = machine_of(of_attempt(t.machine_use))
        record = TrialRecord(
            id=row["id"],
            planned=plan.trials[row["position"]],
            state=TrialState(row["state"]),
            attempt=row["attempt"],
            started=row["started"],
            ended=row["ended"],
            failure=FailureClass(row["failure"]) if row["failure"] else None,
            failure_message=row["failure_message"] or "",
            evidence=row["evidence"] or "",
            responses={response["name"]: response["value"] for response in of_attempt(t.responses)},
            audits=tuple(AuditRecord(a["name"], a["passed"], a["detail"]) for a in of_attempt(t.audits)),
            readings=tuple(
                Reading(r["knob"], r["phase"], r["wanted"], r["found"], r["matches"]) for r in of_attempt(t.readings)
            ),
            steps=tuple(Step(s["name"], s["started"], s["ended"], s["detail"]) for s in of_attempt(t.steps)),
            steady=SteadyState(**json.loads(row["steady"])) if row["steady"] else None,
            phases=Phases(**json.loads(row["phases"])) if row["phases"] else None,
            directory=self.directory / row["directory"] if row["directory"] else None,
            slots=slot_records(
                of_attempt(t.slots), of_attempt(t.slot_responses), machine, plan, plan.trials[row["position"]]
            ),
            machine=machine.get(WHOLE),
            repeats=len(of_attempt(t.attempts)),
        )
        if lost := unsound(record.responses) or _contradiction(record):
            raise ValueError(f"trial {record.id}: {lost}")
        return record

    # trials

    def begin_attempt(self, trial_id: int, block: int | Claim) -> tuple[int, Path]:
        """Mark a trial running; returns the attempt's number and its new, empty directory. ``block``: a claim of it, or
        its number: it is held from now on. Raises ClaimedError where another has it.
        """
        now = self._now()
        claim = block if isinstance(block, Claim) else self.claims.hold(self._study_of(trial_id), block)
        token = self._tokens[trial_id] = claim.token
        with self._write(trial_id) as connection:
            last = connection.execute(select(t.trials.c.attempt).where(t.trials.c.id == trial_id)).scalar_one()
            attempt = last + 1
            relative = Path("trials") / str(trial_id) / f"attempt-{attempt}"
            connection.execute(
                update(t.trials)
                .where(t.trials.c.id == trial_id)
                .values(
                    state=TrialState.RUNNING,
                    attempt=attempt,
                    started=now,
                    ended=None,
                    failure=None,
                    failure_message="",
                    evidence="",
                    steady=None,
                    phases=None,
                    directory=str(relative),
                )
            )
            connection.execute(insert(t.attempts).values(trial_id=trial_id, attempt=attempt, started=now, token=token))
        directory = self.directory / relative
        for part in PARTS:
            (directory / part).mkdir(parents=True, exist_ok=True)
        return attempt, directory

    def _study_of(self, trial_id: int) -> int:
        with self._begin() as connection:
            found = connection.execute(select(t.trials.c.study_id).where(t.trials.c.id == trial_id))
            return int(found.scalar_one())

    def begin_step(self, trial_id: int, attempt: int, name: str, detail: str = "") -> int:
        """Commit a step before it is acted on; returns its id for ``end_step``."""
        with self._write(trial_id) as connection:
            result = connection.execute(
                insert(t.steps).values(
                    trial_id=trial_id, attempt=attempt, name=name, started=self._now(), detail=detail
                )
            )
            key = result.inserted_primary_key
            assert key is not None
        self._steps[int(key[0])] = trial_id
        return int(key[0])

    def end_step(self, step_id: int, detail: str | None = None) -> None:
        """``detail``: what came of it, in place of what was said when it began."""
        values = {"ended": self._now()} | ({} if detail is None else {"detail": detail})
        with self._write(self._steps.pop(step_id, None)) as connection:
            self._set(connection, t.steps, [t.steps.c.id == step_id], values)

    def add_readings(self, trial_id: int, attempt: int, found: Sequence[Reading]) -> None:
        self._insert(t.readings, trial_id, attempt, [asdict(reading) for reading in found])

    def add_audits(self, trial_id: int, attempt: int, found: Sequence[AuditRecord]) -> None:
        self._insert(t.audits, trial_id, attempt, [asdict(audit) for audit in found])

    def add_responses(self, trial_id: int, attempt: int, values: Mapping[str, float]) -> None:
        """Raises TrialFailure(infrastructure) for a response that is no finite number: nothing is stored."""
        if lost := unsound(values):
            raise TrialFailure(FailureClass.INFRASTRUCTURE, f"what was measured is no number: {lost}")
        self._insert(t.responses, trial_id, attempt, [{"name": name, "value": v} for name, v in values.items()])

    def add_machine_use(self, trial_id: int, attempt: int, use: MachineUse | None) -> None:
        """What else the machine did under the load of a trial."""
        self._insert(t.machine_use, trial_id, attempt, machine_rows(WHOLE, use))

    def add_artefacts(self, trial_id: int, attempt: int, directory: Path) -> None:
        """Hash every file below the attempt's directory."""
        rows = []
        for path in sorted(p for p in directory.rglob("*") if p.is_file()):
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            rows.append({"path": str(path.relative_to(directory)), "sha256": digest, "size": path.stat().st_size})
        self._insert(t.artefacts, trial_id, attempt, rows)

    def _insert(self, table: Any, trial_id: int, attempt: int, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            with self._write(trial_id) as connection:
                connection.execute(insert(table), [{"trial_id": trial_id, "attempt": attempt, **row} for row in rows])

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
        """Windows and responses of a trial's slots, in one transaction; replaces what was stored before."""
        key = {"trial_id": trial_id, "attempt": attempt}
        rows = [
            {**key, "slot": one.slot, "name": name, "value": value}
            for one in measured
            for name, value in one.responses.items()
        ]
        with self._write(trial_id) as connection:
            for table in (t.slot_responses, t.machine_use):
                whose = (table.c.trial_id == trial_id) & (table.c.attempt == attempt) & (table.c.slot != WHOLE)
                connection.execute(delete(table).where(whose))
            for one in measured:
                connection.execute(
                    update(t.slots)
                    .where(t.slots.c.trial_id == trial_id, t.slots.c.attempt == attempt, t.slots.c.slot == one.slot)
                    .values(
                        measured_from_ns=round(one.begin * 1e9),
                        measured_until_ns=round(one.end * 1e9),
                        left_out=one.left_out,
                    )
                )
            if rows:
                connection.execute(insert(t.slot_responses), rows)
            if used := [{**key, **row} for one in measured for row in machine_rows(one.slot, one.machine)]:
                connection.execute(insert(t.machine_use), used)

    def set_steady(self, trial_id: int, steady: SteadyState, phases: Phases) -> None:
        with self._write(trial_id) as connection:
            values = {"steady": json.dumps(asdict(steady)), "phases": json.dumps(asdict(phases))}
            self._set(connection, t.trials, [t.trials.c.id == trial_id], values)

    def finish(self, trial_id: int, attempt: int, failure: TrialFailure | None = None) -> None:
        """Close an attempt as done, or failed with its class."""
        now = self._now()
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

    def skip(self, trial_ids: Sequence[int], reason: str) -> None:
        """Trials that need not run any more, planned or interrupted, with the reason."""
        with self._begin() as connection:
            connection.execute(
                update(t.trials)
                .where(t.trials.c.id.in_(trial_ids))
                .values(state=TrialState.SKIPPED, failure=None, failure_message=reason)
            )

    def close_orphans(self, study_id: int) -> list[int]:
        """Trials still marked running belong to a leadline that is gone: close them as interrupted; their positions.
        Those that another owner runs stay.
        """
        return self.claims.close_orphans(study_id)
