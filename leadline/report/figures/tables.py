"""Study A's figures as tables: one for each figure, rows of plain values with a head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from leadline.figures.everything import StudyFigures
from leadline.figures.failing import SystemThroughput
from leadline.model.result import Interval
from leadline.report.charts.theme import marked
from leadline.report.document import plain
from leadline.report.export import Cell, write_csv, write_figures, write_json
from leadline.report.figures.charts import charts

Table = list[list[Cell]]


def tables(figures: StudyFigures) -> Mapping[str, Table]:
    """File name (without ending) -> head and rows, by the keys of the JSON document. None: there is no figure."""
    tables_: dict[str, Table] = {}
    if figures.throughput:
        means = [{"system": row.system, **cells} for row in figures.throughput.systems for cells in _settings(row)]
        tables_["throughput"] = _table(means)
    rows: dict[str, Sequence[Any]] = {
        "gains": figures.extremes.rows if figures.extremes else (),
        "failures": figures.failures.systems if figures.failures else (),
        "sensitivity": figures.sensitivity.rows if figures.sensitivity else (),
        "sensitivity_map": figures.sensitivity.cells if figures.sensitivity else (),
        "ranking": figures.ranking.rows if figures.ranking else (),
        "groups": figures.grouping.groups if figures.grouping else (),
    }
    tables_ |= {name: _table(map(_cells, of)) for name, of in rows.items() if of}
    if figures.ranking:
        places = enumerate(figures.ranking.rows)
        by_system: Table = [[row.setting, *(ranks[place] for ranks in figures.ranking.ranks)] for place, row in places]
        tables_["ranks"] = [["setting", *figures.ranking.systems], *by_system]
    return tables_


def _settings(row: SystemThroughput) -> list[dict[str, Cell]]:
    """The means of a system's settings, after its baseline's with the interval."""
    baseline: dict[str, Cell] = {"setting": "baseline", "mean": row.baseline, "runs": row.baseline_runs}
    baseline |= {} if row.interval is None else _cells(row.interval, "interval")
    return [*([] if row.baseline is None else [baseline]), *map(_cells, row.settings)]


def _table(rows: Iterable[Mapping[str, Cell]]) -> Table:
    """With a column for every key; a value that is divided in some rows has no column of its own."""
    listed = list(rows)
    keys = list(dict.fromkeys(key for row in listed for key in row))
    keys = [key for key in keys if not any(other.startswith(f"{key}_low") for other in keys)]
    return [[*keys], *([row.get(key) for key in keys] for row in listed)]


def _cells(row: Any, name: str = "") -> dict[str, Cell]:
    """A row's fields; those of what it holds by names joined by ``_``, an interval by its ends."""
    if isinstance(row, Interval):
        return {f"{name}_low": row.low, f"{name}_high": row.high}
    if is_dataclass(row):
        row = {field.name: getattr(row, field.name) for field in fields(row)}
    if isinstance(row, Mapping):
        prefix = f"{name}_" if name else ""
        return {key: cell for part, of in row.items() for key, cell in _cells(of, f"{prefix}{part}").items()}
    if isinstance(row, tuple):
        return {name: " ".join(map(str, row)) or None}
    return {name: row.value if isinstance(row, Enum) else None if row == "" else row}


FORMAT = "leadline-figures/1"


def document(figures: StudyFigures, *, simulated: bool = False) -> dict[str, Any]:
    """The figures as JSON types (docs/concepts/study-a.md)."""
    return {"format": FORMAT, "simulated": simulated, "sentences": figures.sentences(), **plain(figures)}


def write(figures: StudyFigures, directory: Path, *, simulated: bool = False) -> list[Path]:
    """Write all files to the directory and return them. Raises OSError when it cannot be written."""
    directory.mkdir(parents=True, exist_ok=True)
    written = [write_csv(directory / f"{name}.csv", rows, simulated) for name, rows in tables(figures).items()]
    written += write_figures(directory, (marked(chart, simulated) for chart in charts(figures)))
    return [*written, write_json(directory / "figures.json", document(figures, simulated=simulated))]
