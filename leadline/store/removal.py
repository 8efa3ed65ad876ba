"""What the studies of a lab take, and their removal: directories first, then the rows, so that a crash in between
leaves a study that can be removed again, and no trial of another one meets its files. Contents that only its rows
named go last, from where the lab keeps its files.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import case, delete, func, select

from leadline.host.needed import needed_to_undo
from leadline.model.errors import LeadlineError, UsageError
from leadline.store import schema as t
from leadline.store.claims import InUseError, in_use, is_used, log_path, stop_path
from leadline.store.files import contents, disk_use, drop_copies, sweep
from leadline.store.lab import Store
from leadline.store.labfile import SQLITE, services_of
from leadline.store.tunings import TuningRecords


@dataclass(frozen=True)
class Held:
    """A study, or a tuning with its studies. ``last``: unix seconds of the last thing it did; ``size``: bytes on the
    disk of ``directories``, without its rows; ``contents``: of its files where the lab keeps them, with their bytes.
    """

    name: str  # pools@12, tuning daytrader@2
    studies: tuple[int, ...]
    tuning: int | None
    last: float
    trials: int
    finished: bool
    running: bool
    directories: tuple[Path, ...]
    size: int
    contents: Mapping[str, int] = field(default_factory=dict)

    @property
    def kept(self) -> int:
        """Bytes of its contents, also of those that other studies have too."""
        return sum(self.contents.values())


@dataclass(frozen=True)
class Usage:
    """A lab on the disk, bytes; ``database``: its rows, also those on a server. ``services``: installed servers and
    databases of studies, which a run makes again. ``kept``: of files where the lab keeps them, each content once.
    """

    held: tuple[Held, ...]
    services: int
    database: int
    other: int
    kept: int = 0

    @property
    def total(self) -> int:
        return sum(item.size for item in self.held) + self.services + self.database + self.other


def usage(store: Store) -> Usage:
    """All of a lab, oldest first; studies of a tuning are within it."""
    lab = store.directory
    items = tuple(_all_held(store))
    rows, servers = list(lab.glob(f"{SQLITE}*")), services_of(lab)
    directories = [*rows, *(directory for item in items for directory in item.directories)]
    directories += [servers] if servers.is_relative_to(lab) else []
    database = disk_use(*rows) if store.address is None else store.server_bytes()
    bytes_kept = sum({digest: size for item in items for digest, size in item.contents.items()}.values())
    if store.artefacts is not None and not store.artefacts.place.bucket:
        directories += [store.artefacts.place.folder] if store.artefacts.place.folder.is_relative_to(lab) else []
    return Usage(items, disk_use(servers), database, max(0, disk_use(lab) - disk_use(*directories)), bytes_kept)


def find(store: Store, reference: str) -> Held:
    """Raises UsageError for what is not there, and for a study that is part of a tuning."""
    items = list(_all_held(store))
    tuning = TuningRecords(store).find(reference)
    if tuning is not None:
        return next(item for item in items if item.tuning == tuning)
    number = store.find(reference)
    item = next(item for item in items if number in item.studies)
    if item.tuning is not None:
        raise UsageError(f"study {reference} is part of {item.name}: remove that")
    return item


def to_prune(held: Sequence[Held], before: float | None, most: int | None, copies: bool = False) -> list[Held]:
    """Finished ones, oldest first: those that did nothing since ``before`` (unix seconds), then as many as it takes
    until all that stay take ``most`` bytes where the lab keeps its files; with ``copies`` on this machine's disk.
    """
    candidates = sorted((item for item in held if item.finished and not item.running), key=lambda item: item.last)
    chosen = [candidate for candidate in candidates if before is not None and candidate.last < before]
    items_left = [item for item in held if item not in chosen]
    for item in candidates:
        if most is not None and item in items_left and taken(items_left, copies) > most:
            chosen.append(item)
            items_left.remove(item)
    return chosen


def taken(held: Sequence[Held], copies: bool = False) -> int:
    """Bytes of files where the lab keeps them, a content that several have once; with ``copies`` on this machine."""
    if copies or not any(item.contents for item in held):
        return sum(item.size for item in held)
    return sum({digest: size for item in held for digest, size in item.contents.items()}.values())


def remove_copies(store: Store, held: Held) -> int:
    """Remove the copies of a study's files on this machine, which are fetched again when they are read; bytes freed.
    Raises InUseError while it runs, LeadlineError where its files are not kept elsewhere.
    """
    with ExitStack() as locks:
        for study in held.studies:
            locks.enter_context(in_use(store.directory, f"study-{study}"))
        store.refuse_elsewhere(held.studies)
        return drop_copies(store, held.studies)


def remove(store: Store, held: Held) -> int:
    """Remove a study or a tuning from the lab; bytes freed, also where it keeps its files. Services of its name go with
    the last study of that name. Raises InUseError while it runs, LeadlineError where the undo journal of this host
    still needs its files, OSError.
    """
    lab = store.directory
    with ExitStack() as locks:
        for study in held.studies:
            locks.enter_context(in_use(lab, f"study-{study}"))
        store.refuse_elsewhere(held.studies)
        if held.tuning is not None:
            locks.enter_context(in_use(lab, f"tuning-{held.tuning}"))
        directories = [*held.directories, *_unshared_services(store, held, locks)]
        if (needed := needed_to_undo(directories)) is not None:
            raise LeadlineError(f"{needed} is needed to put this host back: run `leadline restore` first")
        freed = disk_use(*directories)
        for directory in directories:
            if directory.is_dir() and not directory.is_symlink():
                shutil.rmtree(directory)
        _delete_rows(store, held)
        freed += sweep(store, held.contents)
        for study in held.studies:
            for path in (log_path(lab, study), stop_path(lab, study)):
                with suppress(OSError):
                    path.unlink(missing_ok=True)
    return freed


def _unshared_services(store: Store, held: Held, locks: ExitStack) -> list[Path]:
    """Directories of services of names that no study but the held ones has; held alone, so that no run makes them."""
    with store.transaction() as connection:
        rows = connection.execute(select(t.studies.c.id, t.studies.c.name)).all()
    names_held = {row.name for row in rows if row.id not in held.studies}
    unshared_services = []
    for name in sorted({row.name for row in rows if row.id in held.studies} - names_held):
        try:
            locks.enter_context(in_use(store.directory, f"services-{name}"))
        except InUseError:  # a run of that name is about to begin
            continue
        unshared_services.append(services_of(store.directory) / name)
    return unshared_services


def _delete_rows(store: Store, held: Held) -> None:
    with store.transaction() as connection:
        trials = select(t.trials.c.id).where(t.trials.c.study_id.in_(held.studies))
        for table in reversed(t.metadata.sorted_tables):
            if "trial_id" in table.c:
                connection.execute(delete(table).where(table.c.trial_id.in_(trials)))
        if held.tuning is not None:
            connection.execute(delete(t.tuning_parts).where(t.tuning_parts.c.tuning_id == held.tuning))
            connection.execute(delete(t.tunings).where(t.tunings.c.id == held.tuning))
        connection.execute(delete(t.blocks).where(t.blocks.c.study_id.in_(held.studies)))
        connection.execute(delete(t.trials).where(t.trials.c.study_id.in_(held.studies)))
        connection.execute(delete(t.studies).where(t.studies.c.id.in_(held.studies)))


def _all_held(store: Store) -> list[Held]:
    """Told from the rows alone: a study that this version cannot read can be removed, too."""
    lab, elsewhere = store.directory, store.claims.elsewhere()
    files = contents(store) if store.artefacts is not None else {}
    with store.transaction() as connection:
        columns = (
            t.trials.c.study_id,
            func.count().label("trials"),
            func.max(func.coalesce(t.trials.c.ended, t.trials.c.started, 0)).label("last"),
            func.sum(case((t.LEFT, 1), else_=0)).label("left"),
        )
        counts = {row.study_id: row for row in connection.execute(select(*columns).group_by(t.trials.c.study_id))}
        ids: dict[int, list[int]] = {}
        for row in connection.execute(select(t.trials.c.id, t.trials.c.study_id)):
            ids.setdefault(row.study_id, []).append(row.id)
        studies = connection.execute(select(t.studies.c.id, t.studies.c.name, t.studies.c.created)).all()
        tunings = connection.execute(
            select(t.tunings.c.id, t.tunings.c.name, t.tunings.c.created, t.tunings.c.finished)
        ).all()
        parts: dict[int, list[int]] = {}
        for row in connection.execute(select(t.tuning_parts)):
            parts.setdefault(row.tuning_id, []).append(row.study_id)

    home = lab / "trials"
    there = {int(path.name) for path in home.iterdir() if path.name.isdigit()} if home.is_dir() else set[int]()

    def of(numbers: Sequence[int], reports: Sequence[str]) -> tuple[Path, ...]:
        trials = [lab / "trials" / str(trial) for number in numbers for trial in ids.get(number, ()) if trial in there]
        return tuple(path for path in (*trials, *(lab / "reports" / name for name in reports)) if path.is_dir())

    by_id = {row.id: row for row in studies}
    within = {number for numbers in parts.values() for number in numbers}
    items = []
    for row in [*studies, *tunings]:
        tuning = hasattr(row, "finished")
        if not tuning and row.id in within:
            continue
        numbers = tuple(sorted(parts.get(row.id, ()))) if tuning else (row.id,)
        reports = [f"{by_id[number].name}-{number}" for number in numbers if number in by_id]
        reports += [f"{row.name}@{row.id}"] if tuning else []
        counts_ = [counts[number] for number in numbers if number in counts]
        directories = of(numbers, reports)
        names = [f"study-{number}" for number in numbers] + ([f"tuning-{row.id}"] if tuning else [])
        items.append(
            Held(
                name=f"tuning {row.name}@{row.id}" if tuning else f"{row.name}@{row.id}",
                studies=numbers,
                tuning=row.id if tuning else None,
                last=max([row.created, *(count.last for count in counts_)]),
                trials=sum(count.trials for count in counts_),
                finished=row.finished is not None if tuning else not any(count.left for count in counts_),
                running=any(is_used(lab, name) for name in names) or not elsewhere.keys().isdisjoint(numbers),
                directories=directories,
                size=disk_use(*directories),
                contents={digest: size for number in numbers for digest, size in files.get(number, {}).items()},
            )
        )
    return sorted(items, key=lambda one: one.last)
