"""Slots of a trial as the store keeps them: what is written, and rows as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import RowMapping

from leadline.model.disturbance import MachineUse
from leadline.model.errors import FailureClass, TrialFailure
from leadline.model.knob import Level
from leadline.model.plan import Plan, PlannedTrial, Role
from leadline.model.received import json_as
from leadline.model.record import SlotRecord
from leadline.model.result import AtLeast


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
