"""What the lab keeps of a tuning: its file, and which study is which of its comparisons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import RowMapping, insert, select, update

import leadline
from leadline.model.errors import UsageError
from leadline.model.received import from_json
from leadline.model.tuning import Tuning
from leadline.store import schema as t
from leadline.store.database import new_number
from leadline.store.lab import Store


@dataclass(frozen=True)
class TuningRecord:
    """``parts``: key of a comparison -> number of its study. ``left_out``, ``passed_over``: step -> reason."""

    id: int
    tuning: Tuning
    document: str
    left_out: Mapping[str, str]
    passed_over: tuple[str, ...]
    created: float
    finished: float | None
    parts: Mapping[str, int]


def tuning_key(tuning: Tuning) -> str:
    """SHA-256 of what is asked; how long it may take is no part of that."""
    model_dump = tuning.model_dump(mode="json", exclude={"budget"})
    return hashlib.sha256(json.dumps(model_dump, sort_keys=True).encode()).hexdigest()


class TuningRecords:
    """The tunings of a lab, beside its studies. Raises TrialFailure(infrastructure) when the disk refuses a write."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, tuning: Tuning, document: str, left_out: Mapping[str, str]) -> int:
        """Returns its number."""
        with self._store.transaction() as connection:
            return new_number(
                connection,
                insert(t.tunings).values(
                    name=tuning.tuning,
                    key=tuning_key(tuning),
                    tuning=tuning.model_dump_json(),
                    document=document,
                    left_out=json.dumps(dict(left_out)),
                    passed_over="[]",
                    created=self._store.now(),
                    version=leadline.__version__,
                ),
            )

    def unfinished(self, tuning: Tuning) -> int | None:
        """The newest tuning of the same question that is not finished."""
        query = select(t.tunings.c.id).where(t.tunings.c.key == tuning_key(tuning), t.tunings.c.finished.is_(None))
        with self._store.transaction() as connection:
            row = connection.execute(query.order_by(t.tunings.c.id.desc())).first()
        return int(row[0]) if row else None

    def link(self, tuning_id: int, part: str, study_id: int) -> None:
        """Commit which study is a comparison, before its first trial."""
        with self._store.transaction() as connection:
            connection.execute(insert(t.tuning_parts).values(tuning_id=tuning_id, part=part, study_id=study_id))

    def pass_over(self, tuning_id: int, steps: Collection[str]) -> None:
        """Steps for which no time is left; replaces what was noted before."""
        self._update(tuning_id, passed_over=json.dumps(sorted(steps)))

    def finish(self, tuning_id: int) -> None:
        self._update(tuning_id, finished=self._store.now())

    def _update(self, tuning_id: int, **values: object) -> None:
        with self._store.transaction() as connection:
            connection.execute(update(t.tunings).where(t.tunings.c.id == tuning_id).values(**values))

    def load(self, tuning_id: int) -> TuningRecord:
        with self._store.transaction() as connection:
            row = connection.execute(select(t.tunings).where(t.tunings.c.id == tuning_id)).mappings().one()
            parts = connection.execute(select(t.tuning_parts).where(t.tuning_parts.c.tuning_id == tuning_id)).mappings()
            return _record(row, {part["part"]: part["study_id"] for part in parts})

    def ids(self) -> list[int]:
        """Numbers of all tunings, oldest first."""
        with self._store.transaction() as connection:
            return list(connection.execute(select(t.tunings.c.id).order_by(t.tunings.c.id)).scalars())

    def find(self, reference: str) -> int | None:
        """The number of a tuning from ``daytrader`` (the newest of that name) or ``daytrader@2``; None for no tuning.

        Raises UsageError for a number that no tuning of this name has.
        """
        name, _, number = reference.rpartition("@")
        name = name or reference
        with self._store.transaction() as connection:
            query = select(t.tunings.c.id).where(t.tunings.c.name == name).order_by(t.tunings.c.id.desc())
            ids = list(connection.execute(query).scalars())
        if not ids:
            return None
        if name == reference:
            return int(ids[0])
        if number in map(str, ids):
            return int(number)
        names = ", ".join(f"{name}@{number}" for number in reversed(ids))
        raise UsageError(f"no tuning {reference!r} in {self._store.directory}; tunings there: {names}")


def _record(row: RowMapping, parts: Mapping[str, int]) -> TuningRecord:
    return TuningRecord(
        row["id"],
        Tuning.model_validate_json(row["tuning"]),
        row["document"],
        from_json(row["left_out"], finite=False),
        tuple(from_json(row["passed_over"], finite=False)),
        row["created"],
        row["finished"],
        parts,
    )
