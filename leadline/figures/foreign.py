"""Results of others, as rows: one run (or mean) a row, or one system's best gain and worst loss a row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from leadline.figures.extremes import Extremes
from leadline.figures.table import AT_DEFAULT, Parameter, ResultTable, Run, ordered
from leadline.model.errors import FailureClass, UsageError, did_you_mean, quoted
from leadline.model.received import from_json
from leadline.model.result import RESPONSES, ResponseKind

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "system": ("system", "kernel", "server"),
    "factor": ("factor", "parameter", "knob"),
    "level": ("level", "value"),
    "response": ("response", "mean", "result"),
    "replicate": ("replicate", "repeat", "run", "fork", "iteration"),
    "block": ("block",),
    "failure": ("failure", "failure_class"),
    "gain": ("gain", "gain_pct", "best_gain"),
    "loss": ("loss", "loss_pct", "worst_loss"),
}
BASELINE = ("", "baseline", "default", "defaults")
INNOCENT = {FailureClass.INFRASTRUCTURE.value, FailureClass.INTERRUPTED.value, FailureClass.BOTTLENECK.value}
HEAD = (
    "system,factor,level,response (and, if you have them, replicate, block, failure), or a column for each factor and "
    "one of the results (--response NAME says which), or system,gain,loss"
)
OWN = "="  # in front of the name of a column that is a factor


@dataclass(frozen=True)
class Row:
    """One row with the canonical column names, and those of columns that are factors behind ``OWN``; ``place`` says
    where it stands, for messages; ``kind`` what its response is, where the file says it.
    """

    place: str
    cells: Mapping[str, str]
    kind: ResponseKind | None = None

    def number(self, column: str) -> float:
        return finite(self.cells[column], self.place, column)


def finite(value: Any, place: str, what: str) -> float:
    """A number, or the text of one. Raises UsageError."""
    number = math.nan
    with suppress(ValueError, TypeError, OverflowError):
        number = math.nan if isinstance(value, bool) else float(value)
    if not math.isfinite(number):
        raise UsageError(f"{place}: {what} is {quoted(str(value))}, not a number")
    return number


def document_of(text: str, source: str) -> Any:
    """A JSON text. Raises UsageError."""
    try:
        return from_json(text)
    except ValueError as error:
        raise UsageError(f"{source}: not JSON: {error}") from error


def rows_of_csv(text: str, source: str, response: str | None = None) -> list[Row]:
    """The rows of a CSV text with a head. ``response`` names the column of the response, if not one of the usual.

    Raises UsageError for a head without the columns needed and for a row of another length.
    """
    lines = [(number, row) for number, row in numbered(text) if any(cell.strip() for cell in row)]
    if len(lines) < 2:
        raise UsageError(f"{source}: no rows below a head; the head is {HEAD}")
    head = lines[0][1]
    names = _canonical(head, source, response)
    rows = []
    for number, row in lines[1:]:
        if len(row) != len(head):
            raise UsageError(f"{source}, line {number}: {len(row)} cells where the head has {len(head)}")
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=True) if name}
        rows.append(Row(f"{source}, line {number}", cells, _kind(head, names)))
    return rows


def numbered(text: str, delimiter: str = ",") -> list[tuple[int, list[str]]]:
    """The rows of a CSV text, each with the number of its last line. Raises UsageError."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter)
    try:
        return [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num} is no CSV: {error}") from error


def rows_of_json(text: str, source: str, response: str | None = None) -> list[Row]:
    """The first list of objects with a system and results in a JSON text, wherever it stands. Raises UsageError."""
    document = document_of(text, source)
    objects = _find(document, response)
    if objects is None:
        raise UsageError(f"{source}: no list of objects with the keys {HEAD}")
    rows = []
    for number, entry in enumerate(objects, 1):
        names = _canonical(list(entry), source, response)
        cells = {name: _text(value) for name, value in zip(names, entry.values(), strict=True) if name}
        rows.append(Row(f"{source}, row {number}", cells, _kind(list(entry), names)))
    return rows


def _find(document: Any, response: str | None) -> list[dict[str, Any]] | None:
    if isinstance(document, list) and document and all(isinstance(item, dict) for item in document):
        names = set(_names(list(map(str, document[0])), response))
        plain = not any(isinstance(value, dict | list) for value in document[0].values())
        if names & {"gain", "response"} and ("system" in names or plain):
            return document
    parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return next((rows for part in parts if (rows := _find(part, response)) is not None), None)


def _text(value: Any) -> str:
    return "" if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)


def _canonical(head: Sequence[str], source: str, response: str | None) -> list[str]:
    """The canonical name of each column, empty for one that says nothing to us."""
    names = _names(head, response)
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise UsageError(f"{source}: two columns mean the {twice[0]}; keep one, or name the response by --response")
    if response is not None and "response" not in names:
        hint = did_you_mean(response, [cell.strip() for cell in head]) or f"it is none of {len(head)}"
        raise UsageError(f"{source}: no column {response!r}; {hint}")
    if "gain" not in names and "response" not in names:
        several = [cell.strip() for cell in head if cell.strip().lower() in RESPONSES]
        if len(several) > 1:
            raise UsageError(f"{source}: the results are in one of {', '.join(several)}: --response {several[0]}")
        cells = [cell for cell, name in zip(head, names, strict=True) if name]  # no more: it may be any other file
        raise UsageError(
            f"{source}: no column for the results (of ours: {', '.join(cells) or 'none'}); the head is {HEAD}"
        )
    if "factor" not in names and "gain" not in names:
        names = [
            name or (OWN + cell.strip() if cell.strip().lower() not in RESPONSES else "")
            for name, cell in zip(names, head, strict=True)
        ]
    return names


def _names(head: Sequence[str], response: str | None) -> list[str]:
    """The canonical name of each column, or empty. The only one that is called as a response of ours has the results,
    where none else has.
    """
    names = [_name(cell, response) for cell in head]
    ours = [at for at, cell in enumerate(head) if cell.strip().lower() in RESPONSES]
    if response is None and not {"response", "gain"} & set(names) and len(ours) == 1:
        names[ours[0]] = "response"
    return names


def _kind(head: Sequence[str], names: Sequence[str]) -> ResponseKind | None:
    """What a column of results is that is called as a response of ours and by no word of ``COLUMNS``."""
    cell = next((cell.strip().lower() for cell, name in zip(head, names, strict=True) if name == "response"), "")
    return None if cell in COLUMNS["response"] else RESPONSES.get(cell)


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
    """Rows as a table. A row has a response or a failure class. Settings that a system lacks are named in the notes,
    and so are columns that were taken for factors. Raises UsageError.
    """
    if not rows:
        raise UsageError("the table has no row")
    own_columns = sorted({name for row in rows for name in row.cells if name.startswith(OWN)})
    parameters, levels, notes = _by_columns(rows, own_columns) if own_columns else _by_factor(rows)
    systems = ordered(row.cells.get("system") or "this system" for row in rows)
    blocks = ordered(row.cells.get("block", "") for row in rows)
    runs = []
    for row, at in zip(rows, levels, strict=True):
        failure = row.cells.get("failure", "")
        if not failure and not row.cells.get("response"):
            raise UsageError(f"{row.place}: neither a response nor a failure class")
        runs.append(
            Run(
                system=systems.index(row.cells.get("system") or "this system"),
                levels=at,
                value=None if failure else row.number("response"),
                failure=failure,
                block=blocks.index(row.cells.get("block", "")),
                blamed=failure not in INNOCENT,
            )
        )
    table = ResultTable(kind, systems, parameters, tuple(runs))
    return ResultTable(kind, systems, parameters, tuple(runs), (*notes, *_ragged(table)))


_Read = tuple[tuple[Parameter, ...], list[tuple[int, ...]], list[str]]  # parameters; levels of each row; notes


def _by_factor(rows: Sequence[Row]) -> _Read:
    """One changed factor in each row; a row without one (or called baseline) is a run at the defaults."""
    factors: dict[str, dict[str, int]] = {}
    for row in rows:
        factor, level = row.cells.get("factor", ""), row.cells.get("level", "")
        if factor.lower() in BASELINE:
            continue
        if not level:
            raise UsageError(f"{row.place}: {factor} has no level")
        levels = factors.setdefault(factor, {})
        levels.setdefault(level, len(levels))
    at = [
        tuple(
            known[row.cells["level"]] if row.cells.get("factor", "") == name else AT_DEFAULT
            for name, known in factors.items()
        )
        for row in rows
    ]
    return tuple(Parameter(name, tuple(levels)) for name, levels in factors.items()), at, []


def _by_columns(rows: Sequence[Row], columns: Sequence[str]) -> _Read:
    """A column for each factor, its first level the baseline. One that is the same in all rows, or another in nearly
    each, tells nothing of a level that is repeated, and is left out.
    """
    parameters, chosen, notes = [], [], []
    for column in columns:
        name, levels = column.removeprefix(OWN), ordered(row.cells.get(column, "") for row in rows)
        if 1 < len(levels) <= len(rows) / 2:
            chosen.append(column)
            parameters.append(Parameter(name, levels, 0))
            notes.append(f"The column {name} was taken for a factor, {quoted(levels[0])} for its baseline.")
        elif len(levels) > 1:
            notes.append(f"The column {name} was left out: it differs from row to row.")
    at = [
        tuple(of.levels.index(row.cells.get(column, "")) for of, column in zip(parameters, chosen, strict=True))
        for row in rows
    ]
    return tuple(parameters), at, notes


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
