"""A bundle: trials of one study with everything they left, as one directory that goes from lab to lab.

``rows.json`` has the study's row, those of its trials and of all their attempts, each by the trial's position in the
plan; ``trials/POSITION/attempt-N`` their files. ``manifest.json`` has the digest of every file, of ``rows.json`` too. A
bundle is made beside its name and renamed once it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select

import leadline
from leadline.lab import schema as t
from leadline.lab.store import Store
from leadline.lab.trialfiles import bring, digest_of, home
from leadline.model.errors import LeadlineError
from leadline.model.record import TrialState

FORMAT = 1
MANIFEST, ROWS = "manifest.json", "rows.json"
Rows = list[dict[str, Any]]


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
            folder, position, attempt, *path = [*Path(name).parts, "", ""][:3] + list(Path(name).parts[3:])
            if folder == "trials" and path:
                size = (self.directory / name).stat().st_size
                number = int(attempt.removeprefix("attempt-"))
                row = {"attempt": number, "path": str(Path(*path)), "sha256": digest, "size": size}
                rows.append({"position": int(position), **row})
        return rows

    def copy(self, position: int, attempt: int, target: Path) -> None:
        """The files of an attempt, if it has any, to ``target``, whole or not at all. Raises LeadlineError for a file
        that is not as its digest says.
        """
        part = target.with_name(f"{target.name}.part")
        for stale in (part, target):
            shutil.rmtree(stale, ignore_errors=True)
        home = f"trials/{position}/attempt-{attempt}/"
        for name, digest in self.manifest.files.items():
            if name.startswith(home):
                path = part / name.removeprefix(home)
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.directory / name, path)
                check_digest(path, digest, f"{self.directory / name}")
        if part.is_dir():
            part.rename(target)


def plan_digest(plan: str) -> str:
    return hashlib.sha256(plan.encode()).hexdigest()


def check_digest(path: Path, digest: str, name: str) -> None:
    """Raises LeadlineError where the file is not what the manifest says."""
    if digest_of(path) != digest:
        raise LeadlineError(f"{name} is damaged: its digest is not the one in {MANIFEST}; fetch the bundle again")


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
    given = select(t.blocks).where(t.blocks.c.study_id == study_id).order_by(t.blocks.c.block, t.blocks.c.run)
    blocks = connection.execute(given).mappings()
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
    kept = {name: value for name, value in row.items() if name not in ("id", "trial_id")}
    return {"position": place[row["trial_id"]], **kept}


def read_bundle(directory: Path) -> Bundle:
    """Raises LeadlineError for what is no bundle, a damaged one, or one of a later version."""
    try:
        told = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if told.get("format") != FORMAT:
            raise LeadlineError(f"{directory}: format {told.get('format')}, this leadline reads format {FORMAT}")
        manifest = Manifest(**told)
        check_digest(directory / ROWS, manifest.files[ROWS], str(directory / ROWS))
        contents = Contents(**json.loads((directory / ROWS).read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise LeadlineError(f"{directory} is no bundle: {Path(error.filename).name} is not there") from None
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise LeadlineError(f"the bundle {directory} is damaged: {error}") from error
    _check_names(directory, list(manifest.files))
    return Bundle(directory, manifest, contents)


def _check_names(directory: Path, names: Sequence[str]) -> None:
    """Raises LeadlineError for a path that leads out of the bundle."""
    for name in names:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or not (directory / path).is_file():
            raise LeadlineError(f"the bundle {directory} is damaged: {name} is no file in it")
