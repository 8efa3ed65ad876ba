"""Results of others, as rows: one run (or mean) a row, or one system's best gain and worst loss a row."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.figures.extremes import Extremes
from leadline.figures.table import AT_DEFAULT, Parameter, ResultTable, Run, ordered
from leadline.model.errors import FailureClass, UsageError, nearest
from leadline.model.result import ResponseKind

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "system": ("system", "kernel", "server"),
    "factor": ("factor", "parameter", "knob"),
    "level": ("level", "value"),
    "response": ("response", "mean", "result"),
    "replicate": ("replicate", "repeat"),
    "block": ("block",),
    "failure": ("failure", "failure_class"),
    "gain": ("gain", "gain_pct", "best_gain"),
    "loss": ("loss", "loss_pct", "worst_loss"),
}
BASELINE = ("", "baseline", "default", "defaults")
INNOCENT = {FailureClass.INFRASTRUCTURE.value, FailureClass.INTERRUPTED.value, FailureClass.BOTTLENECK.value}
HEAD = "system,factor,level,response (and, if you have them, replicate, block, failure) or system,gain,loss"


@dataclass(frozen=True)
class Row:
    """One row with the canonical column names; ``place`` says where it stands, for messages."""

    place: str
    cells: Mapping[str, str]

    def number(self, column: str) -> float:
        text = self.cells[column]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UsageError(f"{self.place}: {column} is {text!r}, not a number")
        return value


def rows_of_csv(text: str, source: str, response: str | None = None) -> list[Row]:
    """The rows of a CSV text with a head. ``response`` names the column of the response, if not one of the usual.

    Raises UsageError for a head without the columns needed and for a row of another length.
    """
    lines = [(number, row) for number, row in _numbered(text) if any(cell.strip() for cell in row)]
    if len(lines) < 2:
        raise UsageError(f"{source}: no rows below a head; the head is {HEAD}")
    head = lines[0][1]
    names = _canonical(head, source, response)
    rows = []
    for number, row in lines[1:]:
        if len(row) != len(head):
            raise UsageError(f"{source}, line {number}: {len(row)} cells where the head has {len(head)}")
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=True) if name}
        rows.append(Row(f"{source}, line {number}", cells))
    return rows


def _numbered(text: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} is no CSV: {error}") from error


def rows_of_json(text: str, source: str, response: str | None = None) -> list[Row]:
    """The first list of objects with a system and results in a JSON text, wherever it stands. Raises UsageError."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{source}: not JSON: {error}") from error
    objects = _find(document, response)
    if objects is None:
        raise UsageError(f"{source}: no list of objects with the keys {HEAD}")
    rows = []
    for number, entry in enumerate(objects, 1):
        names = _canonical(list(entry), source, response)
        cells = {name: _text(value) for name, value in zip(names, entry.values(), strict=True) if name}
        rows.append(Row(f"{source}, row {number}", cells))
    return rows


def _find(document: Any, response: str | None) -> list[dict[str, Any]] | None:
    if isinstance(document, list) and document and all(isinstance(item, dict) for item in document):
        names = {_name(str(key), response) for key in document[0]}
        if "system" in names and names & {"gain", "response"}:
            return document
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return next((rows for part in parts if (rows := _find(part, response)) is not None), None)


def _text(value: Any) -> str:
    return "" if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)


def _canonical(head: Sequence[str], source: str, response: str | None) -> list[str]:
    """The canonical name of each column, empty for one that says nothing to us."""
    names = [_name(cell, response) for cell in head]
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise UsageError(f"{source}: two columns mean the {twice[0]}; keep one, or name the response by --response")
    if response is not None and "response" not in names:
        near = nearest(response, [cell.strip() for cell in head])
        hint = f"did you mean {near}?" if near else f"it is none of {len(head)}"
        raise UsageError(f"{source}: no column {response!r}; {hint}")
    if "gain" not in names and "response" not in names:
        cells = [cell for cell, name in zip(head, names, strict=True) if name]  # no more: it may be any other file
        raise UsageError(
            f"{source}: no column for the results (of ours: {', '.join(cells) or 'none'}); the head is {HEAD}"
        )
    return names


def _name(cell: str, response: str | None) -> str:
    word = cell.strip().lower().replace(" ", "_")
    if response is not None and cell.strip() == response:
        return "response"
    for name, words in COLUMNS.items():
        if word in words and not (name == "response" and response is not None):
            return name
    return ""


def is_gains(rows: Sequence[Row]) -> bool:
    """Whether the rows hold best gains and worst losses instead of results."""
    return "gain" in rows[0].cells


def read_gains(rows: Sequence[Row]) -> list[Extremes]:
    """Rows of a published table: system, gain and loss in percent. Raises UsageError."""
    gains: list[Extremes] = []
    for row in rows:
        for column in ("system", "gain", "loss"):
            if column not in row.cells:
                raise UsageError(f"{row.place}: no {column}; the head is system,gain,loss")
        name = row.cells["system"]
        if name in {extreme.system for extreme in gains}:
            raise UsageError(f"{row.place}: {name} is there twice")
        gains.append(Extremes(name, row.number("gain"), row.number("loss")))
    return gains


def read_rows(rows: Sequence[Row], kind: ResponseKind) -> ResultTable:
    """Rows as a table. A row without a factor (or called baseline) is a run at the defaults.

    A row has a response or a failure class. Settings that a system lacks are named in the notes. Raises UsageError.
    """
    if not rows:
        raise UsageError("the table has no row")
    systems = ordered(row.cells.get("system") or "this system" for row in rows)
    factors: dict[str, dict[str, int]] = {}
    for row in rows:
        factor, level = row.cells.get("factor", ""), row.cells.get("level", "")
        if factor.lower() in BASELINE:
            continue
        if not level:
            raise UsageError(f"{row.place}: {factor} has no level")
        levels = factors.setdefault(factor, {})
        levels.setdefault(level, len(levels))
    names = list(factors)
    blocks = ordered(row.cells.get("block", "") for row in rows)
    runs = []
    for row in rows:
        at = [AT_DEFAULT] * len(names)
        factor = row.cells.get("factor", "")
        if factor in factors:
            at[names.index(factor)] = factors[factor][row.cells["level"]]
        failure = row.cells.get("failure", "")
        if not failure and not row.cells.get("response"):
            raise UsageError(f"{row.place}: neither a response nor a failure class")
        runs.append(
            Run(
                system=systems.index(row.cells.get("system") or "this system"),
                levels=tuple(at),
                value=None if failure else row.number("response"),
                failure=failure,
                block=blocks.index(row.cells.get("block", "")),
                blamed=failure not in INNOCENT,
            )
        )
    parameters = tuple(Parameter(name, tuple(levels)) for name, levels in factors.items())
    table = ResultTable(kind, systems, parameters, tuple(runs))
    return ResultTable(kind, systems, parameters, tuple(runs), tuple(_ragged(table)))


def _ragged(table: ResultTable) -> list[str]:
    have = {(run.system, number, level) for run in table.runs for number, level in enumerate(run.levels)}
    missing = [
        f"{table.name(setting)} on {name}"
        for setting in table.settings
        for system, name in enumerate(table.systems)
        if (system, setting.parameter, setting.level) not in have
    ]
    if not missing:
        return []
    names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    return [f"The table is ragged, without a run of {names}: what is missing somewhere is not ranked."]
