"""Files of trials between a lab's directory and the place that keeps them (``leadline.store.artefacts``).

The directory of an attempt on this machine is a copy once the place has its files: it can go, and is fetched when
something reads it. Rows name what the place must hold. Whoever adds rows and whoever removes contents that no row
names do so one after the other, and who adds looks for the contents once more afterwards: so none is lost.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, select

from leadline.model.errors import LeadlineError
from leadline.model.received import ReceivedError
from leadline.observe.table import check_tables
from leadline.store import schema as t

if TYPE_CHECKING:
    from leadline.store.lab import Store

_AT_ONCE = 100  # contents that are removed while nobody adds rows


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hashed(directory: Path) -> list[dict[str, Any]]:
    """``path``, ``sha256`` and ``size`` of every file below an attempt's directory."""
    return [
        {"path": str(path.relative_to(directory)), "sha256": digest_of(path), "size": path.stat().st_size}
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    ]


def by_digest(directory: Path, rows: Iterable[Mapping[str, Any]]) -> dict[str, Path]:
    """A file for each content."""
    return {row["sha256"]: directory / row["path"] for row in rows}


def disk_use(*paths: Path) -> int:
    """Bytes that files and directories take; what vanishes or cannot be read meanwhile counts nothing."""
    total, waiting = 0, list(paths)
    while waiting:
        path = waiting.pop()
        try:
            lstat = path.lstat()
            total += lstat.st_blocks * 512
            if stat.S_ISDIR(lstat.st_mode):
                waiting += [Path(entry.path) for entry in os.scandir(path)]
        except OSError:
            continue
    return total


def home(trial: int, attempt: int) -> Path:
    """Directory of an attempt, relative to the lab."""
    return Path("trials") / str(trial) / f"attempt-{attempt}"


def _named(study_id: int) -> Select[Any]:
    columns = (t.artefacts.c.trial_id, t.artefacts.c.attempt, t.artefacts.c.path, t.artefacts.c.sha256)
    query = select(*columns, t.artefacts.c.size).join(t.trials, t.artefacts.c.trial_id == t.trials.c.id)
    return query.where(t.trials.c.study_id == study_id)


def bring(store: Store, study_id: int, earlier: bool = False) -> int:
    """Fetch the files that this machine has no copy of: of each trial's last attempt, with ``earlier`` of all. How
    many attempts were fetched. Raises LeadlineError where the place cannot be used or lacks a content.
    """
    if store.artefacts is None:
        return 0
    query = _named(study_id) if earlier else _named(study_id).where(t.artefacts.c.attempt == t.trials.c.attempt)
    with store.transaction() as connection:
        rows = connection.execute(query).all()
    wanted: dict[Path, list[tuple[str, int, str]]] = {}
    for row in rows:
        wanted.setdefault(home(row.trial_id, row.attempt), []).append((row.sha256, row.size, row.path))
    lacking = {relative: files for relative, files in wanted.items() if not (store.directory / relative).is_dir()}
    for relative, files in lacking.items():
        _fetch(store, store.directory / relative, files)
    try:
        check_tables(sorted(path for relative in lacking for path in (store.directory / relative).rglob("*.parquet")))
    except ReceivedError:
        for relative in lacking:
            shutil.rmtree(store.directory / relative, ignore_errors=True)
        raise
    return len(lacking)


def _fetch(store: Store, target: Path, files: Collection[tuple[str, int, str]]) -> None:
    """An attempt's directory, whole or not at all, whoever else fetches it."""
    assert store.artefacts is not None
    part = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        for name in t.PARTS:
            (part / name).mkdir(parents=True, exist_ok=True)
        for _, _, path in files:
            if Path(path).is_absolute() or ".." in Path(path).parts:
                raise LeadlineError(f"the lab {store.directory} is damaged: {path} leads out of its trial")
        store.artefacts.get([(digest, size, part / path) for digest, size, path in files])
        part.rename(target)
    except FileExistsError:  # as Python calls it where another was faster
        pass
    except OSError as error:
        if not target.is_dir():
            raise LeadlineError(f"the files of a trial cannot be written to {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def send_all(store: Store) -> int:
    """The files of trials that ran before the lab had the place; how many were sent."""
    if store.artefacts is None:
        return 0
    with store.transaction() as connection:
        attempts = connection.execute(select(t.attempts.c.trial_id, t.attempts.c.attempt)).all()
    sent = 0
    for trial, attempt in attempts:
        directory = store.directory / home(trial, attempt)
        if directory.is_dir():
            rows = hashed(directory)
            sent += store.artefacts.put(by_digest(directory, rows))
            with store.transaction() as connection:
                store.alone(connection)
                of_attempt = (t.artefacts.c.trial_id == trial, t.artefacts.c.attempt == attempt)
                connection.execute(t.artefacts.delete().where(*of_attempt))
                if rows:
                    key = {"trial_id": trial, "attempt": attempt}
                    connection.execute(t.artefacts.insert(), [{**key, **row} for row in rows])
            store.artefacts.put(by_digest(directory, rows))
    return sent


def contents(store: Store) -> dict[int, dict[str, int]]:
    """Of each study its contents, with their bytes."""
    columns = (t.trials.c.study_id, t.artefacts.c.sha256, t.artefacts.c.size)
    query = select(*columns).join(t.trials, t.artefacts.c.trial_id == t.trials.c.id).distinct()
    sizes: dict[int, dict[str, int]] = {}
    with store.transaction() as connection:
        for row in connection.execute(query):
            sizes.setdefault(row.study_id, {})[row.sha256] = row.size
    return sizes


def sweep(store: Store, digests: Collection[str] | None = None) -> int:
    """Remove contents that no trial has: of ``digests``, else of everything that is there; bytes freed."""
    if store.artefacts is None:
        return 0
    store.artefacts.belong_to(store.identity)
    sizes = store.artefacts.sizes()
    waiting = sorted(sizes if digests is None else sizes.keys() & set(digests))
    freed = 0
    for at in range(0, len(waiting), _AT_ONCE):
        some = waiting[at : at + _AT_ONCE]
        with store.transaction() as connection:
            store.alone(connection)
            _write_lock(connection)
            named = set(connection.execute(_of(some)).scalars())
            gone = [digest for digest in some if digest not in named]
            if gone:
                store.artefacts.remove(gone)
        freed += sum(sizes[digest] for digest in gone)
    return freed


def _of(digests: Collection[str]) -> Select[Any]:
    return select(t.artefacts.c.sha256).where(t.artefacts.c.sha256.in_(digests)).distinct()


def _write_lock(connection: Any) -> None:
    """From here on SQLite lets nobody else write."""
    if connection.dialect.name == "sqlite":
        connection.execute(t.artefacts.delete().where(t.artefacts.c.id == -1))


def drop_copies(store: Store, studies: Collection[int]) -> int:
    """Remove this machine's copies of files that the place has, of trials that have ended; bytes freed. Directories
    with other files stay. Raises LeadlineError where the place lacks one.
    """
    if store.artefacts is None:
        raise LeadlineError(f"the lab {store.directory} keeps its files nowhere else: nothing was removed")
    freed = 0
    for study in studies:
        with store.transaction() as connection:
            rows = connection.execute(_named(study).where(t.trials.c.state != "running")).all()
        copies_kept: dict[Path, dict[str, str]] = {}
        for row in rows:
            copies_kept.setdefault(store.directory / home(row.trial_id, row.attempt), {})[row.path] = row.sha256
        here = {directory: files for directory, files in copies_kept.items() if directory.is_dir()}
        if lost := store.artefacts.missing({digest for files in here.values() for digest in files.values()}):
            raise LeadlineError(f"{store.artefacts.place} lacks {len(lost)} files of study {study}: its copies stay")
        for directory, files in here.items():
            if all(row["sha256"] == files.get(row["path"]) for row in hashed(directory)):
                freed += disk_use(directory)
                shutil.rmtree(directory)
    return freed
