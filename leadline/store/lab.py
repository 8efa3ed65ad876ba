"""The lab's store: studies, trials and everything they left; rows in the lab's database, files in its directory.
A lab is made, or checked: its database and the place of its files are tried before its ``lab.yaml`` names them.

A trial is a row from the moment it is planned, and each attempt leaves rows and a directory. A step is committed
before it is acted on, so that a crash at any point leaves what was known until then.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, Table, delete, func, insert, select, update
from sqlalchemy.exc import NoResultFound

import leadline
from leadline.design.make import plan_from_json, plan_to_json
from leadline.host.textfile import make_private, redact_file, tighten
from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, LeadlineError, TrialFailure, UsageError, shortened, wanted
from leadline.model.knob import Level
from leadline.model.plan import Plan
from leadline.model.received import json_as
from leadline.model.record import AuditRecord, Phases, Reading, Step, StudyRecord, TrialRecord, TrialState
from leadline.model.result import SteadyState
from leadline.model.study import Study
from leadline.store import labfile
from leadline.store import schema as t
from leadline.store.artefacts import OF_ANOTHER, Artefacts
from leadline.store.claims import Claim, Claims, InUseError, LostClaimError
from leadline.store.database import Database, add_rows, identity_of, new_number, opened
from leadline.store.files import by_digest, hashed, home, send_all
from leadline.store.rows import (
    WHOLE,
    SlotMeasured,
    SlotSet,
    check_moments,
    check_types,
    machine_of,
    machine_rows,
    response_of,
    response_rows,
    slot_records,
)


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


_EVIDENCE = (t.audits, t.readings, t.steps)  # of which no analysis asks
_Rows = dict[str, dict[int, list[RowMapping]]]  # table -> trial -> rows


def _contradiction(record: TrialRecord) -> str:
    """What a trial's row says against itself; empty for nothing."""
    if (record.state is TrialState.FAILED) != (record.failure is not None):
        return f"it is {record.state.value}, its failure {record.failure.value if record.failure else 'none'}"
    if record.state in (TrialState.RUNNING, TrialState.DONE) and (record.attempt < 1 or record.started is None):
        return f"it is {record.state.value} and was never begun"
    return ""


@dataclass(frozen=True)
class StudyCount:
    """A study and how many trials it has, in all, done and failed."""

    id: int
    study: str
    created: float
    trials: int
    done: int
    failed: int


def study_key(study: Study) -> str:
    """SHA-256 of the effective study's canonical JSON: two runs with the same key are one study."""
    return hashlib.sha256(json.dumps(study.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def _of_attempts(connection: Connection, wanted: ColumnElement[bool], evidence: bool = True) -> _Rows:
    """Rows of the last attempts of the wanted trials, by table and trial: one query a table, however many trials.
    Without ``evidence`` none of audits, readings and steps. Of the table ``attempts`` those that others disturbed, of
    ``blocks`` the runs that the last attempts belong to.
    """

    def by_trial(query: Select[Any]) -> dict[int, list[RowMapping]]:
        rows_: dict[int, list[RowMapping]] = {}
        rows = connection.execute(query.where(wanted)).mappings().all()
        check_types(query, rows)
        for row in rows:
            rows_.setdefault(row["trial_id"], []).append(row)
        return rows_

    rows: _Rows = {table.name: {} for table in _EVIDENCE}
    for table in (t.responses, t.slots, t.slot_responses, t.machine_use, *(_EVIDENCE if evidence else ())):
        last = (table.c.trial_id == t.trials.c.id) & (table.c.attempt == t.trials.c.attempt)
        rows[table.name] = by_trial(select(table).join(t.trials, last).order_by(*table.primary_key.columns))
    disturbed = t.attempts.c.failure == FailureClass.DISTURBED.value
    last = (t.attempts.c.trial_id == t.trials.c.id) & (t.attempts.c.attempt == t.trials.c.attempt)
    ran = select(t.attempts.c.trial_id, t.blocks.c.host).select_from(t.attempts).join(t.trials, last)
    return {
        **rows,
        t.attempts.name: by_trial(select(t.attempts).join(t.trials).where(disturbed)),
        t.blocks.name: by_trial(ran.join(t.blocks, t.blocks.c.token == t.attempts.c.token)),
    }


class UnreadableError(LeadlineError):
    """A stored study that has keys or values which this version refuses."""


class Store(AttemptStore):
    """One lab directory: its studies."""

    def add_study(
        self, study: Study, document: str, plan: Plan, environment: Mapping[str, str], skipped: Sequence[str]
    ) -> int:
        """Store a study and every planned trial; returns its id. Raises ValueError for what would read otherwise."""
        written = plan_to_json(plan)
        if plan_from_json(written) != plan or Study.model_validate_json(study.model_dump_json()) != study:
            raise ValueError(f"study {study.study} would not be read as it is written")
        with self.transaction() as connection:
            study_id = new_number(
                connection,
                insert(t.studies).values(
                    name=study.study,
                    key=study_key(study),
                    study=study.model_dump_json(),
                    document=document,
                    plan=written,
                    environment=json.dumps(dict(environment)),
                    skipped=json.dumps(list(skipped)),
                    created=self.now(),
                    version=leadline.__version__,
                ),
            )
            planned = {"study_id": study_id, "state": TrialState.PLANNED, "attempt": 0}
            add_rows(connection, t.trials, [{**planned, "position": trial.position} for trial in plan.trials])
        return study_id

    def tell_environment(self, study_id: int, facts: Mapping[str, str]) -> None:
        """Versions and facts of hosts in place of those that are stored."""
        with self.transaction() as connection:
            statement = update(t.studies).where(t.studies.c.id == study_id).values(environment=json.dumps(dict(facts)))
            connection.execute(statement)

    def skip(self, trial_ids: Sequence[int], reason: str) -> None:
        """Trials that need not run any more, planned or interrupted, with the reason."""
        with self.transaction() as connection:
            connection.execute(
                update(t.trials)
                .where(t.trials.c.id.in_(trial_ids))
                .values(state=TrialState.SKIPPED, failure=None, failure_message=reason)
            )

    def unfinished(self, study: Study) -> int | None:
        """The newest study with the same key that has trials left to run, interrupted ones included."""
        with self.transaction() as connection:
            exists = select(t.trials.c.id).where(t.trials.c.study_id == t.studies.c.id).where(t.LEFT).exists()
            row = connection.execute(
                select(t.studies.c.id)
                .where(t.studies.c.key == study_key(study))
                .where(exists)
                .order_by(t.studies.c.id.desc())
            ).first()
        return int(row[0]) if row else None

    def find(self, reference: str) -> int:
        """A study's id from ``12``, ``pools`` (the newest of that name) or ``pools@12``. Raises UsageError."""
        with self.transaction() as connection:
            rows = connection.execute(select(t.studies.c.id, t.studies.c.name).order_by(t.studies.c.id)).all()
        numbered = [row.id for row in rows if reference in (str(row.id), f"{row.name}@{row.id}")]
        if ids := numbered or [row.id for row in rows if row.name == reference]:
            return int(ids[-1])
        names = ", ".join(f"{row.name}@{row.id}" for row in rows) or "none yet"
        raise UsageError(f"no study {reference!r} in {self.directory}; studies there: {names}")

    def studies(self) -> list[StudyRecord]:
        """All studies that this version reads, oldest first."""
        studies = []
        for study_id in reversed(self.ids()):
            with suppress(UnreadableError):
                studies.append(self.load(study_id))
        return studies

    def counts(self) -> list[StudyCount]:
        """Of each study how many trials it has, oldest first; read without its trials and its plan."""
        by_study: dict[int, dict[str, int]] = {}
        with self.transaction() as connection:
            states = select(t.trials.c.study_id, t.trials.c.state, func.count().label("trials"))
            for row in connection.execute(states.group_by(t.trials.c.study_id, t.trials.c.state)):
                by_study.setdefault(row.study_id, {})[row.state] = row.trials
            rows = connection.execute(select(t.studies.c.id, t.studies.c.name, t.studies.c.created)).all()
        return [
            StudyCount(
                *(row.id, row.name, row.created, sum(states.values())),
                *(states.get(state, 0) for state in (TrialState.DONE, TrialState.FAILED)),
            )
            for row in sorted(rows, key=lambda row: row.id)
            for states in [by_study.get(row.id, {})]
        ]

    def ids(self) -> list[int]:
        """Numbers of all studies, newest first."""
        with self.transaction() as connection:
            return list(connection.execute(select(t.studies.c.id).order_by(t.studies.c.id.desc())).scalars())

    def load(self, study_id: int, evidence: bool = True) -> StudyRecord:
        """A study as values, with all its trials (the last attempt of each). Without ``evidence`` they have no audits,
        readings and steps: what an analysis needs, sooner.
        """
        with self._reading(study_id), self.transaction() as connection:
            row = connection.execute(select(t.studies).where(t.studies.c.id == study_id)).mappings().one()
            study, plan = Study.model_validate_json(row["study"]), plan_from_json(row["plan"])
            records = self.trials(connection, study_id, evidence=evidence)
            if [record.planned.position for record in records] != [planned.position for planned in plan.trials]:
                raise ValueError(f"it has {len(records)} trials, its plan {len(plan.trials)}")
            return StudyRecord(
                id=study_id,
                study=study,
                document=row["document"],
                plan=plan,
                created=row["created"],
                environment=json_as(dict[str, str], row["environment"], "its environment"),
                trials=records,
                skipped=json_as(tuple[str, ...], row["skipped"], "its skipped factors"),
            )

    def trials(
        self, connection: Connection, study_id: int, positions: Collection[int] | None = None, evidence: bool = True
    ) -> tuple[TrialRecord, ...]:
        """Those of a study, or of its ``positions``. Raises ValueError, LookupError, TypeError for damaged rows."""
        wanted: ColumnElement[bool] = t.trials.c.study_id == study_id
        if positions is not None:
            wanted &= t.trials.c.position.in_(positions)
        plan = connection.execute(select(t.studies.c.plan).where(t.studies.c.id == study_id)).scalar_one()
        planned = plan_from_json(plan)
        query = select(t.trials).where(wanted).order_by(t.trials.c.position)
        trials = connection.execute(query).mappings().all()
        check_types(query, trials)
        check_moments(trials)
        rows = _of_attempts(connection, wanted, evidence)
        return tuple(self._trial(trial, planned, rows) for trial in trials)

    @contextmanager
    def _reading(self, study_id: int) -> Iterator[None]:
        """Rows that hold something else than was written, or what this version refuses, as a LeadlineError."""
        what = f"study {study_id} of the lab {self.directory}"
        try:
            yield
        except ValidationError as error:
            first = error.errors()[0]
            name = shortened(".".join(map(str, first["loc"])), 100)
            reason = shortened(wanted(first), 200)
            raise UnreadableError(f"{what} is not one that this leadline reads: {name}: {reason}") from error
        except NoResultFound:
            raise LeadlineError(f"{what} is not there, or not whole") from None
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, UsageError) as error:
            reason = shortened(" ".join(str(error).split()), 200)
            raise LeadlineError(f"{what} is damaged: {reason}") from error

    def load_trial(self, study_id: int, position: int) -> TrialRecord:
        """One trial of a study, its last attempt."""
        with self._reading(study_id), self.transaction() as connection:
            (trial,) = self.trials(connection, study_id, [position])
            return trial

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
            responses={row["name"]: response_of(row) for row in of_attempt(t.responses)},
            audits=tuple(AuditRecord(a["name"], a["passed"], a["detail"]) for a in of_attempt(t.audits)),
            readings=tuple(
                Reading(r["knob"], r["phase"], r["wanted"], r["found"], r["matches"]) for r in of_attempt(t.readings)
            ),
            steps=tuple(Step(s["name"], s["started"], s["ended"], s["detail"]) for s in of_attempt(t.steps)),
            steady=json_as(SteadyState, row["steady"], "its steady state") if row["steady"] else None,
            phases=json_as(Phases, row["phases"], "its phases") if row["phases"] else None,
            directory=self.directory / home(row["id"], row["attempt"]) if row["directory"] else None,
            slots=slot_records(
                of_attempt(t.slots), of_attempt(t.slot_responses), machine, plan, plan.trials[row["position"]]
            ),
            machine=machine.get(WHOLE),
            repeats=len(of_attempt(t.attempts)),
            host=next((row["host"] for row in of_attempt(t.blocks)), ""),
        )
        if lost := unsound(record.responses) or _contradiction(record):
            raise ValueError(f"trial {record.id}: {lost}")
        return record


def init_lab(directory: Path, url: str | None = None, artefacts: str | None = None) -> Store:
    """A lab, new or there already. With ``url`` its rows are in that PostgreSQL database, with ``artefacts`` (a
    directory, ``s3://BUCKET/PREFIX``) its files are kept there; those of trials that ran before are sent. Raises
    UsageError, LeadlineError.
    """
    if url is not None:
        _check_database(directory, url)
    place = None if artefacts is None else labfile.parse_artefacts(artefacts, Path.cwd(), "--artefacts")
    if place is not None:
        _check_files(directory, url, place)
        artefacts = artefacts if place.bucket else str(place.folder)
    if url is None and place is None:
        return Store(directory)
    known_url, known_place = labfile.named(directory)
    url, artefacts = known_url if url is None else url, known_place if artefacts is None else artefacts
    try:
        _belong(directory, url, place)
        directory.mkdir(parents=True, exist_ok=True)
        labfile.write(directory, url, artefacts)
    except OSError as error:
        raise LeadlineError(f"the lab {directory} cannot be made: {error}") from error
    store = Store(directory)
    send_all(store)
    return store


def _check_database(directory: Path, url: str) -> None:
    address = labfile.parse_url(url, "--database")
    if labfile.is_lab(directory) and labfile.address_of(directory) != address:
        rows = labfile.address_of(directory) or directory / labfile.SQLITE
        raise UsageError(
            f"{directory} is a lab already, its rows are in {rows}: name another directory, then"
            f" `leadline lab merge {directory} --lab DIR` copies its studies there"
        )


def _check_files(directory: Path, url: str | None, place: labfile.ArtefactPlace) -> None:
    artefacts = labfile.artefacts_of(directory)
    if artefacts is not None and artefacts != place:
        raise UsageError(
            f"{directory} keeps its files in {artefacts} already: copy them to {place} and name it in lab.yaml, or make"
            f" another lab there, then `leadline lab merge {directory} --lab DIR`"
        )
    labfile.refuse_own(directory, place)
    there = Artefacts(place)
    there.probe()
    if url is None and not labfile.is_lab(directory) and there.owner():
        raise LeadlineError(OF_ANOTHER.format(place=place))


def _belong(directory: Path, url: str | None, place: labfile.ArtefactPlace | None) -> None:
    """The lab's tables are made or found, and the place of its files is its own."""
    if url is not None:
        with opened(labfile.parse_url(url, "--database"), time.time).begin() as connection:
            identity = identity_of(connection)
    elif place is not None:
        identity = Store(directory).identity
    if place is not None:
        Artefacts(place).belong_to(identity)
