"""Bundles taken into a lab: files first, then all rows in one transaction. Taking one in again changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from leadline.model.errors import LeadlineError, shortened
from leadline.model.received import ReceivedError, reading
from leadline.model.record import TrialState
from leadline.store import schema as t
from leadline.store.bundle import Bundle, of_attempts, plan_digest, read_bundle, write_bundle
from leadline.store.claims import BlockState, in_use
from leadline.store.database import add_rows, new_number
from leadline.store.files import home
from leadline.store.lab import Store

_SAME = ("name", "key", "created", "version")  # columns by which a study is known in any lab


def take_block(store: Store, *directories: Path, token: str = "") -> int:
    """A block that ran elsewhere, under the token that its owner was given, in one bundle or in several; its trials, 0
    where they are here already. ``token``: the only one that they may have, any of the lab's if empty.

    Raises LostClaimError where the block was given to another meanwhile, LeadlineError for a bundle of another study or
    a damaged one.
    """
    bundles = [read_bundle(directory) for directory in directories]
    token = token or bundles[0].manifest.token
    found = store.claims.find(token)
    if found is None:
        raise LeadlineError(f"{directories[0]}: no block of the lab {store.directory} was given out with its token")
    claim, _ = found
    with store.transaction() as connection:
        store.claims.fence(connection, claim.token)
        plan = connection.execute(select(t.studies.c.plan).where(t.studies.c.id == claim.study_id)).scalar_one()
        here = {
            row.position: (row.id, row.attempt)
            for row in connection.execute(
                select(t.trials.c.position, t.trials.c.id, t.trials.c.attempt).where(
                    t.trials.c.study_id == claim.study_id,
                    t.trials.c.position.in_([row["position"] for bundle in bundles for row in bundle.contents.trials]),
                )
            )
        }
        trials = [number for number, _ in here.values()]
        of_token = (t.attempts.c.trial_id.in_(trials), t.attempts.c.token == claim.token)
        if connection.execute(select(t.attempts.c.trial_id).where(*of_token)).first():
            return 0
    for bundle in bundles:
        manifest = bundle.manifest
        if (manifest.token, manifest.plan, manifest.block) != (token, plan_digest(plan), claim.block):
            raise LeadlineError(
                f"{bundle.directory}: it has another plan than study {claim.study_id} of the lab {store.directory}"
            )
        if others := {trial["position"] for trial in bundle.contents.trials} - here.keys():
            raise ReceivedError(f"the bundle {bundle.directory}", f"it has a trial at position {min(others)}")
        for trial in bundle.contents.trials:
            number, before = here[trial["position"]]
            for attempt in range(1, trial["attempt"] + 1):
                bundle.copy(trial["position"], attempt, store.directory / home(number, before + attempt))
    files = {digest: path for bundle in bundles for digest, path in _send(store, bundle).items()}
    with store.transaction() as connection:
        ended = {"state": BlockState.ENDED, "ended": store.now(), "host": shortened(bundles[0].manifest.host, 200)}
        store.claims.fence(connection, token, ended)
        store.alone(connection)
        for bundle in bundles:
            _insert(connection, bundle, here, {"token": token})
        with reading(f"the bundle {bundles[0].directory}"):
            store.trials(connection, claim.study_id, here)
        store.send(files)
    return sum(len(bundle.contents.trials) for bundle in bundles)


def copy_study(source: Store, study_id: int, target: Store) -> tuple[int, bool]:
    """A study with all its trials into another lab: its number there, and whether anything was new. Raises
    InUseError while it runs, LeadlineError where it went on in both labs.
    """
    with TemporaryDirectory(dir=target.directory, prefix=".bundle-") as folder:
        directory = Path(folder) / "study"
        with in_use(source.directory, f"study-{study_id}", shared=True):
            source.refuse_elsewhere([study_id])
            write_bundle(source, study_id, directory)
        return take_study(target, directory)


def take_study(store: Store, directory: Path) -> tuple[int, bool]:
    """A whole study: its number here, and whether anything was new."""
    bundle = read_bundle(directory)
    study_id, new = _found_or_added(store, bundle)
    if not new:
        with store.transaction() as connection:
            attempts = _attempts(connection, study_id)
        attempts_ = {(row["position"], row["attempt"], row["started"]) for row in bundle.contents.tables["attempts"]}
        if attempts_ <= attempts:
            return study_id, False
        if not attempts <= attempts_:
            name = f"{bundle.manifest.study}@{study_id}"
            raise LeadlineError(
                f"{name} of the lab {store.directory} went on in both labs: both have trials of their own"
            )
    with in_use(store.directory, f"study-{study_id}"):
        _take_all(store, study_id, bundle)
    return study_id, True


def _take_all(store: Store, study_id: int, bundle: Bundle) -> None:
    """Files and rows of a study whose trials have rows."""
    of_study = t.trials.c.study_id == study_id
    with store.transaction() as connection:
        rows = connection.execute(select(t.trials).where(of_study))
        here = {row.position: (row.id, 0) for row in rows}
    for trial in bundle.contents.trials:
        for attempt in range(1, trial["attempt"] + 1):
            bundle.copy(trial["position"], attempt, store.directory / home(here[trial["position"]][0], attempt))
    files = _send(store, bundle)
    with store.transaction() as connection:
        store.alone(connection)
        connection.execute(update(t.studies).where(t.studies.c.id == study_id).values(bundle.contents.study))
        for table in reversed(of_attempts()):
            connection.execute(delete(table).where(table.c.trial_id.in_(select(t.trials.c.id).where(of_study))))
        connection.execute(delete(t.blocks).where(t.blocks.c.study_id == study_id))
        _insert(connection, bundle, here, {})
        for block in bundle.contents.blocks:
            lost = {"state": BlockState.LOST} if block["state"] == BlockState.RUNNING else {}
            connection.execute(insert(t.blocks).values({**block, **lost, "study_id": study_id}))
        store.send(files)


def _send(store: Store, bundle: Bundle) -> dict[str, Path]:
    """The bundle's files to where the lab keeps its own; by their digests. Their copies were checked."""
    files = {digest: bundle.directory / name for name, digest in bundle.manifest.files.items() if "/" in name}
    store.send(files)
    return files


def _found_or_added(store: Store, bundle: Bundle) -> tuple[int, bool]:
    """Number of the study in the lab, and whether it is new there; a new one has planned trials only."""
    wanted = [t.studies.c[name] == bundle.contents.study[name] for name in _SAME]
    with store.transaction() as connection:
        store.alone(connection)
        if row := connection.execute(select(t.studies.c.id).where(*wanted)).first():
            return int(row[0]), False
        study_id = new_number(connection, insert(t.studies).values(bundle.contents.study))
        planned = {"study_id": study_id, "state": TrialState.PLANNED, "attempt": 0}
        add_rows(connection, t.trials, [{**planned, "position": trial["position"]} for trial in bundle.contents.trials])
    return study_id, True


def _attempts(connection: Connection, study_id: int) -> set[tuple[int, int, float]]:
    query = select(t.trials.c.position, t.attempts.c.attempt, t.attempts.c.started)
    rows = connection.execute(query.join(t.trials).where(t.trials.c.study_id == study_id))
    return {(row.position, row.attempt, row.started) for row in rows}


def _insert(
    connection: Connection, bundle: Bundle, here: Mapping[int, tuple[int, int]], instead: Mapping[str, Any]
) -> None:
    """Rows of all attempts after those that are here. ``here``: number and last attempt of each position's trial."""
    for table in of_attempts():
        columns = instead if table is t.attempts else {}
        rows = []
        rows_ = bundle.files() if table is t.artefacts else bundle.contents.tables[table.name]
        for row in rows_:
            number, before = here[row["position"]]
            columns_ = {name: value for name, value in row.items() if name != "position"}
            rows.append({**columns_, **columns, "trial_id": number, "attempt": before + row["attempt"]})
        add_rows(connection, table, rows)
    changed: dict[bool, list[dict[str, Any]]] = {}  # by whether it has begun: rows of one form go in one statement
    for trial in bundle.contents.trials:
        number, before = here[trial["position"]]
        last = before + trial["attempt"]
        there = {"directory": str(home(number, last))} if trial["attempt"] else {}
        changed.setdefault(bool(there), []).append({**trial, **there, "attempt": last, "number": number})
    for values in changed.values():
        connection.execute(update(t.trials).where(t.trials.c.id == bindparam("number")), values)


def copy_tuning(source: Store, tuning_id: int, target: Store, numbers: Mapping[int, int]) -> int:
    """A tuning whose studies were copied (``numbers``: here -> there); its number there."""
    with source.transaction() as connection:
        row = dict(connection.execute(select(t.tunings).where(t.tunings.c.id == tuning_id)).mappings().one())
        query = select(t.tuning_parts).where(t.tuning_parts.c.tuning_id == tuning_id)
        parts = [dict(part) for part in connection.execute(query).mappings()]
    del row["id"]
    with target.transaction() as connection:
        same = [t.tunings.c[name] == row[name] for name in _SAME]
        newest = connection.execute(select(func.max(t.tunings.c.id)).where(*same)).scalar()
        number = newest or new_number(connection, insert(t.tunings).values(row))
        connection.execute(update(t.tunings).where(t.tunings.c.id == number).values(row))
        connection.execute(delete(t.tuning_parts).where(t.tuning_parts.c.tuning_id == number))
        for part in parts:
            there = {"tuning_id": number, "study_id": numbers[part["study_id"]]}
            connection.execute(insert(t.tuning_parts).values({**part, **there}))
    return int(number)
