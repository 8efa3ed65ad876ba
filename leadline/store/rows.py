"""Rows of a lab that come from elsewhere, checked before they are written: their columns, types, ranges, and that they
fit together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, ColumnElement, Float, Integer, RowMapping, Select, Table

from leadline.model.errors import FailureClass, quoted
from leadline.model.record import TrialState
from leadline.store import schema as t
from leadline.store.claims import BlockState

MOST_ATTEMPTS, MOST_POSITIONS = 10_000, 10_000_000
LARGEST_VALUE = 1e18  # of a response: bytes, seconds, shares, rates
_END_OF_TIME = 253_402_300_800.0  # unix seconds of the year 10000
_LONGEST_TEXT, _LONGEST_NAME = 64 << 20, 4096  # characters
_RANGES: Mapping[str, tuple[float, float]] = {
    "attempt": (1, MOST_ATTEMPTS),
    "position": (0, MOST_POSITIONS),
    "block": (0, MOST_POSITIONS),
    "run": (1, MOST_POSITIONS),
    "slot": (-1, MOST_POSITIONS),
    "size": (0, 1 << 60),
    "value": (-LARGEST_VALUE, LARGEST_VALUE),
    **dict.fromkeys(("started", "ended", "begun", "leased_until", "created"), (0, _END_OF_TIME)),
}
_NANOSECONDS = (0, int(_END_OF_TIME) * 10**9 - 1)
_NAMES = {str: "a text", bytes: "bytes", float: "a number with a fraction"}
_FAILURES = {None, *(kind.value for kind in FailureClass)}
_CHOICES: Mapping[tuple[str, str], Collection[object]] = {
    ("trials", "state"): {state.value for state in TrialState},
    ("blocks", "state"): {state.value for state in BlockState},
    **{(table, "failure"): _FAILURES for table in ("trials", "attempts", "slots")},
}


def check_rows(table: Table, rows: Iterable[Mapping[str, Any]], left_out: Collection[str], more: str = "") -> None:
    """Rows that have every column of the table but those ``left_out``, and ``more``. Raises ValueError."""
    wanted = {name for name in table.c.keys() if name not in left_out} | ({more} if more else set())  # noqa: SIM118
    for row in rows:
        if unknown := row.keys() - wanted:
            raise ValueError(f"{table.name} has no column {quoted(min(unknown))}")
        if lacking := wanted - row.keys():
            raise ValueError(f"a row of {table.name} has no {min(lacking)}")
        for name, value in row.items():
            _check(table, name, value)


def check_types(query: Select[Any], rows: Iterable[RowMapping]) -> None:
    """Rows that a query gave, each value of its column's type: SQLite keeps any. Raises ValueError."""
    columns = query.selected_columns.values()
    for types in {tuple(map(type, row.values())) for row in rows}:
        for column, kind in zip(columns, types, strict=True):
            if kind is not type(None) and kind not in _python_types(column):
                raise ValueError(f"{column.name} of a row of {column.table} holds {_NAMES.get(kind, kind.__name__)}")


def _python_types(column: ColumnElement[Any]) -> tuple[type, ...]:
    if isinstance(column.type, Boolean):
        return (bool,)
    if isinstance(column.type, Float):
        return (int, float)
    return (int,) if isinstance(column.type, Integer) else (str,)


def check_moments(rows: Iterable[RowMapping]) -> None:
    """Rows of trials or attempts that began and ended in the course of time. Raises ValueError."""
    for row in rows:
        for name in ("attempt", "started", "ended"):
            _check(t.trials, name, row[name])


def _check(table: Table, name: str, value: object) -> None:
    column = table.c.get(name)
    if value is None and column is not None and column.nullable:
        return
    choices = _CHOICES.get((table.name, name))
    if not (value in choices if choices is not None else _fits(column, name, value)):
        raise ValueError(f"{name} of a row of {table.name} is {quoted(value)}")


def _fits(column: Column[Any] | None, name: str, value: object) -> bool:
    kind = Integer() if column is None else column.type
    if isinstance(kind, Boolean):
        return isinstance(value, bool)
    if isinstance(kind, Integer | Float):
        whole = isinstance(kind, Integer)
        least, most = _RANGES.get(name, _NANOSECONDS if isinstance(kind, BigInteger) else (0, 2**31 - 1))
        if column is not None and column.table is t.trials and name == "attempt":
            least = 0  # it has not begun
        right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        return right and math.isfinite(value) and least <= value <= most  # type: ignore[arg-type,operator]
    longest = _LONGEST_TEXT if isinstance(kind, t.TEXT) else _LONGEST_NAME
    return isinstance(value, str) and len(value) <= longest


def check_attempts(trials: Iterable[Mapping[str, Any]], tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Every attempt of a trial has its row, every other row is of one of them, and none is there twice. Raises
    ValueError.
    """
    last: dict[int, int] = {}
    for trial in trials:
        if trial["position"] in last:
            raise ValueError(f"the trial at position {trial['position']} is there twice")
        last[trial["position"]] = trial["attempt"]
    wanted = {(position, attempt) for position, most in last.items() for attempt in range(1, most + 1)}
    if {(row["position"], row["attempt"]) for row in tables[t.attempts.name]} != wanted:
        raise ValueError("its trials have other attempts than they say")
    for name, rows in tables.items():
        key = [column.name for column in t.metadata.tables[name].primary_key if column.name != "trial_id"]
        keys_seen: set[tuple[object, ...]] = set()
        for row in rows:
            if (row["position"], row["attempt"]) not in wanted:
                raise ValueError(f"a row of {name} is of no attempt that is there")
            if "id" not in key:
                before = len(keys_seen)
                keys_seen.add((row["position"], *(row[part] for part in key)))
                if len(keys_seen) == before:
                    raise ValueError(f"a row of {name} is there twice")
