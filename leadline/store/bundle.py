"""A bundle: trials of one study with everything they left, as one directory that goes from lab to lab.

``rows.json`` has the study's row, those of its trials and of all their attempts, each by the trial's position in the
plan; ``trials/POSITION/attempt-N`` their files. ``manifest.json`` has the digest of every file, of ``rows.json`` too. A
bundle is made beside its name and renamed once it is whole.

It is taken into a lab files first, then all rows in one transaction. Taking one in again changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, insert, select, update

import leadline
from leadline.host import received
from leadline.model.errors import LeadlineError, quoted, shortened
from leadline.model.received import ReceivedError, json_as, reading
from leadline.model.record import TrialState
from leadline.observe.table import check_tables
from leadline.store import schema as t
from leadline.store.claims import BlockState, in_use
from leadline.store.database import add_rows, new_number
from leadline.store.files import bring, digest_of, home
from leadline.store.lab import Store
from leadline.store.rows import check_attempts, check_rows

FORMAT = 1
MANIFEST, ROWS = "manifest.json", "rows.json"
Rows = list[dict[str, Any]]
_HOME = re.compile("trials/([0-9]{1,8})/attempt-([0-9]{1,5})/(?=.)")
_MOST_ROWS = 512 << 20  # bytes


def of_attempts() -> list[Table]:
    """Tables whose rows belong to an attempt; ``attempts`` itself comes first."""
    return [table for table in t.metadata.sorted_tables if "trial_id" in table.c and "attempt" in table.c]


@dataclass(frozen=True)
class Manifest:
    """``token``: of the run of its block, empty where the bundle is a whole study; ``host``: where it ran."""

    study: str
    key: str
    plan: str  # SHA-256
    files: Mapping[str, str]  # path in the bundle -> SHA-256
    block: int | None = None
    token: str = ""
    host: str = ""
    format: int = FORMAT
    leadline: str = leadline.__version__


@dataclass(frozen=True)
class Contents:
    """Rows without numbers of the lab that they come from: ``position`` stands for a trial."""

    study: Mapping[str, Any]
    trials: Rows
    tables: Mapping[str, Rows]
    blocks: Rows


@dataclass(frozen=True)
class Bundle:
    """One that was read; its files are looked at when they are taken (``copy``)."""

    directory: Path
    manifest: Manifest
    contents: Contents

    def files(self) -> Rows:
        """What rows of artefacts say of its files: all of an attempt, whenever they were written."""
        rows = []
        for name, digest in self.manifest.files.items():
            if attempt := _HOME.match(name):
                row = {"path": name[attempt.end() :], "sha256": digest, "size": (self.directory / name).stat().st_size}
                rows.append({"position": int(attempt[1]), "attempt": int(attempt[2]), **row})
        return rows

    def copy(self, position: int, attempt: int, target: Path) -> None:
        """The files of an attempt, if it has any, to ``target``, whole or not at all. Raises LeadlineError for a file
        that is not as its digest says.
        """
        part = target.with_name(f"{target.name}.part")
        for stale in (part, target):
            shutil.rmtree(stale, ignore_errors=True)
        part.mkdir(parents=True)
        home = f"trials/{position}/attempt-{attempt}/"
        for name, digest in self.manifest.files.items():
            if name.startswith(home):
                with (
                    reading(f"the bundle {self.directory}"),
                    received.beneath(self.directory, name) as source,
                    received.beneath(part, name.removeprefix(home), make=True) as copy,
                ):
                    shutil.copyfileobj(source, copy, 1 << 20)
                if digest_of(part / name.removeprefix(home)) != digest:
                    raise _other_digest(self.directory / name)
        if any(part.iterdir()):
            part.rename(target)
        else:
            part.rmdir()


def plan_digest(plan: str) -> str:
    return hashlib.sha256(plan.encode()).hexdigest()


def write_bundle(
    store: Store,
    study_id: int,
    target: Path,
    *,
    positions: Collection[int] | None = None,
    block: int | None = None,
    token: str = "",
    host: str = "",
) -> Manifest:
    """The study, or its trials at ``positions`` that have begun, as a bundle. Raises OSError where there is one,
    LeadlineError where their files cannot be had.
    """
    bring(store, study_id, earlier=True)
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with store.transaction() as connection:
        contents, homes = _contents(connection, study_id, positions)
    (part / ROWS).write_text(json.dumps(asdict(contents)), encoding="utf-8")
    for source, (position, attempt) in homes.items():
        if (store.directory / source).is_dir():
            copied = part / "trials" / str(position) / f"attempt-{attempt}"
            shutil.copytree(store.directory / source, copied, ignore=_no_files)
    files = {str(path.relative_to(part)): digest_of(path) for path in sorted(part.rglob("*")) if path.is_file()}
    study = contents.study
    manifest = Manifest(study["name"], study["key"], plan_digest(study["plan"]), files, block, token, host)
    written = part / MANIFEST
    written.write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")
    with written.open("rb") as stream:
        os.fsync(stream.fileno())
    part.rename(target)
    return manifest


def _no_files(directory: str, names: list[str]) -> list[str]:
    """Sockets and pipes that a service left: nothing that could be copied."""
    return [name for name in names if not (Path(directory) / name).is_file() and not (Path(directory) / name).is_dir()]


def _contents(
    connection: Connection, study_id: int, positions: Collection[int] | None
) -> tuple[Contents, dict[str, tuple[int, int]]]:
    """Also the directory of each attempt in the lab."""
    study = dict(connection.execute(select(t.studies).where(t.studies.c.id == study_id)).mappings().one())
    del study["id"]
    wanted: ColumnElement[bool] = t.trials.c.study_id == study_id
    if positions is not None:
        wanted &= t.trials.c.position.in_(positions) & (t.trials.c.state != TrialState.PLANNED)
    trials = [
        dict(row) for row in connection.execute(select(t.trials).where(wanted).order_by(t.trials.c.position)).mappings()
    ]
    place = {trial["id"]: trial["position"] for trial in trials}
    tables, homes = {}, {}
    for table in of_attempts():
        query = select(table).join(t.trials, table.c.trial_id == t.trials.c.id).where(wanted)
        tables[table.name] = [
            _moved(row, place) for row in connection.execute(query.order_by(*table.primary_key.columns)).mappings()
        ]
    for trial in trials:
        for attempt in range(1, trial["attempt"] + 1):
            homes[str(home(trial["id"], attempt))] = (trial["position"], attempt)
    left_out = ("id", "study_id", "directory")
    order = select(t.blocks).where(t.blocks.c.study_id == study_id).order_by(t.blocks.c.block, t.blocks.c.run)
    blocks = connection.execute(order).mappings()
    return (
        Contents(
            study,
            [{name: value for name, value in trial.items() if name not in left_out} for trial in trials],
            tables,
            [{name: value for name, value in row.items() if name != "study_id"} for row in blocks],
        ),
        homes,
    )


def _moved(row: Mapping[Any, Any], place: Mapping[int, int]) -> dict[str, Any]:
    columns = {name: value for name, value in row.items() if name not in ("id", "trial_id")}
    return {"position": place[row["trial_id"]], **columns}


def read_bundle(directory: Path) -> Bundle:
    """Raises LeadlineError for what is no bundle, a damaged one, or one of a later version."""
    what = f"the bundle {directory}"
    try:
        json_object_file = received.json_object_file(directory / MANIFEST)
        if json_object_file.get("format") != FORMAT:
            raise LeadlineError(
                f"{directory}: format {quoted(json_object_file.get('format'))}, this leadline reads format {FORMAT}"
            )
        manifest = received.json_file_as(Manifest, directory / MANIFEST)
        rows = received.read(directory / ROWS, _MOST_ROWS)
    except FileNotFoundError as error:
        raise LeadlineError(f"{directory} is no bundle: {Path(error.filename).name} is not there") from None
    if hashlib.sha256(rows).hexdigest() != manifest.files.get(ROWS):
        raise _other_digest(directory / ROWS)
    contents = json_as(Contents, rows, what, _MOST_ROWS)
    with reading(what):
        _check(contents)
        bundle = Bundle(directory, manifest, contents)
        _check_files(bundle)
    check_tables(sorted(directory.rglob("*.parquet")))
    return bundle


def _check(contents: Contents) -> None:
    """Raises ValueError for rows that no lab has."""
    check_rows(t.studies, [contents.study], ("id",))
    check_rows(t.trials, contents.trials, ("id", "study_id", "directory"))
    check_rows(t.blocks, contents.blocks, ("study_id",))
    tables = {table.name: table for table in of_attempts()}
    if tables.keys() != contents.tables.keys():
        raise ValueError(f"it has other tables than {', '.join(tables)}")
    for name, table in tables.items():
        check_rows(table, contents.tables[name], ("id", "trial_id"), "position")
    check_attempts(contents.trials, contents.tables)


def _check_files(bundle: Bundle) -> None:
    """Raises ValueError, OSError for files that are none of its attempts', not there, or too many."""
    names = bundle.manifest.files.keys() - {ROWS}
    if len(names) > received.BOUNDS.files:
        raise ValueError(f"it has more than {received.BOUNDS.files:,} files")
    last = {trial["position"]: trial["attempt"] for trial in bundle.contents.trials}
    total = 0
    for name in names:
        attempt = _HOME.match(name)
        if attempt is None or not 1 <= int(attempt[2]) <= last.get(int(attempt[1]), 0):
            raise ValueError(f"{quoted(name)} is no file of its trials")
        try:
            with received.beneath(bundle.directory, name) as file:
                total += os.fstat(file.fileno()).st_size
        except OSError:
            raise ValueError(f"{shortened(name, 200)} is no file in it") from None
    if total > received.BOUNDS.bytes:
        raise ValueError(f"it has more than {received.BOUNDS.bytes:,} bytes")


def _other_digest(path: Path) -> LeadlineError:
    return LeadlineError(f"{path} is damaged: its digest is not the one in {MANIFEST}; fetch the bundle again")


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
