"""Rows of a lab that come from elsewhere, checked before they are written: their columns, types, ranges, and that they
fit together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, ColumnElement, Float, Integer, RowMapping, Select, Table

from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, TrialFailure, quoted
from leadline.model.knob import Level
from leadline.model.plan import Plan, PlannedTrial, Role
from leadline.model.received import json_as
from leadline.model.record import SlotRecord, TrialState
from leadline.model.result import AtLeast
from leadline.store import schema as t
from leadline.store.claims import BlockState


@dataclass(frozen=True)
class SlotSet:
    """How a slot began: moments in unix ns, levels read back, and what went wrong."""

    set_from_ns: int
    set_at_ns: int
    found: Mapping[str, Level]
    matches: bool
    failure: TrialFailure | None = None


@dataclass(frozen=True)
class SlotMeasured:
    """A slot's window (unix seconds) and responses; ``left_out``: why it has no part in the analysis."""

    slot: int
    begin: float
    end: float
    responses: Mapping[str, float] = field(default_factory=dict)
    left_out: str = ""
    machine: MachineUse | None = None


def response_rows(values: Mapping[str, float]) -> list[dict[str, object]]:
    """Rows of the tables of responses, without trial, attempt and slot."""
    return [
        {"name": name, "value": float(value), "at_least": isinstance(value, AtLeast)} for name, value in values.items()
    ]


def response_of(row: RowMapping) -> float:
    """A response as it was measured."""
    return AtLeast(row["value"]) if row["at_least"] else float(row["value"])


WHOLE = -1  # in the place of a slot: the trial
_PROGRAM = "program "


def machine_rows(slot: int, use: MachineUse | None) -> list[dict[str, object]]:
    """Rows of the table ``machine_use``, without trial and attempt."""
    if use is None:
        return []
    named = {**use.figures, **{f"{_PROGRAM}{name}"[:200]: share for name, share in use.programs.items()}}
    return [{"slot": slot, "name": name, "value": value} for name, value in named.items()]


def machine_of(rows: Sequence[RowMapping]) -> dict[int, MachineUse]:
    """What was stored, by slot."""
    figures: dict[int, dict[str, float]] = {}
    programs: dict[int, dict[str, float]] = {}
    for row in rows:
        slot, name = row["slot"], str(row["name"])
        figures.setdefault(slot, {})
        if name.startswith(_PROGRAM):
            programs.setdefault(slot, {})[name.removeprefix(_PROGRAM)] = row["value"]
        else:
            figures[slot][name] = row["value"]
    most = {slot: dict(sorted(programs_.items(), key=lambda one: -one[1])) for slot, programs_ in programs.items()}
    return {slot: MachineUse(used, most.get(slot, {})) for slot, used in figures.items()}


def slot_records(
    slots: Sequence[RowMapping],
    responses: Sequence[RowMapping],
    machine: Mapping[int, MachineUse],
    plan: Plan,
    planned: PlannedTrial,
) -> tuple[SlotRecord, ...]:
    """The slots of one attempt in order."""
    values: dict[int, dict[str, float]] = {}
    for row in responses:
        values.setdefault(row["slot"], {})[row["name"]] = response_of(row)
    baseline = plan.baseline
    records = []
    for row in sorted(slots, key=lambda row: int(row["slot"])):
        slot = planned.slots[row["slot"]]
        records.append(
            SlotRecord(
                index=slot.index,
                begin=slot.begin,
                seconds=slot.seconds,
                treatment=slot.treatment,
                role=Role.BASELINE if slot.treatment == baseline else Role.TREATMENT,
                due=_seconds(row["due_ns"]),
                set_from=_seconds(row["set_from_ns"]),
                set_at=_seconds(row["set_at_ns"]),
                found=json_as(dict[str, Level], row["found"], "a slot's levels") if row["found"] else {},
                matches=row["matches"],
                failure=FailureClass(row["failure"]) if row["failure"] else None,
                failure_message=row["failure_message"] or "",
                measured_from=_seconds(row["measured_from_ns"]),
                measured_until=_seconds(row["measured_until_ns"]),
                responses=values.get(slot.index, {}),
                left_out=row["left_out"] or "",
                machine=machine.get(slot.index),
            )
        )
    return tuple(records)


def _seconds(unix_ns: int | None) -> float | None:
    return None if unix_ns is None else unix_ns / 1e9


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
