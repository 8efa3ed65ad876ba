"""A bundle: trials of one study with everything they left, as one directory that goes from lab to lab.

``rows.json`` has the study's row, those of its trials and of all their attempts, each by the trial's position in the
plan; ``trials/POSITION/attempt-N`` their files. ``manifest.json`` has the digest of every file, of ``rows.json`` too. A
bundle is made beside its name and renamed once it is whole.
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
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select

import leadline
from leadline.host import received
from leadline.model.errors import LeadlineError, quoted, shortened
from leadline.model.received import json_as, reading
from leadline.model.record import TrialState
from leadline.observe.table import check_tables
from leadline.store import schema as t
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
